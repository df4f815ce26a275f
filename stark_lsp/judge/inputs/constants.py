"""Inputs that are the same for every seed, such as a mask of ones or a factor of 1.0, and other values for them.

A candidate that ignores such an input is right on all that the user's own function makes. Here each of them is
changed while all other inputs stay, as far as other values make sense without knowing what the input is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..correctness.difference import equal
from ..reference import modules

Leaf = Any
"""A tensor or a Python float."""

FACTOR = 0.75
"""What floating values are multiplied by: exact in every type, so that equal values add up as exactly as before."""
ALONE = 2
"""So many inputs are changed alone, each in a case of its own; all others in one more."""
SEED = 17
ONLY = "with only "
"""What the words of such a case begin with."""
LOOK = 4096
"""Elements that are compared first."""
PATTERN = "another pattern of zeros and ones"


def fixed(arguments: Any, other: Any) -> list[int]:
    """Return which leaves are the same as in arguments from another seed; Python floats always count as such."""
    leaves, others = modules.leaves_of(arguments), modules.leaves_of(other)
    if len(leaves) != len(others):
        return []
    pairs = enumerate(zip(leaves, others))
    return [index for index, (leaf, same) in pairs if not isinstance(leaf, torch.Tensor) or _equal(leaf, same)]


def _equal(one: torch.Tensor, other: Leaf) -> bool:
    if not isinstance(other, torch.Tensor):
        return False
    flat = one.is_contiguous() and other.is_contiguous()
    # Of gigabytes of random numbers the first few tell.
    return (not flat or equal(one.view(-1)[:LOOK], other.view(-1)[:LOOK])) and equal(one, other)


def variants(arguments: Any, chosen: list[int]) -> list[tuple[str, Callable[[], Any]]]:
    """Return what makes the arguments with one of the chosen leaves changed, each with words for messages.

    At most `ALONE` are changed alone; if there are more, the last variant changes all the rest.
    """
    names = _names(arguments)
    leaves = [(index, leaf) for index, leaf in enumerate(modules.leaves_of(arguments)) if index in chosen]
    tried = {index: changed(leaf, torch.Generator().manual_seed(SEED + index)) for index, leaf in leaves}
    changes = {index: found for index, found in tried.items() if found is not None}
    order = list(changes)
    result: list[tuple[str, Callable[[], Any]]] = []
    for group in [*([index] for index in order[:ALONE]), *([order[ALONE:]] if order[ALONE:] else [])]:
        named = " and ".join(dict.fromkeys(names[index] for index in group))
        what = ", ".join(dict.fromkeys(changes[index][0] for index in group))
        make = partial(modules.replaced, arguments, {index: changes[index][1] for index in group})
        result.append((f"{ONLY}{named} changed: {what}", make))
    return result


def _names(arguments: Any) -> list[str]:
    """Return what each leaf is called: the number or the name of the argument it belongs to."""
    args, kwargs = arguments
    named = [(f"input number {number}", value) for number, value in enumerate(args, 1)]
    named += [(f"the input {name}", value) for name, value in kwargs.items()]
    return [name for name, value in named for _ in modules.leaves_of(value)]


def changed(leaf: Leaf, generator: torch.Generator) -> tuple[str, Leaf] | None:
    """Return another value for a leaf and what was done in words; None where no other value suggests itself."""
    if not isinstance(leaf, torch.Tensor):
        return (f"times {FACTOR}", leaf * FACTOR) if math.isfinite(leaf) and leaf else None
    if leaf.dtype.is_complex or not leaf.numel():
        return None
    # Few operators for the 8-bit floating and the wider unsigned types.
    wide = leaf.long() if not leaf.dtype.is_floating_point else leaf.float() if leaf.dtype.itemsize < 4 else leaf
    found: tuple[str, torch.Tensor] | None
    if leaf.numel() > 1 and zeros_and_ones(wide):
        found = PATTERN, pattern(wide, generator)
    elif leaf.dtype == torch.bool:
        found = "the opposite", ~leaf
    elif leaf.dtype.is_floating_point:
        found = _floats(wide, generator)
    else:
        found = _integers(wide, generator)
    return None if found is None else (found[0], found[1].to(leaf.dtype).contiguous())


def zeros_and_ones(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds nothing else."""
    return tensor.dtype == torch.bool or bool(((tensor == 0) | (tensor == 1)).all())


def pattern(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return random zeros and ones of a tensor's shape; both in each row of a matrix, or at least of a vector.

    What is masked everywhere in a row has no meaning for most functions, whichever of the two masks.
    """
    flat = tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() > 1 and tensor.shape[-1] > 1 else tensor.reshape(1, -1)
    bits = torch.rand(flat.shape, generator=generator) < 0.5
    places = torch.rand(flat.shape, generator=generator).argsort(1)[:, :2]
    bits.scatter_(1, places, torch.tensor([[True, False]]).expand(flat.shape[0], 2))
    return bits.reshape(tensor.shape).to(tensor.dtype)


def _floats(tensor: torch.Tensor, generator: torch.Generator) -> tuple[str, torch.Tensor] | None:
    """Return the values in another order and smaller; infinities, as in masks, stay in their row."""
    words = f"times {FACTOR} and in another order"
    if not bool((tensor != 0).any()):
        # A single zero.
        return None
    if bool(torch.isfinite(tensor).all()):
        flat = tensor.reshape(-1)
        moved = flat[torch.randperm(flat.numel(), generator=generator)].reshape(tensor.shape)
        return (words if flat.numel() > 1 else f"times {FACTOR}"), moved * FACTOR
    if not tensor.dim():
        return None
    return words, tensor[..., torch.randperm(tensor.shape[-1], generator=generator)] * FACTOR


def _integers(tensor: torch.Tensor, generator: torch.Generator) -> tuple[str, torch.Tensor] | None:
    """Return the values in another order; where all are equal, as lengths may be, some of them half as large."""
    flat = tensor.reshape(-1)
    if flat.numel() < 2:
        return None
    low, high = int(flat.min()), int(flat.max())
    if low == high:
        if low < 2:
            return None
        half = torch.full_like(tensor, low - low // 2)
        return "some of it half as large", torch.where(pattern(tensor, generator).bool(), tensor, half)
    steps = flat[1:] - flat[:-1]
    if tensor.dim() == 1 and bool((steps >= 0).all()) and not bool((steps == 1).all()):
        # Probably offsets into another input: in another order they may lead out of it.
        return None
    return "in another order", flat[torch.randperm(flat.numel(), generator=generator)].reshape(tensor.shape)


def one_sided(tensor: torch.Tensor) -> bool:
    """Whether a floating tensor has values of one sign only, as `torch.rand` makes them; not so a mask or a scalar."""
    if not tensor.dtype.is_floating_point or tensor.numel() < 2:
        return False
    values = tensor.float()[torch.isfinite(tensor.float())]
    if not values.numel():
        return False
    low, high = (float(value) for value in torch.aminmax(values))
    return low < high and (low >= 0.0 or high <= 0.0) and not zeros_and_ones(values)
