"""Windows that meet one channel at a time, as images that are shifted: one pass over memory, and what follows is in it.

For a convolution of that kind (depthwise) and for large windows of pooling, Inductor calls PyTorch, whose kernels are
far from what memory allows. As shifted images, multiplied and added or compared, they are what Inductor fuses best.
Where a filter is large, so many loads take longer than memory: the program calls `stark::depthwise`, for which the
candidate has a kernel that loads each row once.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from .channels import Convolution, convolution_of
from .pools import MAXIMA, POOLS, pooled
from .rule import Cannot, Rule, aten, define, shape_of

MOST = 64
"""Places of a window; the text of a kernel grows with them."""
LEAST = 1 << 18
"""Elements that a result must have to be worth it."""
LARGE = 25
"""Places of a filter from which a pass of its own is faster, even if what follows is another one."""


def depthwise(x: torch.Tensor, weight: torch.Tensor, bias: Any, padding: list[int]) -> torch.Tensor:
    """Return the convolution of each channel with its filter."""
    return torch.conv2d(x, weight, bias, padding=padding, groups=x.shape[1]).contiguous()


define("depthwise(Tensor x, Tensor weight, Tensor? bias, int[] padding) -> Tensor", depthwise)


class Window(NamedTuple):
    """How a window goes over a dimension."""

    size: int
    stride: int
    padding: int
    dilation: int


class Windows(Rule):
    """What windows have in common."""

    def shifted(self, x: Node, windows: list[Window], filled: float) -> Iterator[tuple[tuple[int, ...], Node]]:
        """Yield for each place in a window that place, and what all windows have there."""
        if math.prod(one.size for one in windows) > MOST or math.prod(shape_of(self._node)) < LEAST:
            raise Cannot
        sizes, results = shape_of(x)[2:], shape_of(self._node)[2:]
        if len(sizes) != len(windows) or len(results) != len(windows):
            raise Cannot
        around: list[int] = []
        for one, size, count in zip(windows, sizes, results):
            last = (count - 1) * one.stride + (one.size - 1) * one.dilation + 1
            around = [one.padding, max(0, last - one.padding - size), *around]
        if any(around):
            x = self.call(aten.constant_pad_nd.default, x, around, filled)
        for place in itertools.product(*(range(one.size) for one in windows)):
            part = x
            for number, (tap, one, count) in enumerate(zip(place, windows, results)):
                begin = tap * one.dilation
                end = begin + (count - 1) * one.stride + 1
                part = self.call(aten.slice.Tensor, part, 2 + number, begin, end, one.stride)
            yield place, part

    def folded(self, target: Any, parts: Iterable[Node]) -> Node:
        """Return what an operator of two makes of all parts, one after the other."""
        return functools.reduce(lambda one, other: self.call(target, one, other), parts)


class Depthwise(Windows):
    """A convolution with a filter of its own for each channel, or several."""

    OF = (aten.convolution.default,)

    def result(self) -> Node:
        """Return the sum of the shifted inputs, each by what the filters have for it."""
        of = convolution_of(self._node)
        if of is None or of.transposed or of.groups == 1:
            raise Cannot
        inputs, filters, out = shape_of(of.x), shape_of(of.weights), shape_of(self._node)
        if of.groups != inputs[1] or len(filters) != len(inputs):
            raise Cannot
        windows = [Window(*how) for how in zip(filters[2:], of.stride, of.padding, of.dilation)]
        if filters[0] == of.groups and self._is_large(of, windows):
            return self.call(torch.ops.stark.depthwise.default, of.x, of.weights, of.bias, list(of.padding))
        # Each channel meets its filters, which lie behind each other, in a dimension of their own.
        each, rank = filters[0] // of.groups, len(filters) - 2
        weights = self.call(aten.reshape.default, of.weights, [of.groups, each, *filters[2:]])

        def weighed(place: tuple[int, ...], part: Node) -> Node:
            tap = weights
            for index in reversed(range(rank)):
                tap = self.call(aten.select.int, tap, 2 + index, place[index])
            tap = self.call(aten.reshape.default, tap, [of.groups, each] + [1] * rank)
            if each == 1:
                tap = self.call(aten.squeeze.dim, tap, 1)
            else:
                part = self.call(aten.unsqueeze.default, part, 2)
            return self.call(aten.mul.Tensor, part, tap)

        total = self.folded(aten.add.Tensor, itertools.starmap(weighed, self.shifted(of.x, windows, 0.0)))
        if each != 1:
            total = self.call(aten.reshape.default, total, out)
        if of.bias is not None:
            total = self.call(aten.add.Tensor, total, self.call(aten.reshape.default, of.bias, [out[1]] + [1] * rank))
        return total

    def _is_large(self, of: Convolution, windows: list[Window]) -> bool:
        """Whether the kernel for large filters takes it."""
        plain = len(windows) == 2 and all(one.stride == one.dilation == 1 for one in windows)
        places, several = math.prod(one.size for one in windows), windows[0].size > 1
        x, out = of.x.meta["val"], self._node.meta["val"]
        fits = x.dtype is torch.float32 and x.is_contiguous() and out.is_contiguous() and out.numel() >= LEAST
        return plain and several and fits and LARGE <= places <= MOST


class Average(Windows):
    """Average pooling by windows that are too large for Inductor to write."""

    OF = tuple(POOLS.values())
    WRITTEN = 25
    """Places of a window that Inductor writes itself."""

    def result(self) -> Node:
        """Return the mean of the shifted inputs."""
        x, sizes, stride, padding, _, counted, divisor = pooled(self._node)
        if math.prod(sizes) <= self.WRITTEN:
            raise Cannot
        if all(one >= size for one, size in zip(stride, sizes)):
            # Where each place is in one window, there is nothing to be found in the cache.
            raise Cannot
        windows = [Window(*how, 1) for how in zip(sizes, stride, padding)]
        total = self.folded(aten.add.Tensor, (part for _, part in self.shifted(x, windows, 0.0)))
        if divisor is not None:
            return self.call(aten.mul.Tensor, total, 1.0 / divisor)
        places = shape_of(x)[2:], shape_of(self._node)[2:], windows
        counts = [self._counted(*each, bool(counted)) for each in zip(*places)]
        known = math.prod(count for count in counts if isinstance(count, int))
        total = self.call(aten.mul.Tensor, total, 1.0 / known)
        for behind, count in enumerate(reversed(counts)):
            if not isinstance(count, int):
                count = self.call(aten.reshape.default, count, [-1] + [1] * behind)
                total = self.call(aten.div.Tensor, total, count)
        return total

    def _counted(self, size: int, results: int, one: Window, padding: bool) -> int | Node:
        """Return how many places of a dimension each window divides by: those at an edge may have fewer."""
        first, last = (-one.padding, size + one.padding) if padding else (0, size)
        begins = [place * one.stride - one.padding for place in range(results)]
        counts = {min(begin + one.size, last) - max(begin, first) for begin in begins}
        if len(counts) == 1:
            return counts.pop()
        how = {"start": begins[0], "step": one.stride, "dtype": torch.int64, "requires_grad": False}
        begin = self.call(torch.ops.prims.iota.default, results, **how, device=self._node.meta["val"].device)
        end = self.call(aten.clamp_max.default, self.call(aten.add.Scalar, begin, one.size), last)
        return self.call(aten.sub.Tensor, end, self.call(aten.clamp_min.default, begin, first))


class Maximum(Windows):
    """Maximum pooling by windows that are too large for Inductor to write, where nobody asks for places."""

    OF = (operator.getitem,)

    def result(self) -> Node:
        """Return the largest of the shifted inputs; one that is no number makes the result none, as in PyTorch."""
        pool: Any = self._node.args[0]
        if pool.target not in MAXIMA.values() or self._node.args[1] != 0 or len(pool.users) != 1:
            raise Cannot
        x, sizes, stride, padding, dilation, _ = pooled(pool)
        windows = [Window(*how) for how in zip(sizes, stride, padding, dilation)]
        return self.folded(aten.maximum.default, (part for _, part in self.shifted(x, windows, -math.inf)))
