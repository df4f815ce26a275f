"""Convolutions of float32 on float16's tensor cores, where PyTorch takes them on those of TF32.

cuDNN rounds both factors to TF32's 10 bits, as PyTorch lets it, and sums products in float32. float16 has these 10 bits
as well, so the same numbers meet, at twice the rate and in half the memory: but for the order of sums the result is
the original's. How cuDNN rounds halves differs from one of its kernels to the next, and some have no TF32 at all, so
it is asked: its own result is the one for factors that are rounded before.

Groups are parts of the batch. Of a transposed convolution each kind of places is an ordinary one with taps of its own
(see `Kinds`), which is written where it belongs.

The range that float16 lacks is made up for by powers of two: of each filter, and of the whole input. Of that
`stark::rounded` looks for the largest number while it rounds, and rounds again where that does not fit.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from typing import Any, NamedTuple

import torch
from torch.fx import Node
from torch.utils._python_dispatch import _disable_current_modes

from .channels import Convolution, convolution_of, multiplications
from .rule import Cannot, aten, define, for_each, shape_of
from .scaling import KEPT, ROUND, Scaling

LEAST = 1 << 30
"""Multiplications from which it is worth the kernels that round."""
LEAST_OF_GROUP = 16
"""Channels on both sides from which groups are."""
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
    x: torch.Tensor, filters: torch.Tensor, stride: list[int], dilation: list[int], groups: int, last: bool
) -> torch.Tensor:
    """Return the convolution of what `rounded` gives with filters, both channels last, as float32; its may be first.

    Groups lie one behind the other in each image of the batch.
    """
    x = x.unflatten(0, (-1, groups)).movedim(-1, 2).flatten(1, 2).float().contiguous()
    filters, none = filters.movedim(-1, 1).float().contiguous(), [0] * len(stride)
    found = torch.convolution(x, filters, None, stride, none, dilation, False, none, groups)
    return (found.movedim(1, -1) if last else found).contiguous()


class Kinds(NamedTuple):
    """Of the places along a dimension those that the same taps meet.

    Tap t brings input i to place `i * stride + t * dilation - padding`. Of the taps `first + kinds * j` these are
    `stride` apart, and tap j meets inputs that are `apart * j` before the one that tap `first` meets. Other places than
    those of all kinds meet no tap; there are some where stride and dilation have a common divisor.
    """

    kinds: int
    taps: int
    """Of each kind, with those that are filled up."""
    apart: int
    front: int
    """What padding lacks of a multiple of the stride."""
    ahead: int
    """That multiple, in inputs."""

    @classmethod
    def along(cls, count: int, stride: int, padding: int, dilation: int) -> Kinds:
        """Return those of `count` taps."""
        common, front = math.gcd(stride, dilation), -padding % stride
        kinds = stride // common
        return cls(kinds, -(-count // kinds), dilation // common, front, (padding + front) // stride)


def spread(
    x: torch.Tensor,
    filters: torch.Tensor,
    start: list[int],
    stride: list[int],
    dilation: list[int],
    front: list[int],
    behind: list[int],
    groups: int,
    sizes: list[int],
    last: bool,
) -> torch.Tensor:
    """Return a transposed convolution of what `rounded` gives, otherwise like `convolved`.

    Parameters
    ----------
    filters
        Those of each group, of each kind of places in it, see `Kinds`; what meets the first input first.
    start
        Where the first input is that place -`front` meets, along each dimension.
    front
        See `Kinds`.
    behind
        Zeros that fill the taps of all kinds up.
    sizes
        The result's, without batch and channels.
    """
    kinds = [step // math.gcd(step, far) for step, far in zip(stride, dilation)]
    apart = [far // math.gcd(step, far) for step, far in zip(stride, dilation)]
    each = filters.unflatten(0, (groups, math.prod(kinds), -1))
    found = x.new_zeros((x.shape[0] // groups, groups * each.shape[2], *sizes), dtype=torch.float32)
    for number, kind in enumerate(itertools.product(*map(range, kinds))):
        part, cut = x, found
        for dim, one in enumerate(kind):
            before, at = divmod(one * dilation[dim] + front[dim], stride[dim])
            length = max(0, -(-(sizes[dim] - at) // stride[dim]))
            part = part.narrow(1 + dim, start[dim] - before, length + (each.shape[3 + dim] - 1) * apart[dim])
            cut = cut[(slice(None),) * (2 + dim) + (slice(at, None, stride[dim]),)]
        if cut.numel():
            cut.copy_(convolved(part, each[:, number].flatten(0, 1), [1] * len(stride), apart, groups, False))
    return (found.movedim(1, -1) if last else found).contiguous()


def places(sizes: Any, taps: Any, stride: list[int], dilation: list[int]) -> list[int]:
    """Return how many places a filter has along each dimension."""
    each = zip(sizes, taps, stride, dilation)
    return [(size - (count - 1) * apart - 1) // step + 1 for size, count, step, apart in each]


define("rounded(Tensor x, int[] padding, int channels, bool up) -> (Tensor, Tensor)", rounded)
define("convolved(Tensor x, Tensor filters, int[] stride, int[] dilation, int groups, bool last) -> Tensor", convolved)
define(
    "spread(Tensor x, Tensor filters, int[] start, int[] stride, int[] dilation, int[] front, int[] behind, "
    "int groups, int[] sizes, bool last) -> Tensor",
    spread,
)


class Convolutions(Scaling):
    """A convolution of float32 that cuDNN takes in TF32."""

    OF = (aten.convolution.default,)

    def result(self) -> Node:
        """Return the convolution of rounded numbers, scaled back."""
        of = self._of()
        if of is None or self._node.meta["val"].dtype is not torch.float32:
            raise Cannot
        (*_, channels), rank = self._channels(of), len(of.stride)
        up = rounding_of(of)
        if up is None:
            raise Cannot
        filled = channels + -channels % (FEW if channels <= FEW else ALIGNED)
        last = not self._node.meta["val"].is_contiguous()
        find = self._transposed if of.transposed else self._ordinary
        found, filters_back, back = find(of, filled, up, last)
        if last:
            found = self.call(aten.permute.default, found, [0, rank + 1, *range(1, rank + 1)])
        # What scales a filter back comes first: of a large input that leaves no infinity on the way.
        like = [1, -1] + [1] * rank
        for scale in (filters_back, back):
            found = self.call(aten.mul.Tensor, found, self.call(aten.reshape.default, scale, like))
        if of.bias is not None:
            found = self.call(aten.add.Tensor, found, self.call(aten.reshape.default, of.bias, like))
        return found

    def _of(self) -> Convolution | None:
        return convolution_of(self._node)

    def _channels(self, of: Convolution) -> tuple[int, int]:
        """Return the channels of each group, those of the result first, of a convolution that is worth it."""
        (one, other, *taps), groups = shape_of(of.weights), of.groups
        count, channels = (other, one // groups) if of.transposed else (one // groups, other)
        if groups != 1 and (min(count, channels) < LEAST_OF_GROUP or not of.x.meta["val"].is_contiguous()):
            raise Cannot
        if multiplications(self._node, of) < LEAST or (set(taps) == {1} and min(count, channels) < WIDE):
            raise Cannot
        return count, channels

    def _ordinary(self, of: Convolution, channels: int, up: bool, last: bool) -> tuple[Node, Node, Node]:
        """Return the convolution, and what scales each channel and all of it back."""
        x, back = self._rounded(of, of.padding, channels, up)
        made = self.call(aten.permute.default, of.weights, [0, *range(2, 2 + len(of.stride)), 1])
        made, filters_back = self._filters(made, channels, up)
        made = self._stored(made)
        given = [list(of.stride), list(of.dilation), of.groups, last]
        return self.call(torch.ops.stark.convolved.default, x, made, *given), filters_back, back

    def _transposed(self, of: Convolution, channels: int, up: bool, last: bool) -> tuple[Node, Node, Node]:
        """Return the same of a transposed convolution."""
        rank, sizes = len(of.stride), shape_of(self._node)[2:]
        one_side, count, *taps = shape_of(of.weights)
        ways = [Kinds.along(*each) for each in zip(taps, of.stride, of.padding, of.dilation)]
        around, start = [], []
        for one, stride, dilation, before, size in zip(ways, of.stride, of.dilation, shape_of(of.x)[2:], sizes):
            reach = (one.taps - 1) * one.apart - one.ahead
            most = ((one.kinds - 1) * dilation + one.front) // stride
            around.append(max(reach + most, -(-size // stride) + one.ahead - before, 0))
            start.append(around[-1] - reach)
        x, back = self._rounded(of, around, channels, up)
        made = self.call(aten.reshape.default, of.weights, [of.groups, one_side // of.groups, count, *taps])
        made = self.call(aten.permute.default, made, [0, 2, *range(3, rank + 3), 1])
        made = self.call(aten.reshape.default, made, [of.groups * count, *taps, one_side // of.groups])
        made, filters_back = self._filters(made, channels, up)
        made = self._by_kind(made, ways, of.groups)
        if of.stride == [1] * rank and not any(start):
            given = [list(of.stride), list(of.dilation), of.groups, last]
            return self.call(torch.ops.stark.convolved.default, x, made, *given), filters_back, back
        behind = [one.taps * one.kinds - tap for one, tap in zip(ways, taps)]
        given = [start, list(of.stride), list(of.dilation), [one.front for one in ways], behind, of.groups, sizes, last]
        return self.call(torch.ops.stark.spread.default, x, made, *given), filters_back, back

    def _rounded(self, of: Convolution, padding: list[int], channels: int, up: bool) -> tuple[Node, Node]:
        x = of.x
        if of.groups != 1:
            (batch, count, *sizes) = shape_of(x)
            x = self.call(aten.reshape.default, x, [batch * of.groups, count // of.groups, *sizes])
        both = self.call(torch.ops.stark.rounded.default, x, list(padding), channels, up)
        made, back = (self.call(operator.getitem, both, number) for number in range(2))
        return made, back

    def _filters(self, made: Node, channels: int, up: bool) -> tuple[Node, Node]:
        """Return filters that lie channels last in float16's range, rounded, and what scales each back."""
        size = shape_of(made)
        if channels != size[-1]:
            made = self.call(aten.constant_pad_nd.default, made, [0, channels - size[-1]], 0.0)
        # As they lie in the end, so that one kernel does it all.
        made, back = self.scaled(made, list(range(1, len(size))))
        return (self.rounded_up(made) if up else made), back

    def _by_kind(self, made: Node, ways: list[Kinds], groups: int) -> Node:
        """Return filters of each kind of places, kinds first in each group, what meets the first input first."""
        (count, *taps, channels), rank = shape_of(made), len(ways)
        behind = [one.taps * one.kinds - tap for one, tap in zip(ways, taps)]
        if any(behind):
            around = [side for more in reversed(behind) for side in (0, more)]
            made = self.call(aten.constant_pad_nd.default, made, [0, 0, *around], 0.0)
        split = [each for one in ways for each in (one.taps, one.kinds)]
        made = self.call(aten.reshape.default, made, [groups, count // groups, *split, channels])
        kinds, inner = [3 + 2 * number for number in range(rank)], [2 + 2 * number for number in range(rank)]
        made = self.call(aten.permute.default, made, [0, *kinds, 1, *inner, 2 + 2 * rank])
        made = self.call(torch.ops.prims.rev.default, made, list(range(rank + 2, 2 * rank + 2)))
        all_kinds = math.prod(one.kinds for one in ways)
        return self._stored(made, [all_kinds * count, *(one.taps for one in ways), channels])

    def _stored(self, made: Node, size: list[int] | None = None) -> Node:
        """Return numbers in float16, one behind the other."""
        made = self.call(torch.ops.prims.convert_element_type.default, made, torch.float16)
        made = self.call(aten.clone.default, made, memory_format=torch.contiguous_format)
        return made if size is None else self.call(aten.reshape.default, made, size)


class InputGradients(Convolutions):
    """The gradient of a convolution's input: its own gradient, brought back by a convolution the other way."""

    OF = (operator.getitem,)

    def replace(self) -> None:
        """Put that in the place of what `aten.convolution_backward` gives first, which it need not compute then."""
        super().replace()
        behind = self._node.args[0]
        behind.update_arg(10, [False, *behind.args[10][1:]])
        behind.meta["val"] = (None, *behind.meta["val"][1:])

    def _of(self) -> Convolution | None:
        behind, place = self._node.args
        if getattr(behind, "target", None) is not aten.convolution_backward.default or place != 0:
            raise Cannot
        gradient, _, weights, _, *how, transposed, _, groups, _ = behind.args
        sizes, places, taps = (shape_of(one)[2:] for one in (self._node, gradient, weights))
        stride, padding, dilation = (for_each(one, len(taps)) for one in how)
        more = [0] * len(taps)
        if not transposed:
            each = zip(sizes, places, taps, stride, padding, dilation)
            more = [
                size - (count - 1) * step + 2 * around - (tap - 1) * apart - 1
                for size, count, tap, step, around, apart in each
            ]
        return Convolution(gradient, weights, None, stride, padding, dilation, not transposed, more, groups)


def rounding_of(of: Convolution) -> bool | None:
    """Return what `rounds_up` says of a convolution."""
    x, weights = of.x.meta["val"], of.weights.meta["val"]
    how = (of.stride, of.padding, of.dilation, of.output_padding)
    each = tuple(tuple(map(int, one)) for one in (x.shape, x.stride(), weights.shape, weights.stride(), *how))
    return rounds_up(x.device.type, Sizes(each, of.transposed, of.groups))


class Sizes(NamedTuple):
    """What cuDNN chooses a kernel by."""

    each: tuple[tuple[int, ...], ...]
    """Shape and strides of the input, of the weights, and stride, padding, dilation and output padding."""
    transposed: bool
    groups: int


@functools.cache
def rounds_up(device: str, sizes: Sizes) -> bool | None:
    """Whether cuDNN's kernel for a convolution rounds halves away from zero, or to even; None if it has no TF32.

    Raises
    ------
    Cannot
        No memory is left to try it, cuDNN has no kernel for it, or there is no cuDNN.
    """
    if device != "cuda":
        raise Cannot
    try:
        with _disable_current_modes(), torch.no_grad():
            return observed(device, sizes)
    except RuntimeError as error:
        raise Cannot from error
    finally:
        torch.cuda.empty_cache()  # a candidate in another process has a use for it


def observed(device: str, sizes: Sizes) -> bool | None:
    """Return what `rounds_up` says, by trying."""

    x_shape, x_strides, shape, strides, stride, padding, dilation, output_padding = sizes.each

    def result(up: bool | None) -> torch.Tensor:
        """Return the convolution of random numbers, rounded before if `up` says how."""
        random = torch.Generator(device).manual_seed(0)
        x, weights = (
            torch.empty_strided(size, steps, device=device).normal_(generator=random)
            for size, steps in ((x_shape, x_strides), (shape, strides))
        )
        if up is not None:
            for one in (x, weights):
                _round(one.view(torch.int32), up)
        how = (stride, padding, dilation, sizes.transposed, output_padding, sizes.groups)
        return torch.convolution(x, weights, None, *how)

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
