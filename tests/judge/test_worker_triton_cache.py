"""What Triton compiled, kept between runs: found again, bounded, and with no litter of locks."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

import pytest

from stark_lsp.judge.building import locks
from stark_lsp.judge.building.triton_cache import TritonCache, TritonFolder


def fill(folder: TritonFolder, size: int = 1) -> str:
    Path(folder.path, "kernel.cubin").write_bytes(b"x" * size)
    return folder.path


def names(tmp_path: Path) -> set[str]:
    return set(os.listdir(tmp_path / "triton"))


def test_a_finished_folder_is_found_again_and_an_unfinished_one_is_not(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), ["torch"])
    first = cache.open("source")
    fill(first)
    first.finish(keep=True)
    second = cache.open("source")
    assert second.cached
    assert second.path == first.path
    assert Path(second.path, "kernel.cubin").exists()
    second.finish(keep=False)
    third = cache.open("source")
    assert not third.cached
    assert os.listdir(third.path) == []


def test_another_toolchain_or_source_compiles_elsewhere(tmp_path: Path) -> None:
    one, other = TritonCache(str(tmp_path), ["torch 1"]), TritonCache(str(tmp_path), ["torch 2"])
    folders = {one.open("a").path, one.open("b").path, other.open("a").path}
    assert len(folders) == 3


def test_two_that_compile_the_same_do_not_share_a_folder(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), [])
    first, second = cache.open("a"), cache.open("a")
    assert first.path != second.path
    fill(second)
    TritonCache(str(tmp_path), [])
    assert os.path.exists(second.path), "another judge that starts leaves it alone"
    second.finish(keep=True)
    assert not os.path.exists(second.path)
    assert os.path.exists(first.path)


def test_what_a_killed_judge_left_is_thrown_away(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), [])
    build, private = cache.open("a"), cache.open("a")
    for folder in (build, private):
        fill(folder)
        assert folder._lock is not None
        folder._lock.close()  # as the kernel does when the holder is killed
    TritonCache(str(tmp_path), [])
    assert names(tmp_path) == set()


def test_nothing_is_kept_of_a_candidate_that_compiled_nothing(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), [])
    folder = cache.open("a")
    os.makedirs(os.path.join(folder.path, "empty"))
    folder.finish(keep=True)
    assert names(tmp_path) == set()
    # One that an earlier version kept goes at the next start.
    os.makedirs(tmp_path / "triton" / "0123")
    (tmp_path / "triton" / "0123" / ".finished").touch()
    TritonCache(str(tmp_path), [])
    assert names(tmp_path) == set()


def test_bytes_are_bounded_and_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), [], size=250)
    for age, source in ((300, "old"), (200, "used again"), (100, "new")):
        folder = cache.open(source)
        fill(folder, 100)
        folder.finish(keep=True)
        when = os.stat(folder.path).st_mtime - age
        os.utime(folder.path, (when, when))
    assert len(names(tmp_path)) == 2
    again = cache.open("used again")
    assert again.cached
    again.finish(keep=True)
    TritonCache(str(tmp_path), [], size=150)
    assert cache.open("used again").cached
    assert not cache.open("new").cached


def test_their_number_is_bounded(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), [], kept=2)
    for source in "abc":
        folder = cache.open(source)
        fill(folder)
        folder.finish(keep=True)
    assert len(names(tmp_path)) == 2


def test_one_in_use_is_not_removed(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), [])
    folder = cache.open("a")
    fill(folder, 100)
    folder.finish(keep=True)
    used = cache.open("a")
    TritonCache(str(tmp_path), [], size=1)
    assert os.path.exists(used.path)
    used.finish(keep=True)
    TritonCache(str(tmp_path), [], size=1)
    assert names(tmp_path) == set()


def test_locks_leave_no_files(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), [])
    for source, keep in (("a", True), ("b", False)):
        folder = cache.open(source)
        fill(folder)
        folder.finish(keep=keep)
    assert not [name for name in names(tmp_path) if name.endswith(".lock")]
    stray = tmp_path / "triton" / "0123.lock"
    stray.touch()
    held = locks.try_lock(str(tmp_path / "triton" / "4567.lock"))
    TritonCache(str(tmp_path), [])
    assert not stray.exists()
    assert "4567.lock" in names(tmp_path), "its holder has not made the folder yet"
    assert held is not None
    held.close()


def test_a_lock_that_its_holder_removes_just_then_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "one.lock")
    first = locks.try_lock(path)
    real, calls = fcntl.flock, []

    def late(file: IO[str], how: int) -> None:
        # The other one has opened the file already, and locks what is no longer there.
        calls.append(how)
        if len(calls) == 1:
            assert first is not None
            locks.remove(first, path)
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    second = locks.try_lock(path)
    assert len(calls) == 2
    assert second is not None
    assert locks.try_lock(path) is None, "whoever comes now finds it held"
    second.close()


def test_a_lock_of_a_removed_file_does_not_count(tmp_path: Path) -> None:
    path = str(tmp_path / "one.lock")
    first = locks.try_lock(path)
    assert first is not None
    os.unlink(path)
    second = locks.try_lock(path)
    assert second is not None
    assert locks.try_lock(path) is None
    first.close()
    assert locks.try_lock(path) is None
    second.close()
