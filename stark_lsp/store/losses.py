"""What calls of models have cost that ended without an answer: it counts as spent, and is never taken for an answer.

A call that is asked again, since the run was taken up again, may be lost again: one place of a run may have several.
"""

from __future__ import annotations

import sqlite3

from stark_lsp.core.conversation import Loss
from stark_lsp.core.wire import to_wire
from stark_lsp.store import rows
from stark_lsp.store.database import Database


class Losses:
    """The losses of all runs; `RunStore.losses`. Every method may raise `Fault`, as those of `RunStore` do."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, run_id: str, loss: Loss) -> None:
        """Keep a loss; once this returns, neither a kill nor a power cut takes it.

        Raises
        ------
        BadInput
            The run is not in the store (any more).
        """
        with self._database.write(durable=True) as connection:
            rows.require(connection, run_id)
            write(connection, run_id, loss)
            rows.touch(connection, run_id, None)

    def list(self, run_id: str) -> tuple[Loss, ...]:
        """Return the losses of a run, in order."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT wire FROM losses WHERE run_id = ? ORDER BY number", (rows.plain(run_id),)
            ).fetchall()
        losses = (rows.read(wire, Loss, f"a loss of run {run_id}") for (wire,) in found)
        return tuple(loss for loss in losses if loss is not None)


def write(connection: sqlite3.Connection, run_id: str, loss: Loss) -> None:
    """Insert a loss."""
    values = {
        "run_id": run_id,
        "attempt": loss.attempt,
        "role": loss.role.value,
        "ordinal": loss.ordinal,
        "model": rows.plain(loss.model),
        **rows.tokens(loss.usage),
        "dollars": loss.dollars,
        "ended": rows.plain(loss.when),
        "wire": rows.to_json(to_wire(loss)),
    }
    rows.insert(connection, "losses", values)
