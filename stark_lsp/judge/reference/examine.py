"""Look at the reference: whether it can be compared with, and how exact it is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ...contract.errors import Bad, Degenerate
from ..correctness import compare, ieee, layout, stepping
from ..correctness.difference import difference, equal, finite, relative_errors
from ..inputs import special
from ..inputs.cases import Case, CaseKind
from ..transport import tensorfile
from . import effects, modules
from .exact import Exact, measure
from .operators import observe
from .training import off_scale

if TYPE_CHECKING:
    from .reference import Reference

FLOAT64_LIMIT = 256 << 20
"""Bytes of inputs up to which the reference is also run in float64."""
FLOAT64_SECONDS = 2.0
"""Longest forward pass for which that is affordable."""
APART = 100.0
"""Times the tolerance that results of different inputs differ by, so that 1 % of what inputs do is seen."""
PLAINLY = 0.5
"""Share of the largest value; results that differ by more depend on the inputs, however wide the tolerance is."""
FEW = 16
"""Elements of a result that may cancel as a whole."""
UNFILLED = 1e18
"""Magnitude of a weight that nobody means."""
HALVES = (torch.bfloat16, torch.float16)
RANDOM = ("dropout", "bernoulli", "rand", "multinomial", "normal_", "uniform_", "exponential_")
"""Parts of the names of operators that draw random numbers."""


class Constant(Degenerate):
    """Its result does not depend on its inputs."""


class Stopwatch:
    """How long the judge's own work takes, on a machine where others work as well; runs from when it is made."""

    def __init__(self) -> None:
        self._wall = time.monotonic()
        self._work = time.process_time()

    def seconds(self) -> float:
        """Return the time since then, or this process's processor time if that is less.

        Waiting for a busy processor takes none, and work on several cores takes more of it than has passed.
        """
        return min(time.monotonic() - self._wall, time.process_time() - self._work)


