"""What all sums of linear maps have in common: the way down to the map, past what is added and scaled."""

from __future__ import annotations

import operator
from typing import Any, Union

import torch
from torch.fx import Node

from .rule import Cannot, Rule, aten, sizes_of

SUMS = (aten.sum.dim_IntList, aten.mean.dim)
LEAST = 1 << 20
"""Multiplications that a map must have to be worth it."""
Value = Union[Node, float, int]  # noqa: UP007 - Python 3.9
_NAMES = {operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.truediv: "div"}


class Reduction(Rule):
    """A sum or mean over a part of what a linear map gives.

    Within it values keep all their dimensions: those that are summed have one element, or as many as there are groups.
    """

    def __init__(self, graph: torch.fx.Graph, node: Node, made: list[Node]) -> None:
        super().__init__(graph, node, made)
        self._maps = 0
        self._of = self._found()
        """What is summed."""

    def _found(self) -> Node:
        """Return what is summed, and note how."""
        raise NotImplementedError

    def _count(self) -> int:
        """Return how many elements come into one sum."""
        raise NotImplementedError

    def _constant(self, value: Node, shape: list[int], v: Node | None) -> Value | None:
        """Return the sum of what does not need the map, weighted by `v`; None for everything else."""
        if self._aside(shape):
            return self.both(operator.mul, value, self._count() if v is None else self._weights(v))
        row = self._weight(value, shape)
        if row is None:
            return None
        return self._weights(row if v is None else self.call(aten.mul.Tensor, row, v))

    def _map(self, value: Node, v: Node | None) -> Value | None:
        """Return the sum of what a linear map gives, weighted by `v`; None if it is none."""
        raise NotImplementedError

    def _weight(self, scale: Node, shape: list[int]) -> Node | None:
        """Return a factor that differs between what is summed, but is the same otherwise, as weights."""
        return None

    def _aside(self, shape: list[int]) -> bool:
        """Whether a factor of this shape is the same for all that is summed, so that it may follow the sum."""
        raise NotImplementedError

    def _weights(self, v: Node) -> Value:
        """Return the sum of weights."""
        raise NotImplementedError

    def _shaped(self, total: Node) -> Node:
        """Bring a sum into the shape of the node."""
        return self.call(aten.reshape.default, total, list(self._node.meta["val"].shape))

    def result(self) -> Node:
        """Return the smaller map."""
        total = self.total(self._of, None)
        if not self._maps or not isinstance(total, Node):
            raise Cannot
        if self._node.target is not aten.sum.dim_IntList and self._count() != 1:
            total = self.call(aten.div.Tensor, total, self._count())
        return self._shaped(total)

    def total(self, value: Any, v: Node | None) -> Value:
        """Return the sum of `value`, weighted by `v` (all alike by default)."""
        if isinstance(value, (int, float)):
            return value * self._count() if v is None else self.both(operator.mul, self._weights(v), value)
        known = self._constant(value, sizes_of(value), v)
        if known is not None:
            return known
        if len(value.users) != 1 or value.kwargs:
            raise Cannot
        target, args = value.target, value.args
        if target in (aten.add.Tensor, aten.sub.Tensor):
            sign = operator.add if target is aten.add.Tensor else operator.sub
            return self.both(sign, self.total(args[0], v), self.total(args[1], v))
        if target is aten.rsub.Scalar and len(args) == 2:
            return self.both(operator.sub, self.total(args[1], v), self.total(args[0], v))
        if target is aten.div.Tensor and (isinstance(args[1], (int, float)) or self._aside(sizes_of(args[1]))):
            return self.both(operator.truediv, self.total(args[0], v), args[1])
        if target is aten.mul.Tensor:
            return self._scaled(args[0], args[1], v)
        found = self._map(value, v)
        if found is None:
            raise Cannot
        return found

    def _scaled(self, one: Any, other: Any, v: Node | None) -> Value:
        """Return the sum of a product element by element, one side of which is a factor."""
        for value, scale in ((one, other), (other, one)):
            if isinstance(scale, (int, float)) or self._aside(sizes_of(scale)):
                return self.both(operator.mul, self.total(value, v), scale)
            weight = self._weight(scale, sizes_of(scale))
            if weight is not None:
                return self.total(value, weight if v is None else self.call(aten.mul.Tensor, weight, v))
        raise Cannot

    def worth(self, multiplications: int) -> None:
        """Count a map, which must be large enough."""
        if multiplications < LEAST:
            raise Cannot
        self._maps += 1

    def both(self, how: Any, one: Value, other: Value) -> Value:
        """Return what an operation makes of two values, either of which may be a number."""
        if not isinstance(one, Node) and not isinstance(other, Node):
            return float(how(one, other))
        if not isinstance(one, Node):
            one, other = (other, one) if how in (operator.add, operator.mul) else (self._filled(one), other)
        return self.call(getattr(aten, _NAMES[how]).Tensor, one, other)

    def _filled(self, number: Value) -> Node:
        like = self._of.meta["val"]
        return self.call(aten.full.default, [1] * like.dim(), number, dtype=like.dtype, device=like.device)


def summed(node: Node) -> tuple[Node, list[int]]:
    """Return what a sum or mean is taken of, and over which of its dimensions, counted from the first."""
    if node.target not in SUMS or node.kwargs or not isinstance(node.args[0], Node):
        raise Cannot
    dims, rank = node.args[1], len(sizes_of(node.args[0]))
    if not isinstance(dims, (list, tuple)):
        raise Cannot
    return node.args[0], sorted(int(dim) % rank for dim in dims)  # type: ignore[arg-type]
