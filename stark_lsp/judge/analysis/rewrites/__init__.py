"""Rewrites of ATen graphs before Inductor sees them: equal for all inputs but for rounding, by a rule that is named.

`sums`: **less is computed.** A sum of a linear map is a smaller linear map. What is added, or scaled alike for all that
is summed, goes into the smaller map or beside it (`linear`).

- over the columns of a matrix product, or over each few of them: the weights are summed first (`columns`);
- over the channels of a convolution: so are its filters (`channels`);
- over all places of a convolution: each tap of a filter meets a sum of the input (`places`);
- over a few places of one, as average pooling takes it: the input is averaged first, or the filter (`pools`).

A product with a diagonal matrix is a scaled matrix (`diagonal`), where numbers are finite.

`windows`: **Inductor can write it.** Depthwise convolutions and large windows of pooling are shifted images.

`transposed`: **there are better kernels for it.** Transposed convolutions are ordinary ones with more channels.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from types import MappingProxyType

import torch

from .channels import Channels
from .columns import Columns
from .diagonal import Diagonal
from .places import Places
from .pools import Pools
from .rule import Cannot, Rule
from .transposed import Transposed
from .windows import Average, Depthwise, Maximum

FAMILIES: MappingProxyType[str, tuple[type[Rule], ...]] = MappingProxyType(
    {
        "sums": (Columns, Places, Channels, Pools, Diagonal),
        "windows": (Depthwise, Average, Maximum),
        "transposed": (Transposed,),
    }
)
"""Rules by what they are for."""


def apply(graph: torch.fx.Graph, families: Iterable[str]) -> int:
    """Rewrite a graph in place; returns how many times a rule was used.

    Parameters
    ----------
    graph
        Of ATen operators, each node with its `val`, as AOTAutograd hands it to Inductor.
    families
        Whose rules are used, one after the other.
    """
    used = 0
    for family in families:
        # The last first: of pools behind pools it takes all, which are gone then.
        for node in reversed([node for node in graph.nodes if node.op == "call_function"]):
            used += bool(node.users) and any(_replaced(rule, graph, node) for rule in FAMILIES[family])
    graph.lint()
    return used


def fitting(graph: torch.fx.Graph) -> list[str]:
    """Return the families of which a rule fits somewhere; the graph stays as it is."""
    return [family for family in FAMILIES if apply(copy.deepcopy(graph), [family])]


def _replaced(rule: type[Rule], graph: torch.fx.Graph, node: torch.fx.Node) -> bool:
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
    schema = getattr(node.target, "_schema", None)
    if node.op == "call_function" and not node.users and not (schema is not None and schema.is_mutable):
        needed = node.all_input_nodes
        graph.erase_node(node)
        for one in needed:
            _erase(graph, one)
