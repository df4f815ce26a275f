"""Special inputs: variants of a problem's inputs on which a hard-coded or careless kernel goes wrong.

Each function takes the arguments of one call on the CPU and returns such variants, in the order in which they are to
be tried. Whether a variant makes a fair case is decided by running the reference on it (see `reference.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import PackedSequence

from ..reference import modules
from . import constants
from .cases import CaseKind

Arguments = Any

SCALES = {torch.float16: (64.0, 8.0), torch.bfloat16: (256.0, 16.0)}
"""How many times larger the large inputs are, by dtype: the first that the reference bears."""
USUAL_SCALES = (1000.0, 30.0)
TINY = 1e-4
"""How many times smaller the small inputs are."""
VARIED_SEED = 13
LARGEST_BATCH = 37
"""An odd batch, larger than a warp."""
REDUCED_BYTES = 4 << 20
"""Bytes of inputs that a smaller batch is to have at most, where a row is not larger than that."""
REDUCED_SHARE = 8
"""How many times smaller it is at least."""
LOWERED = 0.75
"""Share of its mean that is taken from an input of one sign. Without the mean, sums would be nothing but rounding."""
ONE_SIDED = 3
"""So many inputs of one sign are tried alone, where all at once is out of the reference's range."""
LAST_BITS = {torch.float32: (torch.int32, 0xFFFF, 0x4AAA), torch.float64: (torch.int64, (1 << 45) - 1, 0x4AAA << 29)}
"""By dtype: an integer of its size, the bits that bfloat16 leaves out, and what they become. All the ways of keeping
fewer bits err by them, and always in one direction: cut off, rounded to 7 or 10 bits, or with a half put back."""
PRODUCTS = (
    "mm", "bmm", "addmm", "addbmm", "baddbmm", "mv", "addmv", "dot", "vdot", "linear", "addr", "tensordot",
)  # fmt: skip
PRODUCT_PARTS = (
    "convolution", "conv", "attention", "fft", "linalg", "lstm", "gru", "rnn", "mkldnn", "cudnn", "matmul", "cumsum",
    "cdist", "euclidean_dist",
)  # fmt: skip


ORDER_PARTS = (
    "sort", "topk", "argm", "max.dim", "min.dim", "kthvalue", "median", "mode", "cummax", "cummin", "unique",
    "search", "bucketize", "hist",
)  # fmt: skip


class Special(NamedTuple):
    """One variant to try."""

    kind: CaseKind
    alternatives: list[tuple[str, Callable[[], Arguments]]]
    """Variants of one idea from the hardest to the mildest, each with words for messages; the first that makes a fair
    case is taken."""
    expect: Callable[[list[torch.Size], list[torch.Size]], bool] = lambda before, now: before == now
    """Given the shapes of the outputs before and now, whether the reference took the variant as it was meant."""
    again: bool = False
    """Whether it is also tried with other weights than the constructor gives."""
    beyond: bool = False
    """Whether the reference may look for rows that it does not have."""
    telling: bool = False
    """Whether it is one only where all that it changes is NaN or infinite: elsewhere a result is a choice, as a place
    among equal values, or a whole number made of NaN."""
    settled: bool = False
    """Whether it is none where rounding on the way decides the results, as where all that is left is constants."""

    @property
    def screened(self) -> bool:
        """Whether it goes beyond the user's inputs, so that it is tried in float64, and on a CPU, first."""
        return self.beyond or self.kind not in (CaseKind.BATCH, CaseKind.STRIDED)


def specials(
    arguments: Arguments, operators: set[str] | None, fixed: list[int], size: int = 0, *, ties: bool = True
) -> list[Special]:
    """Return all variants, the most telling first.

    Parameters
    ----------
    arguments
        `(args, kwargs)` of one call, on the CPU.
    operators
        Names of what the reference runs, such as `aten.mm.default`; None if unknown.
    fixed
        The leaves that are alike for every seed (see `constants.fixed`).
    size
        The user's batch, where `arguments` are a part of one.
    ties
        Whether equal values may be among the inputs; not where a whole number among the results may say which is the
        first of them.
    """
    found = [*batches(arguments, size), *strided(arguments)]
    numbers = [tensor for tensor in modules.tensors_of(arguments) if tensor.is_floating_point() or tensor.is_complex()]
    floating = [tensor for tensor in numbers if tensor.is_floating_point()]
    alone = constants.variants(arguments, fixed)
    ordered = operators is not None and has_order(operators, places=not ties)
    if floating:
        edge = edges(arguments, operators is None or has_products(operators))
        found.append(edge._replace(telling=True, again=False) if ordered or not ties else edge)
    if numbers:
        scales = SCALES.get(numbers[0].dtype, USUAL_SCALES)
        large = [(f"with inputs {scale:g} times as large", scaling(arguments, scale)) for scale in scales]
        found.append(Special(CaseKind.LARGE, large, again=True))
    found += [Special(CaseKind.VALUES, [variant]) for variant in alone]
    if floating:
        found += [*signs(arguments), *(same_bits(arguments) if ties and operators and not ordered else ())]
    if numbers:
        zeros = [("with all inputs zero", scaling(arguments, 0.0))]
        found += [
            Special(CaseKind.EDGE, zeros, telling=ordered, settled=True),
            Special(
                CaseKind.EDGE, [(f"with inputs {1 / TINY:g} times as small", scaling(arguments, TINY))], settled=True
            ),
        ]
    return found


