"""Which runs are on a class of a document, wherever that document lies now.

A run is on a class if the document is the one it was recorded with, by whatever symbolic link it is reached, or if the
file it was recorded with is gone and the class means the same: then the file was renamed or moved, in an editor, by a
version control system, or with the folders above it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Run
from stark_lsp.core.status import Decision, RunState
from stark_lsp.core.wire import WireError, from_wire
from stark_lsp.discovery.meaning import comparable, meaning
from stark_lsp.store import rows


@dataclass(frozen=True)
class Waiting:
    """A run that waits for a word of the user."""

    id: str
    qualname: str
    """The class."""
    here: bool
    """Whether it was recorded with this very file; else with one that is gone, perhaps since it has this name now."""
    offers: bool
    """Whether it has a proposal that nobody decided on."""
    interrupted: bool
    """Whether it ended before its time, and no later one was begun on the class."""
    elsewhere: bool
    """Whether it is under way, in another process or in this one."""


def rows_at(
    connection: sqlite3.Connection, path: str, names: Collection[str] | None = None
) -> Iterator[tuple[str, str, bool]]:
    """Yield id, class and whether it is `here` of the runs recorded with this file or a gone one, newest first."""
    real = os.path.realpath(path)
    known: dict[str, bool | None] = {}
    found = connection.execute("SELECT id, key FROM runs ORDER BY created DESC, rowid DESC").fetchall()
    for run_id, key in found:
        stored, _, qualname = key.rpartition("::")
        if names is not None and qualname not in names:
            continue
        if stored not in known:
            known[stored] = _here(stored, path, real)
        here = known[stored]
        if here is not None:
            yield run_id, qualname, here


def waiting(connection: sqlite3.Connection, path: str, names: Collection[str] | None) -> tuple[Waiting, ...]:
    """Return what waits for the user in a document, newest first."""
    found = []
    seen: set[str] = set()
    for run_id, qualname, here in list(rows_at(connection, path, names)):
        key, state, decision, best = connection.execute(
            "SELECT key, state, decision, best FROM runs WHERE id = ?", (run_id,)
        ).fetchone()
        under_way = state in rows.UNDER_WAY
        offers = decision == Decision.OPEN.value and best is not None and not under_way
        interrupted = state == RunState.INTERRUPTED.value and key not in seen
        seen.add(key)
        if offers or interrupted or under_way:
            found.append(Waiting(run_id, qualname, here, offers, interrupted, under_way))
    return tuple(found)


def is_on(row: sqlite3.Row, problem: Problem, here: bool) -> bool:
    """Whether a run's attempts are worth as much on this problem: the class means the same, inputs included."""
    today = meaning(problem)
    if row["digest"] == today:
        return True
    if comparable(row["digest"]) or not here:
        return False
    try:  # written by a version, or under a Python, that made other digests
        return meaning(from_wire(json.loads(row["wire"]), Run).problem) == today
    except (WireError, ValueError):
        return False


def _here(stored: str, path: str, real: str) -> bool | None:
    """Return whether a file is this one; None if it is another one that is still there."""
    try:
        if stored == path or os.path.realpath(stored) == real:
            return True
        return None if os.path.lexists(stored) else False
    except ValueError:  # no path at all, from a transcript
        return None
