"""The store of runs: what a restart or a crash goes on from.

A node is written when its candidate exists and again with its verdict, each time together with the
engine's state, in one transaction: whenever the process dies, the file holds a point from which the
search goes on exactly. What was asked of a model, and what the user told a run, have tables and files of
their own (`exchanges`, `steerings`).
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from stark_lsp.core.conversation import Exchange, Loss
from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Budget, Node, Rejection, Run
from stark_lsp.core.status import Decision, RunState
from stark_lsp.core.steering import Steering
from stark_lsp.core.verdict import Verdict
from stark_lsp.core.wire import WireError, from_wire, to_wire
from stark_lsp.store import rows, texts, whereabouts
from stark_lsp.store.database import Database
from stark_lsp.store.exchanges import Exchanges
from stark_lsp.store.exchanges import write as write_exchange
from stark_lsp.store.losses import Losses
from stark_lsp.store.losses import write as write_loss
from stark_lsp.store.notes import Notes
from stark_lsp.store.owner import this_process
from stark_lsp.store.steerings import Steerings
from stark_lsp.store.steerings import write as write_steering
from stark_lsp.store.whereabouts import Waiting

_log = logging.getLogger(__name__)

_Runs = list[Run]  # inside RunStore, `list` is its method


@dataclass(frozen=True)
class StoredRun:
    """A run with all that is needed to go on with it."""

    run: Run
    nodes: dict[int, Node]
    """By id, in order of creation."""
    rng_state: str
    """The engine's state as last recorded (`Engine(state=...)`); empty if there is none."""