def has_order(operators: set[str], *, places: bool = False) -> bool:
    """Whether one of the operators looks for places by value, where it is a choice which of equal ones comes first.

    A pooling does if its places are among the results (`places`).
    """
    parts = (*ORDER_PARTS, "with_indices") if places else ORDER_PARTS
    return any(part in operator for operator in operators for part in parts)


def has_products(operators: set[str]) -> bool:
    """Whether one of the operators (names such as `aten.mm.default`) mixes inputs in products."""
    names = [operator.split(".")[1] if "." in operator else operator for operator in operators]
    return any(
        "vector_norm" not in name and (name.strip("_") in PRODUCTS or any(part in name for part in PRODUCT_PARTS))
        for name in names
    )


def scaling(arguments: Arguments, scale: float) -> Callable[[], Arguments]:
    """Return what makes a variant with all inputs but whole numbers multiplied; infinities, as in masks, stay."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor
        return torch.where(torch.isfinite(tensor), tensor * scale, tensor)

    return lambda: modules.map_tensors(arguments, change)


def batches(arguments: Arguments, whole: int = 0) -> Iterator[Special]:
    """Return variants with another size of the first dimension that the tensors have in common.

    Parameters
    ----------
    whole
        The user's batch, where `arguments` are already an odd part of one; one other size is then enough.
    """
    tensors = with_rows(arguments)
    if not tensors or not tensors[0].shape[0]:
        return
    size = tensors[0].shape[0]
    others = ([3] if size == 1 else [1]) if whole else other_batches(size)
    yield from (batch_of(arguments, new, whole) for new in others if new != whole)
    if not whole and max(others) < size:
        yield batch_of(arguments, size + 1)._replace(beyond=True)


def batch_of(arguments: Arguments, new: int, whole: int = 0) -> Special:
    """Return the variant with `new` as the first dimension that the tensors have in common.

    Where the first dimensions of several tensors agree it may be by chance, as for square matrices; changing the
    first tensor alone is then tried as well.
    """
    tensors = with_rows(arguments)
    size = tensors[0].shape[0]
    alike = [tensor for tensor in tensors if tensor.shape[0] == size]
    words = f"with a batch of {new} instead of {whole or size}"
    choices = [alike, tensors[:1]] if len(alike) > 1 else [alike]
    made = [(words, resized(arguments, {id(tensor) for tensor in choice}, new)) for choice in choices]
    return Special(CaseKind.BATCH, made, lambda before, now: took_batch(before, now, size, new))


def with_rows(arguments: Arguments) -> list[torch.Tensor]:
    """Return the tensors that a batch may be told by; none where sizes of packed sequences would have to follow it."""
    if any(isinstance(one, PackedSequence) for one in (*arguments[0], *arguments[1].values())):
        return []
    return [tensor for tensor in modules.tensors_of(arguments) if tensor.dim()]


def has_whole_numbers(arguments: Arguments) -> bool:
    """Whether there are integers that may lead into another input, or beyond its end where that is shorter."""
    return any(tensor.dtype in (torch.int32, torch.int64) for tensor in modules.tensors_of(arguments))


def smaller(arguments: Arguments) -> Special | None:
    """Return the variant with a batch so small that many calls are affordable; None where there is none.

    It is odd, and the other variants can be made from it. See `batch_of`.
    """
    tensors = with_rows(arguments)
    if not tensors or tensors[0].shape[0] < 2:
        return None
    size = tensors[0].shape[0]
    rows = sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor.shape[0] == size) // size
    new = min(size // REDUCED_SHARE, REDUCED_BYTES // max(1, rows), size - 1)
    return batch_of(arguments, max(1, new - 1 + new % 2))


def last_rows(arguments: Arguments, part: Arguments) -> Arguments:
    """Return what `part` has the first rows of, a variant with a smaller batch, with the last ones in their place."""
    made = iter(modules.tensors_of(part))

    def change(tensor: torch.Tensor) -> torch.Tensor:
        first = next(made)
        return tensor[-first.shape[0] :].clone() if tensor.shape[:1] != first.shape[:1] else first

    return modules.map_tensors(arguments, change)  # type: ignore[no-any-return]


def other_batches(size: int) -> list[int]:
    """Return an odd size that divides nothing evenly, and 1; other ones than `size`."""
    odd = min(max(3, size // 4 - 1), LARGEST_BATCH)
    odd -= 1 - odd % 2
    return [new for new in dict.fromkeys((odd if odd != size else 5, 1)) if new != size]


def took_batch(before: list[torch.Size], now: list[torch.Size], size: int, new: int) -> bool:
    """Whether the outputs follow the batch: the first dimension and nothing else, or none at all, as for a loss."""
    expected = [torch.Size([new, *shape[1:]]) if len(shape) and shape[0] == size else shape for shape in before]
    followed = any(a != b for a, b in zip(before, expected))
    return now == expected and (followed or all(shape.numel() == 1 for shape in before))


def resized(arguments: Arguments, chosen: set[int], size: int) -> Callable[[], Arguments]:
    """Return what makes a variant with another first dimension of the tensors whose `id` is in `chosen`.

    Integers that may say which row of these is meant, as the edges of a graph do, say a row that is still there: on a
    GPU one beyond the end leaves the whole process unusable. Those that rise, as offsets of bags do, rise as before,
    and where the largest is the number of rows, it still is.
    """
    rows = next(tensor.shape[0] for tensor in modules.tensors_of(arguments) if id(tensor) in chosen)

    def change(tensor: torch.Tensor) -> torch.Tensor:
        remade = id(tensor) in chosen
        if size < rows and _says_rows(tensor, rows):
            most = int(tensor.max())
            rises = most == rows or (tensor.dim() == 1 and bool((tensor[1:] >= tensor[:-1]).all()))
            tensor = tensor.clamp(max=size - (most < rows)) if rises else tensor % size
        if not remade:
            return tensor
        if size <= tensor.shape[0]:
            # A copy: a large tensor is not to be kept for a few rows of it.
            return tensor[:size].clone(memory_format=torch.contiguous_format)
        return tensor.repeat(-(-size // tensor.shape[0]), *[1] * (tensor.dim() - 1))[:size].contiguous()

    return lambda: modules.map_tensors(arguments, change)


def _says_rows(tensor: torch.Tensor, rows: int) -> bool:
    """Whether these are integers that all could be the number of a row, or the end of some rows."""
    if tensor.dtype not in (torch.int32, torch.int64) or not tensor.numel():
        return False
    least, most = torch.aminmax(tensor)
    return int(least) >= 0 and int(most) <= rows


def strided(arguments: Arguments) -> Iterator[Special]:
    """Return variants with the same values in other places, and with NaN (or -1) in between."""
    tensors = [tensor for tensor in modules.tensors_of(arguments) if tensor.numel() > 1]
    if not tensors:
        return
    words = "with inputs that are not contiguous: {}; use .contiguous() or their strides"
    ways = [("parts of wider tensors", parted)]
    if any(tensor.dim() > 1 for tensor in tensors):
        ways.append(("transposed in memory", transposed))
    for what, way in ways:
        yield Special(CaseKind.STRIDED, [(words.format(what), partial(modules.map_tensors, arguments, way))])


def filler(tensor: torch.Tensor) -> float | int:
    """Return what stands where nothing may be read."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return float("nan")
    return 1 if tensor.dtype in (torch.bool, torch.uint8) else -1


