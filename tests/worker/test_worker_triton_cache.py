from __future__ import annotations

import os
from pathlib import Path

from stark_lsp.worker.building.triton_cache import TritonCache


def test_a_finished_folder_is_found_again_and_an_unfinished_one_is_not(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), ["torch"])
    first = cache.open("source")
    Path(first.path, "kernel.cubin").write_text("")
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
    second.finish(keep=True)
    assert not os.path.exists(second.path)
    assert os.path.exists(first.path)


def test_what_a_killed_candidate_left_is_thrown_away(tmp_path: Path) -> None:
    cache = TritonCache(str(tmp_path), [])
    build = cache.open("a")
    Path(build.path, "half.o").write_text("")
    build._lock.close()  # as the kernel does when the holder is killed
    TritonCache(str(tmp_path), [])
    assert not os.path.exists(build.path)
