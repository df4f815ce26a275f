"""The engine: Algorithm 1 of the paper, asynchronous, recorded, resumable, steered.

For each attempt of the budget:

1. the policy selects node i (`policies`), unless the user pinned one; with several attempts in flight, i carries a
   virtual loss;
2. the attempt gets its number and its seed and is recorded as begun (`attempts`), before anybody is asked;
3. the proposer makes a child of i (`proposers`), each agent with a context window of its own (`windows`); one that
   fails early is judged at once and corrected by its author, as often as the settings allow (`Desk.correct`);
4. the child is added without a verdict and recorded; one that holds nothing to judge has its verdict at once;
5. the judge evaluates it, unless the same source was judged before, in which case it takes that verdict; constants
   that a verified one leaves open are given the values that are fastest (`judging`, `sweep`);
6. the verdict is recorded, then told.

Who owns what: the caller owns the budget of time (`stop`), the store (`record`, `checkpoint`), the display (`emit`)
and what the user says (`steer`). What can go wrong: an agent with nothing to propose exhausts the node; a `Fault` is
tried again, in the same attempt; an agent that raises something unexpected, a mistake of our own, leaves an attempt
without anything to judge; `fault_limit` faults or mistakes of one part in a row stop the search, and so do more than
`empty_limit` attempts in a row that left nothing to judge; `BudgetSpent` begins nothing more; `BadInput` and a failing
`record` stop it at once. The tree is never lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from itertools import takewhile
from random import Random
from typing import Any

from stark_lsp.core.errors import BadInput, OnlyEmpty, StarkError
from stark_lsp.core.events import Event, Judged, Planned, Progress
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import Problem
from stark_lsp.core.roles import BudgetSpent, Context, Judge, NothingToPropose
from stark_lsp.core.run import Node, Rejection
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import Limit
from stark_lsp.core.steering import Course
from stark_lsp.core.verdict import Reference
from stark_lsp.search.attempts import Attempt, Attempts
from stark_lsp.search.desk import Desk
from stark_lsp.search.eligibility import Eligibility, Standing
from stark_lsp.search.faults import REPORT, FaultStreak, in_full
from stark_lsp.search.helm import Helm
from stark_lsp.search.judging import Judging
from stark_lsp.search.leaderboard import best
from stark_lsp.search.policies import Policy, Recorded, make_policy
from stark_lsp.search.proposers import Proposer
from stark_lsp.search.randomness import draw_seed, dump_state, parse_state
from stark_lsp.search.tree import Tree, is_empty

Record = Callable[[Node, str], Awaitable[None]]
Checkpoint = Callable[[str], Awaitable[None]]


class Engine:
    """One search on one problem.

    Parameters
    ----------
    problem, reference
        What is optimized, and what preparing it found out.
    tree
        The root alone for a new run; the stored nodes for a resumed one.
    settings
        Hyper-parameters; `settings.policy` names the policy.
    proposer
        Makes children; `proposers.make_proposer` knows the one of each system.
    judge
        Evaluates candidates.
    rng
        The run's generator; the only source of chance.
    emit
        Is told each event, after what it tells is recorded.
    record
        Stores a node with the engine's state: when the candidate exists (the verdict is None), and with the verdict.
    checkpoint
        Stores the engine's state alone, when an attempt begins.
    rejections
        What the user turned down in earlier runs on this class.
    state
        The last state that was stored, to go on exactly from there; it takes the place of `rng`'s state.
    policy
        Selects in the place of the one that the settings name, for instance `Recorded`.
    log
        Is told what caused a mistake of our own, with its traceback.
    clock
        Seconds, for what an attempt may take to be tuned; without one that is not limited.

    Raises
    ------
    BadInput
        There is no policy or system of that name.
    Fault
        `state` cannot be read.
    """

    def __init__(
        self,
        *,
        problem: Problem,
        reference: Reference,
        tree: Tree,
        settings: SearchSettings,
        proposer: Proposer,
        judge: Judge,
        rng: Random,
        emit: Callable[[Event], None],
        record: Record,
        checkpoint: Checkpoint,
        rejections: Sequence[Rejection] = (),
        state: str = "",
        policy: Policy | None = None,
        log: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.tree = tree
        self._problem = problem
        self.reference = reference
        """What agents are told of the reference; may be replaced while the search goes on."""
        self._settings = settings
        self._policy = policy or make_policy(settings.policy, settings)
        self._proposer = proposer
        self._rng = rng
        self._emit = emit
        self._record = record
        self._checkpoint = checkpoint
        self._log = log
        self._rejections = tuple(rejections)
        self._exhausted: set[int] = set()
        self._why = ""
        self._plans: dict[int, Plan] = {}
        """What attempts carry out, by number."""
        self._attempts = Attempts(tree)
        if state:
            stored = parse_state(state)
            self._rng.setstate(stored.generator)
            self._exhausted.update(stored.exhausted)
            self._why = stored.why
            self._attempts = Attempts(tree, stored.begun, stored.floor)
        self._waiting = list(self._attempts.open)
        self._helm = Helm(tree, settings.attempts)
        self._faults = FaultStreak(settings.fault_limit)
        self._mistakes = FaultStreak(settings.fault_limit, REPORT)
        self._judging = Judging(
            judge,
            tree.nodes.values(),
            settings,
            self._faults,
            say=self._say,
            stopped=lambda: self._stopped is not None,
            clock=clock,
        )
        self._unjudged = [*tree.pending, *(node for node in tree.nodes.values() if self._judging.untuned(node))]
        self._recording = asyncio.Lock()
        self._news = asyncio.Event()
        self._stopped: str | None = None
        self._stopped_by: Limit | None = None
        self._cut = False
        """Whether whoever still waits for an agent is to give up."""
        self._asking: set[asyncio.Task[Any]] = set()
        """Attempts that wait for an agent now."""
        self._spent: BudgetSpent | None = None

    @property
    def best(self) -> Node:
        """The best verified node so far; the root if none is better."""
        return best(self.tree)

    @property
    def attempts(self) -> int:
        """Attempts begun so far, those under way included."""
        return len(self.tree.nodes) - 1 + len(self._attempts.open)

    @property
    def ended_by(self) -> Limit | None:
        """For what nothing more is begun, None if something else is why."""
        if self._stopped is not None:
            return self._stopped_by
        if self._spent is not None:
            return self._spent.limit
        if self.attempts >= self._helm.attempts:
            return Limit.ATTEMPTS
        return None if isinstance(self._policy, Recorded) else Limit.IDEAS

    def stop(self, reason: str, by: Limit | None = None) -> None:
        """Begin no new attempt; `run` returns `reason` once those under way are done."""
        if self._stopped is None:
            self._stopped, self._stopped_by = reason, by
        self._news.set()

    def cut(self, reason: str, by: Limit) -> None:
        """Stop, and give up attempts that wait for an agent; what is being judged comes to its verdict."""
        self._cut = True
        self.stop(reason, by)

    def steer(self, course: Course) -> None:
        """Follow what the user said, from the next selection on; a run that goes on hears it at once.

        Parameters
        ----------
        course
            What all steering so far adds up to. A pinned node is selected as long as it may be expanded; pruned ones
            and all below them never are. Of the budget the attempts count here; a new budget lets a search go on that
            had spent the one before, if it has not ended yet. While it is paused, `run` begins nothing and does not
            end.
        """
        if course.budget != self._helm.course.budget:
            self._spent = None
        self._helm.steer(course)
        self._news.set()

    async def run(self) -> str:
        """Make attempts until the budget is used, nothing is left to try, or `stop` was called.

        Returns
        -------
        str
            Why the search ended, for a person.

        Raises
        ------
        Fault
            Too many faults or mistakes in a row, nothing but attempts without anything to judge (`OnlyEmpty`), or
            `record` failed. All recorded nodes stay in the tree.
        BadInput
            An agent or the judge found that the user must change something.
        """
        running: set[asyncio.Task[None]] = set()
        done: set[asyncio.Task[None]] = set()
        try:
            while True:
                self._news.clear()
                while len(running) < self._settings.in_flight:
                    work = self._next()
                    if work is None:
                        break
                    running.add(asyncio.create_task(work))
                if not running and not self._paused:
                    return self._ending()
                if self._cut:
                    for task in self._asking:
                        task.cancel()
                done, running = await _first_of(running, self._news)
                for task in done:
                    if not task.cancelled():
                        task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, *done, return_exceptions=True)

    @property
    def _paused(self) -> bool:
        return self._helm.course.paused and self._stopped is None

    def _next(self) -> Coroutine[Any, Any, None] | None:
        """Return what to begin now; None if that is nothing."""
        if self._stopped is not None or self._helm.course.paused:
            return None
        if self._unjudged:
            return self._finish(self._unjudged.pop(0))
        if self._spent is not None:
            return None
        if self._waiting:
            return self._attempt(self._waiting.pop(0))
        if self.attempts >= self._helm.attempts:
            return None
        number = self._attempts.free
        if isinstance(self._policy, Recorded):
            coming = {attempt.id for attempt in self._attempts.open}
            number = self._policy.number(number, lambda node: node in self.tree.nodes or node in coming) or number
        selected = self._select(number)
        if selected is None:
            return None
        return self._attempt(self._attempts.begin(selected, draw_seed(self._rng), number), new=True)

    def _select(self, number: int) -> int | None:
        pruned = self._helm.pruned
        closed = self._exhausted | pruned if pruned else self._exhausted
        standing = Standing(self.tree, self._attempts.busy, closed, number)
        pinned = self._helm.course.pinned
        if pinned in self.tree.nodes and Eligibility(standing, self._settings).may_expand(pinned):
            return pinned
        return self._policy.select(standing, self._rng)

    def _ending(self) -> str:
        if self._stopped is not None:
            return self._stopped
        if self._spent is not None:
            return str(self._spent)
        made, budget = self.attempts, self._helm.attempts
        if made > budget:
            return f"{made} attempts were made, with a budget of {budget}."
        if made == budget:
            return "The one attempt was made." if made == 1 else f"All {made} attempts were made."
        if isinstance(self._policy, Recorded):
            return "The transcript has no further attempt."
        left = ", apart from what was pruned" if self._helm.pruned else ""
        return f"Nothing is left to try{left}. {self._why}".rstrip()

    async def _attempt(self, attempt: Attempt, *, new: bool = False) -> None:
        """Make one attempt; its virtual loss lasts until the verdict is in."""
        if new:
            async with self._recording:
                await self._checkpoint(self._state())
        desk = Desk(
            attempt,
            self.tree,
            context=lambda window, tried: self._context(attempt, window, tried),
            asking=self._say,
            answered=self._worked,
            planned=lambda plan: self._tell_plan(attempt, plan),
        )
        node = await self._child(desk)
        if node is not None:
            await self._keep(attempt, node)

    async def _keep(self, attempt: Attempt, node: Node) -> None:
        """Put the node of an attempt into the tree and the record, with its verdict."""
        self.tree.add(node)
        self._attempts.end(attempt)
        self._helm.added(node.id)
        await self._store(node)
        if is_empty(node):
            self._emit(Judged(node, leader=False))
            self._stop_if_only_empty(node)
        else:
            await self._finish(node)

    async def _child(self, desk: Desk) -> Node | None:
        """Ask for the child, again after a fault; None if there is none (yet)."""
        attempt = desk.attempt
        while True:
            begun = self._faults.mark
            try:
                return await self._corrected(desk)
            except NothingToPropose as reason:
                self._worked(desk.who)
                if desk.made is not None:
                    return desk.made
                self._why = str(reason)
                replayed = isinstance(self._policy, Recorded)
                if not replayed:  # an answer that is missing says nothing of those of other attempts
                    self._exhausted.add(attempt.selected)
                self._attempts.end(attempt, burn=replayed or desk.plan is not None)
                return None
            except BudgetSpent as reason:
                # It stays among those under way: with more to spend, or in a resumed run, it goes on.
                self._spent = reason
                if desk.made is not None:
                    return desk.made
                self._waiting.append(attempt)
                return None
            except BadInput:
                raise
            except StarkError as error:
                self._say(self._faults.note(desk.who, error, begun=begun))
                if self._stopped is not None:
                    return None
            except Exception as error:  # noqa: BLE001 - a mistake is told and counted; it must not cost the tree
                where = f"attempt {attempt.id}, made from {attempt.selected}"
                self._log(f"{desk.who} failed in {where}:\n{in_full(error)}")
                await self._keep(attempt, desk.mistaken(error))
                self._say(self._mistakes.note(desk.who, error, "That attempt is given up."))
                return None

    async def _corrected(self, desk: Desk) -> Node | None:
        """Return the child, corrected by its author while it fails early; None if the search was stopped meanwhile.

        Until then the attempt stays under way: a resumed run makes it once more, from the answers that had arrived.
        """
        if desk.made is None:
            desk.made = await self._asked(self._proposer.child(desk))
            self._worked(desk.who)
        while desk.author is not None and desk.made.corrections < self._settings.corrections and self._stopped is None:
            verdict = await self._judging.first(desk.made)
            if verdict is None:
                return None
            if not verdict.status.early:
                break
            desk.made = await self._asked(desk.correct(replace(desk.made, verdict=verdict)))
            self._worked(desk.who)
        return desk.made

    async def _asked(self, answer: Coroutine[Any, Any, Node]) -> Node:
        """Return what an agent makes, unless the search is cut off meanwhile."""
        task = asyncio.current_task()
        assert task is not None
        self._asking.add(task)
        if self._cut:
            task.cancel()
        try:
            return await answer
        finally:
            self._asking.discard(task)

    def _worked(self, who: str) -> None:
        self._faults.worked(who)
        self._mistakes.worked(who)

    async def _finish(self, node: Node) -> None:
        """Take the verdict of a node that has none, or was not tuned, record it and tell it."""
        judged = await self._judging.judged(node, self._store)
        if judged is None:
            return
        self.tree.replace(judged)
        await self._store(judged)
        self._emit(Judged(judged, leader=self.best.id == judged.id))

    def _stop_if_only_empty(self, last: Node) -> None:
        """Stop when too many attempts in a row left nothing to judge; as a fault if nothing was verified before."""
        count = 0
        for node in self.tree.newest_first():
            if is_empty(node):
                count += 1
            elif node.verdict is not None:
                break
        if count <= self._settings.empty_limit:
            return
        reason = last.verdict.message if last.verdict is not None else ""
        text = f"{count} attempts in a row left nothing to judge, so the search stopped. The last time: {reason}"
        # Slower than the original is found as well: what was verified is confirmed, and told.
        found = any(node.parent is not None and node.verdict and node.verdict.ok for node in self.tree.newest_first())
        if not found:
            raise OnlyEmpty(text, cure="Choose another model, or change its settings, and resume the run.")
        self.stop(text, Limit.CANDIDATES)

    async def _store(self, node: Node) -> None:
        """Record one node at a time, so that the stored state is never older than the stored nodes."""
        async with self._recording:
            await self._record(node, self._state())

    def _state(self) -> str:
        return dump_state(self._rng, self._exhausted, self._why, self._attempts.open, self._attempts.floor)

    def _context(self, attempt: Attempt, window: tuple[Node, ...], tried: tuple[Node, ...]) -> Context:
        return Context(
            self._problem,
            self.reference,
            selected=self.tree.nodes[attempt.selected],
            root=self.tree.root,
            window=window,
            siblings=tried,
            rejections=self._rejections,
            made=tuple(self.tree.nodes[number] for number in sorted(self.tree.nodes)),
            under_way=tuple((one.id, self._plans[one.id]) for one in self._attempts.open if one.id in self._plans),
            attempt=attempt.id,
            ancestors=self.tree.ancestors(attempt.selected),
            stagnant=self._stagnant(),
            hints=self._helm.hints(attempt.selected),
            first_failure=self.tree.first_failure(attempt.selected),
            last_correct=self.tree.last_correct(attempt.selected) if self._settings.repair_help else None,
        )

    def _stagnant(self) -> int:
        """Return how many attempts with a verdict came after the best one."""
        best_id = self.best.id
        newer = takewhile(lambda node: node.id > best_id, self.tree.newest_first())
        return sum(node.verdict is not None for node in newer)

    def _tell_plan(self, attempt: Attempt, plan: Plan) -> None:
        self._plans[attempt.id] = plan
        self._emit(Planned(attempt.id, attempt.selected, plan))

    def _say(self, text: str) -> None:
        self._emit(Progress(text, self.attempts, self._helm.attempts))


async def _first_of(
    running: set[asyncio.Task[None]], news: asyncio.Event
) -> tuple[set[asyncio.Task[None]], set[asyncio.Task[None]]]:
    """Wait until a task is done or there is news; return which tasks are done and which are not."""
    heard = asyncio.create_task(news.wait())
    try:
        await asyncio.wait({*running, heard}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        heard.cancel()
        await asyncio.gather(heard, return_exceptions=True)
    done = {task for task in running if task.done()}
    return done, running - done
