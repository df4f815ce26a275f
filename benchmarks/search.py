"""Bookkeeping of the search for one attempt in a large tree; the bound is 5 ms.

    python benchmarks/search.py [--nodes 10000] [--rounds 100] [--json OUT]

Measured is everything the engine does for one attempt besides waiting for agents, judge and store: the
selection, all windows of its role, the new node, its verdict, the leaderboard, the state as text. Agents and judge
answer at once. Every policy is tried in three shapes of tree, and again with everything exhausted, so that the
selection has to look at every node. The store is measured apart: one attempt is two transactions.

Times are CPU times of the thread, since other programs on the machine are not what is measured; for the store, which
waits for the disk, they are wall times.

Exits with 1 when the 95th percentile of the bookkeeping exceeds the bound.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import InputSpec, Problem, SourceSlice, Span
from stark_lsp.core.roles import Context
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole, VerdictStatus
from stark_lsp.core.verdict import Baselines, Environment, Reference, Timing, Verdict
from stark_lsp.search.eligibility import Standing
from stark_lsp.search.engine import Engine
from stark_lsp.search.policies import make_policy, policy_names
from stark_lsp.search.proposers import make_proposer
from stark_lsp.search.randomness import dump_state
from stark_lsp.search.tree import Tree, make_root
from stark_lsp.store import RunStore

BOUND_MS = 5.0
TEXT = "class Model(torch.nn.Module):\n    pass\n"
PROBLEM = Problem("/p/model.py", "Model", TEXT, SourceSlice(TEXT, (0, 1)), Span(0, 1), InputSpec())
REFERENCE = Reference(Environment("", "cpu", "", "", ""), Baselines(Timing(10.0, 9.0, 11.0, 100)))
PLAN = Plan("an idea", "What to do and why.")
SOURCE = "import torch\n" * 150
"""About as long as a real candidate."""


def verdict(rng: Random) -> Verdict:
    """Return a verdict; two in five fail."""
    if rng.random() < 0.4:
        return Verdict(VerdictStatus.COMPILE_ERROR, "it does not compile")
    runtime = rng.uniform(1.0, 20.0)
    return Verdict(VerdictStatus.OK, runtime=Timing(runtime, runtime, runtime, 100))


class Instant:
    """Agents and judge that answer at once."""

    def __init__(self) -> None:
        self.rng = Random(1)
        self.made = 0

    async def plan(self, context: Context, rng: Random) -> Plan:
        return PLAN

    async def code(self, context: Context, plan: Plan, rng: Random) -> Candidate:
        self.made += 1
        return Candidate(f"# benchmark {self.made}\n{SOURCE}")

    async def debug(self, context: Context, rng: Random) -> Candidate:
        return await self.code(context, PLAN, rng)

    async def evaluate(self, candidate: Candidate) -> Verdict:
        return verdict(self.rng)


def grow(count: int, parent: Callable[[int, Random], int]) -> Tree:
    """Return a tree with `count` nodes, each under the node that `parent` says."""
    rng = Random(7)
    tree = Tree(make_root(PROBLEM, REFERENCE))
    for node_id in range(1, count):
        source = Candidate(f"# {node_id}\n{SOURCE}")
        tree.add(Node(node_id, parent(node_id, rng), AgentRole.CODE, source, PLAN, verdict(rng)))
    return tree


SHAPES: dict[str, Callable[[int, Random], int]] = {
    "bushy": lambda node_id, rng: rng.randrange(max(0, node_id - 2000), node_id),
    "wide": lambda node_id, rng: 1 if node_id > 5 else 0,
    "deep": lambda node_id, rng: node_id - 1,
}


def attempts(tree: Tree, policy: str, rounds: int) -> list[float]:
    """Let the engine make attempts and return the milliseconds each took."""
    parts = Instant()
    marks = [time.thread_time()]

    async def record(node: Node, state: str) -> None:
        if node.verdict is not None:
            marks.append(time.thread_time())

    async def checkpoint(state: str) -> None:
        pass

    # `ma-only` is the system under which best-of-k has the most to look at.
    system = "ma-only" if policy == "best-of-k" else "stark"
    settings = SearchSettings(system=system, policy=policy, attempts=len(tree.nodes) - 1 + rounds)
    engine = Engine(
        problem=PROBLEM,
        reference=REFERENCE,
        tree=tree,
        settings=settings,
        proposer=make_proposer(settings, plan=parts, code=parts, debug=parts),
        judge=parts,
        rng=Random(3),
        emit=lambda event: None,
        record=record,
        checkpoint=checkpoint,
    )
    marks[0] = time.thread_time()
    asyncio.run(engine.run())
    return [1000.0 * (late - early) for early, late in itertools.pairwise(marks)]


def exhausted_selections(tree: Tree, name: str, rounds: int) -> list[float]:
    """Return the milliseconds of selections that look at every node and find none."""
    settings = SearchSettings()
    policy = make_policy(name, settings)
    policy.select(Standing(tree, {}, frozenset()), Random(0))  # sums are made at the first use
    rng, everything, taken = Random(3), frozenset(tree.nodes), []
    for _ in range(rounds):
        start = time.thread_time()
        if policy.select(Standing(tree, {}, everything), rng) is not None:
            raise AssertionError("an exhausted node was selected")
        taken.append(1000.0 * (time.thread_time() - start))
    return taken


def storing(tree: Tree, rounds: int) -> list[float]:
    """Return the milliseconds that storing one attempt takes (candidate, then verdict)."""
    taken = []
    with tempfile.TemporaryDirectory() as folder:
        store = RunStore(Path(folder) / "runs.sqlite3")
        store.create(Run("bench", PROBLEM, 0, "playbook", Budget()))
        state = dump_state(Random(0))
        for node in list(tree.nodes.values())[:rounds]:
            start = time.perf_counter()
            store.put_node("bench", Node(node.id, node.parent, node.role, node.candidate, node.plan), state)
            store.put_node("bench", node, state)
            taken.append(1000.0 * (time.perf_counter() - start))
        store.close()
    return taken


def main() -> int:
    """Measure, print a table, and say whether the bound holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()

    figures: dict[str, list[float]] = {}
    for shape, parent in SHAPES.items():
        for policy in policy_names():
            figures[f"{shape} tree, {policy}"] = attempts(grow(arguments.nodes, parent), policy, arguments.rounds)
        tree = grow(arguments.nodes, parent)
        for policy in policy_names():
            name = f"{shape} tree, all exhausted, {policy} (selection)"
            figures[name] = exhausted_selections(tree, policy, arguments.rounds)
    bounded = list(figures)
    figures["store, two transactions (no bound)"] = storing(tree, arguments.rounds)

    print(f"{arguments.nodes} nodes, {arguments.rounds} rounds, Python {platform.python_version()}, milliseconds")
    print(f"{'':52}{'median':>9}{'p95':>9}{'max':>9}")
    table = {}
    for name, taken in figures.items():
        p95 = sorted(taken)[max(0, round(0.95 * len(taken)) - 1)]
        table[name] = {"median_ms": statistics.median(taken), "p95_ms": p95, "max_ms": max(taken), "n": len(taken)}
        print(f"{name:52}{statistics.median(taken):9.3f}{p95:9.3f}{max(taken):9.3f}")
    held = all(table[name]["p95_ms"] <= BOUND_MS for name in bounded)
    print(f"bound {BOUND_MS} ms: {'held' if held else 'NOT held'}")
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"nodes": arguments.nodes, "bound_ms": BOUND_MS, "figures": table}, indent=2)
        )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
