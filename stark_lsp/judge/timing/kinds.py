"""What kind of numbers an input holds, and so how it may be mixed."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..correctness.difference import equal
from ..transport import tensorfile

MIXED = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
"""Types whose values may be mixed."""
SAMPLE = 4096
"""Elements that are looked at to see what kind of numbers a tensor holds."""
FEW = 16
"""A tensor with no more different numbers than this holds categories, not quantities."""
ROWS = 16
"""With fewer samples than this, too few different choices of them exist."""
UNIQUE_LIMIT = 1 << 20
"""Elements up to which they are compared with each other."""
STRUCTURE_LIMIT = 1 << 22
"""Elements of a tensor that are looked at to see how they hang together."""
COLUMNS = 8
"""So few columns may each have a meaning, such as the corners of a box."""
OFTEN = 0.05
"""An integer with a larger share than this stands for something, such as padding."""


class Mixable(NamedTuple):
    """How one tensor is mixed."""

    mixed: bool = False
    """Whether values may be mixed; otherwise each is taken from one of the sets as it is."""
    rolled: bool = False
    """With one set: whether it may be mixed with itself, moved along the first dimension."""
    picked: int = -1
    """Where values are not mixed: the dimension along which samples of all sets are picked; -1 for none."""
    permuted: bool = False
    """Whether samples of one set change places instead, since no two of them are equal."""
    free: bool = False
    """Whether each element is mixed by a weight of its own; else all by the same."""
    shuffled: bool = False
    """Whether places along the last dimension change, alike for all inputs with as many."""
    renamed: bool = False
    """Whether integers stand for others of them."""


def kind_of(tensors: list[torch.Tensor]) -> Mixable:
    """Say how one input, given as each set has it, may be mixed.

    A convex combination of two sets keeps ranges, signs, symmetry, definiteness, sums of probabilities and
    order. It does not keep integers, categories, flags or infinities, so tensors of these are never mixed.
    With one set alone, samples of a batch are mixed with each other; where the first dimension may not be a
    batch (a vector, a square matrix), the values are scaled down a little instead.

    Where elements do not hang together, each has a weight of its own. Where they only have the same sum, or are
    categories, flags or infinities that are not sorted (as prefixes and triangles are), columns change places. Integers
    that are neither sorted nor categories stand for others of them, but for those below 1 and those that come often.
    """
    if not _quantities(tensors):
        return _picking(tensors)
    first = tensors[0]
    shape, stride = first.shape, first.stride()
    batched = first.dim() >= 2 and 1 < shape[0] != shape[1]
    rolled = batched and first.numel() == tensorfile.span(shape, stride) and stride[0] == max(stride)
    whole, sums = _structure(tensors)
    return Mixable(True, rolled, free=not (whole or sums), shuffled=sums and not whole and first.dim() > 1)


def _quantities(tensors: list[torch.Tensor]) -> bool:
    """Whether values are quantities, which may be mixed."""
    first = tensors[0]
    if first.dtype not in MIXED or not first.numel():
        return False
    return all(
        bool(torch.isfinite(tensor).all()) and (first.dtype.is_complex or not _categories(tensor)) for tensor in tensors
    )


def _categories(tensor: torch.Tensor) -> bool:
    """Whether numbers are whole, or few different ones."""
    flat = tensor.reshape(-1)
    sample = flat[:: max(1, flat.numel() // SAMPLE)][:SAMPLE].double().cpu()
    few = sample.numel() > 2 * FEW and torch.unique(sample).numel() <= FEW
    return few or bool((sample == sample.round()).all())


def _structure(tensors: list[torch.Tensor]) -> tuple[bool, bool]:
    """Say whether values hang together as a whole in all sets (order, symmetry), and whether their sums are alike."""
    looked = [_sample(tensor) for tensor in tensors]
    if tensors[0].dtype.is_complex:
        return all(map(_symmetric, looked)), False
    wide = [tensor.double() for tensor in looked]
    dims = [dim for dim, size in enumerate(wide[0].shape) if size > 1]
    whole = all(map(_symmetric, wide)) or all(map(_ranked, wide))
    whole = whole or any(all(_sorted(tensor, dim) for tensor in wide) for dim in dims if wide[0].shape[dim] > 2)
    limit = max(1e-6, torch.finfo(tensors[0].dtype).eps)
    sums = False
    for dim in dims:
        found = torch.cat([tensor.sum(dim).reshape(-1) for tensor in wide])
        size = torch.cat([tensor.abs().sum(dim).reshape(-1) for tensor in wide]).mean()
        sums = sums or (found.numel() > 1 and float(found.max() - found.min()) <= limit * float(size))
    return whole, sums


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """Return the first samples of a tensor, as many as are looked at."""
    if tensor.dim() < 2 or tensor.numel() <= STRUCTURE_LIMIT:
        return tensor.detach()
    return tensor.detach()[: max(2, STRUCTURE_LIMIT * tensor.shape[0] // tensor.numel())]


def _symmetric(tensor: torch.Tensor) -> bool:
    """Whether matrices are symmetric."""
    square = tensor.dim() > 1 and tensor.shape[-1] == tensor.shape[-2] > 1
    return square and torch.allclose(tensor, tensor.transpose(-1, -2).conj(), rtol=1e-4, atol=1e-8)


def _ranked(tensor: torch.Tensor) -> bool:
    """Whether one of few columns is never below another, as in boxes."""
    if tensor.dim() < 2 or not 1 < tensor.shape[-1] <= COLUMNS or tensor.numel() < ROWS * tensor.shape[-1]:
        return False
    columns = tensor.reshape(-1, tensor.shape[-1]).unbind(1)
    return any(bool((one <= other).all()) for one in columns for other in columns if one is not other)


def _picking(tensors: list[torch.Tensor]) -> Mixable:
    """Say how values that cannot be mixed (indices, categories, flags) become a new input nevertheless.

    Samples along the batch, or along the longest dimension if the batch is small, are picked from all sets; all such
    inputs of a size get the same choice, so that a sequence keeps its mask. What is sorted (offsets), or the same in
    all sets (a causal mask), means something as a whole and stays as it is.
    """
    first = tensors[0]
    none = Mixable()
    if first.dim() == 0 or first.numel() != tensorfile.span(first.shape, first.stride()):
        return none
    same = len(tensors) > 1 and all(equal(first, tensor) for tensor in tensors[1:])
    dim = 0 if first.shape[0] >= ROWS else max(range(first.dim()), key=lambda number: first.shape[number])
    if same or first.shape[dim] < 2 or (len(tensors) == 1 and first.dtype == torch.bool):
        return none
    if first.dim() == 1 and all(_sorted(tensor) for tensor in tensors):
        return none
    unique = len(tensors) == 1 or (
        first.dim() == 1
        and first.numel() <= UNIQUE_LIMIT
        and all(torch.unique(tensor).numel() == tensor.numel() for tensor in tensors)
    )
    loose = first.dim() > 1 and not any(map(_ordered, tensors))
    renamed = (
        loose and not first.dtype.is_floating_point and first.dtype != torch.bool and names_of(tensors) is not None
    )
    return Mixable(picked=dim, permuted=unique, shuffled=loose and not renamed, renamed=renamed)


def _sorted(tensor: torch.Tensor, dim: int = 0) -> bool:
    """Whether elements never fall along a dimension, or never rise."""
    if tensor.dtype == torch.bool:
        tensor = tensor.byte()
    if tensor.dtype.is_complex:
        return False
    before, after = tensor.narrow(dim, 0, tensor.shape[dim] - 1), tensor.narrow(dim, 1, tensor.shape[dim] - 1)
    return bool((before <= after).all()) or bool((before >= after).all())


def _ordered(tensor: torch.Tensor) -> bool:
    """Whether categories or integers mean something as a whole: sorted, as prefixes, triangles or offsets; symmetric.

    Of integers a single long line that is sorted suffices.
    """
    looked = _sample(tensor)
    if looked.dtype.is_complex or _symmetric(looked.double()):
        return True
    lines = looked.reshape(-1, looked.shape[-1]).double()
    steps = lines[:, 1:] - lines[:, :-1]
    # The difference of two equal infinities is none.
    steps = torch.where(lines[:, 1:] == lines[:, :-1], 0.0, steps)
    one = (steps >= 0).all(1) | (steps <= 0).all(1)
    if lines.shape[1] < ROWS or torch.unique(lines.reshape(-1)[:: max(1, lines.numel() // SAMPLE)]).numel() <= FEW:
        return bool(one.all())
    return bool(one.any())


def names_of(tensors: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the integers that come in any set, and which of them may stand for others; None if these are few."""
    if sum(tensor.numel() for tensor in tensors) > UNIQUE_LIMIT:
        return None
    found, counts = torch.unique(torch.cat([tensor.reshape(-1).long() for tensor in tensors]), return_counts=True)
    loose = ((found > 0) & (counts <= OFTEN * counts.sum())).nonzero()[:, 0]
    return (found, loose) if loose.numel() > 2 * FEW else None
