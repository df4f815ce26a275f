"""Special inputs: variants of a problem's inputs on which a hard-coded or careless kernel goes wrong.

Each function takes the arguments of one call on the CPU and returns such variants, in the order in which they are to
be tried. Whether a variant makes a fair case is decided by running the reference on it (see `reference.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import modules
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
PRODUCTS = (
    "mm", "bmm", "addmm", "addbmm", "baddbmm", "mv", "addmv", "dot", "vdot", "linear", "addr", "cdist", "tensordot",
)  # fmt: skip
PRODUCT_PARTS = (
    "convolution", "conv", "attention", "fft", "linalg", "lstm", "gru", "rnn", "mkldnn", "cudnn", "matmul", "cumsum",
)  # fmt: skip


class Special:
    """One variant to try.

    Parameters
    ----------
    alternatives
        Variants of one idea from the hardest to the mildest, each with words for messages; the first that makes a
        fair case is taken.
    expect
        Given the shapes of the outputs before and now, whether the reference took the variant as it was meant.
    """

    def __init__(
        self,
        kind: CaseKind,
        alternatives: list[tuple[str, Callable[[], Arguments]]],
        expect: Callable[[list[torch.Size], list[torch.Size]], bool] = lambda before, now: before == now,
    ) -> None:
        self.kind = kind
        self.alternatives = alternatives
        self.expect = expect

    @property
    def changes_values(self) -> bool:
        """Whether values are other than the user's, so that the reference's exactness has to be measured anew."""
        return self.kind in (CaseKind.LARGE, CaseKind.EDGE)


def specials(arguments: Arguments, products: bool) -> Iterator[Special]:
    """Return all variants, the most telling first.

    Parameters
    ----------
    arguments
        `(args, kwargs)` of one call, on the CPU.
    products
        Whether the reference multiplies matrices, convolves or the like. A zero times NaN is NaN there, and a
        convolution may be computed on whole tiles, so that NaN at a few places reaches other results in an honest
        kernel than in the reference: one that skips the zeros of a triangular or diagonal factor gives better results.
        All inputs NaN must give NaN with any of them.
    """
    yield from batches(arguments)
    yield from strided(arguments)
    floating = [tensor for tensor in modules.tensors_of(arguments) if tensor.dtype.is_floating_point]
    if not floating:
        return
    yield edges(arguments, products)
    scales = SCALES.get(floating[0].dtype, USUAL_SCALES)
    yield Special(
        CaseKind.LARGE, [(f"with inputs {scale:g} times as large", scaling(arguments, scale)) for scale in scales]
    )
    yield Special(CaseKind.EDGE, [("with all inputs zero", scaling(arguments, 0.0))])
    yield Special(CaseKind.EDGE, [(f"with inputs {1 / TINY:g} times as small", scaling(arguments, TINY))])


def has_products(operators: set[str]) -> bool:
    """Whether one of the operators (names such as `aten.mm.default`) mixes inputs in products."""
    for operator in operators:
        name = operator.split(".")[1] if operator.count(".") else operator
        if "vector_norm" in name:
            continue
        if name.strip("_") in PRODUCTS or any(part in name for part in PRODUCT_PARTS):
            return True
    return False


def scaling(arguments: Arguments, scale: float) -> Callable[[], Arguments]:
    """Return what makes a variant with all floating inputs multiplied; infinities, as in masks, stay as they are."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.dtype.is_floating_point:
            return tensor
        return torch.where(torch.isfinite(tensor), tensor * scale, tensor)

    return lambda: modules.map_tensors(arguments, change)


def batches(arguments: Arguments) -> Iterator[Special]:
    """Return variants with another size of the first dimension that the tensors have in common.

    Where the first dimensions of several tensors agree it may be by chance, as for square matrices; the variant that
    changes the first tensor alone is then tried as well.
    """
    tensors = [tensor for tensor in modules.tensors_of(arguments) if tensor.dim()]
    if not tensors or not tensors[0].shape[0]:
        return
    size = tensors[0].shape[0]
    alike = [tensor for tensor in tensors if tensor.shape[0] == size]
    choices = [alike, tensors[:1]] if len(alike) > 1 else [alike]
    for new in other_batches(size):
        yield Special(
            CaseKind.BATCH,
            [
                (f"with a batch of {new} instead of {size}", resized(arguments, {id(t) for t in choice}, new))
                for choice in choices
            ],
            lambda before, now, new=new: took_batch(before, now, size, new),  # type: ignore[misc]
        )


def other_batches(size: int) -> list[int]:
    """Return an odd size that divides nothing evenly, and 1; other ones than `size`."""
    odd = min(max(3, size // 4 - 1), LARGEST_BATCH)
    odd -= 1 - odd % 2
    return [new for new in dict.fromkeys((odd if odd != size else 5, 1)) if new != size]


def took_batch(before: list[torch.Size], now: list[torch.Size], size: int, new: int) -> bool:
    """Whether the outputs follow the batch: the first dimension and nothing else, or none at all, as for a loss."""
    expected = [torch.Size([new, *shape[1:]]) if len(shape) and shape[0] == size else shape for shape in before]
    followed = any(a != b for a, b in zip(before, expected))  # noqa: B905 - Python 3.9
    return now == expected and (followed or all(shape.numel() == 1 for shape in before))


def resized(arguments: Arguments, chosen: set[int], size: int) -> Callable[[], Arguments]:
    """Return what makes a variant with another first dimension of the tensors whose `id` is in `chosen`."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in chosen:
            return tensor
        if size <= tensor.shape[0]:
            return tensor[:size].contiguous()
        return tensor.repeat(-(-size // tensor.shape[0]), *[1] * (tensor.dim() - 1))[:size].contiguous()

    return lambda: modules.map_tensors(arguments, change)


def strided(arguments: Arguments) -> Iterator[Special]:
    """Return variants with the same values in other places, and with NaN (or -1) in between."""
    tensors = [tensor for tensor in modules.tensors_of(arguments) if tensor.numel() > 1]
    if not tensors:
        return
    words = "with inputs that are not contiguous: {}; use .contiguous() or their strides"
    yield Special(
        CaseKind.STRIDED,
        [(words.format("every second element of wider tensors"), lambda: modules.map_tensors(arguments, spread))],
    )
    if any(tensor.dim() > 1 for tensor in tensors):
        yield Special(
            CaseKind.STRIDED,
            [(words.format("transposed in memory"), lambda: modules.map_tensors(arguments, transposed))],
        )


def filler(tensor: torch.Tensor) -> float | int:
    """Return what stands where nothing may be read."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return float("nan")
    return 1 if tensor.dtype in (torch.bool, torch.uint8) else -1


def spread(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values as every second element of a tensor twice as wide."""
    if tensor.numel() < 2:
        return tensor
    if not tensor.dim() or tensor.shape[-1] == 0:
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


def edges(arguments: Arguments, products: bool) -> Special:
    """Return the variants with values at the edge of what a floating type holds (see `specials` on `products`)."""
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
    return Special(CaseKind.EDGE, [(words, sprinkled(arguments, kinds)) for words, kinds in choices])


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
