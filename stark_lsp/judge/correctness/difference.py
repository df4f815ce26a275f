"""How two tensors of one shape differ: the worst place, its size, and where one is not finite."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

CHUNK = {"cpu": 1 << 22, "cuda": 1 << 25}
"""Elements compared at a time, by device."""


@dataclass(eq=False)
class Difference:
    """How two tensors of one shape differ."""

    pair: tuple[torch.Tensor, torch.Tensor]
    """Both, flat."""
    max_abs: float = 0.0
    max_rel: float = 0.0
    scale: float = 0.0
    """Largest finite magnitude of the reference, 1 if that is 0."""
    at: int = 0
    """Flat index of the worst element; of one where patterns differ, if there is one."""
    same_pattern: bool = True
    """Whether NaN and infinities stand at the same places."""
    only_reference_finite: bool = False
    """Whether they differ in an element that only the candidate has as NaN or infinity."""
    expected_text: str = ""
    found_text: str = ""

    def beyond(self, tolerance: float, share: float = 0.0) -> int:
        """Return how many elements differ by more than the tolerance and a share of their own magnitude."""
        return sum(int(off.sum()) for _, off in self._off(tolerance, share))

    def places(self, tolerance: float) -> torch.Tensor:
        """Return the flat indices of the elements that differ by more than the tolerance."""
        return torch.cat([begin + off.nonzero().flatten() for begin, off in self._off(tolerance)])

    def norm(self) -> float:
        """Return the Euclidean norm of the difference."""
        return math.hypot(*(float(torch.linalg.vector_norm(wide(a) - wide(b))) for _, a, b in _pieces(*self.pair)))

    def size(self) -> float:
        """Return the Euclidean norm of the reference."""
        return math.hypot(*(float(torch.linalg.vector_norm(wide(a))) for _, a, _ in _pieces(*self.pair)))

    def _off(self, tolerance: float, share: float = 0.0) -> Iterator[tuple[int, torch.Tensor]]:
        for begin, a, b in _pieces(*self.pair):
            a, b = wide(a), wide(b)
            room = tolerance * self.scale + share * a.abs()
            yield begin, ((a - b).abs() > room) | ((a != b) & (tolerance == 0))


def difference(ref: torch.Tensor, out: torch.Tensor) -> Difference:
    """Find the worst difference, scaled by the largest finite magnitude of `ref` (1 if that is 0).

    NaN and infinities that are equal on both sides are no difference. The work is done piece by piece, on a GPU if
    one of the two is there. Types of up to 32 bits are subtracted in float32, where the difference of two close
    numbers is exact (Sterbenz's lemma); pieces with NaN or infinities, and all wider types, in float64.
    """
    flat_ref, flat_out = ref.reshape(-1), out.reshape(-1)
    result = Difference((flat_ref, flat_out))
    worst = -1.0
    for begin, a, b in _pieces(flat_ref, flat_out):
        found = _finite(a, b)
        if found is None:
            found = _careful(a, b, begin, result)
            if found is None:
                return result
        scale, top, at = found
        result.scale = max(result.scale, scale)
        if top > worst:
            worst, result.at = top, begin + at
    result.scale = result.scale or 1.0
    result.max_abs = max(worst, 0.0)
    result.max_rel = result.max_abs / result.scale
    if flat_ref.numel():
        _texts(result)
    return result


def _pieces(ref: torch.Tensor, out: torch.Tensor) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Go through two flat tensors together; with the place of each piece."""
    device = ref.device if ref.is_cuda else out.device
    step = CHUNK.get(device.type, CHUNK["cpu"])
    for begin in range(0, ref.numel(), step):
        yield begin, ref[begin : begin + step].to(device), out[begin : begin + step].to(device)


def _finite(a: torch.Tensor, b: torch.Tensor) -> tuple[float, float, int] | None:
    """Return scale, worst gap and its place of a floating piece; None if not all of it is finite."""
    if not a.dtype.is_floating_point:
        return None
    a, b = (a.float(), b.float()) if a.dtype.itemsize <= 4 else (a.double(), b.double())
    gap = a - b
    scale, top = _largest(a), _largest(gap)
    if not (math.isfinite(scale) and math.isfinite(top)):
        return None
    return scale, top, int(gap.abs_().argmax()) if top else 0


def _largest(tensor: torch.Tensor) -> float:
    """Return the largest magnitude; NaN if there is one."""
    low, high = torch.aminmax(tensor)
    return abs(float(torch.maximum(-low, high)))


def _careful(a: torch.Tensor, b: torch.Tensor, begin: int, result: Difference) -> tuple[float, float, int] | None:
    """Do the same for a piece of any type; None once a difference in NaN or infinities is noted in `result`."""
    exact = not (a.dtype.is_floating_point or a.dtype.is_complex)
    # Neighbours above 2**53 are the same in float64.
    unequal = a != b if exact else None
    a, b = wide(a), wide(b)
    finite_a, finite_b = torch.isfinite(a), torch.isfinite(b)
    both = finite_a & finite_b
    if not bool(both.all()):
        same = (a == b) | (torch.isnan(a) & torch.isnan(b))
        for mask, only in ((finite_a & ~finite_b, True), (~finite_a & ~same, False)):
            if bool(mask.any()):
                result.same_pattern, result.only_reference_finite = False, only
                result.at = begin + int(mask.nonzero()[0])
                _texts(result)
                return None
    zero = torch.zeros((), dtype=torch.float64, device=a.device)
    scale = float(torch.where(both, a.abs(), zero).max())
    gap = torch.where(both, (a - b).abs(), zero)
    if unequal is not None:
        gap = torch.where(unequal, gap.clamp_min(1.0), zero)
    return scale, float(gap.max()), int(gap.argmax())


def _texts(result: Difference) -> None:
    ref, out = result.pair
    result.expected_text, result.found_text = number_text(ref[result.at]), number_text(out[result.at])


def number_text(element: torch.Tensor) -> str:
    """Return one element as text."""
    value = element.item()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def finite(tensor: torch.Tensor) -> torch.Tensor:
    """Return which elements are neither NaN nor infinite; 8-bit types have no operator for that."""
    return torch.isfinite(tensor.float() if tensor.dtype.itemsize == 1 else tensor)


def equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal, bit by bit, so that NaN equals itself."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    a, b = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other.to(one.device)))
    return torch.equal(a, b)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in the widest type of its kind."""
    return tensor.to(torch.complex128 if tensor.dtype.is_complex else torch.float64)


def relative_errors(exact: list[torch.Tensor], found: list[torch.Tensor]) -> list[float] | None:
    """Return max|difference| / max|exact| of each pair; infinity where NaN or infinities stand at other places.

    Returns
    -------
    list of float or None
        0 for integers that are equal, infinity for others; None when the shapes differ.
    """
    if len(exact) != len(found):
        return None
    errors = []
    for a, b in zip(exact, found):
        if a.shape != b.shape or a.dtype.is_complex != b.dtype.is_complex:
            return None
        gap = difference(a, b)
        floating = b.dtype.is_floating_point or b.dtype.is_complex
        equal = gap.same_pattern and (floating or gap.max_abs == 0.0)
        errors.append(gap.max_rel if equal else math.inf)
    return errors
