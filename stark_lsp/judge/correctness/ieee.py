"""Results without TF32: what a module gives where no factor of a product is rounded to 10 bits.

PyTorch lets cuDNN's convolutions use TF32 unless told otherwise. A deep network makes a percent of the result of that
rounding, so two right programs are as far apart as each is from float64, beyond every tolerance that would find a wrong
one. Without TF32 the same two agree to the usual tolerance, and a wrong one does not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from ..processes.failures import RunnerFailure
from ..processes.runners import RunnerProcess
from ..transport import tensorfile, values
from . import compare
from .difference import relative_errors

if TYPE_CHECKING:
    from ..inputs.cases import Case
    from ..reference.reference import Reference

VALUES = {"allow_tf32": (False, True), "fp32_precision": ("ieee", "tf32")}
"""Without and with TF32, by the name of the setting."""
Load = Callable[[RunnerProcess], Any]
"""Has a runner load the candidate with the constructor's weights; raises what `RunnerProcess.ask` does."""


def allow(allowed: bool) -> None:
    """Allow or forbid TF32 in all that this process does from now on."""
    for holder, name, _ in _allowed():
        setattr(holder, name, VALUES[name][allowed])


@contextlib.contextmanager
def allowing(allowed: bool) -> Iterator[None]:
    """Allow or forbid it in the block, and put back what was allowed."""
    before = _allowed()
    allow(allowed)
    try:
        yield
    finally:
        for holder, name, value in before:
            setattr(holder, name, value)


def _allowed() -> list[tuple[Any, str, Any]]:
    """Return what says whether TF32 is allowed: holder, name and value."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    try:
        return [(holder, "allow_tf32", holder.allow_tf32) for holder in (cudnn, matmul)]
    except RuntimeError:
        # From torch 2.9 on it cannot be read where the user's code has set the newer one for a part of them.
        return [(holder, "fp32_precision", holder.fp32_precision) for holder in (cudnn.conv, cudnn.rnn, matmul)]


def errors(reference: Reference, case: Case, exact: list[torch.Tensor], own: list[float]) -> list[float] | None:
    """Return the reference's relative errors against float64 without TF32, where they count.

    Parameters
    ----------
    exact, own
        Its results in float64, and the errors as it is called.

    Returns
    -------
    list of float or None
        None where the usual tolerance has room for `own`, or where it is not TF32 that makes them so large.
    """
    dtypes = [tensor.dtype for tensor in case.outputs.tensors]
    if not any(map(reference.tolerance.has_no_room, dtypes, own)):
        return None
    with allowing(False):
        outputs, _, _ = reference.call(case.inputs_path, case.cotangents_path, keep=False)
    found = relative_errors(exact, outputs.tensors)
    return None if found is None or any(map(reference.tolerance.has_no_room, dtypes, found)) else found


def outputs_of(runner: RunnerProcess, load: Load, reference: Reference, run_s: float) -> list[torch.Tensor] | None:
    """Return what a candidate gives for the first case in a process without TF32; None where it fails there.

    Parameters
    ----------
    runner
        One that has loaded nothing yet; it is of no other use afterwards.
    """
    case = reference.cases[0]
    path = f"{runner.files.out}/ieee.raw"
    try:
        runner.ask("forbid_tf32", run_s=run_s)
        load(runner)
        flows = runner.give(case.cotangents_path) if case.cotangents_path else ""
        runner.ask("forward", run_s=run_s, inputs=runner.give(case.inputs_path), outputs=path, cotangents=flows)
        found = tensorfile.load(path, 4 * case.outputs.nbytes + tensorfile.ROOM, reference.device, runner.exchange)
        tensors = [found.tensors[number] for number in values.matched(case.outputs.skeleton, found.skeleton)]
        same = [tensor.dtype for tensor in tensors] == [tensor.dtype for tensor in case.outputs.tensors]
        return tensors if same else None
    except (RunnerFailure, tensorfile.Damaged, *compare.MALFORMED):
        return None
