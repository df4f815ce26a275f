"""Notes: what later runs may learn of earlier ones. They follow from the runs; the user may rewrite or forget each.

A run leaves three at most: the best that a model thought of, the best of the playbook, and the newest plan that failed
or came out slower. A run that begins takes up to five along (`Notes.similar`), of earlier runs

1. of the same project (`discovery.workspaces`), so that no title of another one is sent to whoever answers,
2. on the same device, in the same mode,
3. on classes that have at least half of the operators of either in common (`discovery.operators`),
4. that were made here: an imported one has no state of a search.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace

from stark_lsp.agents.observations import NOTE
from stark_lsp.agents.texts import clean, one_line
from stark_lsp.core.errors import BadInput
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Node, Note, Run
from stark_lsp.core.status import AgentRole, Decision, VerdictStatus
from stark_lsp.core.verdict import Reference
from stark_lsp.core.wire import WireError
from stark_lsp.discovery.operators import ALIKE, likeness, operators
from stark_lsp.discovery.workspaces import workspace
from stark_lsp.store import rows
from stark_lsp.store.database import Database

MOST = 5
"""Notes that a run takes along."""
HELPED = 3
"""Of these, that helped."""
_TITLE = 120
_CAUSE = 160
_OPERATORS = 12
_RUNS = 200
"""Newest runs of the project that are looked at."""
_CLOSEST = 8
"""Of these, the ones whose attempts are."""
_MADE_HERE = "SELECT run_id FROM states WHERE rng_state <> ''"

_log = logging.getLogger(__name__)


class Notes:
    """The notes of all runs; `RunStore.notes`. Every method may raise `Fault`, as those of `RunStore` do."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def similar(self, problem: Problem, reference: Reference, besides: str) -> tuple[Note, ...]:
        """Return what a run on a problem may learn of earlier ones, the most similar class first.

        Parameters
        ----------
        problem, reference
            What is to be optimized, and what preparing it found out.
        besides
            The run itself.
        """
        mine, here = operators(problem.slice.text), workspace(problem.path)
        close: list[tuple[tuple[float, bool, bool], Run]] = []
        for run in self._ended(here, besides):
            shared = likeness(mine, operators(run.problem.slice.text))
            then = run.reference
            if then is None or shared < ALIKE or run.problem.mode is not problem.mode:
                continue
            if then.environment.device != reference.environment.device:
                continue
            other_types = set(then.environment.dtypes) != set(reference.environment.dtypes)
            close.append(((-shared, other_types, _bound(then) != _bound(reference)), run))
        close.sort(key=lambda one: one[0])  # of equals the newest is first
        return chosen(note for _, run in close[:_CLOSEST] for note in self.of(run))

    def of(self, run: Run) -> tuple[Note, ...]:
        """Return the notes of a run, in the user's words where there are any, without those to forget."""
        with self._database.read() as connection:
            changes = dict(connection.execute("SELECT node, text FROM note_changes WHERE run_id = ?", (run.id,)))
            stored = connection.execute(
                "SELECT nodes.wire, verdicts.wire FROM nodes JOIN verdicts"
                " ON verdicts.run_id = nodes.run_id AND verdicts.node = nodes.id"
                " WHERE nodes.run_id = ? AND parent IS NOT NULL AND title <> '' ORDER BY nodes.id",
                (run.id,),
            ).fetchall()
        nodes = []
        for wire, verdict in stored:
            try:
                nodes.append(rows.read_node(wire, verdict))
            except (WireError, ValueError) as error:
                _log.warning("an attempt of run %s cannot be read and is left out: %s", run.id, error)
        kept = frozenset(node for node, text in changes.items() if text is not None)
        return tuple(
            replace(note, text=changes.get(note.node) or "")
            for note in derived(run, nodes, kept)
            if note.node not in changes or note.node in kept
        )

    def all(self) -> Iterator[tuple[Run, Note]]:
        """Yield all notes with their runs, those of the newest first."""
        for run in self._ended():
            for note in self.of(run):
                yield run, note

    def rewrite(self, note: Note, text: str | None) -> None:
        """Put the user's words in the place of a note; None forgets it, for runs that begin from now on.

        Raises
        ------
        BadInput
            There are no words, or too many; or the run is not in the store (any more).
        """
        if text is not None:
            text = " ".join(clean(text).split())
            if not 0 < len(text) <= NOTE:
                raise BadInput(
                    f"A note has 1 to {NOTE} characters, not {len(text)}.",
                    cure="Write a shorter one." if text else f"To drop it: stark-lsp notes forget {note.id}",
                )
        with self._database.write() as connection:
            rows.require(connection, note.run_id)
            connection.execute(
                "INSERT OR REPLACE INTO note_changes (run_id, node, text) VALUES (?, ?, ?)",
                (note.run_id, note.node, text),
            )

    def _ended(self, project: str | None = None, besides: str = "") -> Iterator[Run]:
        """Yield the runs made here that are over, the newest first; of a project, at most as many as are looked at."""
        with self._database.read() as connection:
            known = connection.execute(
                f"SELECT id, key FROM runs WHERE id IN ({_MADE_HERE}) AND id <> ? AND state NOT IN (?, ?)"
                " ORDER BY created DESC, rowid DESC",
                (besides, *rows.UNDER_WAY),
            ).fetchall()
        if project is not None:
            projects = {key: workspace(key.rpartition("::")[0]) for key in {key for _, key in known}}
            known = [one for one in known if projects[one[1]] == project][:_RUNS]
        for run_id, _ in known:
            with self._database.read() as connection:
                row = rows.find_run(connection, run_id)
            run = None if row is None else rows.read(row["wire"], Run, f"run {run_id}")
            if run is not None:
                yield run


