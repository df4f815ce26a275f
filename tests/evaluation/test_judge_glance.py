"""A glance at a candidate: one case and few rounds, in a process of its own; and what is tuned by it for real."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from judge_cases import HONEST, KERNEL, LAUNCH, QUICK, candidate_with, judging, make_problem
from one_attempt import attempt

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.problem import Problem
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.core.verdict import Reference
from stark_lsp.evaluation.judge import WorkerJudge

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

SETTINGS = replace(QUICK, rounds=12, target_error=0.0, profile=True, special_inputs=True, parallel=2)


class Prepared:
    """The judge, its problem, what preparing found out, and what was told."""

    def __init__(self, judge: WorkerJudge, problem: Problem, reference: Reference, told: list[str]) -> None:
        self.judge, self.problem, self.reference, self.told = judge, problem, reference, told


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prepared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Prepared]:
    folder, told = tmp_path_factory.mktemp("glance"), []
    problem = make_problem(folder / "model.py")
    async with judging(problem, folder, settings=SETTINGS, notice=told.append) as (judge, _):
        yield Prepared(judge, problem, await judge.prepare(lambda text: None), told)


@pytest.mark.ci
async def test_it_is_timed_in_few_rounds_without_a_word(prepared: Prepared) -> None:
    prepared.told.clear()
    verdict = await prepared.judge.glance(Candidate(candidate_with(HONEST)))
    assert verdict.ok, verdict.message
    assert verdict.runtime is not None
    assert verdict.speedup_vs_eager is not None
    assert (verdict.runtime.n, verdict.profile, prepared.told) == (6, None, [])


@pytest.mark.ci
async def test_one_case_tells_what_is_wrong_there_and_not_what_is_wrong_elsewhere(prepared: Prepared) -> None:
    wrong = await prepared.judge.glance(Candidate(candidate_with("return torch.relu(x * self.weight)")))
    assert wrong.status is Status.WRONG_RESULT
    elsewhere = Candidate(candidate_with("assert x.shape[0] == 64\n" + HONEST))
    assert (await prepared.judge.glance(elsewhere)).ok
    assert (await prepared.judge.evaluate(elsewhere)).failed_in is not None


NATIVE = KERNEL.replace(
    "            y[r * n + i]",
    "            for (int k = 0; k < TIMES; ++k) { volatile float again = v; v = again; }\n"
    "            if (TIMES == 0) v = 0.5f;\n            y[r * n + i]",
).replace("functions=None,", 'functions=None, extra_cflags=[f"-DTIMES={TIMES}"],')
"""Takes the longer the larger `TIMES` is; with 0 it is fast and wrong."""
DECLARED = 'TIMES = 128\nTUNE = {"TIMES": [0, 1], "if": "TIMES < 128"}\n'
TORCH = "for _ in range(TIMES):\n    y = torch.relu(x * self.weight + 1.0)\nreturn y"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(candidate_with(LAUNCH, before=DECLARED + NATIVE), marks=pytest.mark.ci),
        candidate_with(TORCH, before=DECLARED.replace("128", "16")),
    ],
    ids=["a native kernel", "torch alone"],
)
async def test_the_values_that_are_right_and_fastest_win(prepared: Prepared, source: str) -> None:
    made = await attempt(source, prepared.problem, prepared.reference, prepared.judge)
    verdict = made.verdict
    assert verdict is not None
    assert verdict.ok, verdict.message
    assert verdict.tuned == "TIMES = 1", verdict.swept
    assert "\nTIMES = 1\n" in made.candidate.source
    assert "TUNE" not in made.candidate.source
    assert verdict.profile is not None, "the verdict is a full one"
    tried = {one.values: one for one in verdict.swept}
    own = verdict.swept[0]
    assert own.values in source
    assert tried["TIMES = 0"].status is not Status.OK
    assert tried["TIMES = 1"].speedup_vs_eager == verdict.speedup_vs_eager
    assert own.speedup_vs_eager is not None
    assert verdict.speedup_vs_eager is not None
    assert own.speedup_vs_eager.value < verdict.speedup_vs_eager.value
