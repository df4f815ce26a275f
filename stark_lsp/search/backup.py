"""Sums over subtrees, as Monte-Carlo tree search backs them up.

Each node is one visit of itself and of every node above it. Its value is how far it got:

    value = 1 / (1 + score); 0 for a node that failed or has no verdict yet,

that is s / (1 + s) for the speed-up s over the root: 1/2 for the root itself, 3/4 for three times as fast, below 1
for all. Values are kept as whole multiples of 2**-30, since sums of these do not depend on the order in which they
were made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from stark_lsp.core.run import Node
from stark_lsp.core.status import VerdictStatus

SCALE = 2**30


def value(node: Node) -> float:
    """Return the value of one node, judged or not, 0 to 1."""
    taken = node.score
    if node.failed or not math.isfinite(taken) or taken <= 0:
        return 0.0
    return 1.0 / (1.0 + taken)


class Backup:
    """Visits and values of every subtree."""

    def __init__(self, nodes: Mapping[int, Node], children: Mapping[int, Sequence[int]], root_id: int) -> None:
        self.visits: dict[int, int] = {}
        """Nodes in the subtree, those under way included; empty ones left out, so that an empty node has none."""
        self.values: dict[int, int] = {}
        """Sum of their values, as multiples of 1 / `SCALE`."""
        order = [root_id]
        for node_id in order:  # grows while it is walked
            order.extend(children[node_id])
        for node_id in reversed(order):
            visits, values = self._own(nodes[node_id])
            for child in children[node_id]:
                visits += self.visits[child]
                values += self.values[child]
            self.visits[node_id], self.values[node_id] = visits, values

    def count(self, nodes: Mapping[int, Node], node: Node, step: int) -> None:
        """Take a node in (`step` 1), or out before it is replaced by another with its id (-1)."""
        visits, values = self._own(node)
        visits, values = step * visits, step * values
        sum_visits, sum_values = self.visits, self.values
        current: int | None = node.id
        while current is not None:
            sum_visits[current] = sum_visits.get(current, 0) + visits
            sum_values[current] = sum_values.get(current, 0) + values
            current = nodes[current].parent

    def _own(self, node: Node) -> tuple[int, int]:
        # An attempt that left nothing to judge says nothing about the node it started from.
        if node.verdict is not None and node.verdict.status is VerdictStatus.NO_CANDIDATE:
            return 0, 0
        return 1, round(SCALE * value(node))
