"""What of a cell's folder travels from the machine that ran it: the store with all prompts and answers, and the log."""

from __future__ import annotations

import gzip
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from stark_lsp.bench.measure import LOG, STORE
from stark_lsp.core.errors import Fault

LARGEST = 512 << 20
"""Bytes of one file, unpacked; a larger one stays where it is."""


def pack(folder: Path) -> dict[str, bytes]:
    """Return the store and the log of a cell by name, compressed; what is not there or too large is left out."""
    found = {}
    if (folder / STORE).is_file():
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / STORE
            # A copy by SQLite itself holds what still lies in the journal beside the file.
            with closing(sqlite3.connect(folder / STORE)) as source, closing(sqlite3.connect(copy)) as target:
                source.backup(target)
            found[STORE] = _packed(copy)
    if (folder / LOG).is_file():
        found[LOG] = _packed(folder / LOG)
    return {name: data for name, data in found.items() if data}


def unpack(files: dict[str, bytes], folder: Path) -> None:
    """Write what `pack` returned below `folder`.

    Raises
    ------
    Fault
        It cannot be read or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (STORE, LOG):
            if name not in files:
                continue
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
                file.write(gzip.decompress(files[name]))
            os.replace(file.name, folder / name)
    except (OSError, EOFError, ValueError) as error:
        raise Fault(
            f"What a worker sent cannot be kept: {error}.",
            path=str(folder),
            cure="Check the folder and the free space.",
        ) from error


def _packed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), 5) if path.stat().st_size <= LARGEST else b""
