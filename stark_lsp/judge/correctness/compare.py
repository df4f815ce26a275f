"""Compare a candidate's outputs with the reference's.

Precision policy: a candidate must be as exact as the reference's type allows, whatever it does inside. An output is
right if no element differs by more than the tolerance of its dtype times the largest magnitude in the reference's
output. That leaves room for another order of summation, fused multiply-adds and other formulas of equal exactness, and
none for arithmetic in a smaller type: TF32 and bfloat16 keep 10 and 7 bits of a product's factors (2**-11 and 2**-8 of
rounding) and miss the tolerance of float32 by far. Where the reference's own error against float64 is larger, as in
sums with cancellation, the tolerance is `WIDEN` times that error, up to `WIDEN_LIMIT` times the usual one.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import torch

from ..transport import tensorfile, values
from . import layout
from .difference import Difference, difference
from .nearby import FEW, MOST, explained, farther

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
DOUBTFUL = 1e-9
"""Relative difference from which on a float64 result is held against what moves the reference's own: a smaller type
is off by 1e-8 and more, another order of a million terms by less than this."""
FEWER_BITS = 1e4
"""So many times as far as the reference's own for inputs and weights close by, it was computed in a smaller type, whose
roundings are 5e8 times as large; sums in another order, of whatever condition, are off by some tens."""
MOST_TEXT = 1000
"""Characters of a message."""
COARSE = 1.3e-1
"""The same for the 8-bit floating types."""
WIDEN = 4.0
"""How often the reference's own rounding error (against float64) a candidate may differ by."""
WIDEN_LIMIT = 50.0
"""The tolerance never grows beyond this multiple,"""
LOWER_LIMIT = 5000.0
"""but beyond this one where the reference computes in a type of fewer bits on the way, under an autocast of its own, or
where only TF32 is why it is off, and the candidate was right without: see `ieee`."""
FIXED = 1e-4
"""What an evaluator with a fixed tolerance allows of float32, absolute and of each value: KernelBench's `eval.py`."""
NOISE = 0.05
"""A gradient whose own error is larger than this share of it is rounding noise, such as that of a bias in front of a
normalization; it is then only held to `NOISE_LIMIT` times that error."""
NOISE_LIMIT = 50.0
FLOAT64 = (
    "The {} is off by {:.1g} of the largest value, and the reference's own by far less for inputs that are moved by "
    "their last bits: it was computed in a smaller type than float64."
)
GRADIENT = "gradient of "
"""What names of gradients begin with."""
MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, NotImplementedError, RecursionError)
"""What reading a candidate's file raises where our own code did not write it; not implemented are odd dtypes."""
STEP_KEYS = ("['output", f"['{GRADIENT}", "['buffer ")
"""How the keys of a training step's tree (`stepping.step`) begin."""


Tensor = tuple[torch.Tensor, dict[str, Any]]
"""One of a file, and what its header says of it."""
Nearby = Callable[[], Generator[tensorfile.Loaded, None, None]]
"""Makes what the reference gives for inputs close by, see `nearby`."""


class Mismatch(Exception):
    """The outputs differ; `status` is the verdict's, `str()` the message."""

    def __init__(self, status: str, message: str) -> None:
        # It may hold texts that the candidate's process wrote.
        super().__init__(message if len(message) <= MOST_TEXT else f"{message[:MOST_TEXT]}…")
        self.status = status


@dataclass
class Figures:
    """Worst errors so far; as a dict `core.ErrorFigures` in wire form."""

    max_abs: float = 0.0
    max_rel: float = 0.0
    tolerance: float = 0.0
    float64_max_rel: float | None = None
    widened: bool = False

    def add(self, max_abs: float, max_rel: float, tolerance: float) -> None:
        """Take in one output."""
        self.max_abs = max(self.max_abs, max_abs)
        if max_rel >= self.max_rel:
            self.max_rel, self.tolerance = max_rel, tolerance


