"""Special inputs: half of a length, on which a kernel goes wrong that has one built in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from ..reference import modules
from .cases import CaseKind
from .special import Arguments, Special, with_rows

SHORTEST = 7
"""A dimension of so many is a few of something else, such as colours or corners."""


def lengths(arguments: Arguments) -> Iterator[Special]:
    """Return variants with half of a dimension behind the first, as a shorter text, row or image has.

    None is longer, as there may be no more positions, and none is odd where yours is even, as what is taken apart into
    two may then be anything.
    """
    tensors = [tensor for tensor in with_rows(arguments) if tensor.dim() > 1]
    numbers = [one for one in torch.utils._pytree.tree_leaves(arguments) if isinstance(one, int)]
    for dim in range(1, tensors[0].dim()) if tensors else ():
        size = tensors[0].shape[dim]
        if size > SHORTEST and size not in numbers:
            made = [*shorter(arguments, tensors[0], dim)]
            yield Special(CaseKind.LENGTH, made, partial(took_length, size=size, new=size // 2))


def shorter(arguments: Arguments, tensor: torch.Tensor, dim: int) -> Iterator[tuple[str, Callable[[], Arguments]]]:
    """Yield variants with half of one dimension, wherever else it is found, and there alone: it may be so by chance."""
    size, rows = tensor.shape[dim], tensor.shape[0]
    alone = {(id(tensor), dim)}
    alike = {
        (id(one), at)
        for one in modules.tensors_of(arguments)
        for at, length in enumerate(one.shape)
        if length == size and (at or size != rows)
    }
    words = f"with {size // 2} instead of {size} along dimension {dim} of its inputs"
    for places in (alike, alone) if len(alike) > 1 else (alone,):
        yield words, partial(modules.map_tensors, arguments, partial(half, places=places, size=size))


def half(tensor: torch.Tensor, *, places: set[tuple[int, int]], size: int) -> torch.Tensor:
    """Return the first half of a tensor in those dimensions.

    Raises
    ------
    RuntimeError
        What is left may make no sense: integers that could be places or lengths beyond it, or rows with nothing but
        zeros or infinities, as a mask that leaves out all.
    """
    dims = [dim for dim in range(tensor.dim()) if (id(tensor), dim) in places]
    found = tensor
    for dim in dims:
        found = found.narrow(dim, 0, size // 2)
    if not tensor.dtype.is_floating_point and not tensor.dtype.is_complex and tensor.dtype is not torch.bool:
        least, most = (int(one) for one in torch.aminmax(tensor)) if tensor.numel() else (0, 0)
        if least >= 0 and most <= size and int(found.max()) >= size // 2 and most > 1:
            raise RuntimeError("it may say places")
    if dims and bool(_some(tensor).all()) and not bool(_some(found).all()):
        raise RuntimeError("nothing is left of a row")
    return found.clone() if dims else tensor


def _some(tensor: torch.Tensor) -> torch.Tensor:
    """Say for each row whether a mask leaves anything of it: what is not zero, or what is finite where not all is."""
    finite = tensor.isfinite()
    return (tensor != 0 if bool(finite.all()) else finite).any(-1)


def took_length(before: list[torch.Size], now: list[torch.Size], *, size: int, new: int) -> bool:
    """Whether the outputs follow a dimension, and nothing else of them changed."""

    def follows(old: torch.Size, one: torch.Size) -> bool:
        return len(old) == len(one) and all(b == a or (a, b) == (size, new) for a, b in zip(old, one))

    return before != now and len(before) == len(now) and all(map(follows, before, now))
