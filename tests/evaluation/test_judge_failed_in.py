"""What takes too long says in which stage: a build that was stopped is not taken for a run that was.

The stages of all other verdicts are looked at in `test_judge_verdicts.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from judge_cases import HONEST, QUICK, RAW, candidate_with, make_problem, preparing

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.core.verdict import Stage
from stark_lsp.evaluation.judge import WorkerJudge

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

SLOW_COMPILER = """#!/bin/sh
case "$*" in
  *--version*|*-dumpversion*|*-dumpfullversion*) exec g++ "$@" ;;
esac
exec sleep 31415.8
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkerJudge]:
    folder = tmp_path_factory.mktemp("failed-in")
    settings = replace(QUICK, run_timeout_s=8.0)
    async with preparing(make_problem(folder / "model.py"), folder, settings=settings) as (judge, _):
        yield judge


@pytest.mark.parametrize(
    ("source", "status", "stage"),
    [
        ("while True:\n    pass\n" + candidate_with(HONEST), Status.TIMED_OUT, Stage.LOAD),
        (candidate_with("while True:\n    pass"), Status.TIMED_OUT, Stage.VERIFY),
    ],
    ids=["loads for ever", "runs for ever"],
)
async def test_a_verdict_names_the_stage_in_which_it_was_reached(
    judge: WorkerJudge, source: str, status: Status, stage: Stage | None
) -> None:
    verdict = await judge.evaluate(Candidate(source))
    assert (verdict.status, verdict.failed_in) == (status, stage), verdict


async def test_a_build_that_was_stopped_is_told_from_a_run_that_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "slow-g++"
    program.write_text(SLOW_COMPILER)
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    settings = replace(QUICK, build_timeout_s=1.0)
    async with preparing(make_problem(tmp_path / "model.py"), tmp_path, settings=settings) as (judge, _):
        verdict = await judge.evaluate(Candidate(RAW))
    assert (verdict.status, verdict.failed_in) == (Status.TIMED_OUT, Stage.BUILD), verdict
    assert "verify" in dict(verdict.stages_s), "it was built when it was first called"