@dataclass(eq=False)
class Examination:
    """The examination of a reference, by its first case."""

    reference: Reference
    """To be examined; notes and cases are added to it."""
    first: Case
    """Its first case, run once."""

    def __post_init__(self) -> None:
        self.seconds = 0.0
        """That a call takes, with all that goes with it."""
        self.call_s = 0.0
        """That it takes by itself."""
        self.exact: Exact | None = None
        """The reference in float64, where that was affordable."""

    def _watched(self, call: Callable[[], Any]) -> Any:
        """Make a call, and see what it does besides, by which no candidate is compared."""
        reference = self.reference
        result, reference.kept, said = effects.watched(reference.module, reference.document, call)
        if reference.kept:
            names = ", ".join(reference.kept[:3])
            reference.notes.append(f"Each call also changes {names}, by which candidates are not compared.")
        if said:
            reference.notes.append("Each call prints or logs something, which candidates may leave out.")
        return result

    def run(self) -> None:
        """Refuse a reference that is random or not a number; see whether it changes its inputs; run it in float64.

        Raises
        ------
        Bad, Degenerate
        """
        reference, first = self.reference, self.first
        watch = Stopwatch()
        again, ranges, after = self._watched(
            partial(reference.call, first.inputs_path, first.cotangents_path, with_inputs=True, keep=False)
        )
        self.seconds, self.call_s = watch.seconds(), reference.call_s
        reference.draws = drew = reference.mode == modules.TRAINING and stepping.drew()
        training = reference.mode == modules.TRAINING
        if not training:
            self._refuse_random(again)
        for owners, more in zip(first.sharing, layout.shared(ranges)):
            owners |= more
        assert after is not None
        before = reference.before(first.inputs_path)
        if not unchanged(before, after):
            reference.changes_inputs = True
            first.inputs_after = after.copied("cpu")
            reference.notes.append("The reference changes its inputs in place; a candidate must change them alike.")
        self._refuse_not_finite()
        if drew:  # other masks, in float64 on a GPU, and then everything would be close enough
            reference.notes.append("No float64 comparison: it draws random numbers, and others in float64.")
        elif before.nbytes <= FLOAT64_LIMIT and self.seconds <= FLOAT64_SECONDS:
            self.exact = self.wide()
            self._measure(self.exact, first)
        else:
            self._measure_part()
        if first.own_errors is None and reference.device == "cuda":
            self.measure_tf32()
        if training:
            # A GPU sums a gradient in another order each time: it is held to what a candidate is.
            close = partial(reference.nearby, first)
            self._refuse_random(again, close, partial(close, all_move=True))

    def _refuse_random(
        self, again: tensorfile.Loaded, nearby: compare.Nearby | None = None, around: compare.Nearby | None = None
    ) -> None:
        reference, first = self.reference, self.first
        try:
            reference.compare(first.outputs, again, first.own_errors, nearby=nearby, around=around)
        except compare.Mismatch as error:
            raise self._random(str(error)) from error

    def _measure(self, exact: Exact, case: Case) -> None:
        """Run a case of the first one's inputs in float64."""
        first = self.first
        first.exact, first.own_errors = measure(self.reference, exact, case)
        if first.exact is not None and first.own_errors is not None:
            self._look_for_fewer_bits(first.own_errors)
            first.ieee_errors = ieee.errors(self.reference, case, first.exact, first.own_errors)
            first.ieee = None if first.ieee_errors is None else first.exact

    def _look_for_fewer_bits(self, own_errors: list[float]) -> None:
        """Leave room where results are off by a type of fewer bits than theirs, as of an autocast inside."""
        reference, first = self.reference, self.first
        dtypes = [tensor.dtype for tensor in first.outputs.tensors]
        lacking = {dtype for dtype, own in zip(dtypes, own_errors) if reference.tolerance.has_no_room(dtype, own)}
        if not lacking:
            return
        _, operators = observe(lambda: reference.call(first.inputs_path, first.cotangents_path, keep=False))
        fewer = [str(one).replace("torch.", "") for one in HALVES if one in operators.dtypes - lacking]
        if fewer:
            reference.tolerance = replace(reference.tolerance, limit=compare.LOWER_LIMIT, inside=fewer[0])
            reference.notes.append(
                f"The reference computes in {' and '.join(fewer)} on the way and is off by up to {max(own_errors):.1g} "
                "of its largest value for that; a candidate may be as well."
            )

    def _measure_part(self) -> None:
        """Run the first samples of the batch in float64, where all of it would take too much memory or time.

        Only where the reference maps samples one by one: what it gives for these alone must be what it gave for them
        among the others. Of a sum that runs along the batch that holds too; it does not for the last ones.
        """
        reference, first = self.reference, self.first
        arguments = reference.arguments(first.inputs_path)
        variant = special.smaller(arguments)
        for _, make in variant.alternatives if variant is not None else []:
            part = make()
            if self._alone(special.last_rows(arguments, part), last=True) is None:
                continue
            case = self._alone(part)
            if case is not None:
                self._measure(self.wide(), case)
                return
        reference.notes.append("No float64 comparison: the reference is large or slow, and its batch takes no parts.")

    def _alone(self, part: Any, *, last: bool = False) -> Case | None:
        """Return the case of some samples alone, if the reference gives what it gave for them among the others."""
        reference = self.reference
        try:
            case = reference.case(CaseKind.BATCH, "", part, "part.raw", keep=False)
        except Bad:
            return None
        rows = first_rows(self.first.outputs.tensors, case.outputs.tensors, last=last)
        same = rows is not None and compare.within(rows, case.outputs.tensors, tolerance=reference.tolerance)
        return case if same else None

    def measure_tf32(self) -> None:
        """Measure how far TF32 alone puts it off, where there are no float64 results that would say it."""
        reference, first = self.reference, self.first
        with ieee.allowing(False):
            outputs, _, _ = reference.call(first.inputs_path, first.cotangents_path, keep=False)
        first.own_errors = relative_errors(outputs.tensors, first.outputs.tensors)
        dtypes = [tensor.dtype for tensor in outputs.tensors]
        off = first.own_errors is not None and any(map(reference.tolerance.has_no_room, dtypes, first.own_errors))
        if off and outputs.nbytes <= FLOAT64_LIMIT:
            first.ieee, first.ieee_errors = outputs.tensors, [0.0] * len(dtypes)

    def _random(self, text: str) -> Bad:
        """Return the refusal of a random reference, with what makes it random where that is known."""
        reference = self.reference
        message = f"{reference.qualname} gives different results for equal inputs: {text}"
        cure = "Use eval mode, fix the seed inside forward(), or take the randomness out."
        drawn = self._draws()
        if drawn:
            message += f" It draws random numbers ({', '.join(drawn)}), and nobody can match its choices."
        elif reference.kept:
            names = ", ".join(reference.kept[:3])
            message += f" Each call changes {names}, which the next one goes on from."
            cure = "Hand that over as an argument and return it, or keep it by register_buffer(): buffers are put back."
        return reference.refusal(message, cure, Degenerate)

    def _draws(self) -> list[str]:
        """Return the operators of a call that draw random numbers."""
        reference, first = self.reference, self.first
        _, operators = observe(lambda: reference.call(first.inputs_path, first.cotangents_path))
        names = sorted({name.split(".")[1] for name in operators.names if name.count(".")})
        return [name for name in names if any(part in name for part in RANDOM)]

    def _refuse_not_finite(self) -> None:
        """Refuse outputs without any finite number: whatever is NaN everywhere would pass."""
        tensors = [tensor for tensor in self.first.outputs.tensors if tensor.numel()]
        if not tensors or any(bool(finite(tensor).any()) for tensor in tensors):
            return
        reference = self.reference
        message = f"The result of {reference.qualname} holds no finite number, so that nothing can be compared."
        cure = "Check the weights and inputs for NaN, infinities and overflow."
        for name, value in reference.module.state_dict().items():
            most = float(value.float().abs().max()) if value.is_floating_point() and value.numel() else 0.0
            if not most < UNFILLED:
                message += f" {name} holds {most:.1e}, as memory does that nobody has filled."
                cure = f"Fill {name} in the constructor: torch.empty leaves what was there."
                break
        raise reference.refusal(message, cure, Degenerate)

    def wide(self) -> Exact:
        """Return a copy of the reference in float64, with the weights it has now."""
        reference = self.reference
        return Exact(reference.module, reference.device, reference.mode, reference.notes.append, reference.state)

    def measure_sums(self) -> None:
        """Give results of few elements the room that the original needs with any of the inputs that were made.

        Such a sum may nearly cancel, and is off by more of itself then than it was in the first case.
        """
        first, cases = self.first, self.reference.cases
        few = any(one.is_floating_point() and one.numel() <= FEW for one in first.outputs.tensors)
        costs = self.seconds * len(cases)
        if not few or first.own_errors is None or self.exact is None or costs > FLOAT64_SECONDS:
            return
        exact = self.wide()
        found = [measure(self.reference, exact, case)[1] for case in cases[1:]]
        room = [max(each) for each in zip(first.own_errors, *(errors for errors in found if errors is not None))]
        for case in cases:
            case.own_errors = room

    def measure_moved(self, case: Case) -> None:
        """Measure the reference's own errors with the weights it has now."""
        if self.exact is None or not self.exact.usable:
            return
        _, errors = measure(self.reference, self.wide(), case)
        if errors is not None:
            case.own_errors = errors


