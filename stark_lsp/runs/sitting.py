"""The search of a run in this process: team, engine, limits, and what the user says meanwhile.

1. `models` builds the team that was chosen; what the run may cost is told before anything is asked.
2. The engine searches (`search.engine`), from where the stored nodes and state leave it.
3. What the user says is followed (`follower`): the engine gets the course, the purse and the time limit their budgets.
4. It ends by itself, by the time limit, or with the task that awaits it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from random import Random

from stark_lsp.core.conversation import Spend
from stark_lsp.core.errors import BadInput
from stark_lsp.core.events import Event, Notice, Outlook, Progress, Spent
from stark_lsp.core.run import Budget, Rejection
from stark_lsp.core.status import Limit
from stark_lsp.core.steering import Course, Steering, SteeringKind
from stark_lsp.core.verdict import Reference
from stark_lsp.evaluation.pool import RunJudge
from stark_lsp.runs import models
from stark_lsp.runs.follower import SteeringFollower
from stark_lsp.runs.journal import StoreJournal
from stark_lsp.runs.time_limit import TimeLimit
from stark_lsp.search.engine import Checkpoint, Engine, Record
from stark_lsp.search.policies import Policy, Recorded, make_policy
from stark_lsp.search.proposers import make_proposer
from stark_lsp.search.seeds import SeededPolicy, SeededProposer
from stark_lsp.search.tree import Tree
from stark_lsp.store import RunStore


@dataclass(frozen=True)
class Ending:
    """Why a search ended."""

    reason: str
    """For a person."""
    limit: Limit | None
    """What ended it, in one word; None if there is none for it."""


class Sitting:
    """One sitting of one run.

    Parameters
    ----------
    begun
        Where the search stands, and what the user asked for.
    store
        Where exchanges are kept and steering is found.
    judge
        Evaluates candidates, and analyses the reference.
    emit
        Told each event.
    record, checkpoint
        See `search.engine`.
    on_budget
        Told the budget that holds from now on, and the number of the last steering that was followed.
    log
        Told lines for the log.
    """

    def __init__(
        self,
        begun: models.Begun,
        *,
        store: RunStore,
        judge: RunJudge,
        emit: Callable[[Event], None],
        record: Record,
        checkpoint: Checkpoint,
        on_budget: Callable[[Budget, int], None],
        log: Callable[[str], None],
    ) -> None:
        self._begun = begun
        self._reference = begun.reference
        self._store = store
        self._judge = judge
        self._emit = emit
        self._record = record
        self._checkpoint = checkpoint
        self._on_budget = on_budget
        self._log = log
        self._budget = begun.run.budget
        self._said_budget: Budget | None = None
        self._engine: Engine | None = None
        self._following: asyncio.Future[None] | None = None
        self._over = False
        self._team = models.Team()
        self._limit = TimeLimit(self._budget.seconds, time.monotonic)
        self._follower = SteeringFollower(store, begun.run.id, self._heed, log, begun.run.heard)

    @property
    def course(self) -> Course:
        """What all the user said adds up to."""
        return self._follower.course

    def look(self) -> None:
        """See at once whether the user said something."""
        self._follower.look()

    @property
    def given_up(self) -> Set[int]:
        """Attempts that the user gave up, with all below them."""
        return frozenset() if self._engine is None else self._engine.tree.given_up

    async def search(self) -> Ending:
        """Search and return why it ended.

        Raises
        ------
        BadInput
            The user must change something: a key, a template, a setting.
        Fault
            Something broke again and again; all that was made is stored.
        """
        await self._follower.catch_up()
        await self._take_pause_back()
        spend = await asyncio.to_thread(self._store.exchanges.spend, self._begun.run.id)
        rejections = await asyncio.to_thread(self._store.rejections, self._begun.run.problem.key)
        self._team = await models.build(self._setting(spend, rejections))
        try:
            if self._team.budget is not None and self._begun.transcript is None:
                self._budget = self._team.budget
                self._on_budget(self._budget, self._follower.heard)
            if self._team.outlook:
                self._emit(Outlook(self._team.outlook))
            if spend.calls:
                self._emit(Spent(spend))
            self._engine = self._make_engine(rejections)
            self._engine.steer(replace(self._follower.course, budget=self._budget))
            self._limit = TimeLimit(self._budget.seconds, time.monotonic)
            self._limit.pause(self._follower.course.paused)
            return await self._run(self._engine)
        finally:
            if self._team.model is not None:
                await asyncio.shield(self._team.model.close())

    def close(self) -> None:
        """Follow what the user says no longer."""
        if self._following is not None:
            self._following.cancel()

    async def _take_pause_back(self) -> None:
        """Go on with a run that was paused when an earlier sitting ended: whoever starts it wants it to go on."""
        if not self._follower.course.paused:
            return
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        going_on = Steering(SteeringKind.RESUME, attempt=len(self._begun.nodes) - 1, when=now)
        await asyncio.to_thread(self._store.steerings.add, self._begun.run.id, going_on)
        await self._follower.catch_up()
        self._emit(Notice("The run was paused; it goes on now."))

    def timed(self, reference: Reference) -> None:
        """Take in what the reference takes under torch.compile: agents are told from now on."""
        self._reference = reference
        if self._engine is not None:
            self._engine.reference = reference

    def _setting(self, spend: Spend, rejections: tuple[Rejection, ...]) -> models.Setting:
        begun, run_id = self._begun, self._begun.run.id
        return models.Setting(
            begun=begun,
            judge=self._judge,
            journal=StoreJournal(self._store, run_id),
            budget=self._budget,
            spend=spend,
            rejections=rejections,
            on_spend=lambda now: self._emit(Spent(now)),
            say=lambda text: self._emit(Progress(text, 0, self._budget.attempts)),
            find=lambda number: None if self._engine is None else self._engine.tree.nodes.get(number),
            log=self._log,
        )

    def _make_engine(self, rejections: tuple[Rejection, ...]) -> Engine:
        begun, team = self._begun, self._team
        tree = Tree.from_nodes(begun.nodes.values())
        settings = replace(begun.search, attempts=self._budget.attempts)
        proposer = make_proposer(settings, plan=team.plan, code=team.code, debug=team.debug, solo=team.solo)
        policy: Policy = SeededPolicy(team.seeds, make_policy(settings.policy, settings))
        if begun.transcript is not None:
            parents = {node.id: node.parent for node in begun.transcript.nodes if node.parent is not None}
            policy = Recorded(parents, policy)
        return Engine(
            problem=begun.run.problem,
            reference=self._reference,
            tree=tree,
            settings=settings,
            proposer=SeededProposer(team.seeds, proposer),
            judge=self._judge,
            rng=Random(begun.run.seed),
            emit=self._emit,
            record=self._record,
            checkpoint=self._checkpoint,
            rejections=rejections,
            state=begun.state,
            policy=policy,
            log=lambda text: self._log(f"run {begun.run.id}: {text}"),
            clock=time.monotonic,
        )

    async def _run(self, engine: Engine) -> Ending:
        """Run the engine beside the follower and the time limit."""
        search = asyncio.ensure_future(engine.run())
        # Until the run ends: what is said while finalists are timed is answered as well.
        self._following = asyncio.ensure_future(self._follower.follow())
        limit = asyncio.ensure_future(self._limit.reached())
        try:
            await asyncio.wait({search, limit}, return_when=asyncio.FIRST_COMPLETED)
            if not search.done():
                # What waits for an agent is given up and stored, so that a resumed run goes on with it.
                engine.cut(f"The time limit of {self._limit.seconds:g} s was reached.", Limit.SECONDS)
            reason = await search
            self._log_differing()
            return Ending(reason, engine.ended_by)
        finally:
            self._over = True
            for task in (search, limit):
                task.cancel()
            await asyncio.gather(search, limit, return_exceptions=True)

    def _log_differing(self) -> None:
        """Note how far the questions of a replay were the transcript's; measured times alone make them differ."""
        differing = getattr(self._team.model, "differing", None)
        if differing is not None:
            self._log(f"run {self._begun.run.id}: {differing} questions differed from the transcript's")

    def _heed(self, course: Course, fresh: tuple[Steering, ...]) -> None:
        """Follow what the user said."""
        if self._over:
            self._emit(Notice("The search is over, so this changes nothing any more: the best candidates are timed."))
            return
        if course.budget is not None:
            if course.budget != self._said_budget:
                self._said_budget = course.budget
                self._take_budget(course.budget)
            course = replace(course, budget=self._budget)
        self._limit.pause(course.paused)
        if self._engine is None:
            return  # said before the search begins, or in an earlier sitting
        self._engine.steer(course)
        for steering in fresh:
            self._emit(Notice(spoken(steering)))

    def _take_budget(self, budget: Budget) -> None:
        """Let another budget hold; a limit of money that cannot be held stays as it was."""
        purse = self._team.purse
        if purse is not None and self._begun.transcript is None:
            before = self._budget
            purse.change(budget)
            try:
                purse.check(self._team.names)
            except BadInput as error:
                self._emit(Notice(str(error)))
                budget = replace(budget, dollars=before.dollars)
                purse.change(budget)
        self._budget = budget
        self._limit.change(budget.seconds)
        self._on_budget(budget, self._follower.heard)


