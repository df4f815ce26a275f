"""A campaign: all cells of a benchmark, those that are left run, every row kept.

The folder of a campaign:

    rows.jsonl     one line for each cell that ended (`ledger`)
    plan.json      keys of all cells that were ever asked for here
    prompts/       a user's own templates that runs were asked with, by their digest
    cells/KEY/     the cell's store with all prompts and answers, its log and its problem
    report.md …    see `report`
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from stark_lsp.bench import prompts
from stark_lsp.bench.cells import Cell
from stark_lsp.bench.crew import Crew
from stark_lsp.bench.files import put, writing
from stark_lsp.bench.ledger import NAME, Ledger, read
from stark_lsp.bench.remote import unpack
from stark_lsp.bench.rows import Outcome, Row, of_failure
from stark_lsp.core.errors import BadInput

CELLS = "cells"
PLAN = "plan.json"
PROMPTS = "prompts"


@dataclass(frozen=True)
class Step:
    """A cell has ended."""

    cell: Cell
    row: Row
    done: int
    """Cells with a row, those of earlier sittings included."""
    total: int


async def run(
    cells: Sequence[Cell],
    folder: Path,
    crew: Crew,
    *,
    resume: bool,
    step: Callable[[Step], None],
    say: Callable[[Cell, str], None],
) -> tuple[Row, ...]:
    """Run the cells that have no row yet and return all rows of the folder.

    Parameters
    ----------
    resume
        Go on with what the folder holds; cells that ended in a fault are tried again.
    step
        Told of each cell that ended.
    say
        Told a cell, and what goes on there.

    Raises
    ------
    BadInput
        The folder holds results and `resume` is false, another process writes to it, or something would end every cell.
    Fault
        The folder cannot be written.
    """
    with Ledger(folder) as ledger:
        before = ledger.rows()
        if before and not resume:
            raise BadInput(
                "This folder holds results already.", path=str(folder), cure="Add --resume, or choose another --out."
            )
        _write_plan(folder, cells)
        for own in {prompts.digest(cell.prompts): cell.prompts for cell in cells if cell.prompts}.values():
            prompts.write(own, folder / PROMPTS / prompts.digest(own))
        wanted = {cell.key: cell for cell in cells}
        left = _left(cells, before)
        done = len(wanted) - len(left)

        def keep(cell: Cell, row: Row) -> None:
            nonlocal done
            ledger.append(row)
            done += 1
            step(Step(cell, row, done, len(wanted)))

        for cell in left:
            if cell.error:
                keep(cell, of_failure(cell, Outcome.UNUSABLE, cell.error))
        runnable = [cell for cell in left if not cell.error]
        if runnable:
            async with aclosing(crew.results(runnable, lambda key, text: say(wanted[key], text))) as results:
                async for result in results:
                    unpack(result.files, folder / CELLS / result.row.key)
                    keep(wanted[result.row.key], result.row)
        return ledger.rows()


def left(cells: Sequence[Cell], folder: Path) -> tuple[Cell, ...]:
    """Return the cells that `run` would run, in their order.

    Raises
    ------
    BadInput, Fault
        What the folder holds cannot be read.
    """
    path = folder / NAME
    return _left(cells, read(path) if path.is_file() else ())


def _left(cells: Sequence[Cell], rows: Sequence[Row]) -> tuple[Cell, ...]:
    # What was unusable may be mended elsewhere, as a module that it imports; a cell with an error would fail again.
    broken = {cell.key for cell in cells if cell.error}
    ended = {
        row.key
        for row in rows
        if row.outcome is not Outcome.FAULT and (row.outcome is not Outcome.UNUSABLE or row.key in broken)
    }
    return tuple(cell for key, cell in {cell.key: cell for cell in cells}.items() if key not in ended)


def planned(folder: Path) -> frozenset[str]:
    """Return the keys of all cells that were ever asked for in a folder; empty if nobody knows."""
    try:
        return frozenset(str(key) for key in json.loads((folder / PLAN).read_text(encoding="utf-8"))["cells"])
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()


def _write_plan(folder: Path, cells: Sequence[Cell]) -> None:
    keys = sorted(planned(folder) | {cell.key for cell in cells})
    with writing("The plan", folder):
        put(folder / PLAN, json.dumps({"cells": keys}, indent=1) + "\n")