def refuse_constant(reference: Reference, make: Callable[[], Any]) -> None:
    """Refuse a reference whose result does not depend on its inputs.

    Any constant would then pass, and a result computed once and kept could not be told from an honest one. Where
    the inputs are the same for each seed, or differ too little, a case with others is added instead. Where the scale of
    weights is why the result depends on the inputs so little that a wrong one could pass, it is refused as well.

    Raises
    ------
    Degenerate
        It takes no tensor.
    Constant
    """
    first = reference.cases[0]
    if not any(tensor.numel() for tensor in first.forms):
        raise reference.refusal(
            f"{reference.qualname} takes no tensor: its result is the same in each call.",
            "Give forward() the tensors it works on, or compute the result once and keep it.",
            Degenerate,
        )
    # In training other gradients flow into the later ones.
    others = reference.cases[1:2] if reference.mode == modules.TRAINING else reference.cases[1:]
    probe = os.path.join(reference.folder, "probe.raw")
    try:
        if not others:
            others = [reference.case(CaseKind.SEEDED, "", make(), "probe.raw", keep=False)]
        apart = any(_apart(reference, first, other) >= APART for other in others)
        little = not apart and off_scale(reference.module)
        if not little and any(not _alike(reference, first, other) for other in others):
            return
        before = reference.before(first.inputs_path)
        moving = any(not unchanged(before, reference.before(other.inputs_path)) for other in others)
        if little and moving:
            raise _constant(reference)
    finally:
        for path in (probe, os.path.splitext(probe)[0] + "-cotangents.raw"):
            if os.path.exists(path):
                os.unlink(path)
    tree = reference.loaded(first.inputs_path)
    try:
        arguments = special.varied(tree, torch.Generator().manual_seed(special.VARIED_SEED))
        case = reference.case(CaseKind.SEEDED, "with inputs scaled and in another order", arguments, "varied.raw")
    except (Bad, RuntimeError, NotImplementedError):
        case = None
    if case is not None and not _alike(reference, first, case):
        case.own_errors = first.own_errors
        reference.cases.append(case)
        return
    if case is None and not moving:
        reference.notes.append("The inputs are the same for every seed, so that little is known of other ones.")
        return
    raise _constant(reference)


