"""Convolutions of float32 on float16's tensor cores, where PyTorch takes them on those of TF32.

cuDNN rounds both factors to TF32's 10 bits, as PyTorch lets it, and sums products in float32. float16 has these 10 bits
as well, so the same numbers meet, at twice the rate and in half the memory: but for the order of sums the result is
the original's. How cuDNN rounds halves differs from one of its kernels to the next, and some have no TF32 at all, so
it is asked: its own result is the one for factors that are rounded before.

The range that float16 lacks is made up for by powers of two: of each filter, and of the whole input. Of that
`stark::rounded` looks for the largest number while it rounds, and rounds again where that does not fit.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, NamedTuple

import torch
from torch.fx import Node
from torch.utils._python_dispatch import _disable_current_modes

from .channels import Convolution, convolution_of, multiplications
from .rule import Cannot, aten, shape_of
from .scaling import KEPT, ROUND, Scaling

LEAST = 1 << 30
"""Multiplications from which it is worth the kernels that round."""
WIDE = 256
"""Channels on both sides from which a filter of one place is worth them."""
FEW, ALIGNED = 4, 8
"""Channels are filled up with zeros to so many, or a multiple of the other, so that loads are of several."""
FIRST = 8
"""Power of two that inputs are scaled by, if that puts the largest between"""
LOWEST, HIGHEST = 2.0**-8, 2.0**7
"""these, before. What is smaller than `2 ** (-14 - FIRST)` loses bits then, of the largest `2 ** -25` at most."""
SAME = 1e-6
"""Of the largest result: how far apart two are that are one but for the order of sums."""


def rounded(x: torch.Tensor, padding: list[int], channels: int, up: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return numbers rounded to TF32's 10 bits in float16, channels last and zeros around, and what scales them back.

    Parameters
    ----------
    x
        Batch, channels and up to three dimensions, float32.
    padding
        Zeros on both sides of each of these.
    channels
        So many there are in the result; those that x lacks are zeros.
    up
        Whether halves are rounded away from zero; else to even.
    """
    largest = torch.where(x.isfinite(), x.abs(), 0.0).amax()
    exponent = torch.frexp(largest)[1].clamp(min=-111)
    fits = (largest == 0) | ((largest >= LOWEST) & (largest < HIGHEST))
    power = torch.where(fits, FIRST, 15 - exponent)
    made = tf32(torch.ldexp(x, power), up).half().movedim(1, -1)
    sides = [side for around in reversed(padding) for side in (around, around)]
    made = torch.nn.functional.pad(made, [0, channels - x.shape[1], *sides])
    return made.contiguous(), torch.ldexp(x.new_ones(1), -power)


def convolved(
    x: torch.Tensor, filters: torch.Tensor, stride: list[int], dilation: list[int], last: bool
) -> torch.Tensor:
    """Return the convolution of what `rounded` gives with filters, both channels last, as float32; its may be first."""
    x, filters = (one.movedim(-1, 1).float().contiguous() for one in (x, filters))
    rank = len(stride)
    found = torch.convolution(x, filters, None, stride, [0] * rank, dilation, False, [0] * rank, 1)
    return (found.movedim(1, -1) if last else found).contiguous()


