"""The cases with special inputs: which of the variants of `special.py` are fair, for this reference.

Fair is what the reference itself bears: it does not raise, gives the same again, and, where values are other than the
user's, float64 agrees with it within the usual tolerance and on every NaN and infinity. Otherwise the problem is
ill-conditioned there, and an honest candidate with another order of summation would be blamed. So it is where rounding
on the way decides what zeros give, which float32 and float64 may both have exactly (`rounding`). Where large values are
why, as behind a product those that a softmax is taken of, and all results are finite, a candidate's have to be, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ...contract.errors import Bad, Unusable, first_line
from ..correctness import compare
from ..correctness.difference import finite, relative_errors
from ..reference import modules
from ..reference.exact import Exact, measure
from ..reference.examine import Examination, Stopwatch
from ..reference.rounding import Rounded
from . import constants, lengths, special
from .cases import Case, CaseKind

if TYPE_CHECKING:
    from ..reference.reference import Reference

MOST = 15
"""Cases that are made at most, and run for each candidate; a few more come with other weights."""
WHOLE_LIMIT = 32 << 20
"""Bytes of inputs, and of outputs, up to which special inputs are variants of the user's whole batch."""
WHOLE_SECONDS = 0.5
"""Time of a call up to which they are."""
BYTES = 2 << 30
"""Of inputs and outputs of all special cases, where the batch cannot be made smaller."""
SECONDS = 60.0
"""After this time no further ones are tried; long, and of work (see `Stopwatch`), since what is checked must not
depend on how busy a machine is."""
SCREEN_FLOPS = 2e10
"""Operations of a call up to which special values are tried on the CPU before they reach a GPU."""
CONDITION = 0.125
"""Share of the tolerance that the reference's own error may take for values of the usual size, unless it is as large
with the user's. So close to float64, there is room for other formulas."""
TOPICS = {
    CaseKind.BATCH: "other batch sizes",
    CaseKind.LENGTH: "other lengths",
    CaseKind.STRIDED: "strides",
    CaseKind.VALUES: "changed values",
    CaseKind.LARGE: "large values",
    CaseKind.EDGE: "NaN, infinities and zeros",
}
"""What is not checked, for notes."""


