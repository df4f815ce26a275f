"""Look at the reference: whether it can be compared with, how exact it is, and on which special inputs it is fair."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from . import compare, layout, modules, special, tensorfile
from .cases import Case, CaseKind
from .difference import difference, relative_errors
from .errors import Bad, Broken
from .exact import SAME_FUNCTION, Exact
from .loading import lookup
from .operators import observe

if TYPE_CHECKING:
    from .reference import Reference

FLOAT64_LIMIT = 256 << 20
"""Bytes of inputs up to which the reference is also run in float64."""
FLOAT64_SECONDS = 2.0
"""Longest forward pass for which that is affordable."""
SPECIAL_LIMIT = 64 << 20
"""Bytes of inputs, and of outputs, up to which special inputs are tried."""
SPECIAL_SECONDS = 40.0
"""After this time no further ones are tried; long, since what is checked must not depend on how busy a machine is."""
RANDOM = ("dropout", "bernoulli", "rand", "multinomial", "normal_", "uniform_", "exponential_")
"""Parts of the names of operators that draw random numbers."""
SCREEN_FLOPS = 2e10
"""Operations of a call up to which special values are tried on the CPU before they reach a GPU."""


class Examination:
    """The examination of a reference, by its first case.

    Parameters
    ----------
    reference
        To be examined; notes and cases are added to it.
    first
        Its first case, run once.
    """

    def __init__(self, reference: Reference, first: Case) -> None:
        self._reference = reference
        self._first = first
        self._seconds = 0.0
        self._exact: Exact | None = None

    def run(self) -> None:
        """Refuse a reference that is random or not a number; see whether it changes its inputs; run it in float64.

        Raises
        ------
        Bad
        """
        reference, first = self._reference, self._first
        begin = time.monotonic()
        again, ranges, after = reference.call(first.inputs_path, first.cotangents_path, with_inputs=True)
        self._seconds = time.monotonic() - begin
        try:
            compare.compare(first.outputs, again, compare.Figures(), what=reference.what)
        except compare.Mismatch as error:
            raise self._random(str(error)) from error
        for owners, more in zip(first.sharing, layout.shared(ranges)):  # noqa: B905 - Python 3.9
            owners |= more
        assert after is not None
        before = tensorfile.load(first.inputs_path)
        if not unchanged(before, after):
            reference.changes_inputs = True
            first.inputs_after = after
            reference.notes.append("The reference changes its inputs in place; a candidate must change them alike.")
        self._refuse_not_finite()
        if before.nbytes <= FLOAT64_LIMIT and self._seconds <= FLOAT64_SECONDS:
            self._exact = self._wide()
            exact, errors = self._measure(self._exact, first)
            first.exact, first.own_errors = exact, errors

    def _random(self, text: str) -> Bad:
        """Return the refusal of a random reference, with what makes it random where that is known."""
        reference = self._reference
        dropping = [
            f"{name or 'the module itself'} (p={module.p:g})"
            for name, module in reference.module.named_modules()
            if isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.training and module.p > 0
        ]
        message = f"{reference.qualname} gives different results for equal inputs: {text}"
        cure = "Use eval mode, fix the seed inside forward(), or take the randomness out."
        if dropping:
            message += f" Dropout is active in {', '.join(dropping[:3])}, and nobody can match its random choices."
            cure = "Use eval mode, or set the dropout to 0."
        elif self._draws():
            message += f" It draws random numbers ({', '.join(self._draws())}), and nobody can match its choices."
        return Bad(message, cure, reference.path, reference.line)

    def _draws(self) -> list[str]:
        """Return the operators of a call that draw random numbers."""
        reference, first = self._reference, self._first
        _, operators = observe(lambda: reference.call(first.inputs_path, first.cotangents_path))
        names = sorted({name.split(".")[1] for name in operators.names if name.count(".")})
        return [name for name in names if any(part in name for part in RANDOM)]

    def _refuse_not_finite(self) -> None:
        """Refuse outputs without any finite number: whatever is NaN everywhere would pass."""
        floating = [tensor for tensor in self._first.outputs.tensors if tensor.numel()]
        if not floating or any(bool(torch.isfinite(tensor).any()) for tensor in floating):
            return
        reference = self._reference
        raise Bad(
            f"The result of {reference.qualname} holds no finite number, so that nothing can be compared.",
            "Check the weights and inputs for NaN, infinities and overflow.",
            reference.path,
            reference.line,
        )

    def _wide(self) -> Exact:
        reference = self._reference
        return Exact(reference.module, reference.device, reference.mode, reference.notes.append)

    def _measure(self, exact: Exact, case: Case) -> tuple[list[torch.Tensor] | None, list[float] | None]:
        """Return the float64 outputs of a case and the reference's own errors; None, None where there are none."""
        reference = self._reference
        flows = reference.cotangents(case.cotangents_path) if case.cotangents_path else None
        results = exact.run(reference.arguments(case.inputs_path), flows)
        errors = None if results is None else relative_errors(case.outputs.tensors, results)
        if errors is None or any(
            error > SAME_FUNCTION
            for error, name in zip(errors, reference.output_names(case.outputs))  # noqa: B905 - Python 3.9
            # Gradients can be zero but for rounding, and are then nothing but error.
            if not name.startswith(compare.GRADIENT) or not math.isfinite(error)
        ):
            exact.give_up()
            return None, None
        return [tensor.to(case.outputs.tensors[0].device) for tensor in results or []], errors

    def measure_moved(self, case: Case) -> None:
        """Measure the reference's own errors with the weights it has now."""
        if self._exact is None or not self._exact.usable:
            return
        _, errors = self._measure(self._wide(), case)
        if errors is not None:
            case.own_errors = errors

    def make_special(self) -> None:
        """Add the cases with special inputs that are fair, as far as time permits.

        Fair is what the reference itself bears: it does not raise, gives the same again, and, where values are other
        than the user's, float64 agrees with it within the usual tolerance and on every NaN and infinity. Otherwise
        the problem is ill-conditioned there, and an honest candidate with another order of summation would be blamed.
        """
        reference, first = self._reference, self._first
        if max(first.inputs_nbytes, first.outputs.nbytes) > SPECIAL_LIMIT:
            reference.notes.append("The inputs are large: no other batch sizes, strides or special values are checked.")
            return
        arguments = tensorfile.load(first.inputs_path).tree("cpu", lambda name: lookup(reference.document, name))
        operators = self._exact.operators if self._exact is not None else None
        screen = self._screen(operators.flops if operators else None)
        products = operators is None or special.has_products(operators.names)
        until = time.monotonic() + SPECIAL_SECONDS
        for variant in special.specials(arguments, products):
            if variant.changes_values and screen is None:
                continue
            for words, make in variant.alternatives:
                if time.monotonic() > until:
                    reference.notes.append(f"The reference is slow: from {variant.kind.value} on, no special inputs.")
                    return
                path = f"special{len(reference.special)}.raw"
                case = self._fair(variant, words, make, path, screen if variant.changes_values else None)
                if case is not None:
                    reference.special.append(case)
                    break

    def _screen(self, flops: int | None) -> Exact | None:
        """Return what runs special values first: float64, and on the CPU even for a GPU.

        A value out of range (an index computed from a NaN, a probability above 1) raises on a CPU, while on a GPU it
        ends the use of the GPU by this process.
        """
        if self._exact is None or not self._exact.usable or self._reference.mode == modules.TRAINING:
            return None
        if self._reference.device == "cpu":
            return self._exact
        if flops is None or flops > SCREEN_FLOPS:
            return None
        return Exact(self._reference.module, "cpu", self._reference.mode, lambda text: None)

    def _fair(
        self, variant: special.Special, words: str, make: Callable[[], Any], name: str, screen: Exact | None
    ) -> Case | None:
        """Return the case of a variant, None unless it is a fair one."""
        reference, first = self._reference, self._first
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
        try:
            case = reference.case(variant.kind, words, arguments, name)
            again, _, _ = reference.call(case.inputs_path, case.cotangents_path)
            compare.compare(case.outputs, again, compare.Figures(), what=reference.what)
        except (Bad, compare.Mismatch):
            self._check_device()
            return None
        case.own_errors = first.own_errors
        before, now = ([tensor.shape for tensor in item.outputs.tensors] for item in (first, case))
        if reference.mode == modules.TRAINING and variant.kind is CaseKind.BATCH:
            # Gradients of weights keep their shape; outputs and gradients of inputs follow the batch.
            before, now = before[: first.results], now[: case.results]
        if not variant.expect(before, now):
            return None
        if variant.kind is CaseKind.STRIDED and not self._same_values(case):
            return None
        if results is not None:
            own = relative_errors(case.outputs.tensors, results)
            if own is None or not all(
                error <= (compare.tolerance_for(tensor.dtype) or 0.0)
                for error, tensor in zip(own, case.outputs.tensors)  # noqa: B905 - Python 3.9
            ):
                return None
            case.own_errors = own
        return case

    def _same_values(self, case: Case) -> bool:
        """Whether the reference gives the first case's values."""
        for index, (a, b) in enumerate(zip(self._first.outputs.tensors, case.outputs.tensors)):  # noqa: B905
            own = self._first.own_errors[index] if self._first.own_errors else 0.0
            gap = difference(a, b)
            if not gap.same_pattern or gap.max_rel > compare.tolerance_for(a.dtype, own, gradient=True):
                return False
        return True

    def _check_device(self) -> None:
        """See that the GPU still answers after the reference raised.

        Raises
        ------
        Broken
            It does not.
        """
        try:
            modules.synchronize(self._reference.device)
        except RuntimeError as error:
            raise Broken(
                f"The reference left the GPU unusable when it was tried with special inputs: {error}.",
                "Leave special inputs out for it: --set special_inputs=false, or stark.evaluation in an editor.",
            ) from error