def parted(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values as a part of a tensor twice as wide and a row longer, as `chunk` of a product gives it.

    Where there are no rows, as every second element: what cares for no strides goes wrong with either.
    """
    if tensor.dim() < 2 or tensor.numel() < 2:
        return spread(tensor)
    *outer, rows, columns = tensor.shape
    wide = torch.full((*outer, rows + 1, 2 * columns), filler(tensor), dtype=tensor.dtype)
    view = wide[..., :rows, :columns]
    view.copy_(tensor)
    return view


def spread(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values as every second element of a tensor twice as wide."""
    if tensor.numel() < 2 or not tensor.dim():
        return tensor
    wide = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1]), filler(tensor), dtype=tensor.dtype)
    view = wide[..., ::2]
    view.copy_(tensor)
    return view


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values stored with the last two dimensions exchanged, in a buffer one row wider."""
    if tensor.dim() < 2 or tensor.numel() < 2:
        return tensor
    *outer, rows, columns = tensor.shape
    wide = torch.full((*outer, columns, rows + 1), filler(tensor), dtype=tensor.dtype)
    view = wide[..., :rows].transpose(-1, -2)
    view.copy_(tensor)
    return view


def signs(arguments: Arguments) -> Iterator[Special]:
    """Return the variant in which inputs of one sign, such as `torch.rand` makes, get the other sign as well.

    Only some of them may have a meaning below zero, so that each is also tried alone. Masks stay as they are.
    """
    leaves = enumerate(modules.leaves_of(arguments))
    chosen = {at: leaf for at, leaf in leaves if isinstance(leaf, torch.Tensor) and constants.one_sided(leaf)}
    if not chosen:
        return
    groups = [chosen]
    if len(chosen) > 1:
        groups += [{at: chosen[at]} for at in list(chosen)[:ONE_SIDED]]
    ways = (("with negative values among the inputs", lowered), ("with the signs flipped", torch.neg))

    def changed(group: dict[int, torch.Tensor], way: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
        return modules.replaced(arguments, {at: way(tensor) for at, tensor in group.items()})

    yield Special(CaseKind.VALUES, [(words, partial(changed, group, way)) for group in groups for words, way in ways])


def lowered(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor less most of its mean; infinities stay as they are."""
    wide = tensor.double()
    mean = wide[torch.isfinite(wide)].mean()
    return (wide - LOWERED * mean).to(tensor.dtype)


