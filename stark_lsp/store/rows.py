"""Between the words of `core` and rows of the tables."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Mapping
from typing import Any, TypeVar

from stark_lsp.core.conversation import Usage
from stark_lsp.core.errors import BadInput
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.status import Decision, RunState
from stark_lsp.core.wire import WireError, from_wire, to_wire
from stark_lsp.discovery.meaning import meaning
from stark_lsp.store.owner import Liveness, Owner, liveness, this_process

T = TypeVar("T")
_log = logging.getLogger(__name__)

STALE_AFTER_S = 24 * 3600.0
"""A run that another host or container owns counts as given up when nothing was written for so long."""

SILENT_S = 60.0
"""Seconds without a sign of life after which such a run may be gone on with; its process gives one every few."""

MOST_TOKENS = 10**12
"""More than any call has; a service that claims more is taken to claim this, so that sums stay in range."""

UNDER_WAY = (RunState.PREPARING.value, RunState.RUNNING.value)
"""States of a run that has an owner."""


def to_json(value: Any) -> str:
    """Return a wire form as ASCII, so that text from a model which UTF-8 cannot encode comes back unchanged."""
    return json.dumps(value)


def plain(text: str) -> str:
    """Return text for a column of its own; what UTF-8 cannot encode becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def tokens(usage: Usage) -> dict[str, int]:
    """Return tokens for columns of their own."""
    return {name: max(0, min(count, MOST_TOKENS)) for name, count in vars(usage).items()}


def read(wire: str, kind: type[T], what: str) -> T | None:
    """Return a word by its wire form; None if it cannot be read, and the log then says what is left out."""
    try:
        return from_wire(json.loads(wire), kind)
    except ValueError as error:
        _log.warning("%s cannot be read and is left out: %s", what, error)
        return None


def insert(connection: sqlite3.Connection, table: str, values: Mapping[str, Any]) -> int:
    """Insert a row, given by its columns, and return its number."""
    number = connection.execute(
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", tuple(values.values())
    ).lastrowid
    assert number is not None  # after an insert there is one
    return number


def find_run(connection: sqlite3.Connection, run_id: str) -> sqlite3.Row | None:
    """Return the row of a run, None if there is none."""
    cursor = connection.execute(
        "SELECT *, (SELECT touched FROM states WHERE run_id = runs.id) AS touched FROM runs WHERE id = ?",
        (plain(run_id),),
    )
    cursor.row_factory = sqlite3.Row
    row: sqlite3.Row | None = cursor.fetchone()
    return row


def require(connection: sqlite3.Connection, run_id: str) -> sqlite3.Row:
    """Return the row of a run.

    Raises
    ------
    BadInput
        There is no such run.
    """
    row = find_run(connection, run_id)
    if row is None:
        raise BadInput(f"There is no run {run_id} in the store.", cure="`stark-lsp runs` lists the runs there are.")
    return row


def write_run(connection: sqlite3.Connection, run: Run) -> None:
    """Insert or update the row of a run; this process owns it while it is under way."""
    owner = this_process() if run.state.value in UNDER_WAY else None
    values = {
        "id": run.id,
        "key": plain(run.problem.key),
        "digest": meaning(run.problem),
        "model": plain(run.model),
        "state": run.state.value,
        "decision": run.decision.value,
        "best": run.best,
        "created": plain(run.created),
        "finished": plain(run.finished),
        "owner_pid": owner.pid if owner else None,
        "owner_started": owner.started if owner else None,
        "owner_place": owner.place if owner else None,
        "wire": to_json(to_wire(run)),
    }
    changes = ", ".join(f"{name} = excluded.{name}" for name in values if name != "id")
    connection.execute(
        f"INSERT INTO runs ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"
        f" ON CONFLICT (id) DO UPDATE SET {changes}",
        tuple(values.values()),
    )
    touch(connection, run.id, None)


def write_decision(
    connection: sqlite3.Connection, row: sqlite3.Row, decision: Decision, named: Run | None = None
) -> None:
    """Change what was decided on the proposal of a run, and which that is if the user named one, and nothing else."""
    wire = json.loads(row["wire"])
    wire["decision"] = decision.value
    if named is not None:
        wire |= {"best": named.best, "message": named.message}
    connection.execute(
        "UPDATE runs SET decision = ?, best = ?, wire = ? WHERE id = ?",
        (decision.value, wire["best"], to_json(wire), row["id"]),
    )


