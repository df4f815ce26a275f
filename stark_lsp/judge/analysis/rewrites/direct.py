"""Convolutions of float32 that cuDNN does not take in TF32, as of few channels, on TF32's tensor cores nevertheless.

One kernel reads the image as it lies. Each number is the sum of one that TF32 has and of what is left of it; three of
the four products of these are taken, the fourth is below what float32 keeps.

Parts of this kind: Ootomo and Yokota, *Recovering single precision accuracy from Tensor Cores while surpassing the
FP32 theoretical peak performance*, 2022, arxiv.org/abs/2203.03341.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from .channels import Convolution, convolution_of, multiplications
from .convolutions import rounding_of
from .rule import Cannot, aten, define, shape_of
from .scaling import KEPT, Scaling
from .transposed import Transposed

LEAST = 1 << 28
"""Multiplications from which it is worth a kernel."""
FEWEST = 8
"""Filters of a group, and numbers of each, from which groups are: of fewer most of a block would be zeros."""
LONGEST = 2048
"""Of a sum within a tensor core, which cuts off what does not fit where it adds."""


def direct(
    x: torch.Tensor,
    high: torch.Tensor,
    low: torch.Tensor,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> torch.Tensor:
    """Return the convolution of an image, channels first, with filters that are the sum of two parts."""
    none = [0] * len(stride)
    return torch.convolution(x, high + low, None, stride, padding, dilation, False, none, groups).contiguous()


define(
    "direct(Tensor x, Tensor high, Tensor low, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor",
    direct,
)


class Direct(Scaling):
    """A convolution whose image is read as it lies, and taken in parts."""

    OF = (aten.convolution.default,)

    def result(self) -> Node:
        """Return the convolution by one kernel."""
        of, value = convolution_of(self._node), self._node.meta["val"]
        if of is None or of.transposed or value.dtype is not torch.float32:
            raise Cannot
        if of.groups != 1 and min(shape_of(of.weights)[0] // of.groups, math.prod(shape_of(of.weights)[1:])) < FEWEST:
            raise Cannot
        if multiplications(self._node, of) < LEAST or not value.is_contiguous():
            raise Cannot
        # Of places far apart and nothing around them, channels last is the better order, which PyTorch's own have then.
        strided = math.prod(of.stride) > 1 and math.prod(shape_of(of.weights)[2:]) == 1
        if strided or rounding_of(of) is not None:
            raise Cannot
        found = self._by_kernel(of.x, of.weights, [list(of.stride), list(of.padding), list(of.dilation), of.groups])
        if of.bias is None:
            return found
        bias = self.call(aten.reshape.default, of.bias, [1, -1] + [1] * len(of.stride))
        return self.call(aten.add.Tensor, found, bias)

    def _by_kernel(self, x: Node, weights: Node, given: list[Any]) -> Node:
        if not x.meta["val"].is_contiguous() or math.prod(shape_of(weights)[1:]) > LONGEST:
            raise Cannot
        return self.call(torch.ops.stark.direct.default, x, *self._parts(weights), *given)

    def _parts(self, weights: Node) -> tuple[Node, Node]:
        """Return what TF32 has of filters, and what is left of them."""
        finite = self.call(aten.lt.Scalar, self.call(aten.abs.default, weights), float("inf"))
        zero = self.call(aten.full.default, [], 0.0, dtype=torch.float32, device=weights.meta["val"].device)
        high = self.number(self.call(aten.bitwise_and.Scalar, self.bits(weights), KEPT))
        # Infinities and NaN come as low parts: times a zero of a high one they would be NaN.
        high = self.call(aten.where.self, finite, high, zero)
        low = self.call(aten.where.self, finite, self.call(aten.sub.Tensor, weights, high), weights)
        kept = {"memory_format": torch.contiguous_format}
        return self.call(aten.clone.default, high, **kept), self.call(aten.clone.default, low, **kept)


class DirectTransposed(Transposed, Direct):
    """A transposed convolution that cuDNN does not take in TF32, made an ordinary one, which is taken in parts."""

    def _convolved(self, of: Convolution, x: Node, weights: Node, padding: list[int]) -> Node:
        """Return the ordinary convolution by one kernel."""
        if self._node.meta["val"].dtype is not torch.float32 or rounding_of(of) is not None:
            raise Cannot
        ones = [1] * len(padding)
        return self._by_kernel(x, weights, [ones, padding, ones, of.groups])
