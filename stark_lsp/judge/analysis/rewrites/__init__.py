"""Rewrites of ATen graphs before Inductor sees them: equal for all inputs but for rounding, by a rule that is named.

`sums`: **less is computed.** A sum of a linear map is a smaller linear map. What is added, or scaled alike for all that
is summed, goes into the smaller map or beside it (`linear`).

- over the columns of a matrix product, or over each few of them: the weights are summed first (`columns`);
- over the channels of a convolution: so are its filters (`channels`);
- over all places of a convolution: each tap of a filter meets a sum of the input (`places`);
- over a few places of one, as average pooling takes it: the input is averaged first, or the filter (`pools`);
- of convolutions of one input: so are their filters (`branches`).

Convolutions with filters of one place come before what enlarges an image (`enlarged`). A product with a diagonal matrix
is a scaled matrix (`diagonal`), where numbers are finite.

`windows`: **Inductor can write it.** Depthwise convolutions and large windows of pooling are shifted images, or, with
large filters, a call of a kernel that reads rows once.

`transposed`: **there are better kernels for it.** Transposed convolutions are ordinary ones with more channels.

`attention`: **less goes through memory.** Scores are made, and used, a tile at a time.

`halves`: **tensor cores take it.** A product of float32 is one of float16 parts; with `short-halves` in shorter sums.
With few rows it is one of parts of TF32, by a kernel that reads the large matrix once (`slim`).

`convolutions`: **float16's tensor cores take it** where TF32's did, with the same numbers (`convolutions`); where none
did, those of TF32, in parts (`direct`).

`split`: **more of it runs side by side.** A product with few rows and columns is a sum of products. For kernels of ours
that take products; whoever asks for those gets it with them.

A user adds rewrites of their own (`own`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from types import MappingProxyType

import torch

from .attention import Attention, Called, HalfPrecision
from .branches import Branches
from .channels import Channels
from .columns import Columns
from .convolutions import Convolutions, InputGradients
from .diagonal import Diagonal
from .direct import Direct, DirectTransposed
from .enlarged import Enlarged
from .halves import Halves, ShortHalves
from .own import Own
from .places import Places
from .pools import Pools
from .rule import Cannot, OneSize, Rule
from .slim import Slim
from .split import Split
from .transposed import Transposed
from .windows import Average, Depthwise, Maximum

FAMILIES: MappingProxyType[str, tuple[type[Rule], ...]] = MappingProxyType(
    {
        "sums": (Columns, Places, Channels, Pools, Branches, Enlarged, Diagonal),
        "windows": (Depthwise, Average, Maximum),
        "transposed": (Transposed,),
        "attention": (Attention, HalfPrecision, Called),
        "halves": (Halves, Slim),
        "short-halves": (ShortHalves, Slim),
        "convolutions": (Convolutions, InputGradients, Direct, DirectTransposed),
        "split": (Split,),
    }
)
"""Rules by what they are for."""


def apply(graph: torch.fx.Graph, families: Iterable[str], own: Own | None = None, *, any_size: bool = False) -> int:
    """Rewrite a graph in place; returns how many times a rule was used.

    Parameters
    ----------
    graph
        Of ATen operators, each node with its `val`, as AOTAutograd hands it to Inductor.
    families
        Whose rules are used, one after the other; also names of the user's own.
    any_size
        Whether the size of a batch is a symbol that has to stay one.

    Raises
    ------
    OneSize
    """
    used = 0
    for family in families:
        if own is not None and family in own.names:
            used += own.apply(family, graph)
            continue
        # The last first: of pools behind pools it takes all, which are gone then.
        for node in reversed([node for node in graph.nodes if node.op == "call_function"]):
            used += bool(node.users) and any(_replaced(rule, graph, node, any_size) for rule in FAMILIES[family])
    graph.lint()
    return used


def fitting(graph: torch.fx.Graph, own: Own | None = None) -> list[str]:
    """Return the families of which a rule fits somewhere, the user's first; the graph stays as it is."""
    names = own.names if own is not None else ()
    return [family for family in (*names, *FAMILIES) if apply(_copied(graph), [family], own)]


def _copied(graph: torch.fx.Graph) -> torch.fx.Graph:
    """Return a copy with a module around it, as Inductor's matcher of patterns wants one."""
    made = copy.deepcopy(graph)
    return torch.fx.GraphModule(graph.owning_module or torch.nn.Module(), made).graph


def _replaced(rule: type[Rule], graph: torch.fx.Graph, node: torch.fx.Node, any_size: bool) -> bool:
    """Use a rule on a node; what it made is gone again where it does not fit."""
    made: list[torch.fx.Node] = []
    try:
        rule(graph, node, made).replace()
    except (Cannot, OneSize) as error:
        for one in reversed(made):
            graph.erase_node(one)
        if any_size and isinstance(error, OneSize):
            raise
        return isinstance(error, OneSize)
    if any_size and not rule.ANY_SIZE:
        raise OneSize
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
