"""Sums over all places of a convolution: each tap of a filter meets the sum of those inputs that it ever meets.

So the input is summed, a few sums for each channel, and what is left is a small matrix product.
"""

from __future__ import annotations

import math
import operator
from typing import NamedTuple

from torch.fx import Node

from .channels import Convolution, convolution_of, multiplications
from .linear import SUMS, Reduction, Value, summed
from .rule import Cannot, aten, shape_of


class Slice(NamedTuple):
    """Which inputs along one dimension a tap meets."""

    begin: int
    end: int
    step: int


class Places(Reduction):
    """A sum or mean over all dimensions of an image, perhaps over its channels as well."""

    OF = SUMS

    def _found(self) -> Node:
        of, dims = summed(self._node)
        shape = shape_of(of)
        places = list(range(2, len(shape)))
        if not places or dims not in (places, [1, *places]):
            raise Cannot
        self._shape, self._with_channels = shape, dims[0] == 1
        return of

    def _count(self) -> int:
        return math.prod(self._shape[1 if self._with_channels else 2 :])

    def _each(self) -> int:
        """Return how many places there are."""
        return math.prod(self._shape[2:])

    def total(self, value: object, v: Node | None) -> Value:
        """See `Reduction.total`; a number counts once for each place here, channels are summed at the end."""
        return float(value * self._each()) if isinstance(value, (int, float)) else super().total(value, v)

    def _constant(self, value: Node, shape: list[int], v: Node | None) -> Value | None:
        return self.both(operator.mul, value, self._each()) if self._aside(shape) else None

    def _aside(self, shape: list[int]) -> bool:
        return all(size == 1 for size in shape[-(len(self._shape) - 2) :])

    def _shaped(self, total: Node) -> Node:
        if self._with_channels:
            total = self.call(aten.expand.default, total, [*self._shape[:2], *[1] * (len(self._shape) - 2)])
            total = self.call(aten.sum.dim_IntList, total, [1], True)
        return super()._shaped(total)

    def _map(self, value: Node, v: Node | None) -> Value | None:
        of = convolution_of(value)
        if of is None or of.groups != 1:
            return None
        self.worth(multiplications(value, of))
        sums = self._sums(of)
        inner = math.prod(shape_of(sums)[1:])
        matrix = of.weights
        if of.transposed:
            matrix = self.call(aten.permute.default, matrix, [1, 0, *range(2, len(self._shape))])
        matrix = self.call(aten.reshape.default, matrix, [self._shape[1], inner])
        rows = self.call(aten.reshape.default, sums, [-1, inner])
        found = self.call(aten.mm.default, rows, self.call(aten.permute.default, matrix, [1, 0]))
        if of.bias is not None:
            found = self.call(aten.add.Tensor, found, self.call(aten.mul.Tensor, of.bias, self._each()))
        return self.call(aten.reshape.default, found, [*self._shape[:2], *[1] * (len(self._shape) - 2)])

    def _sums(self, of: Convolution) -> Node:
        """Return the sum of the inputs for each sample, channel and tap; what is padded adds nothing."""
        sums = of.x
        for number in reversed(range(len(self._shape) - 2)):
            sums = self._along(sums, 2 + number, self._slices(of, number))
        return sums

    def _slices(self, of: Convolution, number: int) -> list[Slice]:
        """Return what each tap along a dimension meets."""
        size, out = shape_of(of.x)[2 + number], self._shape[2 + number]
        stride, padding, dilation = of.stride[number], of.padding[number], of.dilation[number]
        found = []
        for tap in range(shape_of(of.weights)[2 + number]):
            shift = tap * dilation - padding
            if of.transposed:
                # Input i goes to place i * stride + shift.
                begin, end = max(0, -(shift // stride)), min(size - 1, (out - 1 - shift) // stride)
                found.append(Slice(begin, end + 1, 1))
            else:
                # Place i meets input i * stride + shift.
                first, last = max(0, -(shift // stride)), min(out - 1, (size - 1 - shift) // stride)
                found.append(Slice(first * stride + shift, last * stride + shift + 1, stride))
        if any(one.end <= one.begin for one in found):
            raise Cannot
        return found

    def _along(self, x: Node, dim: int, slices: list[Slice]) -> Node:
        """Sum a dimension by slices, which take its place; what all of them have in common is summed once."""
        known: dict[Slice, Node] = {}

        def total(one: Slice) -> Node:
            if one not in known:
                whole = one == Slice(0, shape_of(x)[dim], 1)
                part = x if whole else self.call(aten.slice.Tensor, x, dim, one.begin, one.end, one.step)
                known[one] = self.call(aten.sum.dim_IntList, part, [dim], True)
            return known[one]

        begin, end = max(one.begin for one in slices), min(one.end for one in slices)
        shared = len(set(slices)) > 1 and end > begin and all(one.step == 1 for one in slices)
        found = []
        for one in slices:
            parts = [one]
            if shared:
                parts = [Slice(one.begin, begin, 1), Slice(begin, end, 1), Slice(end, one.end, 1)]
            sums = [total(part) for part in parts if part.end > part.begin]
            whole = sums[0]
            for more in sums[1:]:
                whole = self.call(aten.add.Tensor, whole, more)
            found.append(whole)
        return found[0] if len(found) == 1 else self.call(aten.cat.default, found, dim)
