"""Agents and a judge that answer by rule, for tests of the search."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from random import Random
from types import MappingProxyType

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.events import Event
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import InputSpec, Problem, SourceSlice, Span
from stark_lsp.core.roles import Context, Draft, NoCandidate, NothingToPropose
from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole, VerdictStatus
from stark_lsp.core.verdict import Baselines, Environment, Interval, Reference, Timing, Verdict
from stark_lsp.search.engine import Engine
from stark_lsp.search.policies import Policy, make_policy
from stark_lsp.search.proposers import make_proposer
from stark_lsp.search.seeds import SeededPolicy, SeededProposer, Seeds
from stark_lsp.search.tree import Tree, make_root

TEXT = "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n"
PROBLEM = Problem(
    path="/project/model.py",
    qualname="Model",
    text=TEXT,
    slice=SourceSlice(TEXT, (0, 1, 2, 3, 4)),
    class_span=Span(3, 4),
    inputs=InputSpec(),
)
REFERENCE = Reference(
    environment=Environment("a CPU", "cpu", "3.11", "/usr/bin/python3", "2.13"),
    baselines=Baselines(eager=Timing(10.0, 9.9, 10.1, 100)),
)
ROOT = make_root(PROBLEM, REFERENCE)


def ok(runtime_ms: float, *, weights_loaded: bool = True) -> Verdict:
    """Return the verdict of a candidate that takes so long."""
    timing = Timing(runtime_ms, runtime_ms, runtime_ms, 100)
    gain = REFERENCE.baselines.eager.median_ms / runtime_ms if runtime_ms else math.inf
    return Verdict(
        VerdictStatus.OK, runtime=timing, speedup_vs_eager=Interval(gain, gain, gain), weights_loaded=weights_loaded
    )


def failed(status: VerdictStatus = VerdictStatus.COMPILE_ERROR) -> Verdict:
    """Return the verdict of a candidate that does not work."""
    return Verdict(status, message="it does not work")


def node(node_id: int, parent: int, verdict: Verdict | None = None, source: str = "") -> Node:
    """Return a node made by the code agent."""
    return Node(
        node_id, parent, AgentRole.CODE, Candidate(source or f"# {node_id}"), Plan(f"plan {node_id}", "Do it."), verdict
    )


def tree_of(*nodes: Node) -> Tree:
    """Return a tree of the root and these."""
    return Tree(ROOT, nodes)


class Agents:
    """Answers as all three roles.

    Parameters
    ----------
    variety
        So many different candidates may come from one node; fewer make duplicates.
    dry_after
        A node with this many children has nothing more to propose.
    empty
        Percentage of attempts that leave nothing to judge, half of them for want of a plan.
    """

    def __init__(self, variety: int = 1000, dry_after: int = 1000, empty: int = 0) -> None:
        self.variety = variety
        self.dry_after = dry_after
        self.empty = empty
        self.contexts: list[tuple[str, Context]] = []

    def _give_up_now_and_then(self, rng: Random, percentage: float) -> None:
        if rng.random() < percentage / 100:
            raise NoCandidate("It declined.", text="I would rather not.")

    async def plan(self, context: Context, rng: Random) -> Plan:
        self.contexts.append(("plan", context))
        if len(context.siblings) >= self.dry_after:
            raise NothingToPropose(f"node {context.selected.id} is dry")
        self._give_up_now_and_then(rng, self.empty / 2)
        return Plan(title=f"idea {rng.randrange(self.variety)}", advice="Do it.")

    async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
        self.contexts.append(("code", context))
        self._give_up_now_and_then(rng, self.empty / 2)
        return Candidate(f"# {context.selected.id} {plan.title} {rng.randrange(self.variety)}")

    async def debug(self, context: Context, rng: Random) -> Candidate:
        self.contexts.append(("debug", context))
        if len(context.siblings) >= self.dry_after:
            raise NothingToPropose(f"node {context.selected.id} cannot be repaired")
        self._give_up_now_and_then(rng, self.empty)
        return Candidate(f"# repair {context.selected.id} {rng.randrange(self.variety)}")

    async def propose(self, context: Context, rng: Random) -> Draft:
        self.contexts.append(("solo", context))
        if len(context.siblings) >= self.dry_after:
            raise NothingToPropose(f"node {context.selected.id} is dry")
        self._give_up_now_and_then(rng, self.empty)
        return Draft(Candidate(f"# draft {context.selected.id} {rng.randrange(self.variety)}"))


class Correcting(Agents):
    """The same agents, which correct what fails early; now and then their corrections hold nothing."""

    async def correct(self, context: Context, failed: Node) -> Draft:
        self.contexts.append(("correct", context))
        number = failed.corrections + 1
        rng = Random(f"{failed.id} {number}")
        self._give_up_now_and_then(rng, self.empty)
        return Draft(Candidate(f"# correction {number} of {failed.id}: {rng.randrange(self.variety)}"))


class HashJudge:
    """Judges by the hash of the source: some fail, the others get a runtime between 1 and 20 ms."""

    def __init__(self, failing: int = 40, pause: Callable[[], float] | None = None) -> None:
        self.failing = failing
        self.pause = pause
        self.evaluated: list[str] = []
        self.glanced: list[str] = []

    async def evaluate(self, candidate: Candidate) -> Verdict:
        self.evaluated.append(candidate.source)
        if self.pause is not None:
            await asyncio.sleep(self.pause())
        digest = hashlib.sha256(candidate.source.encode()).digest()
        if digest[0] % 100 < self.failing:
            return failed()
        return ok(1.0 + digest[1] / 13)

    async def glance(self, candidate: Candidate) -> Verdict:
        self.glanced.append(candidate.source)
        if self.pause is not None:
            await asyncio.sleep(self.pause())
        digest = hashlib.sha256(f"quickly {candidate.source}".encode()).digest()
        return failed() if digest[0] % 100 < self.failing else ok(1.0 + digest[1] / 13)


class Tuning(Correcting):
    """The same agents, which leave a constant open; now and then what they declare cannot be used."""

    async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
        candidate = await super().code(context, plan, rng)
        return replace(candidate, source=f"A = 1  {candidate.source}\nTUNE = {{'A': {[*range(rng.randrange(9))]}}}\n")


class Recorder:
    """Keeps what the engine records and emits, in order."""

    def __init__(self) -> None:
        self.written: list[tuple[Node, str]] = []
        self.log: list[tuple[Node | None, str]] = []
        """What was written and the checkpoints between them, in order."""
        self.events: list[Event] = []

    async def record(self, written: Node, state: str) -> None:
        self.written.append((written, state))
        self.log.append((written, state))

    async def checkpoint(self, state: str) -> None:
        self.log.append((None, state))

    def emit(self, event: Event) -> None:
        self.events.append(event)


def make_engine(
    *,
    tree: Tree | None = None,
    settings: SearchSettings | None = None,
    agents: object | None = None,
    judge: object | None = None,
    recorder: Recorder | None = None,
    state: str = "",
    policy: Policy | None = None,
    log: Callable[[str], None] = lambda text: None,
    seeds: Seeds = MappingProxyType({}),
    clock: Callable[[], float] = lambda: 0.0,
) -> Engine:
    """Return an engine on scripted parts."""
    settings = settings or SearchSettings()
    recorder = recorder or Recorder()
    team: Agents = agents or Agents()  # type: ignore[assignment]
    return Engine(
        problem=PROBLEM,
        reference=REFERENCE,
        tree=tree or Tree(ROOT),
        settings=settings,
        proposer=SeededProposer(seeds, make_proposer(settings, plan=team, code=team, debug=team, solo=team)),
        judge=judge or HashJudge(),  # type: ignore[arg-type]
        rng=Random(settings.seed),
        emit=recorder.emit,
        record=recorder.record,
        checkpoint=recorder.checkpoint,
        state=state,
        policy=policy or SeededPolicy(seeds, make_policy(settings.policy, settings)),
        log=log,
        clock=clock,
    )
