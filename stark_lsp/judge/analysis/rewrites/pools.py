"""Average pooling behind a convolution: the mean of what places that lie together give is the map of a mean.

For an ordinary convolution the input is averaged first, and fewer places are computed. For a transposed one the filter
is, which makes it an ordinary convolution with stride.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from .channels import Convolution, convolution_of, multiplications
from .linear import Reduction, Value
from .rule import Cannot, aten, for_each, shape_of

POOLS = {2: aten.avg_pool2d.default, 3: aten.avg_pool3d.default}
"""By how many dimensions an image has."""
MAXIMA = {2: aten.max_pool2d_with_indices.default, 3: aten.max_pool3d_with_indices.default}
"""The same; by the time that Inductor is handed a graph, windows that it writes itself are other operators."""


class Pools(Reduction):
    """Average pooling of pieces that lie side by side, once or several times."""

    OF = tuple(POOLS.values())

    def _found(self) -> Node:
        of: Any = self._node
        self._sizes: list[int] = []
        while of.target in POOLS.values() and (of is self._node or len(of.users) == 1):
            sizes = pieces(of)
            self._sizes = [one * more for one, more in zip(sizes, self._sizes)] or sizes
            of = of.args[0]
        rank = len(shape_of(of))
        if not self._sizes or rank - 2 != len(self._sizes):
            raise Cannot
        self._rank = rank
        return of  # type: ignore[no-any-return]

    def _count(self) -> int:
        # A mean, not a sum.
        return 1

    def _constant(self, value: Node, shape: list[int], v: Node | None) -> Value | None:
        return value if self._aside(shape) else None

    def _aside(self, shape: list[int]) -> bool:
        return all(size == 1 for size in shape[-len(self._sizes) :])

    def _shaped(self, total: Node) -> Node:
        return total

    def _map(self, value: Node, v: Node | None) -> Value | None:
        of = convolution_of(value)
        if of is None:
            return None
        self.worth(multiplications(value, of))
        return self._transposed(of) if of.transposed else self._ordinary(of)

    def _ordinary(self, of: Convolution) -> Node:
        if any(size != 1 for size in of.stride):
            raise Cannot
        around = [side for padding in reversed(of.padding) for side in (padding, padding)]
        x = self.call(aten.constant_pad_nd.default, of.x, around, 0.0) if any(around) else of.x
        x = self._averaged(x)
        how = [self._sizes, [0] * len(self._sizes), of.dilation, False, of.output_padding, of.groups]
        return self.call(aten.convolution.default, x, of.weights, of.bias, *how)

    def _averaged(self, x: Node) -> Node:
        """Return the mean of the pieces that begin at any place."""
        return self.call(POOLS[len(self._sizes)], x, self._sizes, [1] * len(self._sizes))

    def _transposed(self, of: Convolution) -> Node:
        """Return what one piece gets of each input: place * stride - padding, by the mean of the taps that meet it."""
        if of.groups != 1 or any(size != 1 for size in of.dilation):
            raise Cannot
        places, taps, pieces = shape_of(of.x)[2:], shape_of(of.weights)[2:], shape_of(self._node)[2:]
        around: list[tuple[int, int]] = []
        strides: list[int] = []
        padded = [side for size in reversed(self._sizes) for side in (size - 1, size - 1)]
        weights = self.call(aten.permute.default, of.weights, [1, 0, *range(2, self._rank)])
        weights = self._averaged(self.call(aten.constant_pad_nd.default, weights, padded, 0.0))
        for number, (size, stride, padding) in enumerate(zip(self._sizes, of.stride, of.padding)):
            if size % stride:
                raise Cannot
            # A piece meets the inputs first ... last behind its own place; tap `padding - stride * input` is theirs.
            first, last = -((taps[number] - 1 - padding) // stride), (padding + size - 1) // stride
            begin = padding - stride * last + size - 1
            end = padding - stride * first + size
            weights = self.call(aten.slice.Tensor, weights, 2 + number, begin, end, stride)
            step, count = size // stride, pieces[number]
            strides.append(step)
            around.append((-first, (count - 1) * step + last - places[number] + 1))
        weights = self.call(torch.ops.prims.rev.default, weights, list(range(2, self._rank)))
        sides = [side for pair in reversed(around) for side in pair]
        x = self.call(aten.constant_pad_nd.default, of.x, sides, 0.0)
        ones = [1] * len(strides)
        return self.call(
            aten.convolution.default, x, weights, of.bias, strides, [0] * len(ones), ones, False, [0] * len(ones), 1
        )


def pieces(node: Node) -> list[int]:
    """Return the sizes of what average pooling takes together, side by side."""
    _, sizes, stride, padding, ceil, _, divisor = pooled(node)
    if stride != sizes or any(padding) or ceil or divisor is not None or math.prod(sizes) == 1:
        raise Cannot
    return sizes  # type: ignore[no-any-return]


def pooled(node: Node) -> tuple[Any, ...]:
    """Return the arguments of pooling, whole: sizes for each dimension, and what is not given as its default."""
    x, sizes, *given = node.args
    if node.kwargs:
        raise Cannot
    average = node.target in POOLS.values()
    rank = next(rank for rank in POOLS if node.target in (POOLS[rank], MAXIMA[rank]))
    more: list[Any] = [[], 0, False, True, None] if average else [[], 0, 1, False]
    found: list[Any] = [sizes, *given, *more[len(given) :]]
    found[1] = found[1] or sizes
    # Behind sizes, stride and padding, and of a maximum dilation, are flags.
    sized = 3 if average else 4
    return (x, *(for_each(one, rank) for one in found[:sized]), *found[sized:])
