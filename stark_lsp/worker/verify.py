"""Verify a loaded candidate: run it on every case and compare with what the reference gave."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import torch

from . import compare, tensorfile
from .classify import Finding
from .failed import Failed
from .reference import Reference, unchanged
from .runners import RunnerProcess

ROOM = 1 << 20
"""Bytes an output file may be longer than the reference's."""

Ask = Callable[..., dict[str, Any]]
"""`ask(stage, command, **params)`: asks the candidate's runner; raises `Failed` when it fails."""


class Verifier:
    """Holds one candidate against the reference.

    Parameters
    ----------
    reference
        The prepared reference; its expected outputs never leave this process.
    ask
        Asks the candidate's runner.
    runner
        The candidate's runner.
    weights_message
        Why the reference's weights could not be loaded, empty if they were.
    """

    def __init__(self, reference: Reference, ask: Ask, runner: RunnerProcess, weights_message: str) -> None:
        self._reference = reference
        self._ask = ask
        self._runner = runner
        self._weights_message = weights_message
        self._trained = False
        self._last = 0
        self.figures = compare.Figures()
        self.compared = False
        """Whether any values were compared, so that `figures` say something."""

    def run(self) -> None:
        """Compare on every case; on the first also twice, and with a look at the inputs afterwards.

        The later cases have other weights than the constructor gives.

        Raises
        ------
        Failed
        """
        for index, case in enumerate(self._reference.cases):
            if case.trained and self._weights_message:
                # It matches, if at all, only when built from the same seed.
                break
            if case.trained and not self._trained:
                self._ask("load", "rebuild", weights=self._runner.give(self._reference.trained_path))
                self._trained = True
            self._last = index
            outputs, after = self._forward(index, keep_inputs=index == 0)
            self._compare(index, outputs)
            if after is not None:
                self._check_inputs(after)
                if self._reference.exact is not None:
                    errors = compare.relative_errors(self._reference.exact, outputs.tensors)
                    self.figures.float64 = max(errors) if errors else None
                again, _ = self._forward(index)
                self._repeat(index, again, "Called again with equal inputs, it gave another result: ")

    def check_again(self) -> None:
        """Run the last case once more, after the candidate was timed.

        Raises
        ------
        Failed
        """
        outputs, _ = self._forward(self._last)
        self._repeat(self._last, outputs, "After it was timed, it gave another result: ")

    def _forward(self, index: int, *, keep_inputs: bool = False) -> tuple[tensorfile.Loaded, tensorfile.Loaded | None]:
        """Run one case; returns outputs and, if wanted, the inputs afterwards."""
        case = self._reference.cases[index]
        outputs = os.path.join(self._runner.files.out, "outputs.raw")
        after = os.path.join(self._runner.files.out, "inputs-after.raw") if keep_inputs else ""
        for path in filter(None, (outputs, after)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self._ask("forward", "forward", inputs=self._runner.give(case.inputs_path), outputs=outputs, inputs_after=after)
        expected = sum(tensor.numel() * tensor.element_size() for tensor in case.outputs.tensors)
        try:
            found = tensorfile.load(outputs, 4 * expected + ROOM)
            inputs = tensorfile.load(after, 2 * os.path.getsize(case.inputs_path) + ROOM) if after else None
        except tensorfile.Damaged as error:
            raise Failed(Finding("WRONG_SHAPE", f"The outputs could not be read back: {error}.")) from error
        return found, inputs

    def _compare(self, index: int, outputs: tensorfile.Loaded) -> None:
        try:
            compare.compare(self._reference.cases[index].outputs, outputs, self.figures, self._reference.own_errors)
            self.compared = True
        except compare.Mismatch as error:
            self.compared = self.compared or error.status == "WRONG_RESULT"
            where = "" if index == 0 else f" (with other inputs, number {index + 1})"
            if self._trained:
                where = f" (with other weights than the constructor gives, inputs number {index + 1})"
            raise Failed(Finding(error.status, f"{error}{where}")) from error

    def _repeat(self, index: int, outputs: tensorfile.Loaded, words: str) -> None:
        """Compare once more; what matched before and does not now is not deterministic."""
        try:
            compare.compare(self._reference.cases[index].outputs, outputs, self.figures, self._reference.own_errors)
        except compare.Mismatch as error:
            raise Failed(Finding("NONDETERMINISTIC", words + str(error))) from error

    def _check_inputs(self, after: tensorfile.Loaded) -> None:
        """See that the inputs are as the reference leaves them."""
        wanted = self._reference.inputs_after
        if wanted is None:
            before = tensorfile.load(self._reference.cases[0].inputs_path)
            if unchanged(before, after):
                return
            changed = "its inputs"
            for number, (a, b) in enumerate(zip(before.tensors, after.tensors)):  # noqa: B905 - Python 3.9
                if a.shape != b.shape or not torch.equal(a.nan_to_num(), b.nan_to_num()):
                    changed = f"its input number {number + 1}, {tensorfile.text_of(a)}"
                    break
            raise Failed(Finding("MUTATED_INPUT", f"It changed {changed}, which the reference leaves as it is."))
        try:
            compare.compare(wanted, after, compare.Figures(), None, "changed input")
        except compare.Mismatch as error:
            raise Failed(Finding("MUTATED_INPUT", f"It changes its inputs unlike the reference: {error}")) from error
