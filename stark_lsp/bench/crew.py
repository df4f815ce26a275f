"""Who runs cells: processes of this machine, each with a GPU of its own, or a cluster (`cluster`)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from stark_lsp.bench.cells import Cell
from stark_lsp.bench.files import CURE, LOG, writing
from stark_lsp.bench.rows import Outcome, Row, of_failure
from stark_lsp.core.errors import BadInput
from stark_lsp.core.wire import from_wire, to_wire

LOSSES = 3
"""A cell whose process was lost so often is given up."""
STOP_S = 15.0
"""What a process is given to record that it was stopped."""
LINE_LIMIT = 1 << 26
"""Bytes of one answer."""
# With `-m` Python would look for every module in the current folder first, and that may be somebody's suite.
PROGRAM = (
    sys.executable,
    "-c",
    "import sys; sys.path[:] = [place for place in sys.path if place]\n"
    "from stark_lsp.bench.child import main; sys.exit(main())",
)


@dataclass(frozen=True)
class Result:
    """What came of a cell."""

    row: Row
    files: dict[str, bytes] = field(default_factory=dict)
    """Its store and log by name, where they came from elsewhere and are to be kept here."""


Say = Callable[[str, str], None]
"""Told a cell's key, and in a few words what goes on there."""


class Crew(Protocol):
    """Who runs cells."""

    def results(self, cells: Sequence[Cell], say: Say) -> AsyncGenerator[Result, None]:
        """Yield what comes of each cell, in the order in which they end.

        Raises
        ------
        BadInput
            Something is wrong that would end every other cell the same way.
        """
        ...


class Processes:
    """Runs cells in processes, as many at the same time as there are places.

    A process that dies is replaced; its cell goes on from where it was.

    Parameters
    ----------
    folder
        Below it each cell has a folder of its own.
    interpreter
        The Python that has torch; None finds it.
    places
        For each process the environment variables it is given on top, for instance which GPU it sees.
    program
        Command line of a process.
    """

    def __init__(
        self,
        folder: Path,
        interpreter: str | None,
        places: Sequence[Mapping[str, str]],
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self._folder = folder
        self._interpreter = interpreter
        self._places = places
        self._program = program
        self.running: dict[str, int] = {}
        """Process ids by key of the cell that they run."""

    async def results(self, cells: Sequence[Cell], say: Say) -> AsyncGenerator[Result, None]:
        """See `Crew.results`."""
        waiting = list(reversed(cells))
        finished: asyncio.Queue[Row | BaseException] = asyncio.Queue()

        async def work(place: Mapping[str, str]) -> None:
            try:
                while waiting:
                    cell = waiting.pop()
                    await finished.put(await self._with_patience(cell, place, say))
            except Exception as error:  # noqa: BLE001 - raised again below, where it is waited for
                await finished.put(error)

        workers = [asyncio.ensure_future(work(place)) for place in self._places]
        try:
            for _ in cells:
                found = await finished.get()
                if isinstance(found, BaseException):
                    raise found
                yield Result(found)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _with_patience(self, cell: Cell, place: Mapping[str, str], say: Say) -> Row:
        for loss in range(1, LOSSES + 1):
            row = await self._once(cell, place, say)
            if row is not None:
                return row
            say(cell.key, f"its process was lost ({loss} of {LOSSES} times)")
        words = f"The process that ran it was lost {LOSSES} times; what it said is in {self._folder / cell.key / LOG}."
        return of_failure(cell, Outcome.FAULT, words)

    async def _once(self, cell: Cell, place: Mapping[str, str], say: Say) -> Row | None:
        """Run a cell in a fresh process; returns None if the process was lost."""
        log = self._folder / cell.key / LOG
        with writing("The log", log, CURE):
            log.parent.mkdir(parents=True, exist_ok=True)
            errors = log.open("ab")
        with errors:
            process = await asyncio.create_subprocess_exec(
                *self._program,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **place},
                limit=LINE_LIMIT,
            )
        self.running[cell.key] = process.pid
        try:
            return await self._talk(process, cell, say)
        finally:
            self.running.pop(cell.key, None)
            await asyncio.shield(_end(process))

    async def _talk(self, process: asyncio.subprocess.Process, cell: Cell, say: Say) -> Row | None:
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"cell": to_wire(cell), "folder": str(self._folder / cell.key), "interpreter": self._interpreter}
        try:
            process.stdin.write(json.dumps(request).encode("ascii") + b"\n")
            await process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            return None
        async for line in process.stdout:
            if not line.endswith(b"\n"):
                return None
            answer = json.loads(line)
            if "row" in answer:
                return from_wire(answer["row"], Row)
            if "bad_input" in answer:
                raise BadInput(**answer["bad_input"])
            say(cell.key, str(answer.get("says", "")))
        return None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Have a process stop its run, and kill it if it does not."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except asyncio.TimeoutError:
        process.kill()
        await process.wait()