def same_bits(arguments: Arguments) -> Iterator[Special]:
    """Return the variant in which the last bits of all floating inputs are the same.

    A sum of many values hides what was cut off each of them, because the errors average out; here they cannot. The
    values stay almost what they were, so that nothing is harder to compute than with the user's.
    """

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype not in LAST_BITS:
            return tensor
        whole, mask, bits = LAST_BITS[tensor.dtype]
        same = ((tensor.contiguous().view(whole) & ~mask) | bits).view(tensor.dtype)
        return torch.where(torch.isfinite(tensor) & (tensor != 0), same, tensor)

    if any(tensor.dtype in LAST_BITS and tensor.numel() > 1 for tensor in modules.tensors_of(arguments)):
        words = "with inputs whose last bits are all alike, so that lower precision does not average out"
        yield Special(CaseKind.VALUES, [(words, lambda: modules.map_tensors(arguments, change))])


def edges(arguments: Arguments, products: bool) -> Special:
    """Return the variants with values at the edge of what a floating type holds.

    Parameters
    ----------
    products
        Whether the reference multiplies matrices, convolves or the like. A zero times NaN is NaN there, and a
        convolution may be computed on whole tiles, so that NaN at a few places reaches other results in an honest
        kernel than in the reference: one that skips the zeros of a triangular or diagonal factor gives better results.
        All inputs NaN must give NaN with any of them.
    """
    nan, inf = float("nan"), float("inf")

    def filled(tensor: torch.Tensor) -> torch.Tensor:
        return torch.full_like(tensor, nan) if tensor.dtype.is_floating_point else tensor

    if products:
        return Special(CaseKind.EDGE, [("with all inputs NaN", lambda: modules.map_tensors(arguments, filled))])
    choices = [
        ("with NaN, infinities, -0.0 and denormals among the inputs", (nan, inf, -inf, -0.0, None)),
        ("with NaN and infinities among the inputs", (nan, inf, -inf)),
        ("with NaN among the inputs", (nan,)),
    ]
    return Special(CaseKind.EDGE, [(words, sprinkled(arguments, kinds)) for words, kinds in choices], again=True)


def sprinkled(arguments: Arguments, kinds: tuple[float | None, ...]) -> Callable[[], Arguments]:
    """Return what makes a variant with each of the values at one place of each floating input.

    None stands for the largest denormal's half. The places are spread evenly, so that most rows of a tensor keep
    their values; a tensor with fewer than four elements for each value gets as many values as fit.
    """

    def change(tensor: torch.Tensor) -> torch.Tensor:
        count = min(len(kinds), max(1, tensor.numel() // 4))
        if not tensor.dtype.is_floating_point or tensor.numel() < 2:
            return tensor
        flat = tensor.contiguous().reshape(-1).clone()
        for index, kind in enumerate(kinds[:count]):
            value = torch.finfo(tensor.dtype).tiny / 2 if kind is None else kind
            flat[(2 * index + 1) * flat.numel() // (2 * count)] = value
        return flat.reshape(tensor.shape)

    return lambda: modules.map_tensors(arguments, change)


def varied(arguments: Arguments, generator: torch.Generator) -> Arguments:
    """Return inputs in another order and, where floating, smaller by a factor; each stays within its own range.

    For inputs that are the same for each seed, or that differ too little to move the result.
    """

    def change(tensor: torch.Tensor) -> torch.Tensor:
        flat = tensor.contiguous().reshape(-1)
        flat = flat[torch.randperm(flat.numel(), generator=generator)]
        if tensor.dtype.is_floating_point:
            flat = flat * (0.25 + 0.5 * float(torch.rand((), generator=generator)))
        return flat.reshape(tensor.shape)

    return modules.map_tensors(arguments, change)
