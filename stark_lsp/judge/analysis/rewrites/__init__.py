"""Algebra on ATen graphs before Inductor sees them: equal for all inputs but for rounding, by a rule that is named.

One rule so far, in four forms: **a sum of a linear map is a smaller linear map.** What is added, or scaled alike for
all that is summed, goes into the smaller map or beside it (`linear`).

- over the columns of a matrix product, or over each few of them: the weights are summed first (`columns`);
- over the channels of a convolution: so are its filters (`channels`);
- over all places of a convolution: each tap of a filter meets a sum of the input (`places`);
- over a few places of one, as average pooling takes it: the input is averaged first, or the filter (`pools`).
"""

from __future__ import annotations

import torch

from .channels import Channels
from .columns import Columns
from .linear import PURE, SUMS, Cannot, Reduction
from .places import Places
from .pools import POOLS, Pools

RULES: tuple[type[Reduction], ...] = (Columns, Places, Channels, Pools)


def apply(graph: torch.fx.Graph) -> int:
    """Rewrite a graph in place; returns how many times a rule was used.

    Parameters
    ----------
    graph
        Of ATen operators, each node with its `val`, as AOTAutograd hands it to Inductor.
    """
    used = 0
    found = [node for node in graph.nodes if node.op == "call_function" and node.target in (*SUMS, *POOLS.values())]
    # The last first: of pools behind pools it takes all, which are gone then.
    for node in reversed(found):
        used += bool(node.users) and any(_replaced(rule, graph, node) for rule in RULES)
    graph.lint()
    return used


def _replaced(rule: type[Reduction], graph: torch.fx.Graph, node: torch.fx.Node) -> bool:
    """Use a rule on a node; what it made is gone again where it does not fit."""
    made: list[torch.fx.Node] = []
    try:
        rule(graph, node, made).replace()
    except Cannot:
        for one in reversed(made):
            graph.erase_node(one)
        return False
    _erase(graph, node)
    return True


def _erase(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Remove a node that nobody needs, and what only it needed."""
    if node.op == "call_function" and not node.users and node.target in PURE:
        needed = node.all_input_nodes
        graph.erase_node(node)
        for one in needed:
            _erase(graph, one)
