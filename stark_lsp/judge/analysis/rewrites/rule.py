"""What all rules have in common: a node, what is put in its place, and nothing where the rule does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

aten = torch.ops.aten
WIDE = (torch.float32, torch.float64)
"""In half precision a sum may be infinite where the original's mean is not, so no rule holds for all inputs there."""
_LIBRARY = torch.library.Library("stark", "DEF")


def define(schema: str, computed: Callable[..., Any], like: Callable[..., Any] | None = None) -> None:
    """Make `torch.ops.stark.NAME`.

    Where sizes may be symbols, `like` returns a tensor as the result is, with nothing asked of them on the way.
    """
    name = schema.split("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, computed, "CompositeExplicitAutograd")
    if like is not None:
        _LIBRARY.impl(name, like, "Meta")


class Cannot(Exception):
    """The rule does not fit."""


class OneSize(Exception):
    """A rule fits that holds for the example's batch size alone."""


class Rule:
    """A node that can be computed by other operations.

    Raises
    ------
    Cannot
        The rule does not fit this node.
    """

    OF: tuple[Any, ...] = ()
    """What such a node calls."""
    ANY_SIZE = False
    """Whether it holds for all sizes of a batch, where the example's is a symbol: what it passes on are `sizes_of`."""

    def __init__(self, graph: torch.fx.Graph, node: Node, made: list[Node]) -> None:
        if node.target not in self.OF:
            raise Cannot
        self._graph = graph
        self._made = made
        self._node = node

    def result(self) -> Node:
        """Add what computes the same."""
        raise NotImplementedError

    def replace(self) -> None:
        """Put that in the place of the node."""
        with self._graph.inserting_before(self._node):
            made = self.result()
            old, new = self._node.meta["val"], made.meta["val"]
            if old.is_contiguous() and not new.is_contiguous():
                made = self.call(aten.clone.default, made, memory_format=torch.contiguous_format)
                new = made.meta["val"]
        same = (old.shape, old.dtype, old.stride()) == (new.shape, new.dtype, new.stride())
        # A symbol equals its number here.
        if not same or (self.ANY_SIZE and str(old.shape) != str(new.shape)):
            raise Cannot
        self._node.replace_all_uses_with(made)

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """Add a node, with what it gives."""
        node = self._graph.call_function(target, args, kwargs)
        self._made.append(node)
        # By this kernels are named, and their lines found.
        node.meta.update({key: value for key, value in self._node.meta.items() if key != "val"})
        values, named = torch.utils._pytree.tree_map(
            lambda one: one.meta["val"] if isinstance(one, Node) else one, (args, kwargs)
        )
        try:
            with self._node.meta["val"].fake_mode:
                node.meta["val"] = target(*values, **named)
        except (RuntimeError, TypeError, ValueError) as error:
            # Shapes do not go together as the rule takes it.
            raise Cannot from error
        return node


def shape_of(node: Any) -> list[int]:
    """Return the sizes of a tensor in one of the types that rules hold for."""
    return list(map(int, sizes_of(node)))


def sizes_of(node: Any, dtypes: Sequence[torch.dtype] = WIDE) -> list[int]:
    """Return the same, of these types or of any, but symbols as they are: to compare with, and for operators."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor) or (dtypes and value.dtype not in dtypes):
        raise Cannot
    known = [one.node.maybe_as_int() if isinstance(one, torch.SymInt) else one for one in value.shape]
    return [size if one is None else one for size, one in zip(value.shape, known)]


def for_each(given: Any, rank: int) -> list[int]:
    """Return what is given for each of so many dimensions; one number stands for all."""
    sizes = [int(size) for size in given] if isinstance(given, (list, tuple)) else [int(given)]
    return sizes * rank if len(sizes) == 1 else sizes
