"""Convolutions of float32 on TF32's tensor cores, by one kernel that reads the image as it lies and sums in float32.

Where cuDNN rounds both factors to TF32, it rounds them as cuDNN does (`Read`).

Where cuDNN has no TF32, as of few channels, it is exact (`Direct`): each number is the sum of one that TF32 has and of
what is left of it. Three of the four products of these are taken; the fourth is below what float32 keeps.

Parts of this kind: Ootomo and Yokota, *Recovering single precision accuracy from Tensor Cores while surpassing the
FP32 theoretical peak performance*, 2022, arxiv.org/abs/2203.03341.
"""

from __future__ import annotations

import math

import torch
from torch.fx import Node

from .channels import Convolution, convolution_of, multiplications
from .convolutions import places, rounding_of, tf32
from .rule import Cannot, aten, shape_of
from .scaling import KEPT, Scaling

LEAST = 1 << 28
"""Multiplications from which it is worth a kernel."""
EVEN, UP = 1, 2
"""How numbers are rounded; 0 if they are split."""
LONGEST = 2048
"""Of a sum within a tensor core, which cuts off what does not fit where it adds."""


def direct(
    x: torch.Tensor,
    filters: torch.Tensor,
    low: torch.Tensor | None,
    rounds: int,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
) -> torch.Tensor:
    """Return the convolution of an image, channels first.

    Parameters
    ----------
    low
        What is added to the filters, where numbers are split.
    rounds
        Otherwise: whether both are rounded to TF32 first, halves to even (`EVEN`) or away from zero (`UP`).
    """
    if low is None:
        x, filters = (tf32(one, rounds == UP) for one in (x, filters))
    else:
        filters = filters + low
    none = [0] * len(stride)
    return torch.convolution(x, filters, None, stride, padding, dilation, False, none, 1).contiguous()


def _direct_like(
    x: torch.Tensor,
    filters: torch.Tensor,
    low: torch.Tensor | None,
    rounds: int,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
) -> torch.Tensor:
    sizes = [size + 2 * around for size, around in zip(x.shape[2:], padding)]
    return x.new_empty((x.shape[0], filters.shape[0], *places(sizes, filters.shape[2:], stride, dilation)))


_LIBRARY = torch.library.Library("stark", "FRAGMENT")
_LIBRARY.define(
    "direct(Tensor x, Tensor filters, Tensor? low, int rounds, int[] stride, int[] padding, int[] dilation) -> Tensor"
)
_LIBRARY.impl("direct", direct, "CompositeExplicitAutograd")
_LIBRARY.impl("direct", _direct_like, "Meta")


class _Read(Scaling):
    """A convolution of float32 whose image is read as it lies."""

    OF = (aten.convolution.default,)

    def result(self) -> Node:
        """Return the convolution by one kernel."""
        of, value = convolution_of(self._node), self._node.meta["val"]
        if of is None or of.transposed or of.groups != 1 or value.dtype is not torch.float32:
            raise Cannot
        if not (value.is_contiguous() and of.x.meta["val"].is_contiguous()):
            raise Cannot
        if multiplications(self._node, of) < LEAST:
            raise Cannot
        given = [list(of.stride), list(of.padding), list(of.dilation)]
        found = self.call(torch.ops.stark.direct.default, of.x, *self._filters(of), *given)
        if of.bias is None:
            return found
        bias = self.call(aten.reshape.default, of.bias, [1, -1] + [1] * len(of.stride))
        return self.call(aten.add.Tensor, found, bias)

    def _filters(self, of: Convolution) -> tuple[Node, Node | None, int]:
        """Return filters, what is left of them, and how they are rounded."""
        raise NotImplementedError


class Read(_Read):
    """One that cuDNN takes in TF32."""

    def _filters(self, of: Convolution) -> tuple[Node, Node | None, int]:
        up = rounding_of(of)
        if up is None:
            raise Cannot
        weights = of.weights
        if not weights.meta["val"].is_contiguous():
            weights = self.call(aten.clone.default, weights, memory_format=torch.contiguous_format)
        return weights, None, UP if up else EVEN


class Direct(_Read):
    """One that it does not."""

    def _filters(self, of: Convolution) -> tuple[Node, Node | None, int]:
        if math.prod(shape_of(of.weights)[1:]) > LONGEST or rounding_of(of) is not None:
            raise Cannot
        weights = of.weights
        finite = self.call(aten.lt.Scalar, self.call(aten.abs.default, weights), float("inf"))
        zero = self.call(aten.full.default, [], 0.0, dtype=torch.float32, device=weights.meta["val"].device)
        high = self.number(self.call(aten.bitwise_and.Scalar, self.bits(weights), KEPT))
        # Infinities and NaN come as low parts: times a zero of a high one they would be NaN.
        high = self.call(aten.where.self, finite, high, zero)
        low = self.call(aten.where.self, finite, self.call(aten.sub.Tensor, weights, high), weights)
        kept = {"memory_format": torch.contiguous_format}
        return self.call(aten.clone.default, high, **kept), self.call(aten.clone.default, low, **kept), 0
