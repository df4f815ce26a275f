"""Imports the protocol's types faster than Python does by itself.

`lsprotocol.types` makes some 550 attrs classes, and attrs compiles the methods of each from a text
at import: more than 100 ms of every start, with the same result each time. `protocol_types` keeps
the compiled code in the user's cache folder, as Python does with its own modules, and hands it to
attrs while that one module is imported. A code object is used only for the very text it was
compiled from, by the same Python. Without the cache, or if attrs should compile in another way one
day, the import is merely slower.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import marshal
import os
import sys
import tempfile
from collections.abc import Iterator
from types import CodeType
from typing import Any

from stark_lsp.contract.imports import uncollected

FORMAT = 1
"""Raised when the layout of the cache file changes."""


def cache_file() -> str:
    """Return the cache file for this Python; `STARK_STATE_DIR` moves it along with the rest of the state."""
    folder = os.environ.get("STARK_STATE_DIR")
    if not folder:
        import platformdirs

        folder = platformdirs.user_cache_dir("stark-lsp")
    magic = importlib.util.MAGIC_NUMBER.hex()
    return os.path.join(folder, f"protocol-{FORMAT}-{sys.implementation.cache_tag}-{magic}.bin")


def read_cache(path: str) -> dict[tuple[str, str], CodeType]:
    """Return what is in a cache file; nothing if it cannot be read or belongs to someone else."""
    try:
        with open(path, "rb") as file:
            # Code that is run at start-up must have been written by this user.
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return {}
            found = marshal.load(file)  # the source text of each entry is compared before use
    except (OSError, EOFError, ValueError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def write_cache(path: str, codes: dict[tuple[str, str], CodeType]) -> None:
    """Write a cache file in one step; a folder that cannot be written leaves things as they are."""
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
        try:
            with os.fdopen(descriptor, "wb") as file:
                marshal.dump(codes, file)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise


@contextlib.contextmanager
def cached_compilation(module: Any, path: str) -> Iterator[None]:
    """Give `module` a `compile` that remembers, for as long as the context lasts."""
    known = read_cache(path)
    used: dict[tuple[str, str], CodeType] = {}
    fresh = False

    def remembering(source: Any, filename: Any, mode: str, *args: Any, **kwargs: Any) -> Any:
        nonlocal fresh
        key = (filename, source)
        if args or kwargs or mode != "exec" or not isinstance(source, str):
            return builtins.compile(source, filename, mode, *args, **kwargs)
        code = known.get(key)
        if code is None:
            code = builtins.compile(source, filename, mode)
            fresh = True
        used[key] = code
        return code

    module.compile = remembering
    try:
        yield
    finally:
        del module.compile
        if fresh:
            # Only what was used: entries of an older lsprotocol go.
            write_cache(path, used)


def protocol_types() -> None:
    """Import `lsprotocol.types`, unless it is there already."""
    if "lsprotocol.types" in sys.modules:
        return
    import attr._make

    with uncollected(), cached_compilation(attr._make, cache_file()):
        import lsprotocol.types  # noqa: F401