def derived(run: Run, nodes: Iterable[Node], kept: frozenset[int] = frozenset()) -> tuple[Note, ...]:
    """Return what a run leaves for later ones, in order of its attempts.

    Parameters
    ----------
    run
        A run that is over.
    nodes
        Its judged attempts.
    kept
        Attempts that the user wrote a note for: they have one in any case.
    """
    turned_down = run.best if run.decision is Decision.REJECTED else None
    judged = [node for node in nodes if node.plan is not None and node.plan.title and node.id != turned_down]
    notes = {node.id: _note(run, node) for node in judged}
    gained = [node for node in judged if notes[node.id].helped]
    best: dict[bool, Node] = {}
    for node in sorted(gained, key=lambda node: (-_gain(notes[node.id]), node.id)):
        best.setdefault(bool(notes[node.id].design), node)
    # A plan that was repaired did not fail.
    worked = {notes[node.id].title for node in gained}
    lost = [note.node for note in notes.values() if _failed(note) and note.title not in worked][-1:]
    wanted = {*(node.id for node in best.values()), *lost, *kept}
    return tuple(note for note in notes.values() if note.node in wanted)


def chosen(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the notes that a run takes along: of each plan of a class one, `HELPED` that helped, `MOST` in all.

    Parameters
    ----------
    notes
        The most similar class first.
    """
    found = distinct(notes)
    helped = [note for note in found if note.helped][:HELPED]
    others = [note for note in found if not note.helped]
    return tuple((helped + others)[:MOST])


def distinct(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the first note of each plan of a class."""
    found: dict[tuple[str, str], Note] = {}
    for note in notes:
        found.setdefault((note.class_name, note.text or note.title), note)
    return tuple(found.values())


def _note(run: Run, node: Node) -> Note:
    assert node.plan is not None
    assert node.verdict is not None
    verdict, reference = node.verdict, run.reference
    environment = reference.environment if reference is not None else None
    # What a repair changed of a design, its plan does not say.
    own = bool(node.plan.strategy) and node.role is AgentRole.CODE
    return Note(
        run_id=run.id,
        node=node.id,
        class_name=one_line(run.problem.class_name, 60),
        operators=tuple(sorted(operators(run.problem.slice.text)))[:_OPERATORS],
        inputs=one_line(", ".join((*environment.dtypes, *environment.shapes)), 80) if environment is not None else "",
        device=one_line(environment.device, 80) if environment is not None else "",
        bound=_bound(reference),
        title=one_line(node.plan.title, _TITLE),
        status=verdict.status,
        gain=verdict.speedup_vs_eager if verdict.ok else None,
        cause="" if verdict.ok else one_line(verdict.message.strip().partition("\n")[0], _CAUSE),
        design=node.plan.parameters if own else (),
        tuned=one_line(verdict.tuned, _TITLE),
    )


def _bound(reference: Reference | None) -> str:
    return reference.profile.bound if reference is not None and reference.profile is not None else ""


def _gain(note: Note) -> float:
    return note.gain.value if note.gain is not None else 0.0


def _failed(note: Note) -> bool:
    if note.gain is not None:
        return note.gain.high < 1
    return note.status.failed and note.status is not VerdictStatus.NO_CANDIDATE
