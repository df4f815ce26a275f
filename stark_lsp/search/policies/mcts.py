"""Monte-Carlo tree search: upper confidence bounds for trees (UCT) with progressive widening and virtual losses.

From the root downwards, at each node i with N(i) visits:

1. i is expanded if it may be and has fewer than `WIDENING` * N(i) ** `EXPONENT` children (progressive widening: there
   are always more ideas than one could try, so a node gets further children only as it is visited);
2. else the search goes down to the child j with the largest

       V(j) / N(j) + EXPLORATION * sqrt(ln N(i) / N(j)),

   among those below which something may be expanded; ties go to the older one;
3. if there is no such child, i is expanded if it may be.

N counts the nodes of a subtree, V sums their values (`search/backup.py`: 0 for a failure, 1/2 for the root's runtime,
towards 1 with the speed-up). There are no random playouts: a verdict is the playout. An attempt in flight is a visit
of value 0 of each node above it until its verdict is in. Throttling and pruning hold as for every policy of the
search.

UCT: Kocsis and Szepesvari, Bandit based Monte-Carlo Planning (2006), https://doi.org/10.1007/11871842_29

Progressive widening: Coulom, Computing Elo Ratings of Move Patterns in the Game of Go (2007),
https://inria.hal.science/inria-00149859

Virtual losses: Chaslot et al., Parallel Monte-Carlo Tree Search (2008), https://doi.org/10.1007/978-3-540-87608-3_6
"""

from __future__ import annotations

import math
from collections import Counter
from random import Random

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.backup import SCALE
from stark_lsp.search.eligibility import Eligibility, Standing
from stark_lsp.search.policies.registry import register
from stark_lsp.search.tree import Tree

EXPLORATION = 0.5
"""Values of good nodes lie close together, between 1/2 and 1, and budgets are small: less than the usual sqrt(2)."""
WIDENING = 1.0
EXPONENT = 0.5


@register("mcts")
class MonteCarloTreeSearch:
    """The node at which the descent by upper confidence bounds ends."""

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings

    def select(self, standing: Standing, rng: Random) -> int | None:
        """Return the node at which the descent ends."""
        tree = standing.tree
        rules = Eligibility(standing, self._settings)
        losses = _losses(standing)
        path: list[_Descent] = []
        current: int | None = tree.root_id
        while current is not None:
            visits = tree.backup.visits[current] + losses.get(current, 0)
            if rules.may_expand(current) and self._has_room(standing, current, visits):
                return current
            path.append(_Descent(tree, current, losses))
            current = None
            while path and current is None:
                current = path[-1].next()
                if current is None:  # nothing below can be expanded: back up
                    above = path.pop().node_id
                    if rules.may_expand(above):
                        return above
        return None

    @staticmethod
    def _has_room(standing: Standing, node_id: int, visits: int) -> bool:
        children = standing.tree.counted_children(node_id) + standing.busy.get(node_id, 0)
        return children < WIDENING * float(visits**EXPONENT)


def upper_bound(values: int, visits: int, log_above: float) -> float:
    """Return the upper confidence bound of a child.

    Parameters
    ----------
    values
        V of the child, in multiples of 1 / `SCALE`.
    visits
        N of the child.
    log_above
        ln N of its parent.
    """
    return values / (SCALE * visits) + EXPLORATION * math.sqrt(log_above / visits)


def _losses(standing: Standing) -> Counter[int]:
    """Return for each node the attempts under way in its subtree that are not in the tree yet."""
    losses: Counter[int] = Counter()
    for node_id, count in standing.busy.items():
        current: int | None = node_id
        while current is not None:
            losses[current] += count
            current = standing.tree.nodes[current].parent
    return losses


class _Descent:
    """The children of one node, the one with the largest bound first."""

    def __init__(self, tree: Tree, node_id: int, losses: Counter[int]) -> None:
        self.node_id = node_id
        self._tree = tree
        self._losses = losses
        self._bounds: list[tuple[float, int]] | None = None
        self._sorted = False

    def next(self) -> int | None:
        """Return the next child to look below, None after the last."""
        if self._bounds is None:
            self._bounds = self._calculate()
            if not self._bounds:
                return None
            first = max(self._bounds)
            self._bounds.remove(first)
            return -first[1]
        if not self._sorted:  # seldom needed, so only done once it is
            self._bounds.sort()
            self._sorted = True
        return -self._bounds.pop()[1] if self._bounds else None

    def _calculate(self) -> list[tuple[float, int]]:
        tree, losses = self._tree, self._losses
        visits, values = tree.backup.visits, tree.backup.values
        log_above = math.log(visits[self.node_id] + losses.get(self.node_id, 0))
        return [
            (upper_bound(values[child], visits[child] + losses.get(child, 0), log_above), -child)
            for child in tree.child_ids(self.node_id)
            if visits.get(child) and tree.nodes[child].verdict is not None
        ]
