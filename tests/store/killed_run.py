"""A run in a process of its own that is killed by SIGKILL at a chosen moment.

Arguments: store path, log of evaluations, moment (`none`, or NAME:COUNT for the COUNT-th time), and the id of
the process is left to the caller. A run that is in the store is gone on with, otherwise it is created.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "search"))

from scripted import PROBLEM, ROOT, HashJudge, Tuning, make_engine

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import RunState
from stark_lsp.core.verdict import Verdict
from stark_lsp.search.tree import Tree
from stark_lsp.store import RunStore, rows

SETTINGS = SearchSettings(attempts=8, seed=11, epsilon=0.6)


class Death:
    """Kills this process when the chosen moment comes."""

    def __init__(self, moment: str) -> None:
        self.name, _, count = moment.partition(":")
        self.left = int(count or 0)

    def at(self, name: str) -> None:
        if name == self.name:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


async def go_on(store: RunStore, log: Path, death: Death) -> None:
    """Make the run, or go on with it."""
    store.mark_interrupted()
    stored = store.latest_resumable(PROBLEM, "playbook")
    if stored is None:
        run, nodes, state = Run("r1", PROBLEM, SETTINGS.seed, "playbook", Budget(8)), [ROOT], ""
        store.create(run)
        store.put_node(run.id, ROOT)
    else:
        run, nodes, state = stored.run, list(stored.nodes.values()), stored.rng_state
    run = replace(run, state=RunState.RUNNING)
    store.update(run)

    class Logged(HashJudge):
        async def evaluate(self, candidate: Candidate) -> Verdict:
            verdict = await super().evaluate(candidate)
            death.at("evaluated")
            with log.open("a") as out:
                out.write(f"{candidate.source!r}\n")
            return verdict

        async def glance(self, candidate: Candidate) -> Verdict:
            death.at("glanced")
            return await super().glance(candidate)

    async def record(node: Node, rng_state: str) -> None:
        death.at("before-open" if node.verdict is None else "before-verdict")
        await asyncio.to_thread(store.put_node, run.id, node, rng_state)
        death.at("after-open" if node.verdict is None else "after-verdict")

    touch = rows.touch

    def touch_and_die(*arguments: object) -> None:
        death.at("in-transaction")
        touch(*arguments)  # type: ignore[arg-type]

    rows.touch = touch_and_die  # type: ignore[assignment]
    engine = make_engine(
        tree=Tree.from_nodes(nodes), settings=SETTINGS, agents=Tuning(3, 3), judge=Logged(), state=state
    )
    engine._record = record
    reason = await engine.run()
    store.update(replace(run, state=RunState.FINISHED, message=reason))


if __name__ == "__main__":
    asyncio.run(go_on(RunStore(sys.argv[1]), Path(sys.argv[2]), Death(sys.argv[3])))