class RunStore:
    """Runs, nodes, verdicts, exchanges, steering and rejections in one SQLite file.

    Making one touches nothing; the file is opened at first use. Every method may raise `Fault` with the
    path and the cure: disk full, no permission, locked for long, damaged.

    Parameters
    ----------
    path
        The file; see `store.paths.default_store_path`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._database = Database(self.path)
        self.exchanges = Exchanges(self._database)
        """Every question of a run with its answer."""
        self.losses = Losses(self._database)
        """What calls have cost that ended without an answer."""
        self.steerings = Steerings(self._database)
        """What the user told runs."""
        self.notes = Notes(self._database)
        """What later runs may learn of them."""

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._database.close()

    # --- runs --------------------------------------------------------------------------------------

    def create(
        self,
        run: Run,
        nodes: Iterable[Node] = (),
        exchanges: Iterable[Exchange] = (),
        steerings: Iterable[Steering] = (),
        losses: Iterable[Loss] = (),
    ) -> None:
        """Store a new run with what it has already, all or nothing; this process owns it while it is under way.

        Raises
        ------
        ValueError
            There is a run with this id, or two of the exchanges have the same place.
        """
        with self._database.write() as connection:
            if rows.find_run(connection, run.id) is not None:
                raise ValueError(f"run {run.id} is already stored")
            rows.write_run(connection, run)
            for node in nodes:
                rows.write_node(connection, run.id, node)
            for exchange in exchanges:
                write_exchange(connection, run.id, exchange)
            for loss in losses:
                write_loss(connection, run.id, loss)
            for steering in steerings:
                write_steering(connection, run.id, steering)

    def update(self, run: Run, nodes: Iterable[Node] = ()) -> None:
        """Store the run as it stands now, with nodes that changed; while it is under way this process is its owner.

        Raises
        ------
        BadInput
            Another living process works on it, or it is not in the store.
        """
        with self._database.write() as connection:
            row = rows.require(connection, run.id)
            if rows.owner_lives(row) and rows.owner_of(row) != this_process():
                raise BadInput(
                    f"Run {run.id} is under way in another process ({row['owner_pid']}).",
                    cure="Wait for it, or cancel it there.",
                )
            rows.write_run(connection, run)
            for node in nodes:
                rows.write_node(connection, run.id, node)

    def decide(self, run_id: str, decision: Decision, named: Run | None = None) -> Decision:
        """Record what the user did with a proposal, unless it was decided before; return what holds now.

        Once one proposal on a class is accepted or rejected, others that stood open on it are only kept.

        Parameters
        ----------
        named
            The run with the attempt as its best that the user named: that holds, whatever was decided before.

        Raises
        ------
        BadInput
            There is no such run, or it is under way.
        """
        with self._database.write() as connection:
            row = rows.require(connection, run_id)
            if rows.owner_lives(row):
                raise BadInput(f"Run {run_id} is under way again.", cure="Wait for it, or cancel it.")
            standing = Decision(row["decision"])
            if standing in (Decision.ACCEPTED, Decision.REJECTED) and named is None:
                return standing
            rows.write_decision(connection, row, decision, named)
            if decision in (Decision.ACCEPTED, Decision.REJECTED):
                path, _, qualname = row["key"].rpartition("::")
                for other, _, here in list(whereabouts.rows_at(connection, path, {qualname})):
                    row = rows.require(connection, other)
                    if here and row["decision"] == Decision.OPEN.value and row["state"] not in rows.UNDER_WAY:
                        rows.write_decision(connection, row, Decision.KEPT)
            return decision

    def waiting(self, path: str, names: Collection[str] | None = None) -> tuple[Waiting, ...]:
        """Return what waits for a word of the user in a document, newest first.

        Parameters
        ----------
        path
            Absolute path of the document, which may have had another one when the runs were made.
        names
            Dotted names of its classes; None is any.
        """
        with self._database.read() as connection:
            return whereabouts.waiting(connection, path, names)

    def is_on(self, run_id: str, problem: Problem) -> bool:
        """Whether a run is on this class as it stands, so that it can be gone on with, wherever the file was then."""
        with self._database.read() as connection:
            row = rows.require(connection, run_id)
            places = whereabouts.rows_at(connection, problem.path, {problem.qualname})
            return any(found == run_id and whereabouts.is_on(row, problem, here) for found, _, here in places)

    def classes_at(self, path: str) -> frozenset[str]:
        """Return the dotted names of the classes that there are runs on in a document, or in one that is gone."""
        with self._database.read() as connection:
            return frozenset(qualname for _, qualname, _ in whereabouts.rows_at(connection, path))

    def measured(self, problem: Problem) -> Run | None:
        """Return the newest run that has timed this class as it stands, None if there is none.

        Raises
        ------
        Fault
            What is stored cannot be read.
        """
        with self._database.read() as connection:
            places = whereabouts.rows_at(connection, problem.path, {problem.qualname})
            ids = [found for found, _, here in list(places)
                   if whereabouts.is_on(rows.require(connection, found), problem, here)]  # fmt: skip
        return next((run for run in map(self.get, ids) if run.reference is not None), None)

    def list(self, limit: int = 50, key: str | None = None) -> _Runs:
        """Return the newest runs first."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT id, wire FROM runs WHERE ?1 IS NULL OR key = ?1 ORDER BY created DESC, rowid DESC LIMIT ?2",
                (None if key is None else rows.plain(key), limit),
            ).fetchall()
        runs = (rows.read(wire, Run, f"run {run_id} in {self.path}") for run_id, wire in found)
        return [run for run in runs if run is not None]

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all runs, those that cannot be read included."""
        with self._database.read() as connection:
            return tuple(run_id for (run_id,) in connection.execute("SELECT id FROM runs ORDER BY rowid"))

    def get(self, run_id: str) -> Run:
        """Return a run without its nodes.

        Raises
        ------
        BadInput
            There is no such run.
        Fault
            What is stored cannot be read.
        """
        with self._database.read() as connection:
            row = rows.require(connection, run_id)
        try:
            return from_wire(json.loads(row["wire"]), Run)
        except (WireError, ValueError) as error:
            raise self._unreadable(run_id, error) from error

    def load(self, run_id: str) -> StoredRun:
        """Return a run with its nodes.

        Raises
        ------
        BadInput
            There is no such run.
        Fault
            What is stored cannot be read.
        """
        with self._database.read() as connection:
            row = rows.require(connection, run_id)
            state = connection.execute("SELECT rng_state FROM states WHERE run_id = ?", (run_id,)).fetchone()
            nodes = connection.execute(
                "SELECT nodes.wire, verdicts.wire FROM nodes"
                " LEFT JOIN verdicts ON verdicts.run_id = nodes.run_id AND verdicts.node = nodes.id"
                " WHERE nodes.run_id = ? ORDER BY nodes.id",
                (run_id,),
            ).fetchall()
        try:
            run = from_wire(json.loads(row["wire"]), Run)
            loaded = [rows.read_node(wire, verdict) for wire, verdict in nodes]
        except (WireError, ValueError) as error:
            raise self._unreadable(run_id, error) from error
        return StoredRun(run, {node.id: node for node in loaded}, state[0] if state else "")

    def verdict(self, run_id: str, node: int) -> Verdict | None:
        """Return the verdict of one attempt; None if it has none, or it cannot be read."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT wire FROM verdicts WHERE run_id = ? AND node = ?", (rows.plain(run_id), node)
            ).fetchone()
        return None if row is None else rows.read(row[0], Verdict, f"the verdict on attempt {node} of run {run_id}")

    def _unreadable(self, run_id: str, error: Exception) -> Fault:
        return Fault(
            f"Run {run_id} cannot be read from the store.",
            cure=f"Delete it with `stark-lsp runs delete {run_id}`, or use the stark-lsp that wrote it.",
            path=str(self.path),
            details=str(error),
        )

    def latest_resumable(
        self, problem: Problem, model: str | None = None, budget: Budget | None = None, run_id: str | None = None
    ) -> StoredRun | None:
        """Return the newest run on the unchanged problem that can be gone on with, None if there is none.

        That is a run which was cancelled or interrupted, failed after it had made an attempt or a model had
        answered, or still counts as under way although its process is gone; with `budget` one that had spent a smaller
        one as well. Unchanged means: the class and all it uses, its inputs, mode and device are the same, whatever else
        in the document was edited, and the document is the same file, or that one is gone (see `whereabouts`).

        Parameters
        ----------
        problem
            What is to be optimized, as it stands now.
        model
            Only runs that this model answered.
        budget
            What may be spent now, the limits that hold where nothing was asked for included.
        run_id
            Only this run.
        """
        found = []
        with self._database.read() as connection:
            for each, _, here in whereabouts.rows_at(connection, problem.path, {problem.qualname}):
                if run_id not in (None, each):
                    continue
                cursor = connection.execute(
                    "SELECT *, EXISTS (SELECT 1 FROM nodes WHERE run_id = runs.id AND parent IS NOT NULL)"
                    " OR EXISTS (SELECT 1 FROM exchanges WHERE run_id = runs.id) AS begun,"
                    " (SELECT touched FROM states WHERE run_id = runs.id) AS touched FROM runs WHERE id = ?",
                    (each,),
                )
                cursor.row_factory = sqlite3.Row
                row = cursor.fetchone()
                if model not in (None, row["model"]) or not rows.resumable(row, budget):
                    continue
                if whereabouts.is_on(row, problem, here):
                    found.append(each)
        for each in found:
            try:
                return self.load(each)
            except Fault as fault:
                if run_id is not None:
                    raise
                _log.warning("%s It is passed over.", fault)
        return None

    def delete(self, run_id: str) -> None:
        """Delete a run with its nodes, exchanges, losses and steering, and its notes; rejections are kept.

        Raises
        ------
        BadInput
            There is no such run, or it is under way.
        """
        with self._database.write() as connection:
            row = rows.require(connection, run_id)
            if rows.owner_lives(row):
                raise BadInput(f"Run {run_id} is under way.", cure="Cancel it first.")
            connection.execute("DELETE FROM runs WHERE id = ?", (run_id,))
            texts.drop_unused(connection)

    def mark_interrupted(self) -> tuple[str, ...]:
        """Mark runs as interrupted whose process ended before they did, and return their ids."""
        with self._database.read() as connection:  # most of the time there is nothing to write
            if not rows.abandoned(connection):
                return ()
        with self._database.write() as connection:
            found = rows.abandoned(connection)
            for row in found:
                wire = json.loads(row["wire"])
                wire["state"] = RunState.INTERRUPTED.value
                wire["message"] = "Its process ended before the run did. Optimize the class again to go on from there."
                connection.execute(
                    "UPDATE runs SET state = ?, wire = ?, owner_pid = NULL, owner_started = NULL, owner_place = NULL"
                    " WHERE id = ?",
                    (RunState.INTERRUPTED.value, rows.to_json(wire), row["id"]),
                )
            return tuple(row["id"] for row in found)

    # --- nodes -------------------------------------------------------------------------------------

    def put_node(self, run_id: str, node: Node, rng_state: str | None = None) -> None:
        """Store a node, and with it the engine's state.

        Parameters
        ----------
        node
            With or without its verdict; a stored verdict is never removed.
        rng_state
            What the engine gave with the node; None leaves the stored state as it is.

        Raises
        ------
        BadInput
            The run is not in the store (any more).
        """
        with self._database.write() as connection:
            rows.require(connection, run_id)
            rows.write_node(connection, run_id, node)
            rows.touch(connection, run_id, rng_state)

    def put_state(self, run_id: str, rng_state: str) -> None:
        """Store the engine's state alone, such as that an attempt begins.

        Raises
        ------
        BadInput
            The run is not in the store (any more).
        """
        with self._database.write() as connection:
            rows.require(connection, run_id)
            rows.touch(connection, run_id, rng_state)

    def touch(self, run_id: str) -> None:
        """Give a sign of life of a run, if it is in the store."""
        with self._database.write() as connection:
            if rows.find_run(connection, run_id) is not None:
                rows.touch(connection, run_id, None)

    # --- rejections --------------------------------------------------------------------------------

    def add_rejection(self, key: str, rejection: Rejection) -> None:
        """Remember what the user turned down on the problem `key` (`Problem.key`)."""
        with self._database.write() as connection:
            values = {"key": rows.plain(key), "wire": rows.to_json(to_wire(rejection))}
            rows.insert(connection, "rejections", values)

    def rejections(self, key: str) -> tuple[Rejection, ...]:
        """Return what the user turned down on the problem `key`, oldest first."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT wire FROM rejections WHERE key = ? ORDER BY number", (rows.plain(key),)
            ).fetchall()
        rejections = (rows.read(wire, Rejection, f"a rejection in {self.path}") for (wire,) in found)
        return tuple(rejection for rejection in rejections if rejection is not None)
