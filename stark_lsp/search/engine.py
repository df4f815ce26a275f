"""The engine: Algorithm 1 of the paper, asynchronous, recorded, resumable.

For each attempt of the budget:

1. the policy selects node i (`policies`); with several attempts in flight, i carries a virtual loss;
2. if i failed, the debug agent repairs it and the child keeps i's plan; else the plan agent proposes
   and the code agent carries it out, each with a context window of its own (`windows`);
3. the child is added without a verdict and recorded;
4. the judge evaluates it, unless the same source was judged before, in which case it takes that verdict;
5. the verdict is recorded, then told.

Who owns what: the caller owns the budget of time (`stop`), the store (`record`) and the display (`emit`).
What can go wrong: an agent with nothing to propose exhausts the node; an agent that raises something
unexpected exhausts it too and counts as a fault; a `Fault` is tried again; `fault_limit` faults in a row
stop the search; `BadInput` and a failing `record` stop it at once. The tree is never lost.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import BadInput, StarkError
from stark_lsp.core.events import Event, Judged, Planned, Progress
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import Problem
from stark_lsp.core.roles import CodeAgent, Context, DebugAgent, Judge, NothingToPropose, PlanAgent
from stark_lsp.core.run import Node, Rejection
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole
from stark_lsp.core.verdict import Reference, Verdict
from stark_lsp.search.faults import FaultStreak
from stark_lsp.search.leaderboard import best
from stark_lsp.search.policies import make_policy
from stark_lsp.search.randomness import derive, dump_state, parse_state
from stark_lsp.search.tree import Tree
from stark_lsp.search.verdicts import VerdictBook
from stark_lsp.search.windows import code_window, debug_window, plan_window

Record = Callable[[Node, str], Awaitable[None]]


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
    plan, code, debug
        The agents.
    judge
        Evaluates candidates.
    rng
        The run's generator; the only source of chance.
    emit
        Is told each event, after what it tells is recorded.
    record
        Stores a node with the engine's state, twice for each attempt: when the candidate exists (the
        verdict is None), and with the verdict.
    rejections
        What the user turned down in earlier runs on this class.
    state
        The last state given to `record`, to go on exactly from there; it takes the place of `rng`'s state.

    Raises
    ------
    BadInput
        There is no policy of that name.
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
        plan: PlanAgent,
        code: CodeAgent,
        debug: DebugAgent,
        judge: Judge,
        rng: Random,
        emit: Callable[[Event], None],
        record: Record,
        rejections: Sequence[Rejection] = (),
        state: str = "",
    ) -> None:
        self.tree = tree
        self._problem = problem
        self._reference = reference
        self._settings = settings
        self._policy = make_policy(settings.policy, settings)
        self._plan = plan
        self._code = code
        self._debug = debug
        self._rng = rng
        self._emit = emit
        self._record = record
        self._rejections = tuple(rejections)
        self._exhausted: set[int] = set()
        self._why = ""
        if state:
            stored = parse_state(state)
            self._rng.setstate(stored.generator)
            self._exhausted.update(stored.exhausted)
            self._why = stored.why
        self._busy: Counter[int] = Counter()
        self._reserved: set[int] = set()
        self._faults = FaultStreak(settings.fault_limit)
        self._verdicts = VerdictBook(judge, tree.nodes.values())
        self._recording = asyncio.Lock()
        self._stopped: str | None = None

    @property
    def best(self) -> Node:
        """The best verified node so far; the root if none is better."""
        return best(self.tree)

    @property
    def attempts(self) -> int:
        """Attempts begun so far, those under way included."""
        return len(self.tree.nodes) - 1 + self._busy.total()

    def stop(self, reason: str) -> None:
        """Begin no new attempt; `run` returns `reason` once those under way are done."""
        if self._stopped is None:
            self._stopped = reason

    async def run(self) -> str:
        """Make attempts until the budget is used, nothing is left to try, or `stop` was called.

        Returns
        -------
        str
            Why the search ended, for a person.

        Raises
        ------
        Fault
            Too many faults in a row, or `record` failed. All recorded nodes stay in the tree.
        BadInput
            An agent or the judge found that the user must change something.
        """
        waiting = list(self.tree.pending)
        running: set[asyncio.Task[None]] = set()
        done: set[asyncio.Task[None]] = set()
        try:
            while True:
                while len(running) < self._settings.in_flight and self._stopped is None:
                    if waiting:
                        running.add(asyncio.create_task(self._finish(waiting.pop(0))))
                        continue
                    if self.attempts >= self._settings.attempts:
                        break
                    selected = self._policy.select(self.tree, self._rng, self._busy, self._exhausted)
                    if selected is None:
                        break
                    self._busy[selected] += 1
                    running.add(asyncio.create_task(self._attempt(self.tree.nodes[selected], derive(self._rng))))
                if not running:
                    return self._ending()
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, *done, return_exceptions=True)

    def _ending(self) -> str:
        if self._stopped is not None:
            return self._stopped
        if self.attempts >= self._settings.attempts:
            count = self._settings.attempts
            return "The one attempt was made." if count == 1 else f"All {count} attempts were made."
        if self._faults.open:
            raise self._faults.diagnosis()
        return f"Nothing is left to try. {self._why}".rstrip()

    async def _attempt(self, selected: Node, rng: Random) -> None:
        """Make one attempt on `selected`; its virtual loss lasts until the verdict is in."""
        reserved: list[int] = []
        node: Node | None = None
        try:
            node = await self._propose(selected, rng, reserved)
            if node is not None:
                self.tree.add(node)
        finally:
            self._release(selected.id, reserved)
        if node is not None:
            await self._store(node)
            await self._finish(node)

    async def _propose(self, selected: Node, rng: Random, reserved: list[int]) -> Node | None:
        """Ask the agents for a child of `selected`; None if there is none this time."""
        who = "The debug agent" if selected.failed else "The plan agent"
        attempt = self.attempts
        try:
            if selected.failed:
                self._say(f"Repairing attempt {selected.id}", attempt)
                window = debug_window(self.tree, selected.id, self._settings, rng)
                siblings = self.tree.siblings(selected.id)
                candidate = await self._debug.debug(self._context(selected, window, siblings), rng)
                return Node(self._reserve(reserved), selected.id, AgentRole.DEBUG, candidate, selected.plan)
            self._say("Planning", attempt)
            plan = await self._ask_plan(selected, rng)
            node_id = self._reserve(reserved)
            self._emit(Planned(node_id, selected.id, plan))
            who = "The code agent"
            self._say(f"Writing code: {plan.title}", attempt)
            window = code_window(self.tree, selected.id, self._settings, rng)
            context = self._context(selected, window, self.tree.children(selected.id))
            candidate = await self._code.code(context, plan, rng)
            return Node(node_id, selected.id, AgentRole.CODE, candidate, plan)
        except NothingToPropose as reason:
            self._exhausted.add(selected.id)
            self._why = str(reason)
        except BadInput:
            raise
        except StarkError as error:
            self._say(self._faults.note(who, error), attempt)
        except Exception as error:  # noqa: BLE001 - an agent's mistake is told and counted; it must not cost the tree
            self._exhausted.add(selected.id)
            self._say(self._faults.note(who, error), attempt)
        return None

    async def _ask_plan(self, selected: Node, rng: Random) -> Plan:
        window = plan_window(self.tree, selected.id, self._settings, rng)
        return await self._plan.plan(self._context(selected, window, self.tree.children(selected.id)), rng)

    async def _finish(self, node: Node) -> None:
        """Take the verdict of a node that has none, record it and tell it."""
        self._say(f"Checking attempt {node.id}", self.attempts)
        verdict = await self._judge(node.candidate)
        if verdict is None:
            return
        self._faults.reset()
        judged = Node(node.id, node.parent, node.role, node.candidate, node.plan, verdict)
        self.tree.replace(judged)
        await self._store(judged)
        self._emit(Judged(judged, leader=self.best.id == judged.id))

    async def _judge(self, candidate: Candidate) -> Verdict | None:
        """Return the verdict, after as many tries as faults allow; None if the search was stopped meanwhile."""
        while True:
            try:
                return await self._verdicts.verdict(candidate)
            except BadInput:
                raise
            except Exception as error:  # noqa: BLE001 - whatever breaks in the judge is told and counted
                self._say(self._faults.note("The judge", error), self.attempts)
                if self._stopped is not None:
                    return None

    async def _store(self, node: Node) -> None:
        """Record one node at a time, so that the stored state is never older than the stored nodes."""
        async with self._recording:
            await self._record(node, dump_state(self._rng, self._exhausted, self._why))

    def _context(self, selected: Node, window: tuple[Node, ...], siblings: tuple[Node, ...]) -> Context:
        return Context(self._problem, self._reference, selected, self.tree.root, window, siblings, self._rejections)

    def _say(self, text: str, attempt: int) -> None:
        self._emit(Progress(text, attempt, self._settings.attempts))

    def _reserve(self, reserved: list[int]) -> int:
        """Return the id of the next node and keep it from other attempts in flight."""
        node_id = max([self.tree.next_id(), *(taken + 1 for taken in self._reserved)])
        self._reserved.add(node_id)
        reserved.append(node_id)
        return node_id

    def _release(self, selected: int, reserved: Sequence[int]) -> None:
        self._reserved.difference_update(reserved)
        self._busy[selected] -= 1
        if self._busy[selected] <= 0:
            del self._busy[selected]
