"""Seeds: what is known before anybody is asked stands below the root first, for the agents to improve.

An extension of the paper. Attempt n of a run whose seeds hold n takes that seed as a child of the root; all others go
the usual way. So a resumed or replayed run, which numbers its attempts alike, has the same seeds at the same places.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from stark_lsp.core.roles import Draft
from stark_lsp.core.run import Node
from stark_lsp.core.status import AgentRole
from stark_lsp.search.desk import Desk
from stark_lsp.search.eligibility import Standing
from stark_lsp.search.policies import Policy
from stark_lsp.search.proposers import Proposer
from stark_lsp.search.tree import Tree

Seeds = Mapping[int, Draft]
"""By the number of the attempt."""
PLAYBOOK = "The playbook"


class SeededPolicy:
    """Selects the root for seeds, and lets another policy select for the rest."""

    def __init__(self, seeds: Seeds, then: Policy) -> None:
        self._seeds = seeds
        self._then = then

    def select(self, standing: Standing, rng: Random) -> int | None:
        """Return the node that attempt `standing.attempt` starts from."""
        if standing.attempt in self._seeds and standing.tree.root_id not in standing.closed:
            return standing.tree.root_id
        if standing.virtual_losses(standing.tree.root_id) and any(
            number < standing.attempt and not _judged(standing.tree, number) for number in self._seeds
        ):
            return None  # what comes of the seeds is what agents begin with; where attempts go side by side, they wait
        return self._then.select(standing, rng)


def _judged(tree: Tree, number: int) -> bool:
    node = tree.nodes.get(number)
    return node is not None and node.verdict is not None


class SeededProposer:
    """Hands out seeds, and asks another proposer for the rest."""

    def __init__(self, seeds: Seeds, then: Proposer) -> None:
        self._seeds = seeds
        self._then = then

    async def child(self, desk: Desk) -> Node:
        """Return the seed of this attempt, or what the other proposer makes."""
        seed = self._seeds.get(desk.attempt.id)
        if seed is None or desk.selected.id != desk.tree.root_id:
            return await self._then.child(desk)
        desk.ask(PLAYBOOK, AgentRole.CODE, "Taking what the playbook knows")
        if seed.plan is not None:
            desk.keep_plan(seed.plan)
        return desk.node(seed.candidate, seed.plan)
