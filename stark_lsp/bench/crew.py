"""Who runs cells; the simplest one runs them one after the other, in this process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from stark_lsp.bench.cells import Cell
from stark_lsp.bench.measure import measure
from stark_lsp.bench.rows import Row


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


class Alone:
    """Runs cells one after the other.

    Parameters
    ----------
    folder
        Below it each cell has a folder of its own.
    interpreter
        The Python that has torch; None finds it.
    """

    def __init__(self, folder: Path, interpreter: str | None) -> None:
        self._folder = folder
        self._interpreter = interpreter

    async def results(self, cells: Sequence[Cell], say: Say) -> AsyncGenerator[Result, None]:
        """See `Crew.results`."""
        for cell in cells:
            key = cell.key
            row = await measure(cell, self._folder / key, interpreter=self._interpreter, say=partial(say, key))
            yield Result(row)
