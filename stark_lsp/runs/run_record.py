"""A run as it is recorded: who answers, its settings and its tree, in memory and in the store.

It is created, or the newest unfinished one on the same class (or the one that was named) is taken up. Every answer,
candidate and verdict goes to the store before anyone uses it, so that a kill at any point loses nothing that was paid
for.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from random import Random

from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.core.events import Ended, Event, Judged, Notice, Planned, Progress
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole, Dialect, RunState
from stark_lsp.core.wire import WireError, from_wire, to_wire
from stark_lsp.runs import models, resumption
from stark_lsp.runs.choice import PLAYBOOK, REPLAY, ModelChoice, choose, parse
from stark_lsp.runs.options import RunOptions
from stark_lsp.search.randomness import dump_state
from stark_lsp.search.systems import find_system
from stark_lsp.store import RunStore, StoredRun
from stark_lsp.store.transcripts import Transcript
from stark_lsp.store.transcripts import read as read_transcript


class RunRecord:
    """One run, and who is told of it.

    Parameters
    ----------
    problem
        The class to optimize, with the text it stood in when the user asked.
    options
        What the user asked for.
    store
        Where run, nodes and verdicts are kept.
    emit
        Called on the event loop for each `core.events.Event`, in order.
    log
        Called with lines for the log: the worker's stderr, decisions, timings.
    """

    def __init__(
        self,
        problem: Problem,
        options: RunOptions,
        *,
        store: RunStore,
        emit: Callable[[Event], None],
        log: Callable[[str], None],
    ) -> None:
        parse(options.model)
        self._options = options
        self._store = store
        self._emit_outside = emit
        self._log = log
        self._choice = ModelChoice(PLAYBOOK)
        self._transcript: Transcript | None = None
        self._state = dump_state(Random(options.search.seed))
        self._attempts = 0
        self._search = replace(options.search, attempts=options.budget.attempts)
        self._agents = options.agents
        self._saving: set[asyncio.Task[None]] = set()
        self.resumed = False
        """Whether an earlier run was taken up."""
        self.nodes: dict[int, Node] = {}
        """The tree so far, by node id; confirmed verdicts included."""
        self.run = Run(
            id=secrets.token_hex(4),
            problem=problem,
            seed=options.search.seed,
            model=options.model,
            budget=options.budget,
            created=_now(),
            settings=to_wire(self._search),
            agents=to_wire(self._agents),
        )
        """The run as it stands now."""

    @property
    def id(self) -> str:
        """The run's id; changes once, when an earlier run is taken up."""
        return self.run.id

    @property
    def best(self) -> Node | None:
        """The node of the proposal, None if nothing faster was found (yet); of a run taken up, that of before."""
        return None if self.run.best is None else self.nodes.get(self.run.best)

    async def _choose(self) -> None:
        """Decide who answers, before there is anything to record."""
        self._choice = await choose(self._options.model, self._options.providers, self._tell)
        self.run = replace(self.run, model=self._choice.label)
        models.check(self._choice, find_system(self._options.search.system))
        if self._choice.kind != REPLAY:
            return
        transcript = await asyncio.to_thread(read_transcript, self._choice.argument)
        budget = self._options.budget
        if budget.attempts == Budget().attempts:  # nothing was asked for: all of the transcript
            budget = replace(budget, attempts=max(1, *(node.id for node in transcript.nodes)))
        self._transcript = transcript
        self.run = replace(
            self.run,
            seed=transcript.run.seed,
            budget=budget,
            settings=transcript.run.settings,
            agents=transcript.run.agents,
            notes=transcript.run.notes,
        )
        self._read_settings()
        self._state = dump_state(Random(transcript.run.seed))

    async def _earlier(self) -> StoredRun | None:
        """Return the unfinished run to take up, None if one is to be created."""
        if not self._options.resume:
            return None
        budget = resumption.with_default(self._options.budget, self._options.default_dollars)
        # What a transcript holds has an end of its own.
        more = None if self._choice.kind == REPLAY else budget
        one = self._options.run
        stored = await asyncio.to_thread(self._store.latest_resumable, self.run.problem, self.run.model, more, one)
        if one is not None and stored is None:
            raise BadInput(f"Run {one} cannot be gone on with any more.", cure="Optimize the class anew.")
        if stored is not None and one is None and _system(stored) != self._search.system:
            return None  # the user wants another search
        return stored

    async def _open_record(self, stored: StoredRun | None) -> None:
        """Step 1: create the run in the store or take an unfinished one up."""
        if stored is None:
            problem = self.run.problem
            itself = Candidate(problem.slice.text, Dialect.TORCH, problem.class_name)
            root = Node(0, None, AgentRole.ROOT, itself)
            self.nodes = {0: root}
            await asyncio.to_thread(self._store.create, self.run)
            await asyncio.to_thread(self._store.put_node, self.run.id, root, self._state)
            return
        self.resumed = True
        self.nodes = resumption.on_today(stored.nodes, stored.run.problem, self.run.problem)
        today = replace(self._search, system=_system(stored)), self._agents
        self.run = replace(
            stored.run,
            problem=self.run.problem,
            budget=self._options.budget,
            state=RunState.PREPARING,
            message="",
            finished="",
            ended_by=None,
        )
        self._read_settings()
        if self._choice.kind != REPLAY:
            self._take_settings(*today)
        self._state = stored.rng_state or self._state
        await asyncio.to_thread(self._store.update, self.run, self.nodes.values())
        done = sum(1 for node in self.nodes.values() if node.parent is not None and node.verdict is not None)
        self._emit(Progress(f"Going on with run {self.run.id}: {done} attempts are kept", done, self._budget()))

    def _take_settings(self, search: SearchSettings, agents: AgentSettings) -> None:
        """Let what the user changed since hold for a run that is taken up, and say what that is."""
        complete = self._options.complete
        stored, asked = self._search, self._agents
        # Its seed went into its state; how many attempts there may be is the budget's.
        search = replace(search, seed=stored.seed, attempts=stored.attempts)
        plain = SearchSettings(seed=stored.seed, attempts=stored.attempts)
        now = resumption.settings_now(stored, search, plain, complete=complete)
        then = resumption.settings_now(asked, agents, AgentSettings(), complete=complete)
        changed = (*resumption.differences(stored, now), *resumption.differences(asked, then))
        self._search, self._agents = replace(now, attempts=self._options.budget.attempts), then
        self.run = replace(self.run, settings=to_wire(self._search), agents=to_wire(then))
        if changed:
            self._tell(f"Changed since this run began: {', '.join(changed)}.")

    async def _record(self, node: Node, rng_state: str) -> None:
        self.nodes[node.id] = node
        self._state = rng_state
        # Also where the search is stopped right now: a write that has not begun would be dropped with it.
        putting = asyncio.ensure_future(asyncio.to_thread(self._store.put_node, self.run.id, node, rng_state))
        self._saving.add(putting)
        putting.add_done_callback(self._saved)
        await asyncio.shield(putting)

    async def _checkpoint(self, state: str) -> None:
        self._state = state
        await asyncio.to_thread(self._store.put_state, self.run.id, state)

    async def _save(self) -> None:
        await asyncio.to_thread(self._store.update, self.run)

    async def _end(self, state: RunState, message: str, *, shield_store: bool = False) -> None:
        if self._saving:  # an older state must not be written after this one
            await asyncio.wait(set(self._saving))
        self.run = replace(self.run, state=state, message=message, finished=_now())
        try:
            await asyncio.shield(self._save())
        except Fault as fault:
            # With `shield_store` the store may be what broke; the first error is the one to raise.
            if not shield_store:
                raise
            self._log(f"run {self.run.id}: its end could not be recorded: {fault}")
        self._emit(Ended(self.run))

    def _emit(self, event: Event) -> None:
        if isinstance(event, Planned):
            self._attempts = max(self._attempts, event.node)
        elif isinstance(event, Judged):
            self._attempts = max(self._attempts, event.node.id)
            verdict = event.node.verdict
            if verdict is not None:
                self._log(f"run {self.run.id}: node {event.node.id}: {verdict.status.value} {verdict.message}")
        self._emit_outside(event)

    def _tell(self, text: str) -> None:
        self._emit(Notice(text))

    def _rebudget(self, budget: Budget, heard: int) -> None:
        """Take the budget that holds now, and record it: who changes it from outside goes on from what is recorded."""
        self.run = replace(self.run, budget=budget, heard=heard)
        saving = asyncio.ensure_future(self._save())
        self._saving.add(saving)
        saving.add_done_callback(self._saved)

    def _saved(self, saving: asyncio.Task[None]) -> None:
        self._saving.discard(saving)
        if not saving.cancelled() and (error := saving.exception()) is not None:
            self._log(f"run {self.run.id}: a change of it could not be recorded: {error}")

    def _budget(self) -> int:
        return self.run.budget.attempts

    def _read_settings(self) -> None:
        """Take the settings that the run was recorded with; those of another version may not be readable."""
        try:
            self._search = from_wire(self.run.settings, SearchSettings)
            if self.run.agents:
                self._agents = from_wire(self.run.agents, AgentSettings)
        except WireError as error:
            self._log(f"run {self.run.id}: not all stored settings are readable, using today's: {error}")


def _system(stored: StoredRun) -> str:
    return str(stored.run.settings.get("system", "stark"))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
