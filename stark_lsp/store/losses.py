"""What calls of models have cost that ended without an answer: it counts as spent, and is never taken for an answer.

A call that is asked again, since the run was taken up again, may be lost again: one place of a run may have several.
"""

from __future__ import annotations

import builtins
import json
import logging
import sqlite3

from stark_lsp.core.conversation import Loss
from stark_lsp.core.wire import WireError, from_wire, to_wire
from stark_lsp.store import rows
from stark_lsp.store.database import Database

_log = logging.getLogger(__name__)

_COLUMNS = (
    "run_id", "attempt", "role", "ordinal", "model", "input_tokens", "cache_write_tokens", "cache_read_tokens",
    "output_tokens", "dollars", "ended", "wire",
)  # fmt: skip


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
        losses: builtins.list[Loss] = []
        for (wire,) in found:
            try:
                losses.append(from_wire(json.loads(wire), Loss))
            except (WireError, ValueError) as error:
                _log.warning("a loss of run %s cannot be read and is left out: %s", run_id, error)
        return tuple(losses)


def write(connection: sqlite3.Connection, run_id: str, loss: Loss) -> None:
    """Insert a loss."""
    values = (
        run_id,
        loss.attempt,
        loss.role.value,
        loss.ordinal,
        rows.plain(loss.model),
        *rows.tokens(loss.usage),
        loss.dollars,
        rows.plain(loss.when),
        rows.to_json(to_wire(loss)),
    )
    connection.execute(f"INSERT INTO losses ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})", values)