@dataclass(frozen=True)
class Tolerance:
    """How far results may be from the reference's."""

    autocast: str = ""
    """The dtype that operations are cast to, empty for none: what comes of them in float32 is no more exact."""
    limit: float = WIDEN_LIMIT
    """Multiple of the usual tolerance that it never grows beyond."""
    inside: str = ""
    """A dtype of fewer bits that the reference computes in on the way, empty for none."""
    any_finite: bool = False
    """Whether any values will do where the reference's are finite: they are too ill-conditioned to be compared."""

    @property
    def rounded_to(self) -> str:
        """The dtype whose roundings count, empty for that of each tensor: see `nearby.moved`."""
        return self.autocast or self.inside

    def of(self, dtype: torch.dtype, own_error: float = 0.0, *, gradient: bool = False) -> float:
        """Return the tolerance for an output; 0 for integers and booleans, which must be equal.

        Parameters
        ----------
        own_error
            The reference's relative error against float64, 0 if unknown.
        gradient
            Whether it is a gradient, which can be zero but for rounding.
        """
        if not (dtype.is_floating_point or dtype.is_complex):
            return 0.0
        base = TOLERANCE.get(dtype, COARSE)
        if self.autocast:
            base = max(base, TOLERANCE[getattr(torch, self.autocast)])
        if gradient and own_error > NOISE:
            return NOISE_LIMIT * own_error
        return min(max(base, WIDEN * own_error), self.limit * base)

    def has_no_room(self, dtype: torch.dtype, own_error: float) -> bool:
        """Whether a reference is so far from float64 that the tolerance has no room for it."""
        return WIDEN * own_error > self.of(dtype, own_error)


USUAL = Tolerance()
FINITE = Tolerance(any_finite=True)


def compare(
    reference: tensorfile.Loaded,
    candidate: tensorfile.Loaded,
    figures: Figures,
    own_errors: list[float] | None = None,
    what: str = "output",
    *,
    dense: bool = True,
    tolerance: Tolerance = USUAL,
    nearby: Nearby | None = None,
    around: Nearby | None = None,
) -> float:
    """Check structure, shape, dtype, device, layout and values of all outputs.

    Parameters
    ----------
    own_errors
        For each tensor the reference's relative error against float64.
    what
        What the tensors are called in messages; empty for the tree of a training step, which names them itself.
    dense
        Whether an output must be contiguous where the reference's is; for inputs that are not, the layout of an
        output is a matter of which operators handed it on.
    nearby, around
        What the reference gives for inputs close by, and for weights close by as well.

    Returns
    -------
    float
        Largest share of an output's or gradient's elements that are right only as the reference's for inputs close by.

    Raises
    ------
    Mismatch
        At the first output that differs, with the place and size of the worst difference.
    """
    try:
        ours, theirs = values.flatten(reference.skeleton), values.flatten(candidate.skeleton)
        nodes = [_node(item) for item in theirs]
        pairs = [
            (candidate.tensors[leaf["v"]], candidate.heads[leaf["v"]]) for _, leaf in theirs if values.is_tensor(leaf)
        ]
    except MALFORMED as error:
        raise Mismatch("CHEATED", f"The {what or 'output'} was not written by the judge's own code.") from error
    if [_node(item) for item in ours] != nodes:
        raise Mismatch("WRONG_SHAPE", _structure_message(ours, theirs, what))
    following = iter(pairs)
    shares = [0.0]
    doubtful: dict[int, _Off] = {}
    for (path, expected), (_, found) in zip(ours, theirs):
        if values.is_tensor(expected):
            place = expected["v"]
            ours_there = reference.tensors[place], reference.heads[place]
            own = own_errors[place] if own_errors else 0.0
            name, others = name_of(what, path), nearby and partial(_only, nearby, place)
            try:
                gap = _compare_tensors(name, ours_there, next(following), figures, own, dense, tolerance)
                doubted = around if gap.max_rel > DOUBTFUL and not tolerance.rounded_to else None
                if doubted is not None and _in_fewer_bits(gap, partial(_only, doubted, place)):
                    raise Mismatch("WRONG_RESULT", FLOAT64.format(name, gap.max_rel))
            except _Off as error:
                if nearby is not None and name.startswith(GRADIENT):
                    doubtful[place] = error  # all together: each draw is a whole step
                elif not error.explained(others):
                    figures.add(*error.worst)
                    raise
                shares.append(error.share)
        elif not (tolerance.any_finite or _same_plain(expected, found)):
            raise Mismatch(
                "WRONG_RESULT",
                f"The {name_of(what, path)} is {_plain(found)} where the reference gives {_plain(expected)}.",
            )
    if doubtful and nearby is not None:
        with contextlib.closing(nearby()) as made:
            left = farther({place: error.gap for place, error in doubtful.items()}, (one.tensors for one in made))
        for place in left:
            if not doubtful[place].explained(partial(_only, nearby, place)):
                figures.add(*doubtful[place].worst)
                raise doubtful[place]
    return max(shares)


