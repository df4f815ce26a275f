"""One attempt of a search on a real judge, by an author who writes one candidate."""

from __future__ import annotations

from random import Random

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import Problem
from stark_lsp.core.roles import Context
from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.verdict import Reference
from stark_lsp.evaluation.judge import WorkerJudge
from stark_lsp.search.engine import Engine
from stark_lsp.search.policies import make_policy
from stark_lsp.search.proposers import make_proposer
from stark_lsp.search.tree import Tree, make_root


class Author:
    """Writes one candidate."""

    def __init__(self, source: str) -> None:
        self.source = source

    async def plan(self, context: Context, rng: Random) -> Plan:
        return Plan("a kernel", "Write it.")

    async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
        return Candidate(self.source)

    async def debug(self, context: Context, rng: Random) -> Candidate:
        raise AssertionError


async def attempt(source: str, problem: Problem, reference: Reference, judge: WorkerJudge) -> Node:
    """Return what the search makes of a candidate in one attempt."""
    author, settings = Author(source), SearchSettings(attempts=1)

    async def record(node: Node, state: str) -> None: ...

    async def checkpoint(state: str) -> None: ...

    engine = Engine(
        problem=problem,
        reference=reference,
        tree=Tree(make_root(problem, reference)),
        settings=settings,
        proposer=make_proposer(settings, plan=author, code=author, debug=author),
        judge=judge,
        rng=Random(0),
        emit=lambda event: None,
        record=record,
        checkpoint=checkpoint,
        policy=make_policy("auto", settings),
    )
    await engine.run()
    return engine.tree.nodes[1]
