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
from collections.abc import Mapping, Set
from random import Random

from stark_lsp.core.settings import SearchSettings
from stark_lsp.search.backup import SCALE
from stark_lsp.search.eligibility import Eligibility, Standing
from stark_lsp.search.tree import Tree

EXPLORATION = 0.5
"""Values of good nodes lie close together, between 1/2 and 1, and budgets are small: less than the usual sqrt(2)."""
WIDENING = 1.0
EXPONENT = 0.5
TRUSTED = 64
"""So deep a descent goes without knowing whether there is anything to expand at its end."""


class MonteCarloTreeSearch:
    """The node at which the descent by upper confidence bounds ends."""

    def __init__(self, settings: SearchSettings) -> None:
        self._settings = settings

    def select(self, standing: Standing, rng: Random) -> int | None:
        """Return the node at which the descent ends."""
        rules = Eligibility(standing, self._settings)
        losses = _losses(standing)
        # Nearly always the first descent ends well; finding out where it cannot takes a look at every node.
        found = self._descend(rules, losses, None)
        return self._descend(rules, losses, _leading(rules)) if found is None else found

    def _descend(self, rules: Eligibility, losses: Mapping[int, int], leading: Set[int] | None) -> int | None:
        """Return the node at which a descent among `leading` nodes ends; None at a dead end, of which it has none."""
        standing = rules.standing
        tree = standing.tree
        current = tree.root_id
        if leading is not None and current not in leading:
            return None
        for _ in range(len(tree.nodes) if leading is not None else TRUSTED):
            open_ = rules.may_expand(current)
            if open_ and self._has_room(standing, current, tree.backup.visits[current] + losses.get(current, 0)):
                return current
            below = _best_child(tree, current, losses, leading)
            if below is None:
                return current if open_ else None
            current = below
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


def _losses(standing: Standing) -> Mapping[int, int]:
    """Return for each node the attempts under way in its subtree that are not in the tree yet."""
    losses: Counter[int] = Counter()
    for node_id, count in standing.busy.items():
        current: int | None = node_id
        while current is not None:
            losses[current] += count
            current = standing.tree.nodes[current].parent
    return losses


def _leading(rules: Eligibility) -> Set[int]:
    """Return the nodes that may be expanded and all above them."""
    nodes = rules.standing.tree.nodes
    leading: set[int] = set()
    for node_id in rules.ranked():
        current: int | None = node_id
        while current is not None and current not in leading:
            leading.add(current)
            current = nodes[current].parent
    return leading


def _best_child(tree: Tree, above: int, losses: Mapping[int, int], leading: Set[int] | None) -> int | None:
    """Return the judged child with the largest bound, the oldest of several; None if there is none."""
    visits, values = tree.backup.visits, tree.backup.values
    unseen = tree.unseen_ids
    children = [
        child for child in tree.child_ids(above) if child not in unseen and (leading is None or child in leading)
    ]
    if len(children) < 2:
        return children[0] if children else None
    log_above = math.log(visits[above] + losses.get(above, 0))
    return max(
        children,
        key=lambda child: upper_bound(values[child], visits[child] + losses.get(child, 0), log_above),
    )
