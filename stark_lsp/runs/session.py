"""One run, from loading the reference to the proposal.

1. Create the run in the store, or take up an unfinished one (`runs.run_record`).
2. Prepare: the worker loads the reference, checks it and takes the baselines (`evaluation`).
3. Build the team that answers (`runs.models`); who that is was decided at the very start (`runs.choice`).
4. Search: Algorithm 1 (`search.engine`). Meanwhile what the user says to the run, wherever it was said, is followed
   (`runs.follower`).
5. Confirm: the leaders are timed once more in fresh processes, interleaved with eager and
   torch.compile, until one of them proves faster than eager (`runs.finalists`) and works inside the
   user's file (`runs.edited_file`).
6. End: the run is recorded, `Ended` is emitted, the worker is gone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace

from stark_lsp.core.errors import BadInput, Fault, StarkError
from stark_lsp.core.events import Event, Prepared, Progress
from stark_lsp.core.problem import Problem
from stark_lsp.core.profile_phrases import duration
from stark_lsp.core.run import Node, Run
from stark_lsp.core.status import Limit, RunState, VerdictStatus
from stark_lsp.core.steering import Course
from stark_lsp.core.verdict import Reference, Verdict
from stark_lsp.evaluation.lookup import find_interpreter
from stark_lsp.evaluation.pool import RunJudge, open_judges
from stark_lsp.runs import edited_file, models
from stark_lsp.runs.choice import PLAYBOOK, REPLAY
from stark_lsp.runs.finalists import Confirmed, confirm_best, faster_than_eager, gain_message
from stark_lsp.runs.options import RunOptions
from stark_lsp.runs.run_record import RunRecord
from stark_lsp.runs.sitting import Ending, Sitting
from stark_lsp.store import RunStore
from stark_lsp.store.paths import cache_dir

COMPILING_S = 60.0
"""Seconds that torch.compile is given behind a time limit, so that a proposal is compared with it."""


class RunSession(RunRecord):
    """One run and who watches it; parameters but the last as of `RunRecord`.

    Parameters
    ----------
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
        super().__init__(problem, options, store=store, emit=emit, log=log)
        self._document = document
        self._sitting: Sitting | None = None
        self._leaving = False

    @property
    def course(self) -> Course:
        """What all the user said to the run adds up to."""
        return Course() if self._sitting is None else self._sitting.course

    def steer(self) -> None:
        """See at once whether the user said something to the run; it is looked for twice a second in any case."""
        if self._sitting is not None:
            self._sitting.look()

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
        await self._choose()
        earlier = await self._earlier()
        try:
            opening = asyncio.ensure_future(self._open_record(earlier))
            try:
                await asyncio.shield(opening)
            finally:
                await opening  # a run that is cancelled meanwhile must be there to be recorded as cancelled
            await self._drive()
        except asyncio.CancelledError:
            if self.run.state is RunState.FINISHED:
                return self.run  # nothing was left to do but to close the judge
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
                await self._await_compiling(completing, ending)
            finally:
                completing.cancel()
            await self._propose(judge, ending)
        finally:
            if self._sitting is not None:
                self._sitting.close()
            closing = asyncio.ensure_future(judge.close())
            try:
                await asyncio.shield(closing)
            finally:
                await closing

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
            if self._sitting is not None:
                self._sitting.timed(reference)
            await self._save()
            eager, compiled = found.eager, found.compile or found.max_autotune
            if compiled is not None:
                times = [duration(1e3 * timing.median_ms) for timing in (compiled, eager)]
                self._tell(f"torch.compile takes {times[0]} a call, eager {times[1]}.")
            elif found.compile_message:
                self._tell(found.compile_message)

    async def _await_compiling(self, completing: asyncio.Task[None], ending: Ending) -> None:
        """Wait for torch.compile, which the proposal is compared with; not for long behind a time limit."""
        if not completing.done():
            self._notice("Waiting for torch.compile, to compare with it")
        behind = ending.limit is Limit.SECONDS
        done, _ = await asyncio.wait({completing}, timeout=COMPILING_S if behind else None)
        if not done:
            completing.cancel()
            self._tell(
                f"torch.compile was still at work {COMPILING_S:g} s after the time limit: it is not compared with."
            )
        await asyncio.gather(completing, return_exceptions=not done)

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
            reference=self.run.reference or reference,
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

        async def keep(node: Node) -> None:
            await self._record(node, self._state)

        mode = self._options.write_mode

        async def trouble(node: Node) -> str:
            assert mode is not None
            self._notice("Trying the edited file")
            return await edited_file.trouble(judge, self.run, node, mode, self._document(), self._tell)

        result: Confirmed = await confirm_best(
            judge, nodes, keep=keep, progress=self._notice, trouble=trouble if mode is not None else None
        )
        best, message = result.node, result.message
        # That of an earlier sitting stays, unless it was timed again just now: then it is another object by now.
        standing = self.best if best is None and self.best in nodes else None
        if standing is not None and faster_than_eager(standing.verdict) and not (mode and await trouble(standing)):
            best, message = standing, gain_message(standing)
        self.run = replace(self.run, best=best.id if best else None, ended_by=ending.limit)
        await self._end(RunState.FINISHED, f"{message} {ending.reason}".strip())

    def _notice(self, text: str) -> None:
        """Show what goes on, such as that the GPU is busy."""
        self._emit(Progress(text, self._attempts, self._budget()))