class _Off(Mismatch):
    """Elements of a tensor are off by more than the tolerance."""

    def __init__(self, message: str, gap: Difference, tolerance: float, share: float) -> None:
        super().__init__("WRONG_RESULT", message)
        self.gap, self.share = gap, share
        self._tolerance = tolerance

    @property
    def worst(self) -> tuple[float, float, float]:
        """What `Figures.add` takes."""
        return self.gap.max_abs, self.gap.max_rel, self._tolerance

    def explained(self, nearby: Callable[[], Generator[torch.Tensor, None, None]] | None) -> bool:
        """Whether all of them are what the reference gives for inputs close by."""
        if nearby is None or not 0.0 < self.share <= MOST:
            return False
        with contextlib.closing(nearby()) as others:
            return explained(self.gap, self._tolerance, others)


def _only(nearby: Nearby, place: int) -> Generator[torch.Tensor, None, None]:
    """Go through one tensor of what the reference gives for inputs close by."""
    with contextlib.closing(nearby()) as made:
        for one in made:
            yield one.tensors[place]


def name_of(what: str, path: str) -> str:
    """Return what a leaf is called: a path below `what`, or below the key of a training step's tree."""
    key, _, rest = path.partition("']")
    if key.startswith(STEP_KEYS):
        return f"{key[2:]} {rest}".strip()
    return f"{what} {path}".strip()


_NODES = ("list", "tuple", "packed", "dict", "dataclass", "namedtuple")


def _node(item: tuple[str, Any]) -> tuple[str, str]:
    """Return what must be equal for the structures to be equal: the path and the kind of node."""
    path, leaf = item
    if isinstance(leaf, dict):
        return path, str(leaf.get("k"))
    if isinstance(leaf, str) and leaf.partition(" ")[0] in _NODES:
        return path, leaf
    return path, type(leaf).__name__


def _structure_message(ours: list[tuple[str, Any]], theirs: list[tuple[str, Any]], what: str) -> str:
    for expected, found in zip(ours, theirs):
        if expected[0] != found[0]:
            return f"There is no {name_of(what, expected[0])} where the reference gives one."
        if _node(expected) != _node(found):
            place = name_of(what, expected[0])
            return f"The {place} is a {_node(found)[1]} where the reference gives a {_node(expected)[1]}."
    return f"There are {len(theirs)} values in the {what or 'result'} where the reference gives {len(ours)}."


def _plain(leaf: Any) -> str:
    return str(leaf.get("v")) if isinstance(leaf, dict) else repr(leaf)


def _same_plain(expected: Any, found: Any) -> bool:
    """Compare numbers with a small tolerance and everything else exactly.

    A number alone has no scale: the mean behind a norm is 1e-9, and nothing but rounding.
    """
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(expected, found, rel_tol=1e-4, abs_tol=1e-6)
    return bool(expected == found)