@dataclass(eq=False)
class SpecialCases:
    """Makes the cases with special inputs and adds them to the reference."""

    reference: Reference
    """With its first case; cases and notes are added to it."""
    examination: Examination
    """Of that reference, done."""

    def __post_init__(self) -> None:
        self._exact = self.examination.exact
        self._operators = self._exact.operators if self._exact is not None else None
        """What a call of the base runs; None if that is unknown."""
        self._base = self.reference.cases[0]
        """What the others are variants of: the first case, or a part of its batch."""
        shapes = [[tensor.shape for tensor in case.outputs.tensors] for case in self.reference.cases]
        self._varies = any(one != shapes[0] for one in shapes)
        """Whether the shape of a result depends on the values of the inputs."""
        self._again: list[tuple[CaseKind, str, Callable[[], Any]]] = []
        """Kind, words and maker of what is also tried with other weights."""

    def make(self, arguments: Any, other: Any) -> None:
        """Add the cases that are fair, with the weights of the constructor.

        Parameters
        ----------
        arguments
            Of the first case.
        other
            Inputs of another seed, to see which ones never change.
        """
        reference = self.reference
        fixed = constants.fixed(arguments, other)
        size = 0
        if self._heavy():
            arguments, size = self._reduce(arguments)
        screen = self._screen()
        names = self._operators.names if self._operators is not None else None
        watch, spent = Stopwatch(), self._base.inputs_nbytes + self._base.outputs.nbytes
        room = min(MOST, max(len(reference.special), BYTES // max(1, spent)))
        if not room:
            self._note_missing(list(TOPICS))
            return
        arguments = modules.to_device(arguments, "cpu")
        # An output that is no floating one may be a place among the inputs.
        floating = all(tensor.dtype.is_floating_point for tensor in self._base.outputs.tensors)
        variants = [
            *special.specials(arguments, names, fixed, size, ties=floating),
            *lengths.lengths(arguments),
        ]
        missing: list[CaseKind] = []
        shorter = self._trial() if reference.mode == modules.TRAINING else screen
        pointing = shorter if special.has_whole_numbers(arguments) else None
        if pointing is not None and pointing.run(arguments) is None:
            pointing = None  # nothing runs there
        for number, variant in enumerate(variants):
            first = shorter if variant.kind is CaseKind.LENGTH else screen
            if not variant.screened:
                first = pointing if variant.kind is CaseKind.BATCH else None
            elif first is None:
                missing.append(variant.kind)
                continue
            if len(reference.special) >= room or watch.seconds() > SECONDS:
                if room < MOST or len(reference.special) < room:
                    self._note_missing([variant.kind for variant in variants[number:]])
                break
            self._try(variant, first)
        if missing and reference.mode != modules.TRAINING:
            reference.notes.append(f"Not checked with {_topics(missing)}: not to be tried in float64 on a CPU first.")

    def _try(self, variant: special.Special, screen: Exact | None) -> None:
        """Add the first alternative of a variant that is fair, and the first one before it that has to be finite."""
        finite_alone = False
        for words, make in variant.alternatives:
            case = self._fair(variant, words, make, screen)
            if case is None or (case.finite_alone and finite_alone):
                continue
            self.reference.special.append(case)
            if not case.finite_alone:
                self._again += [(variant.kind, words, make)] if variant.again else []
                return
            finite_alone = True

    def make_moved(self) -> None:
        """Repeat a few of them with the weights that the reference has now.

        A weight that only matters for large values, as a bias in front of a bound, moves nothing else. Where the
        whole batch is too large for more than a few calls, its part is repeated as well.
        """
        reference, base = self.reference, self._base
        again = list(self._again)
        if base is not reference.cases[0]:
            again.insert(0, (CaseKind.BATCH, base.words, lambda: reference.loaded(base.inputs_path)))
        if not again:
            return
        if self._exact is not None and self._exact.usable:
            self._exact = self.examination.wide()
        screen = self._screen()
        for kind, words, make in again:
            if screen is None and kind is not CaseKind.BATCH:
                continue
            words = f"{words}, and with other weights than the constructor gives"
            case = self._fair(special.Special(kind, []), words, make, screen)
            if case is not None:
                case.trained = True
                reference.special.append(case)

    def _heavy(self) -> bool:
        """Whether a call is too much work for some dozens of them."""
        first, operators = self._base, self._operators
        return (
            max(first.inputs_nbytes, first.outputs.nbytes) > WHOLE_LIMIT
            or self.examination.seconds > WHOLE_SECONDS
            or (operators is not None and operators.flops > SCREEN_FLOPS)
        )

    def _reduce(self, arguments: Any) -> tuple[Any, int]:
        """Take a small part of the batch as base, if the reference bears one.

        Returns the arguments of the base, and the user's batch; `arguments` and 0 where there is no smaller one.
        """
        reference = self.reference
        variant = special.smaller(arguments)
        if variant is None:
            return arguments, 0
        for words, make in variant.alternatives:
            case = self._fair(variant, words, make, None)
            if case is None:
                continue
            size = next(tensor.shape[0] for tensor in modules.tensors_of(arguments) if tensor.dim())
            reference.special.append(case)
            self._base = case
            self._exact = self.examination.wide()
            _, errors = measure(reference, self._exact, case)
            self._operators = self._exact.operators
            case.own_errors = errors or case.own_errors
            return reference.loaded(case.inputs_path), size
        return arguments, 0

    def _note_missing(self, kinds: list[CaseKind]) -> None:
        """Say what was not checked because the reference is large or slow, and its batch cannot be made smaller."""
        self.reference.notes.append(
            "The reference is large or slow, also with a smaller batch if it takes one: "
            f"not checked with {_topics(kinds)}."
        )

    def _screen(self) -> Exact | None:
        """Return what runs special values first: float64, and on the CPU even for a GPU.

        A value out of range (an index computed from a NaN, a probability above 1) raises on a CPU, while on a GPU it
        ends the use of the GPU by this process.
        """
        reference = self.reference
        if self._exact is None or not self._exact.usable or reference.mode == modules.TRAINING:
            return None
        if reference.device == "cpu":
            return self._exact
        return self._trial()

    def _trial(self) -> Exact | None:
        """Return what makes calls without backward on the CPU."""
        if self._operators is None or self._operators.flops > SCREEN_FLOPS:
            return None
        mode = "eval" if self.reference.mode == modules.TRAINING else self.reference.mode
        return Exact(self.reference.module, "cpu", mode, lambda text: None, self.reference.state)

    def _fair(self, variant: special.Special, words: str, make: Callable[[], Any], screen: Exact | None) -> Case | None:
        """Return the case of a variant, None unless it is a fair one."""
        reference, base = self.reference, self._base
        try:
            arguments = make()
        except (RuntimeError, NotImplementedError, TypeError):
            # A dtype that torch can hardly do anything with.
            return None
        results = None
        if screen is not None:
            results = screen.run(arguments)
            if results is None:
                return None
            if reference.mode == modules.TRAINING or not variant.screened:
                results = None  # they are no gradients, or were to raise or not
        try:
            case = reference.case(variant.kind, words, arguments, f"special{len(reference.special)}.raw")
            again, _, _ = reference.call(case.inputs_path, case.cotangents_path, keep=False)
            reference.compare(case.outputs, again)
        except (Bad, compare.Mismatch):
            self._check_device(words)
            return None
        case.own_errors = base.own_errors
        before, now = ([tensor.shape for tensor in item.outputs.tensors] for item in (base, case))
        if reference.mode == modules.TRAINING and variant.kind is CaseKind.BATCH:
            # Gradients of weights keep their shape; outputs and gradients of inputs follow the batch.
            before, now = before[: base.results], now[: case.results]
        if not self._varies and not variant.expect(before, now):
            return None
        if variant.kind is CaseKind.STRIDED:
            # The same values in other places.
            ours, theirs = base.outputs.tensors, case.outputs.tensors
            if not compare.within(ours, theirs, base.own_errors, gradient=True, tolerance=reference.tolerance):
                return None
        if results is not None:
            case.own_errors = self._agreement(case, results)
            case.finite_alone = case.own_errors is None and variant.kind is CaseKind.LARGE
            if case.own_errors is None and not (case.finite_alone and _all_finite([*case.outputs.tensors, *results])):
                return None
        if variant.telling and not _telling(base.outputs.tensors, case.outputs.tensors):
            return None
        if variant.settled and screen is not None:
            step = max(
                (torch.finfo(one.dtype).eps for one in base.outputs.tensors if one.is_floating_point()), default=0.0
            )
            with Rounded(step, screen.device):
                results = screen.run(arguments)
            if results is None or self._agreement(case, results) is None:
                return None
        return case

    def _agreement(self, case: Case, results: list[torch.Tensor]) -> list[float] | None:
        """Return the reference's own errors in a case of other values, None if float64 does not agree well enough."""
        own = relative_errors(case.outputs.tensors, results)
        if own is None:
            return None
        usual = self._base.own_errors or [0.0] * len(own)
        for error, tensor, base, base_error in zip(own, case.outputs.tensors, self._base.outputs.tensors, usual):
            limit = self.reference.tolerance.of(tensor.dtype)
            if case.kind is CaseKind.VALUES:
                # Out of the function's range nothing is known of what it is to give.
                if bool(finite(base).all()) and not bool(finite(tensor).all()):
                    return None
                limit = min(limit, max(CONDITION * limit, 2.0 * base_error))
            if error > limit:
                return None
        return own

    def _check_device(self, words: str) -> None:
        """Raise `Unusable` where the GPU does not answer any more after the reference raised."""
        try:
            modules.synchronize(self.reference.device)
        except RuntimeError as error:
            raise Unusable(
                f"The reference left the GPU unusable when it was tried {words} ({first_line(error)})."
            ) from error


def _topics(kinds: Sequence[CaseKind]) -> str:
    return ", ".join(dict.fromkeys(TOPICS[kind] for kind in kinds))


def _telling(before: Sequence[torch.Tensor], now: Sequence[torch.Tensor]) -> bool:
    """Whether all that is another value now is NaN or infinite."""
    return all(
        one.shape == other.shape and bool(((one == other) | ~finite(other) | ((one != one) & (other != other))).all())
        for one, other in zip(before, now)
    )


def _all_finite(tensors: list[torch.Tensor]) -> bool:
    return all(bool(finite(tensor).all()) for tensor in tensors)
