"""What Triton compiled, kept between runs: found again, bounded, and whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from stark_lsp.judge.building import cache as module
from stark_lsp.judge.building.cache import TritonCache
from stark_lsp.judge.processes import copies


@pytest.fixture(autouse=True)
def aged(monkeypatch: pytest.MonkeyPatch) -> None:
    """No entry is too young to go."""
    monkeypatch.setattr(module, "RECENT_S", -1.0)


def kept(cache: TritonCache, tmp_path: Path, source: str, size: int = 1) -> None:
    """Have a candidate compile so many bytes, and keep them."""
    made = tmp_path / "made" / source
    made.mkdir(parents=True, exist_ok=True)
    (made / "kernel.cubin").write_bytes(b"x" * size)
    cache.keep(source, str(made))


def found(cache: TritonCache, tmp_path: Path, source: str) -> bool:
    return cache.fill(source, str(tmp_path / "found" / source))


def names(tmp_path: Path) -> list[str]:
    return [path.name for path in (tmp_path / "triton").iterdir() if path.is_dir()]


def test_what_was_kept_is_found_again_and_what_was_not_is_not(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), ["torch"])
    assert not found(cache, tmp_path, "source")
    kept(cache, tmp_path, "source")
    assert found(TritonCache(str(tmp_path), ["torch"]), tmp_path, "source")
    assert os.listdir(tmp_path / "found" / "source") == ["kernel.cubin"]


def test_triton_finds_what_was_compiled_in_another_folder(tmp_path: Path) -> None:
    runtime = pytest.importorskip("triton.runtime.cache")
    knobs = pytest.importorskip("triton.knobs")
    first, second = tmp_path / "first", tmp_path / "second"
    with knobs.cache.scope():
        knobs.cache.dir = str(first)
        manager = runtime.FileCacheManager("kernel")
        manager.put_group("k.json", {name: manager.put("text", name) for name in ("k.json", "k.cubin")})
        (first / "kernel" / "__grp__other.json").write_text("[no list]")
        cache = TritonCache(str(tmp_path), [])
        cache.keep("source", str(first))
        assert cache.fill("source", str(second))
        knobs.cache.dir = str(second)
        found = runtime.FileCacheManager("kernel").get_group("k.json")
    # That folder is another process's, which may not be read even while it is there.
    assert found == {name: str(second / "kernel" / name) for name in ("k.json", "k.cubin")}


def test_another_toolchain_or_source_compiles_elsewhere(tmp_path: Path) -> None:
    kept(TritonCache(str(tmp_path), ["torch 1"]), tmp_path, "a")
    assert not found(TritonCache(str(tmp_path), ["torch 1"]), tmp_path, "b")
    assert not found(TritonCache(str(tmp_path), ["torch 2"]), tmp_path, "a")


def test_what_a_killed_judge_left_is_thrown_away(tmp_path: Path) -> None:
    TritonCache(str(tmp_path), [])
    (tmp_path / "triton" / "new-0123-half" / "compiled").mkdir(parents=True)
    TritonCache(str(tmp_path), [])
    assert names(tmp_path) == []


def test_what_another_judge_is_writing_is_left_alone(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), [])
    (tmp_path / "triton" / "new-0123-half").mkdir()
    with cache.hold("0123", 1.0) as held:
        assert held
        TritonCache(str(tmp_path), [])
    assert names(tmp_path) == ["new-0123-half"]


def test_nothing_is_kept_of_a_candidate_that_compiled_nothing(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), [])
    (tmp_path / "made" / "empty").mkdir(parents=True)
    cache.keep("a", str(tmp_path / "made"))
    cache.keep("a", str(tmp_path / "nowhere"))
    assert names(tmp_path) == []


def contents(folder: Path) -> set[str]:
    return {path.read_text() for path in folder.glob("*/compiled/**/*") if path.is_file()}


def test_nothing_is_kept_of_what_a_candidate_puts_a_link_to(tmp_path: Path) -> None:
    secrets = tmp_path / "home"
    (secrets / "keys").mkdir(parents=True)
    (secrets / "keys" / "secret").write_text("key")
    (tmp_path / "link").symlink_to(secrets)
    cache = TritonCache(str(tmp_path), [])
    cache.keep("a", str(tmp_path / "link"))
    assert not found(cache, tmp_path, "a")
    assert contents(tmp_path / "triton") == set()


def test_a_link_that_takes_the_place_of_a_folder_meanwhile_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets, made = tmp_path / "home", tmp_path / "made"
    for folder, text in ((secrets / "keys", "key"), (made / "one" / "keys", "kernel")):
        folder.mkdir(parents=True)
        (folder / "secret").write_text(text)
    (made / "one" / "first").write_text("first")
    copy = copies._copy

    def swapped(*arguments: Any) -> int:
        """Copy the first file, and put a link in the place of its folder."""
        copied = copy(*arguments)
        if (made / "one").is_dir() and not (made / "one").is_symlink():
            (made / "one").rename(tmp_path / "aside")
            (made / "one").symlink_to(secrets)
        return copied

    monkeypatch.setattr(copies, "_copy", swapped)
    TritonCache(str(tmp_path), []).keep("a", str(made))
    assert contents(tmp_path / "triton") == {"first", "kernel"}


def test_nothing_is_kept_of_folders_without_end(tmp_path: Path) -> None:
    deep = tmp_path / "made" / Path(*["a"] * 200)
    deep.mkdir(parents=True)
    (deep / "kernel.cubin").write_text("kernel")
    TritonCache(str(tmp_path), []).keep("a", str(tmp_path / "made"))
    assert names(tmp_path) == []


def test_a_file_that_grows_while_it_is_copied_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "kernel.cubin").write_bytes(b"x" * 10)

    def growing(path: str) -> None:
        """Make room for the copy, once the file is open."""
        with open(tmp_path / "made" / "kernel.cubin", "ab") as file:
            file.write(b"x" * 200)

    monkeypatch.setattr(os, "unlink", growing)
    with pytest.raises(copies.TooLarge):
        copies.copy_tree(str(tmp_path / "made"), str(tmp_path / "copy"), 150)


def test_empty_files_and_folders_are_counted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        (tmp_path / "made" / str(number)).mkdir(parents=True)
        (tmp_path / "made" / str(number) / "empty").touch()
    monkeypatch.setattr(copies, "ENTRIES", 7)
    assert copies.copy_tree(str(tmp_path / "made"), str(tmp_path / "copy"), 0) == 0
    (tmp_path / "made" / "one more").touch()
    with pytest.raises(copies.TooLarge, match="more than 7"):
        copies.copy_tree(str(tmp_path / "made"), str(tmp_path / "copy"), 0)


def test_nothing_is_kept_of_one_that_compiled_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRITON_LIMIT", 50)
    kept(TritonCache(str(tmp_path), []), tmp_path, "a", 100)
    assert names(tmp_path) == []


def test_bytes_are_bounded_and_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), [], size=250)
    for source in ("old", "used again", "new"):
        kept(cache, tmp_path, source, 100)
        for note in (tmp_path / "triton").glob("*/entry.json"):
            when = note.stat().st_mtime - 100
            os.utime(note, (when, when))
    assert len(names(tmp_path)) == 2
    assert found(cache, tmp_path, "used again")
    TritonCache(str(tmp_path), [], size=150)
    assert found(cache, tmp_path, "used again")
    assert not found(cache, tmp_path, "new")


def test_their_number_is_bounded(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), [], entries=2)
    for source in "abc":
        kept(cache, tmp_path, source)
    assert len(names(tmp_path)) == 2


def test_one_that_was_used_a_moment_ago_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECENT_S", 60.0)
    cache = TritonCache(str(tmp_path), [])
    kept(cache, tmp_path, "a", 100)
    TritonCache(str(tmp_path), [], size=1)
    assert found(cache, tmp_path, "a")
