"""Searches in simulated time: a clock that jumps to the next event, agents that take their time, kernels that build
on kernels.

The event loop's clock stands still while anything can run and then jumps to the next timer, so that half an hour of
waiting for models passes in milliseconds, the same way every time.

The landscape: a kernel is a set of improvements, each of which makes it faster by a factor. Improvements need others
first, so that a fast kernel can only be reached through its ancestors; the attempts to make one fail often, and what
failed may be repaired. The best kernel there is has all improvements.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from scripted import Recorder, failed, make_engine, ok

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import Context, Draft, NothingToPropose
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.verdict import Verdict
from stark_lsp.search.tree import Tree

PLAN_S, CODE_S, JUDGE_S = 20.0, 40.0, 5.0
T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting for a time, adds it to the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everything waits for something that never comes")
        self.now += max(0.0, timeout)
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the simulated seconds since the loop was made."""
        return self._jumping.now


def simulate(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """Run `work` to its end and return its result and the simulated seconds it took."""
    loop = SimulatedLoop()
    try:
        return loop.run_until_complete(work), loop.time()
    finally:
        loop.close()


@dataclass(frozen=True)
class Landscape:
    """One problem: which improvements there are and what they need."""

    gains: tuple[float, ...]
    """The runtime is multiplied by this for each improvement a kernel has."""
    needs: tuple[int | None, ...]
    """The improvement that one builds on."""
    bug: float
    """Probability that a new candidate fails."""

    @classmethod
    def draw(cls, seed: int, improvements: int, bug: float) -> Landscape:
        """Return a landscape of chains: most improvements need one before them."""
        rng = Random(seed)
        gains = tuple(rng.uniform(0.6, 0.95) for _ in range(improvements))
        needs = tuple(
            None if i == 0 or rng.random() < 0.2 else rng.randrange(max(0, i - 2), i) for i in range(improvements)
        )
        return cls(gains, needs, bug)

    @property
    def best_ms(self) -> float:
        """Runtime of the best kernel there is; the root's is 10 ms."""
        return 10.0 * math.prod(self.gains)

    def runtime_ms(self, have: frozenset[int]) -> float:
        """Return the runtime of a kernel with these improvements."""
        return 10.0 * math.prod(self.gains[i] for i in have)

    def possible(self, have: frozenset[int]) -> list[int]:
        """Return what could be added to a kernel."""
        return [i for i, need in enumerate(self.needs) if i not in have and (need is None or need in have)]


def improvements_of(source: str) -> frozenset[int]:
    """Return the improvements that a source has, also if it has a bug."""
    line = source.splitlines()[0] if source.startswith("# has") else "# has"
    return frozenset(int(word) for word in line.split()[2:])


class SlowAgents:
    """Take 20 s for a plan and 40 s for code, a repair or a draft."""

    def __init__(self, landscape: Landscape) -> None:
        self.landscape = landscape

    def _write(self, have: frozenset[int], rng: Random, chance: float) -> Candidate:
        bug = "\n# bug" if rng.random() < chance else ""
        return Candidate(f"# has {' '.join(map(str, sorted(have)))}{bug}\n# {rng.getrandbits(64)}")

    def _idea(self, context: Context, rng: Random) -> int:
        ideas = self.landscape.possible(improvements_of(context.selected.candidate.source))
        if not ideas:
            raise NothingToPropose("nothing is left to improve")
        return rng.choice(ideas)

    async def plan(self, context: Context, rng: Random) -> Plan:
        await asyncio.sleep(PLAN_S)
        return Plan(str(self._idea(context, rng)), "")

    async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
        await asyncio.sleep(CODE_S)
        have = improvements_of(context.selected.candidate.source)
        return self._write(have | {int(plan.title)}, rng, self.landscape.bug)

    async def debug(self, context: Context, rng: Random) -> Candidate:
        await asyncio.sleep(CODE_S)
        return self._write(improvements_of(context.selected.candidate.source), rng, self.landscape.bug)

    async def propose(self, context: Context, rng: Random) -> Draft:
        await asyncio.sleep(CODE_S)
        have = improvements_of(context.selected.candidate.source)
        new = have if context.selected.failed else have | {self._idea(context, rng)}
        return Draft(self._write(new, rng, self.landscape.bug))


class SlowJudge:
    """Takes 5 s, one candidate at a time."""

    def __init__(self, landscape: Landscape) -> None:
        self.landscape = landscape
        self._turn = asyncio.Lock()

    async def evaluate(self, candidate: Candidate) -> Verdict:
        async with self._turn:
            await asyncio.sleep(JUDGE_S)
        if "# bug" in candidate.source:
            return failed()
        return ok(self.landscape.runtime_ms(improvements_of(candidate.source)))


def search(landscape: Landscape, settings: SearchSettings) -> tuple[Tree, float]:
    """Return the tree of a search on the landscape, and the simulated seconds it took."""

    async def run() -> Tree:
        engine = make_engine(
            settings=settings, agents=SlowAgents(landscape), judge=SlowJudge(landscape), recorder=Recorder()
        )
        await engine.run()
        return engine.tree

    return simulate(run())
