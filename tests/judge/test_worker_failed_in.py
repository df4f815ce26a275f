"""What a failure means: a build that was stopped is told from a run that was."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from stark_lsp.core.verdict import Stage
from stark_lsp.judge.building.service import Built, Failure
from stark_lsp.judge.correctness.classify import BUILD, build_finding, classify
from stark_lsp.judge.processes.failures import RunnerDied, RunnerError, RunnerTimedOut

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
