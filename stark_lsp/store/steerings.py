"""What the user told runs, in order; whoever drives a run follows its part of the table."""

from __future__ import annotations

import json
import logging
import sqlite3

from stark_lsp.core.run import Budget, Run
from stark_lsp.core.steering import Steering
from stark_lsp.core.wire import WireError, from_wire, to_wire
from stark_lsp.store import rows
from stark_lsp.store.database import Database

_log = logging.getLogger(__name__)


class Steerings:
    """The steering of all runs; `RunStore.steerings`. Every method may raise `Fault`, as those of `RunStore` do."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._told: set[int] = set()
        """Numbers of unreadable ones that the log knows of; the table is looked at twice a second."""

    def add(self, run_id: str, steering: Steering) -> int:
        """Keep what the user told a run, and return its number; numbers grow and are never given out again.

        Raises
        ------
        BadInput
            The run is not in the store (any more).
        """
        with self._database.write() as connection:
            rows.require(connection, run_id)
            return write(connection, run_id, steering)

    def since(self, run_id: str, number: int = 0) -> tuple[tuple[int, Steering], ...]:
        """Return what the user told a run after `number`, oldest first, each with its number."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT number, wire FROM steerings WHERE run_id = ? AND number > ? ORDER BY number",
                (rows.plain(run_id), number),
            ).fetchall()
        steerings: list[tuple[int, Steering]] = []
        for this, wire in found:
            try:
                steerings.append((this, from_wire(json.loads(wire), Steering)))
            except (WireError, ValueError) as error:
                if this not in self._told:
                    self._told.add(this)
                    _log.warning("steering %d of run %s cannot be read and is left out: %s", this, run_id, error)
        return tuple(steerings)

    def budget(self, run: Run) -> Budget:
        """Return what a run may spend: what it was told and has not heard yet, else what it records."""
        told = [steering.budget for _, steering in self.since(run.id, run.heard) if steering.budget is not None]
        return told[-1] if told else run.budget


def write(connection: sqlite3.Connection, run_id: str, steering: Steering) -> int:
    """Insert what the user told a run and return its number."""
    said, wire = rows.plain(steering.when), rows.to_json(to_wire(steering))
    values = {"run_id": run_id, "kind": steering.kind.value, "node": steering.node, "said": said, "wire": wire}
    return rows.insert(connection, "steerings", values)