def _constant(reference: Reference) -> Bad:
    tolerance = reference.tolerance.of(reference.cases[0].outputs.tensors[0].dtype)
    within = f", within the tolerance ({tolerance:.0e} of its largest value)" if tolerance else ""
    return reference.refusal(
        f"{reference.qualname} gives the same result for different inputs{within}: any constant would pass.",
        "Check what forward() does with these inputs; a result that does not depend on them can be computed once.",
        Constant,
    )


def _alike(reference: Reference, one: Case, other: Case) -> bool:
    """Whether two cases have the same result for the judge."""
    try:
        reference.compare(one.outputs, other.outputs, one.own_errors)
    except compare.Mismatch:
        return False
    return True


def _apart(reference: Reference, one: Case, other: Case) -> float:
    """Return how many times the tolerance two cases' results differ by."""
    most = 0.0
    for place, (a, b) in enumerate(zip(one.outputs.tensors, other.outputs.tensors)):
        tolerance = reference.tolerance.of(a.dtype, one.own_errors[place] if one.own_errors else 0.0)
        if a.shape != b.shape or not tolerance:
            return float("inf")
        by = difference(a, b).max_rel
        most = max(most, float("inf") if by > PLAINLY else by / tolerance)
    return most


def first_rows(whole: list[torch.Tensor], part: list[torch.Tensor], *, last: bool = False) -> list[torch.Tensor] | None:
    """Return the first samples of results, or the last, as many as `part` has; None where they differ in more."""
    pairs = list(zip(whole, part))
    rows = [(a[-len(b) :] if last else a[: len(b)]) if a.dim() and b.dim() else a for a, b in pairs]
    alike = len(whole) == len(part) and all(row.shape == b.shape for row, (_, b) in zip(rows, pairs))
    return rows if alike else None


def unchanged(before: tensorfile.Loaded, after: tensorfile.Loaded) -> bool:
    """Whether two files hold the same tensors, bit by bit."""
    alike = len(before.tensors) == len(after.tensors) and before.skeleton == after.skeleton
    return alike and all(map(equal, before.tensors, after.tensors))