def places(sizes: Any, taps: Any, stride: list[int], dilation: list[int]) -> list[int]:
    """Return how many places a filter has along each dimension."""
    each = zip(sizes, taps, stride, dilation)
    return [(size - (count - 1) * apart - 1) // step + 1 for size, count, step, apart in each]


def _rounded_like(x: torch.Tensor, padding: list[int], channels: int, up: bool) -> tuple[torch.Tensor, torch.Tensor]:
    sizes = [size + 2 * around for size, around in zip(x.shape[2:], padding)]
    return x.new_empty((x.shape[0], *sizes, channels), dtype=torch.float16), x.new_empty(1)


def _convolved_like(
    x: torch.Tensor, filters: torch.Tensor, stride: list[int], dilation: list[int], last: bool
) -> torch.Tensor:
    sizes = places(x.shape[1:-1], filters.shape[1:-1], stride, dilation)
    shape = (x.shape[0], *sizes, filters.shape[0]) if last else (x.shape[0], filters.shape[0], *sizes)
    return x.new_empty(shape, dtype=torch.float32)


_LIBRARY = torch.library.Library("stark", "FRAGMENT")
_LIBRARY.define("rounded(Tensor x, int[] padding, int channels, bool up) -> (Tensor, Tensor)")
_LIBRARY.impl("rounded", rounded, "CompositeExplicitAutograd")
_LIBRARY.impl("rounded", _rounded_like, "Meta")
_LIBRARY.define("convolved(Tensor x, Tensor filters, int[] stride, int[] dilation, bool last) -> Tensor")
_LIBRARY.impl("convolved", convolved, "CompositeExplicitAutograd")
_LIBRARY.impl("convolved", _convolved_like, "Meta")


class Convolutions(Scaling):
    """A convolution of float32 that cuDNN takes in TF32."""

    OF = (aten.convolution.default,)

    def result(self) -> Node:
        """Return the convolution of rounded numbers, scaled back."""
        of = convolution_of(self._node)
        if of is None or of.transposed or of.groups != 1 or self._node.meta["val"].dtype is not torch.float32:
            raise Cannot
        (count, channels, *taps), rank = shape_of(of.weights), len(of.stride)
        if multiplications(self._node, of) < LEAST or (set(taps) == {1} and min(count, channels) < WIDE):
            raise Cannot
        up = self._rounds_up(of)
        channels += -channels % (FEW if channels <= FEW else ALIGNED)
        both = self.call(torch.ops.stark.rounded.default, of.x, list(of.padding), channels, up)
        x, back = (self.call(operator.getitem, both, number) for number in range(2))
        filters, filters_back = self._filters(of.weights, channels, up)
        last = not self._node.meta["val"].is_contiguous()
        found = self.call(torch.ops.stark.convolved.default, x, filters, list(of.stride), list(of.dilation), last)
        if last:
            found = self.call(aten.permute.default, found, [0, rank + 1, *range(1, rank + 1)])
        # What scales a filter back comes first: of a large input that leaves no infinity on the way.
        like = [1, -1] + [1] * rank
        for scale in (filters_back, back):
            found = self.call(aten.mul.Tensor, found, self.call(aten.reshape.default, scale, like))
        if of.bias is not None:
            found = self.call(aten.add.Tensor, found, self.call(aten.reshape.default, of.bias, like))
        return found

    def _filters(self, weights: Node, channels: int, up: bool) -> tuple[Node, Node]:
        """Return filters in float16, channels last, and what scales each back."""
        size = shape_of(weights)
        made = self.call(aten.permute.default, weights, [0, *range(2, len(size)), 1])
        if channels != size[1]:
            made = self.call(aten.constant_pad_nd.default, made, [0, channels - size[1]], 0.0)
        # As they lie in the end, so that one kernel does it all.
        made, back = self.scaled(made, list(range(1, len(size))))
        if up:
            made = self.rounded_up(made)
        made = self.call(torch.ops.prims.convert_element_type.default, made, torch.float16)
        return self.call(aten.clone.default, made, memory_format=torch.contiguous_format), back

    def _rounds_up(self, of: Convolution) -> bool:
        x, weights = of.x.meta["val"], of.weights.meta["val"]
        given = (x.shape, x.stride(), weights.shape, weights.stride(), of.stride, of.padding, of.dilation)
        up = rounds_up(x.device.type, Sizes(*(tuple(map(int, one)) for one in given)))
        if up is None:
            raise Cannot
        return up


class Sizes(NamedTuple):
    """What cuDNN chooses a kernel by."""

    x: tuple[int, ...]
    x_strides: tuple[int, ...]
    weights: tuple[int, ...]
    weight_strides: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


@functools.cache
def rounds_up(device: str, sizes: Sizes) -> bool | None:
    """Whether cuDNN's kernel for a convolution rounds halves away from zero, or to even; None if it has no TF32."""
    if device != "cuda":
        return None
    try:
        with _disable_current_modes(), torch.no_grad():
            return observed(device, sizes)
    except RuntimeError:  # no memory is left, or cuDNN has no kernel for it
        return None
    finally:
        torch.cuda.empty_cache()  # a candidate in another process has a use for it


def observed(device: str, sizes: Sizes) -> bool | None:
    """Return what `rounds_up` says, by trying."""

    def result(up: bool | None) -> torch.Tensor:
        """Return the convolution of random numbers, rounded before if `up` says how."""
        random = torch.Generator(device).manual_seed(0)
        x, weights = (
            torch.empty_strided(size, steps, device=device).normal_(generator=random)
            for size, steps in ((sizes.x, sizes.x_strides), (sizes.weights, sizes.weight_strides))
        )
        if up is not None:
            for one in (x, weights):
                _round(one.view(torch.int32), up)
        none = [0] * len(sizes.stride)
        return torch.convolution(x, weights, None, sizes.stride, sizes.padding, sizes.dilation, False, none, 1)

    found = result(None)
    for up in (False, True):
        if result(up).sub_(found).abs_().amax() <= SAME * found.abs().amax():
            return up
    return None


def tf32(x: torch.Tensor, up: bool) -> torch.Tensor:
    """Return numbers rounded to TF32's 10 bits; infinite ones and NaN stay."""
    made = x.clone()
    _round(made.view(torch.int32), up)
    return torch.where(x.isfinite(), made, x)


def _round(bits: torch.Tensor, up: bool) -> None:
    """Round the bits of finite numbers to TF32's, in place."""
    bits.add_(ROUND if up else ((bits >> 13) & 1).add_(ROUND - 1)).bitwise_and_(KEPT)