def _compare_tensors(
    name: str,
    expected: Tensor,
    found: Tensor,
    figures: Figures,
    own_error: float,
    dense: bool,
    room: Tolerance,
) -> Difference:
    """Check one tensor, see `compare`; returns by how much it differs."""
    (ref, ref_head), (out, out_head) = expected, found
    if out.shape != ref.shape:
        shapes = tuple(out.shape), tuple(ref.shape)
        raise Mismatch("WRONG_SHAPE", f"The {name} has shape {shapes[0]} where the reference gives {shapes[1]}.")
    if out.dtype != ref.dtype:
        dtypes = [str(tensor.dtype).replace("torch.", "") for tensor in (out, ref)]
        raise Mismatch("WRONG_DTYPE", f"The {name} is {dtypes[0]} where the reference gives {dtypes[1]}.")
    if out_head.get("device") != ref_head.get("device"):
        raise Mismatch(
            "WRONG_DTYPE",
            f"The {name} is on {out_head.get('device')} where the reference puts it on {ref_head.get('device')}.",
        )
    if out_head.get("type") and out_head.get("type") != ref_head.get("type"):
        raise Mismatch("WRONG_SHAPE", f"The {name} is a {out_head['type']}, not a plain torch.Tensor.")
    wrong = layout.problem(ref, out, dense)
    if wrong is not None:
        raise Mismatch("WRONG_SHAPE", f"The {name} {wrong}.")
    tolerance = room.of(ref.dtype, own_error, gradient=name.startswith(GRADIENT))
    worst = difference(ref, out)
    if not worst.same_pattern:
        status = "NOT_FINITE" if worst.only_reference_finite else "WRONG_RESULT"
        place = f"The {name} is {worst.found_text} at {_index(worst.at, ref)}"
        raise Mismatch(status, f"{place} where the reference gives {worst.expected_text}.")
    if room.any_finite:
        return Difference(worst.pair)
    if worst.max_rel > tolerance:
        allowed = f"{tolerance:.0e} is allowed" if tolerance else "it must be equal"
        share = worst.beyond(tolerance) / ref.numel()
        raise _Off(
            f"The {name} is {worst.found_text} at {_index(worst.at, ref)} where the reference gives "
            f"{worst.expected_text}: off by {worst.max_abs:.3g}, or {worst.max_rel:.2g} of the largest value "
            f"({allowed}); {100 * share:.3g} % of the elements are off.",
            worst,
            tolerance,
            share,
        )
    figures.add(worst.max_abs, worst.max_rel, tolerance)
    return worst


def _in_fewer_bits(gap: Difference, around: Callable[[], Generator[torch.Tensor, None, None]]) -> bool:
    """Whether a float64 result is off as one of a smaller type is; where the reference's never moves, who knows."""
    ref = gap.pair[0]
    if ref.dtype is not torch.float64:
        return False
    with contextlib.closing(around()) as others:
        found = [other.reshape(-1) for other in islice(others, FEW + 1)]
    own = max((difference(ref, other).max_rel for other in found if other.numel() == ref.numel()), default=0.0)
    return 0.0 < own < gap.max_rel / FEWER_BITS


def hold_to_fixed(pairs: list[tuple[torch.Tensor, torch.Tensor]], own_errors: list[float] | None) -> bool:
    """Hold float32 results that are within the tolerance to `FIXED` as well, where the reference itself keeps that.

    Parameters
    ----------
    pairs
        The reference's results and the candidate's.
    own_errors
        For each pair the reference's relative error against float64.

    Returns
    -------
    bool
        Whether all keep it; otherwise the reference does not either, or it is not known.

    Raises
    ------
    Mismatch
        The candidate does not, and the reference is so close to float64 that it could.
    """
    kept = True
    for number, (ref, out) in enumerate(pairs):
        gap = difference(ref, out)
        if ref.dtype != torch.float32 or gap.max_abs <= FIXED or not gap.beyond(FIXED / gap.scale, FIXED):
            continue
        if gap.max_rel > WIDEN_LIMIT * TOLERANCE[torch.float32]:
            kept = False  # no tolerance lets this pass: rounding decided, see `nearby`
            continue
        own = own_errors[number] if own_errors else 0.0
        off = gap.beyond(max(FIXED / gap.scale, WIDEN * own), FIXED)
        if own and off:
            raise Mismatch(
                "WRONG_RESULT",
                f"Output {number} is off by up to {gap.max_abs:.3g}, {100 * off / ref.numel():.3g} % of its elements "
                f"by more than {FIXED:.0e} and {FIXED:.0e} of their value, while the reference is within "
                f"{own * gap.scale:.1g} of float64: compute more exactly.",
            )
        kept = False
    return kept


def within(
    one: list[torch.Tensor],
    other: list[torch.Tensor],
    own_errors: list[float] | None = None,
    *,
    gradient: bool = False,
    tolerance: Tolerance = USUAL,
) -> bool:
    """Whether results of equal shapes are the same within the tolerance, whose parameters are `Tolerance.of`'s."""
    for index, (a, b) in enumerate(zip(one, other)):
        gap = difference(a, b)
        own = own_errors[index] if own_errors else 0.0
        if not gap.same_pattern or gap.max_rel > tolerance.of(a.dtype, own, gradient=gradient):
            return False
    return True


def _index(flat: int, tensor: torch.Tensor) -> str:
    """Return a flat index as a tuple of indices."""
    return str(tuple(flat // math.prod(tensor.shape[at + 1 :]) % size for at, size in enumerate(tensor.shape)))
