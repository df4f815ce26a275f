"""Results that jump: of two codes that are equally near, or two experts with equal scores, rounding decides.

Another order of summation decides otherwise there, in an honest kernel as in torch.compile, and a whole row of a result
is another one. So an element that is off is right where the original gives that very value for inputs that are moved by
a few roundings: what is computed is close to what is exact for inputs close by (mixed stability, N. J. Higham, Accuracy
and Stability of Numerical Algorithms, section 1.5).

A gradient jumps with each `relu` and `max` that rounding decides, and a sum over many of these is like none that a draw
gives. So it is right where it is as close to the original's as the original's own is for such inputs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import torch

from ..reference import modules
from .difference import Difference, difference, wide

ROUNDINGS = 4.0
"""By how many roundings inputs are moved,"""
GROWTH = (1.0, 2.0, 4.0, 8.0)
"""and how many times as far in draws that follow one another: a sum of thousands is off by more than one of ten,"""
FARTHEST = 2.0**-6
"""but no farther than by this share."""
DRAWS = 24
"""So often they are moved at most: a tie falls to either side in one of two, so each explains half of those left."""
FEW = 4
"""After so many half of what is off is to be explained: else it is wrong."""
MOST = 0.05
"""Share of elements that may be off so; of more there is nothing to explain."""
TIMES = 4.0
"""So many times as far as the original's own a gradient may be: a smaller type than its own has an error of eight."""
LARGE = 0.1
"""Share of a gradient that is many jumps,"""
MANY = 1.5
"""which draws estimate well: so many times as far it may be then, as ties that all fall to one side are sqrt(2)."""
NOTHING = 0.5
"""Share from which on a gradient is nothing but rounding."""


def moved(tensor: torch.Tensor, seed: int, autocast: str = "", growth: float = 1.0) -> torch.Tensor:
    """Return a tensor whose elements are moved by the last bits that count; `autocast` is what they are cast to."""
    if tensor.dtype.is_complex:
        return torch.view_as_complex(moved(torch.view_as_real(tensor.detach().resolve_conj()), seed, "", growth))
    if not tensor.dtype.is_floating_point:
        return tensor
    counts = getattr(torch, autocast) if autocast else tensor.dtype
    step = ROUNDINGS * max(torch.finfo(one).eps for one in (counts, tensor.dtype))
    step *= min(growth, max(1.0, FARTHEST / step))
    generator = torch.Generator(tensor.device).manual_seed(seed)
    noise = torch.randn(tensor.shape, generator=generator, device=tensor.device)
    held = tensor.detach().float() if tensor.dtype.itemsize == 1 else tensor.detach()  # 8 bits do not multiply
    noise = noise.to(torch.promote_types(noise.dtype, held.dtype))  # in float32 1 + 1e-15 is 1
    return (held * (1.0 + step * noise)).to(tensor.dtype)


@contextlib.contextmanager
def drawn(
    arguments: Any, weights: Iterable[torch.Tensor], draw: int, autocast: str, *, all_move: bool = False
) -> Iterator[Any]:
    """Give a call's arguments moved for draw number `draw`, from 1.

    Where some of them cannot be moved, as places in an embedding, the module's weights are, until the end; each by one
    rounding, as every layer has some; with `all_move` they are in any case.
    """
    growth = GROWTH[draw % len(GROWTH)]
    dtypes = {tensor.dtype for tensor in modules.tensors_of(arguments)}
    fixed = all_move or not all(dtype.is_floating_point or dtype is torch.bool for dtype in dtypes)
    held = [(weight, weight.detach().clone()) for weight in weights] if fixed else []
    try:
        with torch.no_grad():
            for place, (weight, value) in enumerate(held, 1):
                weight.copy_(moved(value, draw + DRAWS * place, autocast, 1.0 / ROUNDINGS))
        yield modules.map_tensors(arguments, lambda one: moved(one, draw, autocast, growth))
    finally:
        with torch.no_grad():
            for weight, value in held:
                weight.copy_(value)


def explained(gap: Difference, tolerance: float, others: Iterable[torch.Tensor]) -> bool:
    """Whether all that is off is what the original gives for inputs close by.

    Parameters
    ----------
    others
        Results of the original for moved inputs, made as they are asked for.
    """
    at = gap.places(tolerance)
    ref, found = gap.pair
    found, count = wide(found.to(at.device)[at]), len(at)
    for draw, other in enumerate(others):
        if other.numel() != ref.numel() or (draw >= FEW and len(at) > count / 2):
            return False
        there = wide(other.reshape(-1).to(at.device)[at])
        off = ~((there - found).abs() <= tolerance * gap.scale)
        at, found = at[off], found[off]
        if not len(at):
            return True
    return False


def farther(gaps: Mapping[int, Difference], others: Iterable[Sequence[torch.Tensor]]) -> list[int]:
    """Return which gradients are farther from the original's than its own are for inputs close by.

    Parameters
    ----------
    gaps
        By their places among the tensors of a result.
    others
        All tensors of the original's results for moved inputs, made as they are asked for.
    """
    most, norm = dict.fromkeys(gaps, 0.0), dict.fromkeys(gaps, 0.0)
    for other in islice(others, FEW + 1):
        for place, gap in gaps.items():
            if other[place].numel() == gap.pair[0].numel():
                own = difference(gap.pair[0], other[place].reshape(-1))
                most[place], norm[place] = max(most[place], own.max_abs), max(norm[place], own.norm())
    return [
        place
        for place, gap in gaps.items()
        if not (gap.max_abs <= TIMES * most[place] and gap.norm() <= _room(norm[place], gap.size()))
    ]


def _room(own: float, size: float) -> float:
    """Return how far a gradient of this norm may be, where the original's own is this far."""
    if own > NOTHING * size:
        return TIMES * own
    return min(TIMES * own, max(MANY * own, LARGE * size))
