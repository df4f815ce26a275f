"""Compare a candidate's outputs with the reference's."""

from __future__ import annotations

import math
from typing import Any

import torch

from . import tensorfile, values

TOLERANCE = {
    torch.float64: 1e-7,
    torch.float32: 2e-5,
    torch.float16: 1e-2,
    torch.bfloat16: 3e-2,
    torch.complex64: 2e-5,
    torch.complex128: 1e-7,
}
"""Largest accepted |difference| / max|reference| by dtype: room for another order of summation, not for
another precision."""
COARSE = 1.3e-1
"""The same for the 8-bit floating types."""
WIDEN = 4.0
"""How often the reference's own rounding error (against float64) a candidate may differ by."""
WIDEN_LIMIT = 50.0
"""The tolerance never grows beyond this multiple."""
CHUNK = 1 << 22
"""Elements compared at a time."""


class Mismatch(Exception):
    """The outputs differ; `status` is the verdict's, `str()` the message."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class Figures:
    """Worst errors so far."""

    def __init__(self) -> None:
        self.max_abs = 0.0
        self.max_rel = 0.0
        self.tolerance = 0.0
        self.float64: float | None = None

    def add(self, max_abs: float, max_rel: float, tolerance: float) -> None:
        """Take in one output."""
        self.max_abs = max(self.max_abs, max_abs)
        if max_rel >= self.max_rel:
            self.max_rel, self.tolerance = max_rel, tolerance

    def to_wire(self) -> dict[str, Any]:
        """Return `core.ErrorFigures` in wire form."""
        return {
            "max_abs": self.max_abs,
            "max_rel": self.max_rel,
            "tolerance": self.tolerance,
            "float64_max_rel": self.float64,
        }


def tolerance_for(dtype: torch.dtype, own_error: float = 0.0) -> float:
    """Return the tolerance for an output; 0 for integers and booleans, which must be equal.

    Parameters
    ----------
    own_error
        The reference's relative error against float64, 0 if unknown.
    """
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0
    base = TOLERANCE.get(dtype, COARSE)
    return min(max(base, WIDEN * own_error), WIDEN_LIMIT * base)


def compare(
    reference: tensorfile.Loaded,
    candidate: tensorfile.Loaded,
    figures: Figures,
    own_errors: list[float] | None = None,
    what: str = "output",
) -> None:
    """Check structure, shape, dtype, device and values of all outputs.

    Parameters
    ----------
    own_errors
        For each tensor the reference's relative error against float64.
    what
        What the tensors are called in messages.

    Raises
    ------
    Mismatch
        At the first output that differs, with the place and size of the worst difference.
    """
    ours, theirs = values.flatten(reference.skeleton), values.flatten(candidate.skeleton)
    if [_node(item) for item in ours] != [_node(item) for item in theirs]:
        raise Mismatch("WRONG_SHAPE", _structure_message(ours, theirs, what))
    index = 0
    for (path, expected), (_, found) in zip(ours, theirs):  # noqa: B905 - Python 3.9
        name = f"{what} {path}".strip()
        if isinstance(expected, dict) and expected.get("k") == "tensor":
            own = own_errors[index] if own_errors else 0.0
            compare_tensors(
                name,
                (reference.tensors[expected["v"]], reference.heads[expected["v"]]),
                (candidate.tensors[found["v"]], candidate.heads[found["v"]]),
                figures,
                own,
            )
            index += 1
        elif not _same_plain(expected, found):
            raise Mismatch(
                "WRONG_RESULT", f"The {name} is {_plain(found)} where the reference gives {_plain(expected)}."
            )


def _node(item: tuple[str, Any]) -> tuple[str, str]:
    """Return what must be equal for the structures to be equal: the path and the kind of node."""
    path, leaf = item
    if isinstance(leaf, dict):
        return path, str(leaf.get("k"))
    if isinstance(leaf, str) and leaf.partition(" ")[0] in ("list", "tuple", "dict", "dataclass", "namedtuple"):
        return path, leaf
    return path, type(leaf).__name__


def _structure_message(ours: list[tuple[str, Any]], theirs: list[tuple[str, Any]], what: str) -> str:
    for expected, found in zip(ours, theirs):  # noqa: B905 - Python 3.9
        if _node(expected) != _node(found):
            place = f"{what} {expected[0]}".strip()
            return f"The {place} is a {_node(found)[1]} where the reference gives a {_node(expected)[1]}."
    return f"There are {len(theirs)} values in the {what} where the reference gives {len(ours)}."


def _plain(leaf: Any) -> str:
    return str(leaf["v"]) if isinstance(leaf, dict) else repr(leaf)


def _same_plain(expected: Any, found: Any) -> bool:
    """Compare numbers with a small tolerance and everything else exactly."""
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(expected, found, rel_tol=1e-4, abs_tol=1e-12)
    return bool(expected == found)


def compare_tensors(
    name: str,
    expected: tuple[torch.Tensor, dict[str, Any]],
    found: tuple[torch.Tensor, dict[str, Any]],
    figures: Figures,
    own_error: float = 0.0,
) -> None:
    """Check one tensor.

    Raises
    ------
    Mismatch
    """
    (ref, ref_head), (out, out_head) = expected, found
    if out.shape != ref.shape:
        raise Mismatch("WRONG_SHAPE", f"The {name} has shape {_shape(out)} where the reference gives {_shape(ref)}.")
    if out.dtype != ref.dtype:
        raise Mismatch("WRONG_DTYPE", f"The {name} is {_name(out)} where the reference gives {_name(ref)}.")
    if out_head.get("device") != ref_head.get("device"):
        raise Mismatch(
            "WRONG_DTYPE",
            f"The {name} is on {out_head.get('device')} where the reference puts it on {ref_head.get('device')}.",
        )
    if out_head.get("type") and out_head.get("type") != ref_head.get("type"):
        raise Mismatch("WRONG_SHAPE", f"The {name} is a {out_head['type']}, not a plain torch.Tensor.")
    tolerance = tolerance_for(ref.dtype, own_error)
    worst = difference(ref, out)
    if worst.only_reference_finite is not None:
        raise Mismatch(
            "NOT_FINITE",
            f"The {name} is {worst.found_text} at {_index(worst.only_reference_finite, ref)} "
            f"where the reference gives {worst.expected_text}.",
        )
    if worst.other_nonfinite is not None:
        raise Mismatch(
            "WRONG_RESULT",
            f"The {name} is {worst.found_text} at {_index(worst.other_nonfinite, ref)} "
            f"where the reference gives {worst.expected_text}.",
        )
    figures.add(worst.max_abs, worst.max_rel, tolerance)
    if worst.max_rel > tolerance:
        share = 100.0 * worst.beyond(tolerance) / max(1, ref.numel())
        limit = f"{tolerance:.0e} is allowed" if tolerance else "it must be equal"
        raise Mismatch(
            "WRONG_RESULT",
            f"The {name} is {worst.found_text} at {_index(worst.at, ref)} where the reference gives "
            f"{worst.expected_text}: off by {worst.max_abs:.3g}, or {worst.max_rel:.2g} of the largest value "
            f"({limit}); {share:.3g} % of the elements are off.",
        )


class Difference:
    """How two tensors of one shape differ."""

    def __init__(self) -> None:
        self.max_abs = 0.0
        self.max_rel = 0.0
        self.scale = 0.0
        self.at = 0
        """Flat index of the worst element."""
        self.only_reference_finite: int | None = None
        self.other_nonfinite: int | None = None
        self.expected_text = ""
        self.found_text = ""
        self._pair: tuple[torch.Tensor, torch.Tensor] = (torch.empty(0), torch.empty(0))

    def beyond(self, tolerance: float) -> int:
        """Return how many elements differ by more than the tolerance."""
        ref, out = self._pair
        count = 0
        for begin in range(0, ref.numel(), CHUNK):
            a, b = _wide(ref[begin : begin + CHUNK]), _wide(out[begin : begin + CHUNK])
            count += int(((a - b).abs() > tolerance * self.scale).sum())
        return count


def difference(ref: torch.Tensor, out: torch.Tensor) -> Difference:
    """Find the worst difference, scaled by the largest finite magnitude of `ref` (1 if that is 0).

    NaN and infinities that are equal on both sides are no difference.
    """
    flat_ref, flat_out = ref.reshape(-1), out.reshape(-1)
    result = Difference()
    result._pair = (flat_ref, flat_out)
    worst = -1.0
    for begin in range(0, flat_ref.numel(), CHUNK):
        a, b = _wide(flat_ref[begin : begin + CHUNK]), _wide(flat_out[begin : begin + CHUNK])
        finite_a, finite_b = torch.isfinite(a), torch.isfinite(b)
        both = finite_a & finite_b
        if not bool(both.all()):
            lost = finite_a & ~finite_b
            same = (a == b) | (torch.isnan(a) & torch.isnan(b))
            for mask, field in ((lost, "only_reference_finite"), (~finite_a & ~same, "other_nonfinite")):
                if bool(mask.any()):
                    at = begin + int(mask.nonzero()[0])
                    setattr(result, field, at)
                    _texts(result, at)
                    return result
        zero = torch.zeros((), dtype=a.dtype)
        result.scale = max(result.scale, float(torch.where(both, a.abs(), zero.real).max()))
        gap = torch.where(both, (a - b).abs(), zero.real)
        top = float(gap.max())
        if top > worst:
            worst, result.at = top, begin + int(gap.argmax())
    result.scale = result.scale or 1.0
    result.max_abs = max(worst, 0.0)
    result.max_rel = result.max_abs / result.scale
    if flat_ref.numel():
        _texts(result, result.at)
    return result


def _texts(result: Difference, at: int) -> None:
    ref, out = result._pair
    result.expected_text, result.found_text = _number(ref[at]), _number(out[at])


def _number(element: torch.Tensor) -> str:
    value = element.item()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in the widest type of its kind."""
    return tensor.to(torch.complex128 if tensor.dtype.is_complex else torch.float64)


def relative_errors(exact: list[torch.Tensor], found: list[torch.Tensor]) -> list[float] | None:
    """Return max|difference| / max|exact| of each pair; None when shapes differ or values are not finite."""
    if len(exact) != len(found):
        return None
    errors = []
    for a, b in zip(exact, found):  # noqa: B905 - Python 3.9
        if a.shape != b.shape:
            return None
        if not (b.dtype.is_floating_point or b.dtype.is_complex):
            errors.append(0.0)
            continue
        gap = difference(a, b)
        errors.append(math.inf if gap.only_reference_finite is not None else gap.max_rel)
    return errors


def _shape(tensor: torch.Tensor) -> str:
    return str(tuple(tensor.shape))


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).replace("torch.", "")


def _index(flat: int, tensor: torch.Tensor) -> str:
    """Return a flat index as a tuple of indices."""
    index = []
    for size in reversed(tensor.shape):
        index.append(flat % size)
        flat //= size
    return str(tuple(reversed(index)))
