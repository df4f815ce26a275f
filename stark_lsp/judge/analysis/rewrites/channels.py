"""Sums over the channels of a convolution: its filters are summed first, so that one channel is computed, not many."""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple

from torch.fx import Node

from .linear import SUMS, Reduction, Value, summed
from .rule import Cannot, aten, for_each, shape_of


class Convolution(NamedTuple):
    """A call of `aten.convolution`."""

    x: Node
    weights: Node
    bias: Node | None
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    transposed: bool
    output_padding: list[int]
    groups: int

    @property
    def channels(self) -> int:
        """Dimension of the weights that the output's channels are."""
        return 1 if self.transposed else 0


def convolution_of(node: Node) -> Convolution | None:
    """Return what a node calls, its numbers for each dimension; None if that is no convolution."""
    if node.target is not aten.convolution.default:
        return None
    given, rank = list(node.args), node.args[1].meta["val"].dim() - 2  # type: ignore[union-attr]
    for place in (3, 4, 5, 7):  # stride, padding, dilation and output padding
        given[place] = for_each(given[place], rank)
    return Convolution(*given)  # type: ignore[arg-type]


def multiplications(node: Node, of: Convolution) -> int:
    """Return how many multiplications a convolution takes."""
    one_side = of.x if of.transposed else node
    return math.prod(shape_of(one_side)) // shape_of(one_side)[1] * math.prod(shape_of(of.weights))


class Channels(Reduction):
    """A sum or mean over all channels."""

    OF = SUMS

    def _found(self) -> Node:
        of, dims = summed(self._node)
        shape = shape_of(of)
        if dims != [1] or len(shape) < 3:
            raise Cannot
        self._rank, self._channels = len(shape), shape[1]
        return of

    def _count(self) -> int:
        return self._channels

    def _of_channels(self, shape: list[int]) -> int:
        """Return how many channels a value has that goes together with what is summed, 1 where it has none."""
        return shape[1 - self._rank] if len(shape) >= self._rank - 1 else 1

    def _map(self, value: Node, v: Node | None) -> Value | None:
        of = convolution_of(value)
        if of is None or of.groups != 1:
            return None
        self.worth(multiplications(value, of))
        weights = of.weights
        if v is not None:
            shape = [1] * self._rank
            shape[of.channels] = self._channels
            weights = self.call(aten.mul.Tensor, weights, self.call(aten.reshape.default, v, shape))
        weights = self.call(aten.sum.dim_IntList, weights, [of.channels], True)
        how: list[Any] = [of.stride, of.padding, of.dilation, of.transposed, of.output_padding, 1]
        found = self.call(aten.convolution.default, of.x, weights, None, *how)
        if of.bias is None:
            return found
        shape = [1, self._channels] + [1] * (self._rank - 2)
        bias = self._constant(self.call(aten.reshape.default, of.bias, shape), shape, v)
        return self.both(operator.add, found, bias)  # type: ignore[arg-type]

    def _weight(self, scale: Node, shape: list[int]) -> Node | None:
        alone = all(size == 1 for place, size in enumerate(reversed(shape)) if place != self._rank - 2)
        if not alone or self._of_channels(shape) != self._channels:
            return None
        return self.call(aten.reshape.default, scale, [1, self._channels] + [1] * (self._rank - 2))

    def _aside(self, shape: list[int]) -> bool:
        return self._of_channels(shape) == 1

    def _weights(self, v: Node) -> Value:
        return self.call(aten.sum.dim_IntList, v, [1], True)
