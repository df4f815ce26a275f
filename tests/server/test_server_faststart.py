"""The compile cache only ever gives what compiling gives."""

from __future__ import annotations

import os
import types

from stark_lsp.server.connection.faststart import cached_compilation, read_cache


def run(module: types.ModuleType, source: str) -> object:
    scope: dict[str, object] = {}
    exec(module.compile(source, "<methods of X>", "exec"), scope)
    return scope["x"]


def test_a_second_import_compiles_nothing_and_changed_text_is_compiled_anew(tmp_path) -> None:
    path = str(tmp_path / "deep" / "cache.bin")
    module = types.ModuleType("module")
    with cached_compilation(module, path):
        assert run(module, "x = 1") == 1
    assert not hasattr(module, "compile")
    stored = read_cache(path)
    assert [source for _, source in stored] == ["x = 1"]
    with cached_compilation(module, path):
        assert module.compile("x = 1", "<methods of X>", "exec") == stored["<methods of X>", "x = 1"]
        assert run(module, "x = 2") == 2
    assert {source for _, source in read_cache(path)} == {"x = 1", "x = 2"}


def test_a_damaged_or_missing_cache_is_no_cache(tmp_path) -> None:
    path = tmp_path / "cache.bin"
    assert read_cache(str(path)) == {}
    for damage in (b"", b"\x00garbage", b"i\x01\x00\x00\x00"):
        path.write_bytes(damage)
        assert read_cache(str(path)) == {}


def test_a_folder_that_cannot_be_written_is_no_trouble(tmp_path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    module = types.ModuleType("module")
    with cached_compilation(module, os.path.join(blocker, "cache.bin")):
        assert run(module, "x = 3") == 3
