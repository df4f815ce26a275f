"""One run, from loading the reference to the proposal.

1. Create the run in the store, or take up the newest unfinished one on the same class (or the one that was named).
2. Prepare: the worker loads the reference, checks it and takes the baselines (`evaluation`).
3. Build the team that answers (`runs.models`); who that is was decided at the very start (`runs.choice`).
4. Search: Algorithm 1 (`search.engine`); every answer, candidate and verdict goes to the store before anyone
   uses it, so that a kill at any point loses nothing that was paid for. Meanwhile what the user says to the run,
   wherever it was said, is followed (`runs.follower`).
5. Confirm: the leaders are timed once more in fresh processes, interleaved with eager and
   torch.compile, until one of them proves faster than eager (`runs.finalists`) and works inside the
   user's file (`runs.edited_file`).
6. End: the run is recorded, `Ended` is emitted, the worker is gone.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from typing import Any

from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import BadInput, Fault, StarkError
from stark_lsp.core.events import Ended, Event, Judged, Notice, Planned, Prepared, Progress
from stark_lsp.core.problem import Problem
from stark_lsp.core.profile_phrases import duration
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole, Dialect, RunState, VerdictStatus
from stark_lsp.core.steering import Course
from stark_lsp.core.verdict import Reference, Verdict
from stark_lsp.core.wire import WireError, from_wire, to_wire
from stark_lsp.evaluation.lookup import find_interpreter
from stark_lsp.evaluation.pool import RunJudge, open_judges
from stark_lsp.runs import edited_file, models, resumption
from stark_lsp.runs.choice import PLAYBOOK, REPLAY, ModelChoice, choose, parse
from stark_lsp.runs.finalists import Confirmed, confirm_best, faster_than_eager, gain_message
from stark_lsp.runs.options import RunOptions
from stark_lsp.runs.sitting import Ending, Sitting
from stark_lsp.search.randomness import dump_state
from stark_lsp.search.systems import find_system
from stark_lsp.store import RunStore
from stark_lsp.store.paths import state_dir
from stark_lsp.store.transcripts import Transcript
from stark_lsp.store.transcripts import read as read_transcript


class RunSession:
    """One run and who watches it.

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
    document
        Returns the document's text of the moment, None if it is gone; without it, it is as when the run began.
    """

    def __init__(
        self,
        problem: Problem,
        options: RunOptions,
        *,
        store: RunStore,
        emit: Callable[[Event], None],
        log: Callable[[str], None],
        document: Callable[[], str | None] = lambda: None,
    ) -> None:
        parse(options.model)
        self._document = document
        self._options = options
        self._store = store
        self._emit_outside = emit
        self._log = log
        self._task: asyncio.Task[Any] | None = None
        self._sitting: Sitting | None = None
        self._choice = ModelChoice(PLAYBOOK)
        self._transcript: Transcript | None = None
        self._state = dump_state(Random(options.search.seed))
        self._attempts = 0
        self._search = replace(options.search, attempts=options.budget.attempts)
        self._agents = options.agents
        self._leaving = False
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

    @property
    def course(self) -> Course:
        """What all the user said to the run adds up to."""
        return Course() if self._sitting is None else self._sitting.course

    def steer(self) -> None:
        """See at once whether the user said something to the run; it is looked for twice a second in any case."""
        if self._sitting is not None:
            self._sitting.look()

    def cancel(self) -> None:
        """Stop the run; `execute` ends within a second with the run recorded as cancelled."""
        if self._task is not None:
            self._task.cancel()

    def leave(self) -> None:
        """Have a cancel that follows recorded as an interruption: the program ends, and nobody asked for that."""
        self._leaving = True

    async def execute(self) -> Run:
        """Drive the run to its end and return it.

        Raises
        ------
        BadInput
            The user's class or options cannot be used; recorded as `FAILED`.
        Fault
            Something outside the user's code broke; recorded as `FAILED`, resumable.
        asyncio.CancelledError
            The run was cancelled; recorded as `CANCELLED`, or as `INTERRUPTED` after `leave`, resumable.
        """
        self._task = asyncio.current_task()
        await self._choose()
        try:
            opening = asyncio.ensure_future(self._open_record())
            try:
                await asyncio.shield(opening)
            finally:
                await opening  # a run that is cancelled meanwhile must be there to be recorded as cancelled
            await self._drive()
        except asyncio.CancelledError:
            if self._leaving:
                await self._end(RunState.INTERRUPTED, "The editor ended before the run did.")
            else:
                await self._end(RunState.CANCELLED, "Cancelled. Optimize the class again to go on from here.")
            raise
        except StarkError as error:
            await self._end(RunState.FAILED, str(error), shield_store=True)
            raise
        except Exception as error:
            await self._end(RunState.FAILED, f"Something unexpected broke: {error!r}", shield_store=True)
            raise
        return self.run

    # --- the steps ---------------------------------------------------------------------------------

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

    async def _open_record(self) -> None:
        """Step 1: create the run in the store or take an unfinished one up."""
        stored = None
        if self._options.resume:
            budget = resumption.with_default(self._options.budget, self._options.default_dollars)
            # What a transcript holds has an end of its own.
            more = None if self._choice.kind == REPLAY else budget
            one = self._options.run
            stored = await asyncio.to_thread(self._store.latest_resumable, self.run.problem, self.run.model, more, one)
            if one is not None and stored is None:
                raise BadInput(f"Run {one} cannot be gone on with any more.", cure="Optimize the class anew.")
        system = stored.run.settings.get("system", "stark") if stored is not None else ""
        if stored is not None and self._options.run is None and system != self._search.system:
            stored = None  # the user wants another search
        if stored is None:
            root = Node(0, None, AgentRole.ROOT, _reference_candidate(self.run.problem))
            self.nodes = {0: root}
            await asyncio.to_thread(self._store.create, self.run)
            await asyncio.to_thread(self._store.put_node, self.run.id, root, self._state)
            return
        self.resumed = True
        self.nodes = resumption.on_today(stored.nodes, stored.run.problem, self.run.problem)
        today = replace(self._search, system=system), self._agents
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

    async def _drive(self) -> None:
        """Steps 2 to 6, with the worker gone at the end whatever happens."""
        found = find_interpreter(self._options.interpreter, self.run.problem.path, (os.getcwd(),))
        self._log(f"run {self.run.id}: {self.run.problem.key} with {found}")
        for text in found.passed_over:
            self._tell(text)
        self._emit(Progress("Loading the class and its inputs", 0, self._budget()))
        judge = await open_judges(
            self.run.problem,
            interpreter=found.path,
            settings=self._options.evaluation,
            cache_dir=cache_dir(),
            log=self._log,
            notice=self._notice,
            in_flight=self._search.in_flight,
        )
        try:
            kind = self._choice.kind
            reference = await judge.prepare(
                lambda text: self._emit(Progress(text, 0, self._budget())),
                writing=kind == PLAYBOOK or (kind != REPLAY and self._agents.playbook),
            )
            await self._take_notes(reference)
            self.run = replace(self.run, reference=reference, state=RunState.RUNNING)
            await self._record_root(reference)
            self._emit(Prepared(reference))
            self._emit(Progress("Analysing the reference", 0, self._budget()))
            completing = asyncio.create_task(self._complete_baselines(judge, reference))
            try:
                ending = await self._sit(judge, reference)
                await completing
            finally:
                completing.cancel()
            await self._propose(judge, ending)
        finally:
            if self._sitting is not None:
                self._sitting.close()
            await asyncio.shield(judge.close())

    async def _take_notes(self, reference: Reference) -> None:
        """Take along what earlier runs left: once, with the first look at the reference; then they stay as they are."""
        if self.run.reference is not None or self._choice.kind == REPLAY or not self._agents.notes:
            return
        notes = await asyncio.to_thread(self._store.notes.similar, self.run.problem, reference, self.run.id)
        self.run = replace(self.run, notes=notes)
        if notes:
            kept = "1 note" if len(notes) == 1 else f"{len(notes)} notes"
            ids = ", ".join(note.id for note in notes)
            self._tell(f"Taking along {kept} of earlier runs on similar classes ({ids}); `stark-lsp notes` has them.")

    async def _complete_baselines(self, judge: RunJudge, reference: Reference) -> None:
        """Have torch.compile timed beside the search; the proposal is compared with it."""
        try:
            found = await judge.baselines()
        except (Fault, BadInput) as error:
            self._log(f"torch.compile was not timed: {error}")
            return
        if found != reference.baselines:
            reference = replace(reference, baselines=found)
            self.run = replace(self.run, reference=reference)
            await self._save()
            eager, compiled = found.eager, found.compile or found.max_autotune
            if compiled is not None:
                times = [duration(1e3 * timing.median_ms) for timing in (compiled, eager)]
                self._tell(f"torch.compile takes {times[0]} a call, eager {times[1]}.")
            elif found.compile_message:
                self._tell(found.compile_message)

    async def _record_root(self, reference: Reference) -> None:
        eager = reference.baselines.eager
        root = replace(
            self.nodes[0],
            verdict=Verdict(VerdictStatus.OK, "the reference", runtime=eager, environment=reference.environment),
        )
        self.nodes[0] = root
        await asyncio.to_thread(self._store.put_node, self.run.id, root, self._state)
        await self._save()

    async def _sit(self, judge: RunJudge, reference: Reference) -> Ending:
        """Steps 3 and 4; return why the search ended."""
        begun = models.Begun(
            run=self.run,
            reference=reference,
            nodes=self.nodes,
            state=self._state,
            choice=self._choice,
            search=self._search,
            agents=self._agents,
            options=self._options,
            transcript=self._transcript,
        )
        self._sitting = Sitting(
            begun,
            store=self._store,
            judge=judge,
            emit=self._emit,
            record=self._record,
            checkpoint=self._checkpoint,
            on_budget=self._rebudget,
            log=self._log,
        )
        return await self._sitting.search()

    async def _propose(self, judge: RunJudge, ending: Ending) -> None:
        """Step 5 and 6: confirm the best node that was not given up, and end the run."""
        given_up = frozenset[int]() if self._sitting is None else self._sitting.given_up
        nodes = [node for node in self.nodes.values() if node.id != 0 and node.id not in given_up]

        def progress(text: str) -> None:
            self._emit(Progress(text, self._attempts, self._budget()))

        async def keep(node: Node) -> None:
            await self._record(node, self._state)

        mode = self._options.write_mode

        async def trouble(node: Node) -> str:
            assert mode is not None
            progress("Trying the edited file")
            return await edited_file.trouble(judge, self.run, node, mode, self._document(), self._tell)

        result: Confirmed = await confirm_best(
            judge, nodes, keep=keep, progress=progress, trouble=trouble if mode is not None else None
        )
        best, message = result.node, result.message
        # That of an earlier sitting stays, unless it was timed again just now: then it is another object by now.
        standing = self.best if best is None and self.best in nodes else None
        if standing is not None and faster_than_eager(standing.verdict) and not (mode and await trouble(standing)):
            best, message = standing, gain_message(standing)
        self.run = replace(self.run, best=best.id if best else None, ended_by=ending.limit)
        await self._end(RunState.FINISHED, f"{message} {ending.reason}".strip())

    # --- helpers -----------------------------------------------------------------------------------

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

    def _notice(self, text: str) -> None:
        """Show what the judge says while it works, such as that the GPU is busy."""
        self._emit(Progress(text, self._attempts, self._budget()))

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


def cache_dir() -> Path:
    """Where builds are kept between runs."""
    return state_dir() / "builds"


def _reference_candidate(problem: Problem) -> Candidate:
    return Candidate(problem.slice.text, Dialect.TORCH, problem.class_name)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
