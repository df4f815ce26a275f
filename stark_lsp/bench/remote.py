"""What a Dask worker does for `cluster`: run one cell in a thread, and stop when nobody waits for it any more.

Of the cell's folder the store with all prompts and answers travels back, and the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stark_lsp.bench.cells import Cell
from stark_lsp.bench.files import LOG
from stark_lsp.bench.measure import STORE, measure
from stark_lsp.bench.rows import Row
from stark_lsp.core.errors import Fault
from stark_lsp.core.wire import dumps, loads
from stark_lsp.store.paths import make_private_dir, state_dir

TOPIC = "stark-bench"
"""Of the messages by which workers say what goes on."""
LARGEST = 512 << 20
"""Bytes of one file, unpacked; a larger one stays where it is."""
LOOK_S = 1.0
"""How often is looked whether the cell is still wanted."""


def work(cell_json: str, interpreter: str | None) -> tuple[str, dict[str, bytes]]:
    """Run a cell; the work of one task.

    Parameters
    ----------
    cell_json
        `Cell` in wire form.
    interpreter
        The Python that has torch on this machine; None finds it.

    Returns
    -------
    tuple
        `Row` in wire form, and what `pack` returned.

    Raises
    ------
    BadInput
        This machine cannot run the cell.
    """
    cell = loads(cell_json, Cell)
    folder = state_dir() / "bench" / cell.key
    make_private_dir(folder)
    row = asyncio.run(_while_wanted(cell, interpreter, _say(cell.key), _wanted()))
    files = pack(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return dumps(row), files


async def _while_wanted(
    cell: Cell, interpreter: str | None, say: Callable[[str], None], wanted: Callable[[], bool]
) -> Row:
    """Run a cell as long as it is wanted; once it is not, it is recorded as stopped.

    Raises
    ------
    RuntimeError
        It is not wanted any more; nobody hears of it.
    """
    run = asyncio.ensure_future(measure(cell, state_dir() / "bench" / cell.key, interpreter=interpreter, say=say))
    while not run.done():
        await asyncio.wait({run}, timeout=LOOK_S)
        if not run.done() and not wanted():
            run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await run
            raise RuntimeError(f"cell {cell.key} was called off")
    return run.result()


def _say(key: str) -> Callable[[str], None]:
    from distributed import get_worker

    worker = get_worker()

    def say(text: str) -> None:
        worker.log_event(TOPIC, {"key": key, "text": text})

    return say


def _wanted() -> Callable[[], bool]:
    """Return whether the task of this thread is still wanted.

    A thread cannot be interrupted, so a task that was cancelled, or whose client is gone, has to find that out itself.
    """
    from distributed import get_worker

    worker: Any = get_worker()
    key = worker.active_threads[threading.get_ident()]

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state != "cancelled"

    return wanted


def pack(folder: Path) -> dict[str, bytes]:
    """Return the store and the log of a cell by name, compressed; what is not there or too large is left out."""
    found = {}
    if (folder / STORE).is_file():
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / STORE
            # A copy by SQLite itself holds what still lies in the journal beside the file.
            with (
                contextlib.closing(sqlite3.connect(folder / STORE)) as source,
                contextlib.closing(sqlite3.connect(copy)) as target,
            ):
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
