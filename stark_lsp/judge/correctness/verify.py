"""Verify a loaded candidate: run it on every case and compare with what the reference gave."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from ..inputs.cases import Case, CaseKind
from ..processes.runners import RunnerProcess
from ..reference import modules
from ..reference.examine import first_rows
from ..reference.reference import Reference
from ..timing import kept
from ..transport import claims, tensorfile, values
from . import buffers, compare, converted, layout
from .backward import Backward, Step
from .classify import Ask, Failed, Finding
from .difference import relative_errors
from .repeated import Again

HOLD_LIMIT = 1 << 30
"""Bytes of outputs up to which the runner keeps the first result while it makes another."""
OVERWRITTEN = "A later call overwrote the result of an earlier one: allocate outputs in each call, not once."
STALE_WEIGHTS = "Once it was called, it does not follow weights that are {}"
WITHOUT_GRADIENT = (
    "Its result has no gradient where the original's has one, so nothing could be trained through it. Put the kernel "
    "into a torch.autograd.Function; its backward may compute the PyTorch form anew and differentiate that."
)
ONCE = (
    "Where backward runs again (retain_graph=True), or gradients are differentiated (create_graph=True, as for a "
    "gradient penalty), it raises an error, which the original does not."
)
OTHER_DTYPE = f"After .to(torch.{converted.DTYPE}) it raises an error, which the original does not: "
OUT_OF_STREAM = (
    "Its kernels read the inputs before these are there: they do not run on the current CUDA stream. Launch them on "
    "torch.cuda.current_stream(), or have their own stream wait for it."
)

WIDENED = (
    f"It differs by more than {compare.FIXED:.0e} and {compare.FIXED:.0e} of a value, as the original may from "
    "float64. Evaluators that allow no more, such as KernelBench's, call that wrong."
)
TF32 = (
    "It differs from the original as that does from float64, by up to {:.1g} of the largest value: PyTorch allows TF32 "
    "in convolutions. Without TF32 both agree."
)
JUMPS = (
    "Where rounding decides between two results, as between codes that are equally near, it may give the other one. So "
    "does the original where inputs change in their last bits; evaluators that do not look there may call it wrong."
)


@dataclass(eq=False)
class Verifier:
    """Holds one candidate against the reference; raises `Failed` at the first thing that is wrong."""

    reference: Reference
    """The prepared reference; its expected outputs never leave this process."""
    ask: Ask
    """Asks the candidate's runner."""
    runner: RunnerProcess
    """The candidate's runner."""
    weights_message: str
    """Why the reference's weights could not be loaded, empty if they were."""
    without_tf32: Callable[[], list[torch.Tensor] | None]
    """Gives what a fresh process returns for the first case without TF32; None where it fails."""

    def __post_init__(self) -> None:
        self._last = self.reference.cases[0]
        self._held: dict[int, int] = {}
        """Marks of the outputs that the runner holds, by their numbers."""
        self.figures = compare.Figures()
        self._without_gradient = False
        self.notes: list[str] = []
        """What a user should know, in words."""
        self._tolerance = self.reference.tolerance
        self.compared = False
        """Whether any values were compared, so that `figures` say something."""

    def run(self, *, until: str = "") -> None:
        """Compare on every case, on the first also twice.

        Until `build` it is only called on the first and nothing is compared; at a `glance` the first is compared once.

        The order is: inputs as the user makes them, special inputs, other weights than the constructor gives. In each
        case outputs, their layout and memory, and the inputs afterwards are checked; after the first also that its
        result outlives a call with other inputs.
        """
        reference = self.reference
        plain = [case for case in reference.cases if not case.trained]
        first = plain[0]
        if until == "build":
            self._forward(first)
            return
        if until == "glance":
            self._check(first)
            return
        outputs = self._check(first, hold=first.outputs.nbytes <= HOLD_LIMIT)
        if first.exact is not None:
            order = values.matched(first.outputs.skeleton, outputs.skeleton)
            # Of a large problem only the first samples were run in float64.
            found = first_rows([outputs.tensors[number] for number in order], first.exact)
            errors = relative_errors(first.exact, found or [])
            self.figures.float64_max_rel = max(errors) if errors else None
        if first.outputs.nbytes <= HOLD_LIMIT:
            marks = kept.marks(outputs.tensors, reference.device)
            order = values.matched(first.outputs.skeleton, outputs.skeleton)
            # What shares the memory of weights may not stay as it is.
            self._held = {number: marks[number] for number, owners in zip(order, first.sharing) if not owners}
        self._repeat(first, "Called again with equal inputs, it gave another result: ")
        for case in plain[1:] + [case for case in reference.special if not case.trained]:
            self._check(case)
        # As of a first layer; with other weights the inputs have gradients too.
        if self._without_gradient:
            raise Failed(Finding("WRONG_RESULT", WITHOUT_GRADIENT))
        if reference.backward is not None and not self.weights_message:
            self._check_steps(first, reference.backward, reference.backward.plain(leaves=reference.moved is None))
        self._check_buffers(first)
        self._check_trained()
        if reference.uses is not None and not self.weights_message:
            self._check_steps(*reference.uses)
            if any(step.how.get("converted") for step in reference.uses[2]):
                trained = reference.uses[0].trained
                weights = reference.trained_path if trained else reference.weights_path
                self.ask("load", "rebuild", weights=self.runner.give(weights))

    def _check_buffers(self, case: Case) -> None:
        """Compare what calls leave in buffers with what the original's do, and results that go on from there."""
        expected, further = self.reference.buffers, self.reference.further
        if expected is None or not expected.expected or self.weights_message:
            return
        names: set[str] = set()

        def leaves(case: Case, expected: dict[str, torch.Tensor]) -> None:
            def find(found: tensorfile.Loaded) -> str:
                names.update(buffers.named(found))
                return buffers.problem(expected, found, self.reference.tolerance)

            path = os.path.join(self.runner.files.out, "buffers.raw")
            how = {"further": case.further, "gradients": case.further and case.recorded}
            self.ask("forward", "buffers", inputs=self.runner.give(case.inputs_path), outputs=path, **how)
            self._claimed("buffers", path, case.outputs.nbytes + buffers.LIMIT, "cpu", find)

        leaves(case, expected.expected)
        # What it calls otherwise cannot be given to it.
        if further is not None and names >= expected.after.values.keys():
            # What else it keeps, as the same in another layout, is then as the first call leaves it.
            self._forward(case)
            self._check(further)
            self._forward(case)
            leaves(further, expected.further)

    def _check_steps(self, case: Case, expected: Backward, steps: list[Step]) -> None:
        """Have the candidate make steps on a case, and compare gradients with the original's."""
        path = os.path.join(self.runner.files.out, "gradients.raw")
        nbytes = case.outputs.nbytes + expected.nbytes

        def problem(found: tensorfile.Loaded, step: Step) -> str:
            self.notes += [ONCE] * (isinstance(step, Again) and step.raised(found))
            return step.problem(found)

        for step in steps:
            # What is handed over is there for one request.
            paths = {"inputs": case.inputs_path, "cotangents": expected.cotangents_path}
            paths |= {"between": step.how["between"]} if step.how.get("between") else {}
            how = {**step.how, **{name: self.runner.give(file) for name, file in paths.items()}}
            try:
                self.ask("forward", "forward", outputs=path, **how)
                self._claimed("gradients", path, nbytes, expected.device, partial(problem, step=step))
            except Failed as failure:
                if step.how.get("converted") and _is_loud(failure):
                    self.notes.append(f"{OTHER_DTYPE}{failure.finding.message}")
                    continue
                failure.finding.message += step.cure
                raise

    def _claimed(
        self, what: str, path: str, nbytes: int, device: str, find: Callable[[tensorfile.Loaded], str]
    ) -> None:
        """Read what a candidate's process wrote, some `nbytes`, and fail with what is found wrong with it."""
        try:
            problem = find(tensorfile.load(path, 4 * nbytes + tensorfile.ROOM, device, self.runner.exchange))
        except tensorfile.Damaged as error:
            raise Failed(Finding("WRONG_SHAPE", f"The {what} could not be read back: {error}.")) from error
        except compare.MALFORMED as error:
            raise Failed(Finding("CHEATED", f"The {what} were not written by the judge's own code.")) from error
        if problem:
            raise Failed(Finding("WRONG_RESULT", problem))

    def _check_trained(self) -> None:
        """Compare on the cases with other weights; a candidate they do not load into matches, if at all, without."""
        cases = [case for case in self.reference.special + self.reference.cases if case.trained]
        if not cases or self.weights_message:
            return
        # First in the module that was used already, as when a user goes on training.
        self.ask(
            "load",
            "use_weights",
            weights=self.runner.give(self.reference.trained_path),
            in_place=self.reference.in_place,
        )
        stale: Failed | None = None
        try:
            self._check(cases[0])
        except Failed as failure:
            if failure.finding.status not in ("WRONG_RESULT", "NOT_FINITE"):
                raise
            stale = failure
        self.ask("load", "rebuild", weights=self.runner.give(self.reference.trained_path))
        for case in cases:
            self._check(case)
        if self.reference.moved is not None:
            moved = next(case for case in self.reference.cases if case.trained)
            self._check_steps(moved, self.reference.moved, self.reference.moved.plain(leaves=True))
        if stale is not None:
            how = "changed in place, as an optimizer does" if self.reference.in_place else "loaded into it"
            stale.finding.message = f"{STALE_WEIGHTS.format(how)}: {stale.finding.message}"
            raise stale

    def check_again(self) -> None:
        """Run the last case once more, after the candidate was timed."""
        reference = self.reference
        if reference.mode == modules.TRAINING:
            # Timed steps have moved the running statistics.
            weights = reference.trained_path if self._last.trained else reference.weights_path
            self.ask("time", "use_weights", weights=self.runner.give(weights))
        self._repeat(self._last, "After it was timed, it gave another result: ")

    def _check(self, case: Case, *, hold: bool = False) -> tensorfile.Loaded:
        """Run one case and compare all there is to compare."""
        if case.kind in (CaseKind.SEEDED, CaseKind.MOVED_WEIGHTS) and not case.further:
            self._last = case
        outputs, sharing, changed = self._forward(case, hold=hold)
        try:
            self._compare(case, outputs, self.figures, dense=case.kind is not CaseKind.STRIDED)
            self.compared = True
        except compare.Mismatch as error:
            self.compared = self.compared or error.status == "WRONG_RESULT"
            if (
                error.status == "WRONG_RESULT"
                and self._tolerance.limit == compare.WIDEN_LIMIT
                and self._right_without_tf32()
            ):
                self._tolerance = replace(self._tolerance, limit=compare.LOWER_LIMIT)
                self.notes.append(TF32.format(max(self.reference.cases[0].own_errors or [0.0])))
                return self._check(case, hold=hold)
            if self.reference.device == "cuda" and self._right_if_waited_for(case):
                raise _failed("WRONG_RESULT", OUT_OF_STREAM, case) from error
            raise _failed(error.status, str(error), case) from error
        # What is in half precision is no matter of evaluators that have one tolerance for all.
        fixed = case.kind is CaseKind.SEEDED and not self.reference.autocast
        if fixed and self.figures.max_abs > compare.FIXED and not self.figures.widened:
            self._hold_to_fixed(case, outputs)
        if changed:
            raise _failed("MUTATED_INPUT", changed, case)
        self._check_sharing(case, outputs, sharing)
        return outputs

    def _compare(self, case: Case, outputs: tensorfile.Loaded, figures: compare.Figures, *, dense: bool = True) -> None:
        what = self.reference.what
        nearby = partial(self.reference.nearby, case)
        share = compare.compare(
            case.outputs,
            outputs,
            figures,
            case.own_errors,
            what,
            dense=dense,
            tolerance=compare.FINITE if case.finite_alone else self._tolerance,
            nearby=nearby,
            around=partial(nearby, all_move=True),
        )
        if share and JUMPS not in self.notes:
            self.notes.append(JUMPS)

    def _hold_to_fixed(self, case: Case, outputs: tensorfile.Loaded) -> None:
        """See whether evaluators with a fixed tolerance would agree, see `compare.hold_to_fixed`."""
        order = values.matched(case.outputs.skeleton, outputs.skeleton)[: case.results]
        pairs = list(zip(case.outputs.tensors, [outputs.tensors[number] for number in order]))
        try:
            keeps = compare.hold_to_fixed(pairs, case.own_errors)
        except compare.Mismatch as error:
            raise _failed(error.status, str(error), case) from error
        if not keeps:
            self.figures.widened = True
            self.notes.append(WIDENED)

    def _right_without_tf32(self) -> bool:
        """Whether the reference is far from float64 by TF32 alone, and the candidate right where there is none."""
        first = self.reference.cases[0]
        if first.ieee_errors is None or first.ieee is None:
            return False
        rows = first_rows(self.without_tf32() or [], first.ieee)
        errors = None if rows is None else relative_errors(first.ieee, rows)
        dtypes = [tensor.dtype for tensor in first.outputs.tensors]
        return errors is not None and all(
            error <= self.reference.tolerance.of(dtype, own)
            for error, dtype, own in zip(errors, dtypes, first.ieee_errors)
        )

    def _right_if_waited_for(self, case: Case) -> bool:
        """Whether a wrong result is right once the inputs are there before the call."""
        try:
            outputs, _, _ = self._forward(case, again=True)
            self._compare(case, outputs, compare.Figures())
        except (Failed, compare.Mismatch):
            return False
        return True

    def _check_sharing(self, case: Case, outputs: tensorfile.Loaded, sharing: list[set[str]]) -> None:
        """See that outputs, of the right structure, lie in memory of their own, unless the reference's do not."""
        first = self.reference.cases[0]
        allowed = [mine | always for mine, always in zip(case.sharing, first.sharing)]
        order = values.matched(case.outputs.skeleton, outputs.skeleton)[: case.results]
        problem = layout.sharing_problem(allowed, [sharing[number] for number in order if number < len(sharing)])
        if problem is not None:
            raise _failed("WRONG_RESULT", problem, case)

    def _repeat(self, case: Case, words: str) -> None:
        """Run a case once more; what matched before and does not now is not deterministic."""
        outputs, sharing, _ = self._forward(case, again=True)
        try:
            self._compare(case, outputs, self.figures)
        except compare.Mismatch as error:
            raise Failed(Finding("NONDETERMINISTIC", words + str(error))) from error
        self._check_sharing(case, outputs, sharing)

    def _forward(
        self, case: Case, *, hold: bool = False, again: bool = False
    ) -> tuple[tensorfile.Loaded, list[set[str]], str]:
        """Run one case; returns outputs, whose memory they share, and what is wrong with the inputs afterwards.

        Parameters
        ----------
        hold
            Have the runner hold the outputs; the next call that is none made again sees that they have outlived it.
        again
            Whether it is a call made again: with inputs that are there before, see `late` of `forward.Forward.run`.
        """
        folder = self.runner.files.out
        paths = {name: os.path.join(folder, f"{name}.raw") for name in ("outputs", "after")}
        for path in paths.values():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        held: dict[int, int] = {}
        if not again:
            held, self._held = self._held, {}
        try:
            answer = self.ask(
                "forward",
                "forward",
                inputs=self.runner.give(case.inputs_path),
                outputs=paths["outputs"],
                inputs_after="" if case.inputs_after is None else paths["after"],
                cotangents=self.runner.give(case.cotangents_path) if case.cotangents_path else "",
                poison=[tensor.numel() * tensor.element_size() for tensor in case.outputs.tensors[: case.results]],
                hold=hold,
                keep=again,
                margin=True,
                marks=["inputs"] * (case.inputs_after is None) + ["held"] * bool(held),
                late=not again,
                gradients=case.recorded,
                further=case.further,
            )
        except Failed as failure:
            failure.finding.message = _with(failure.finding.message, case)
            raise
        if case.recorded and self.reference.differentiable and not answer.get("differentiable"):
            self._without_gradient = True
        odd = ", ".join(claims.texts(answer.get("odd")))[:200]
        if odd:
            raise _failed("WRONG_SHAPE", f"It returned a {odd}, not a plain torch.Tensor.", case)
        # For this the inputs are read; outputs come after them, and not beside them.
        before = self.reference.marks(case) if case.inputs_after is None else []

        def read(name: str, most: int) -> tensorfile.Loaded:
            return tensorfile.load(paths[name], most + tensorfile.ROOM, self.reference.device, self.runner.exchange)

        try:
            found = read("outputs", 4 * case.outputs.nbytes)
            after = None if case.inputs_after is None else read("after", 2 * case.inputs_nbytes)
            sharing = layout.shared(answer["ranges"], case.results)
            marks = {name: list(answer["marks"].get(name, ())) for name in ("inputs", "held")}
            lasting = all(marks["held"][number] == mark for number, mark in held.items())
        except (tensorfile.Damaged, LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise Failed(Finding("WRONG_SHAPE", f"The outputs could not be read back: {error}.")) from error
        if not lasting:
            raise Failed(Finding("WRONG_RESULT", OVERWRITTEN))
        return found, sharing, _changed(case, after, before, marks["inputs"])


def _changed(case: Case, after: tensorfile.Loaded | None, before: list[int], marks: list[Any]) -> str:
    """Return how the inputs are left otherwise than by the reference, for a person; empty if they are not."""
    if case.inputs_after is not None and after is not None:
        try:
            compare.compare(case.inputs_after, after, compare.Figures(), None, "changed input")
        except compare.Mismatch as error:
            return f"It changes its inputs unlike the reference: {error}"
    elif marks != before:
        pairs = zip(case.forms, before, marks)
        texts = (f"input number {n}, {tensorfile.text_of(form)}" for n, (form, a, b) in enumerate(pairs, 1) if a != b)
        return f"It changed its {next(texts, 'inputs')}, which the reference leaves as it is."
    return ""


def _is_loud(failure: Failed) -> bool:
    """Whether it is an error of Python's, which who meets it sees; where memory was read that is not there, none is."""
    return failure.finding.status == "RUNTIME_ERROR" and "CUDA error" not in failure.finding.message


def _with(message: str, case: Case) -> str:
    """Return a message with what is special about the inputs."""
    return f"{message} ({case.words})" if case.words else message


def _failed(status: str, message: str, case: Case) -> Failed:
    return Failed(Finding(status, _with(message, case)))