def refuse_constant(reference: Reference, make: Callable[[], Any]) -> None:
    """Refuse a reference whose result does not depend on its inputs.

    Any constant would then pass, and a result computed once and kept could not be told from an honest one. Where
    the inputs are the same for each seed, or differ too little, a case with others is added instead.

    Parameters
    ----------
    make
        Makes inputs of another seed.

    Raises
    ------
    Bad
    """
    first = reference.cases[0]
    before = tensorfile.load(first.inputs_path)
    if not any(tensor.numel() for tensor in before.tensors):
        raise Bad(
            f"{reference.qualname} takes no tensor: its result is the same in each call.",
            "Give forward() the tensors it works on, or compute the result once and keep it.",
            reference.path,
            reference.line,
        )
    others = reference.cases[1:]
    probe = os.path.join(reference.folder, "probe.raw")
    try:
        if not others:
            others = [reference.case(CaseKind.SEEDED, "", make(), "probe.raw")]
        if any(not _alike(reference, first, other) for other in others):
            return
        moving = any(not unchanged(before, tensorfile.load(other.inputs_path)) for other in others)
    finally:
        for path in (probe, os.path.splitext(probe)[0] + "-cotangents.raw"):
            if os.path.exists(path):
                os.unlink(path)
    tree = before.tree("cpu", lambda name: lookup(reference.document, name))
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
    tolerance = compare.tolerance_for(first.outputs.tensors[0].dtype)
    within = f", within the tolerance ({tolerance:.0e} of its largest value)" if tolerance else ""
    raise Bad(
        f"{reference.qualname} gives the same result for different inputs{within}: any constant would pass.",
        "Check what forward() does with these inputs; a result that does not depend on them can be computed once.",
        reference.path,
        reference.line,
    )


def _alike(reference: Reference, one: Case, other: Case) -> bool:
    """Whether two cases have the same result for the judge."""
    try:
        compare.compare(one.outputs, other.outputs, compare.Figures(), one.own_errors, what=reference.what)
    except compare.Mismatch:
        return False
    return True


def unchanged(before: tensorfile.Loaded, after: tensorfile.Loaded) -> bool:
    """Whether two files hold the same tensors, bit by bit."""
    if len(before.tensors) != len(after.tensors) or before.skeleton != after.skeleton:
        return False
    for a, b in zip(before.tensors, after.tensors):  # noqa: B905 - Python 3.9
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.numel() and not torch.equal(_bits(a), _bits(b.to(a.device))):
            return False
    return True


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor, so that NaN equals itself."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)
