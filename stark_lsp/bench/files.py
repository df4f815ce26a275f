"""Writing files: whole or not at all, and a fault where that cannot be done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stark_lsp.core.errors import Fault

LOG = "log.txt"
"""Of a cell, in its folder."""
CURE = "Check the folder and the free space, then go on with --resume."


@contextmanager
def writing(what: str, path: Path, cure: str = "Check the folder and the free space.") -> Iterator[None]:
    """Raise a `Fault` that names the path and the cure where something cannot be written."""
    try:
        yield
    except OSError as error:
        raise Fault(f"{what} cannot be written: {error.strerror}.", path=str(path), cure=cure) from error


def put(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    neighbour = path.with_name(f".{path.name}")
    neighbour.write_text(text, encoding="utf-8", errors="backslashreplace")
    os.replace(neighbour, path)
