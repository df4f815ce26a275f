"""Transposed convolutions as ordinary ones: every place of the result gathers what meets it.

With a stride of s, places fall into s kinds along each dimension, by which taps meet them. One ordinary convolution
computes all kinds, as channels, from filters that have every s-th tap (sub-pixel convolution,
https://arxiv.org/abs/1609.05158); what follows puts them in their places.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from .channels import Convolution, convolution_of, multiplications
from .linear import LEAST
from .rule import Cannot, Rule, aten, shape_of

LEAST_OF_GROUP = 8
"""Channels of the input from which groups are; fewer are left to cuDNN, as was not measured otherwise."""


class Transposed(Rule):
    """A transposed convolution that is not dilated."""

    OF = (aten.convolution.default,)

    def result(self) -> Node:
        """Return the ordinary convolution, its channels put in their places."""
        of = convolution_of(self._node)
        if of is None or not of.transposed or any(one != 1 for one in of.dilation):
            raise Cannot
        alone = of.groups != 1 and shape_of(of.x)[1] // of.groups < LEAST_OF_GROUP
        if alone or multiplications(self._node, of) < LEAST:
            raise Cannot
        strides, rank, results = of.stride, len(of.stride), shape_of(self._node)
        weights, taps, first = self._weights(of)
        places = [-(-size // stride) for size, stride in zip(results[2:], strides)]
        x, padding = self._around(of, taps, first, places)
        ones = [1] * rank
        made = self._convolved(of, x, weights, padding)
        made = self.call(aten.reshape.default, made, [results[0], results[1], *strides, *places])
        order = [0, 1, *(dim for number in range(rank) for dim in (2 + rank + number, 2 + number))]
        made = self.call(aten.permute.default, made, order)
        sides = [place * stride for place, stride in zip(places, strides)]
        made = self.call(aten.reshape.default, made, [*results[:2], *sides])
        for number, (side, size) in enumerate(zip(sides, results[2:])):
            if side != size:
                made = self.call(aten.slice.Tensor, made, 2 + number, 0, size)
        if of.bias is None:
            return made
        return self.call(aten.add.Tensor, made, self.call(aten.reshape.default, of.bias, [results[1], *ones]))

    def _convolved(self, of: Convolution, x: Node, weights: Node, padding: list[int]) -> Node:
        """Return the ordinary convolution."""
        ones, none = [1] * len(padding), [0] * len(padding)
        given: list[Any] = [ones, padding, ones, False, none, of.groups]
        return self.call(aten.convolution.default, x, weights, None, *given)

    def _weights(self, of: Convolution) -> tuple[Node, list[int], list[int]]:
        """Return the filters of all kinds, their sizes, and how far ahead of a place its first input is."""
        size, rank = shape_of(of.weights), len(of.stride)
        # Tap t brings input i to place `i * stride + t - padding`. With as much in front of the taps as makes padding a
        # multiple of the stride, tap `stride * j + kind` meets places of that kind, from input `place + ahead - j`.
        front = [-padding % stride for padding, stride in zip(of.padding, of.stride)]
        taps = [-(-(count + more) // stride) for count, more, stride in zip(size[2:], front, of.stride)]
        ahead = [(padding + more) // stride for padding, more, stride in zip(of.padding, front, of.stride)]
        behind = [tap * step - count - more for tap, step, count, more in zip(taps, of.stride, size[2:], front)]
        weights = of.weights
        if any(front + behind):
            around = [side for both in reversed([*zip(front, behind)]) for side in both]
            weights = self.call(aten.constant_pad_nd.default, weights, around, 0.0)
        split = [each for both in zip(taps, of.stride) for each in both]
        channels = size[0] // of.groups
        weights = self.call(aten.reshape.default, weights, [of.groups, channels, size[1], *split])
        kinds, inner = [4 + 2 * number for number in range(rank)], [3 + 2 * number for number in range(rank)]
        weights = self.call(aten.permute.default, weights, [0, 2, *kinds, 1, *inner])
        count = of.groups * size[1] * math.prod(of.stride)
        weights = self.call(aten.reshape.default, weights, [count, channels, *taps])
        weights = self.call(torch.ops.prims.rev.default, weights, list(range(2, 2 + rank)))
        return weights, taps, ahead

    def _around(self, of: Convolution, taps: list[int], first: list[int], places: list[int]) -> tuple[Node, list[int]]:
        """Return the input with what is missing around it, and what the convolution is left to add."""
        around: list[int] = []
        x, cut = of.x, False
        for number, (tap, ahead, count) in enumerate(zip(taps, first, places)):
            size = shape_of(of.x)[2 + number]
            before, behind = tap - 1 - ahead, count + ahead - size
            begin, end = max(0, -before), size - max(0, -behind)
            if (begin, end) != (0, size):
                x, cut = self.call(aten.slice.Tensor, x, 2 + number, begin, end), True
            around = [max(0, before), max(0, behind), *around]
        alike = all(one == other for one, other in zip(around[::2], around[1::2]))
        if alike and not cut:
            return x, around[::2][::-1]
        return self.call(aten.constant_pad_nd.default, x, around, 0.0), [0] * len(taps)
