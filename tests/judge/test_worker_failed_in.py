"""What a failure means: a build that was stopped is told from a run that was."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from stark_lsp.contract.errors import Broken
from stark_lsp.core.verdict import Stage
from stark_lsp.judge.building.service import Built, Failure
from stark_lsp.judge.correctness.classify import BUILD, build_finding, classify
from stark_lsp.judge.processes.failures import RunnerDied, RunnerError, RunnerTimedOut
from stark_lsp.judge.timing.problem_runners import reference_timed

PATH = "/folder/candidate.py"


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (Failure.TIMED_OUT, "TIMED_OUT"),
        (Failure.MEMORY, "OUT_OF_MEMORY"),
        (Failure.BROKEN, "COMPILE_ERROR"),
        (Failure.COMPILER, "COMPILE_ERROR"),
        (Failure.REFUSED, "REFUSED"),
    ],
)
def test_whatever_ended_a_build_the_reason_lies_in_the_build(failure: Failure, status: str) -> None:
    finding = build_finding(Built(error="Error building extension 'fused': no more", failure=failure))
    assert (finding.status, Stage(finding.stage)) == (status, Stage.BUILD)


@pytest.mark.parametrize("stage", ["load", "forward", "time"])
def test_a_just_in_time_compiler_that_was_stopped_is_a_build_too(stage: str) -> None:
    assert classify(RunnerTimedOut(True, 300.0), stage, PATH).stage == BUILD
    assert classify(RunnerTimedOut(False, 60.0), stage, PATH).stage == "", "the stage in which it was noticed"
    assert classify(RunnerDied(-11), stage, PATH).stage == ""


def test_a_just_in_time_compiler_that_fails_is_a_build_and_any_other_error_is_not() -> None:
    report = {"types": ["CompilationError", "Exception"], "text": "at 3:4: no such name"}
    assert classify(RunnerError(report), "forward", PATH).stage == BUILD
    report = {"types": ["ValueError", "Exception"], "text": "no"}
    assert classify(RunnerError(report), "forward", PATH).stage == ""


FULL = (
    "CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 79.18 GiB of which 106.38 MiB is "
    "free. Process 1847 has 6.08 GiB memory in use. Process 3125 has 8.87 GiB memory in use. Including non-PyTorch "
    "memory, this process has 6.60 GiB memory in use. Of the allocated memory 6.00 GiB is allocated by PyTorch, and "
    "2.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting …"
)
SHORT = "0.50 GiB more were wanted where 0.10 of the GPU's 79 GiB were free and 72.5 with other programs"


def test_a_full_gpu_is_told_in_a_sentence_with_what_other_programs_hold() -> None:
    report = {"types": ["OutOfMemoryError", "RuntimeError"], "text": FULL}
    finding = classify(RunnerError(report), "forward", PATH)
    assert (finding.status, finding.message) == ("OUT_OF_MEMORY", f"Memory ran out: {SHORT}.")

    def run() -> None:
        raise RunnerError(report)

    with pytest.raises(Broken) as raised:
        reference_timed(run)
    assert raised.value.message == f"The reference could not be timed: {SHORT}."
    assert "Free memory on the GPU" in raised.value.cure
