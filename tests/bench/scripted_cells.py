"""A cell that takes a moment and always gives the same row, for tests of who runs cells, in real processes.

As a program it is `stark_lsp.bench.child`, as a preload of a Dask worker what `stark_lsp.bench.remote` runs, each with
`measure` replaced. It leaves marks in the folder that `SCRIPTED_MARKS` names: `KEY.PID` when a cell begins,
`KEY.stopped` when it was stopped.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from stark_lsp.bench.cells import Cell
from stark_lsp.bench.rows import Attempt, Outcome, Row, of_failure
from stark_lsp.core.status import AgentRole, VerdictStatus

STATUSES = (VerdictStatus.OK, VerdictStatus.WRONG_RESULT, VerdictStatus.COMPILE_ERROR)


def marks() -> Path:
    return Path(os.environ["SCRIPTED_MARKS"])


def begun(folder: Path, key: str) -> list[int]:
    """Return the processes in which a cell was begun."""
    return [int(path.suffix[1:]) for path in folder.glob(f"{key}.*") if path.suffix[1:].isdecimal()]


def row_of(cell: Cell) -> Row:
    rng = Random(cell.key)
    attempts = tuple(Attempt(n, 0, AgentRole.CODE, rng.choice(STATUSES)) for n in range(1, 4))
    return replace(of_failure(cell, Outcome.MEASURED, ""), attempts=attempts)


async def measure(cell: Cell, folder: Path, *, interpreter: str | None, say: Callable[[str], None]) -> Row:
    (marks() / f"{cell.key}.{os.getpid()}").touch()
    say("working")
    try:
        await asyncio.sleep(float(os.environ.get("SCRIPTED_S", "1")))
    except asyncio.CancelledError:
        (marks() / f"{cell.key}.stopped").touch()
        raise
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.txt").write_text(f"{cell.key} is done\n")
    return row_of(cell)


def dask_setup(worker: Any) -> None:
    """Called by Dask in each worker."""
    from stark_lsp.bench import remote

    remote.measure = measure


async def until(true: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for something that has to come; only how long it takes is unknown."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never came"
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    from stark_lsp.bench import child

    child.measure = measure
    sys.exit(child.main())