def write_node(connection: sqlite3.Connection, run_id: str, node: Node) -> None:
    """Insert or update a node and, where it has one, its verdict."""
    wire = to_wire(node)
    verdict = wire.pop("verdict")
    values = (
        run_id,
        node.id,
        node.parent,
        node.role.value,
        node.candidate.dialect.value,
        plain(node.plan.title if node.plan else ""),
        to_json(wire),
    )
    connection.execute(
        "INSERT INTO nodes (run_id, id, parent, role, dialect, title, wire) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (run_id, id) DO UPDATE SET parent = excluded.parent, role = excluded.role,"
        " dialect = excluded.dialect, title = excluded.title, wire = excluded.wire WHERE wire <> excluded.wire",
        values,
    )
    if node.verdict is not None:
        connection.execute(
            "INSERT OR REPLACE INTO verdicts (run_id, node, status, runtime_ms, wire) VALUES (?, ?, ?, ?, ?)",
            (run_id, node.id, node.verdict.status.value, node.verdict.runtime_ms, to_json(verdict)),
        )


def read_node(wire: str, verdict: str | None) -> Node:
    """Return the node of a row of `nodes` and its row of `verdicts`.

    Raises
    ------
    ValueError
        The text is not a node (`WireError`), or not JSON.
    """
    data = json.loads(wire)
    data["verdict"] = None if verdict is None else json.loads(verdict)
    return from_wire(data, Node)


def touch(connection: sqlite3.Connection, run_id: str, rng_state: str | None) -> None:
    """Note that the run's process is at work, and the engine's state if there is a new one."""
    connection.execute(
        "INSERT INTO states (run_id, rng_state, touched) VALUES (?1, coalesce(?2, ''), ?3) ON CONFLICT (run_id)"
        " DO UPDATE SET touched = excluded.touched, rng_state = coalesce(?2, rng_state)",
        (run_id, rng_state, time.time()),
    )


def owner_of(row: sqlite3.Row) -> Owner | None:
    """Return the process that works on a run, None if it has none."""
    if row["owner_pid"] is None:
        return None
    return Owner(row["owner_pid"], row["owner_started"], row["owner_place"])


def owner_lives(row: sqlite3.Row) -> bool:
    """Whether the run is under way in a process that still runs: on another host, one that gave a sign of life."""
    owner = owner_of(row)
    if row["state"] not in UNDER_WAY or owner is None:
        return False
    state = liveness(owner)
    return state is Liveness.ALIVE or (state is Liveness.UNKNOWN and time.time() - (row["touched"] or 0.0) < SILENT_S)


def resumable(row: sqlite3.Row, budget: Budget | None) -> bool:
    """Whether a run can be gone on with; `row` has a column `begun` besides those of `runs`."""
    if row["state"] in UNDER_WAY:
        return not owner_lives(row)
    if row["state"] == RunState.FAILED.value:
        return bool(row["begun"])
    if row["state"] == RunState.FINISHED.value:
        return budget is not None and _has_more(row, budget)
    return row["state"] in (RunState.CANCELLED.value, RunState.INTERRUPTED.value)


def _has_more(row: sqlite3.Row, budget: Budget) -> bool:
    """Whether a budget lets a finished run go on: that is what ended it, and nobody said yes or no to its proposal."""
    try:
        run = from_wire(json.loads(row["wire"]), Run)
    except (WireError, ValueError):
        return False  # of another version; nothing else says that it could go on
    if run.ended_by is None or run.decision in (Decision.ACCEPTED, Decision.REJECTED):
        return False
    return budget.goes_beyond(run.budget, run.ended_by)


def abandoned(connection: sqlite3.Connection) -> list[sqlite3.Row]:
    """Return the runs that count as under way although their process is gone."""
    cursor = connection.execute(
        "SELECT runs.*, states.touched FROM runs LEFT JOIN states ON states.run_id = runs.id WHERE state IN (?, ?)",
        UNDER_WAY,
    )
    cursor.row_factory = sqlite3.Row
    return [row for row in cursor if _gone(row)]


def _gone(row: sqlite3.Row) -> bool:
    owner = owner_of(row)
    state = Liveness.GONE if owner is None else liveness(owner)
    if state is Liveness.UNKNOWN:
        return time.time() - (row["touched"] or 0.0) > STALE_AFTER_S
    return state is Liveness.GONE