def spoken(steering: Steering) -> str:
    """Return a sentence on what was said to a run."""
    kind, node = steering.kind, steering.node
    where = f"attempt {node}" if node else "the original class"
    budget = steering.budget
    words = {
        SteeringKind.PIN: f"Going on from {where} as long as possible.",
        SteeringKind.UNPIN: "The search chooses again where to go on.",
        SteeringKind.PRUNE: f"Giving up {where} and what came of it.",
        SteeringKind.RESTORE: f"Taking {where} up again.",
        SteeringKind.HINT: "Your hint will be in the next question" + (f" about {where}." if node is not None else "."),
        SteeringKind.BUDGET: f"The budget is {_budget(budget)} now." if budget is not None else "",
        SteeringKind.PAUSE: "Paused: what is under way is finished, nothing new is begun.",
        SteeringKind.RESUME: "Going on.",
    }
    return words[kind]


def _budget(budget: Budget) -> str:
    parts = ["1 attempt" if budget.attempts == 1 else f"{budget.attempts} attempts"]
    if budget.seconds is not None:
        parts.append(f"{budget.seconds:g} s")
    if budget.tokens is not None:
        parts.append(f"{budget.tokens:,} tokens")
    if budget.dollars is not None:
        parts.append(f"${budget.dollars:.2f}")
    return ", ".join(parts)
