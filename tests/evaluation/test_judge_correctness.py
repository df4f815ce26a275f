"""Correctness at the judge's door: special inputs, layouts, memory, training; each refusal beside an honest twin."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from judge_cases import THOROUGH, candidate_with, make_problem, prepare, preparing

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Degenerate
from stark_lsp.core.status import Mode
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.core.verdict import Verdict
from stark_lsp.evaluation.judge import WorkerJudge

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = replace(THOROUGH, seeds=3)
RESULT = "torch.relu(x * self.weight + 1.0)"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkerJudge]:
    folder = tmp_path_factory.mktemp("correctness")
    async with preparing(make_problem(folder / "model.py"), folder, settings=SETTINGS) as (judge, _):
        yield judge


async def verdict_of(judge: WorkerJudge, body: str) -> Verdict:
    return await judge.evaluate(Candidate(candidate_with(body)))


# In every run of the tests all these are found without processes, see tests/judge/test_worker_verify.py, and a careless
# candidate in a process of its own, see test_judge_verdicts.py.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (f"assert x.shape[0] == 64\nreturn {RESULT}", Status.RUNTIME_ERROR, "a batch of 15 instead of 64"),
        (f"y = torch.empty_like(x)\ny[:-1] = {RESULT}[:-1]\nreturn y", Status.NOT_FINITE, "nan"),
        (
            f"y = {RESULT}\nx.add_(0 if x.is_contiguous() else 1)\nreturn y",
            Status.MUTATED_INPUT,
            "not contiguous",
        ),
    ],
)
async def test_careless_candidates_are_told_where_they_go_wrong(
    judge: WorkerJudge, body: str, status: Status, words: str
) -> None:
    verdict = await verdict_of(judge, body)
    assert verdict.status is status, verdict
    assert words in verdict.message


@pytest.mark.slow
async def test_an_honest_twin_of_all_these_is_ok_within_the_tolerance(judge: WorkerJudge) -> None:
    body = """
x = x.contiguous().as_strided(x.shape, (128, 1))
y = torch.empty_like(x)
for index, row in enumerate(x.unbind(0)):
    y[index] = torch.addcmul(torch.ones_like(row), row, self.weight).clamp_min(0)
return y
"""
    verdict = await verdict_of(judge, body)
    assert verdict.status is Status.OK, verdict
    assert verdict.errors is not None
    assert verdict.errors.max_rel <= verdict.errors.tolerance


@pytest.mark.slow
async def test_a_degenerate_problem_is_refused_with_the_reason_and_a_cure(tmp_path: Path) -> None:
    text = make_problem(tmp_path / "model.py").text
    body = "return x - x.mean(1, keepdim=True) + self.weight[:1] * 0"
    text = text.replace("return torch.relu(x * self.weight + 1.0)", body).replace("randn(64, 128)", "randn(64, 1)")
    with pytest.raises(Degenerate, match="any constant would pass") as caught:
        await prepare(make_problem(tmp_path / "model.py", text), tmp_path, settings=SETTINGS)
    assert caught.value.cure
    assert caught.value.line is not None


LINEAR = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.BatchNorm1d(n)
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        return torch.relu(self.linear(self.norm(x)))


def get_inputs():
    return [torch.randn(32, 16)]


def get_init_inputs():
    return [16]
"""


@pytest.mark.slow
@pytest.mark.ci
async def test_training_compares_gradients_and_times_forward_and_backward(tmp_path: Path) -> None:
    problem = replace(make_problem(tmp_path / "model.py", LINEAR), mode=Mode.TRAINING)
    new = LINEAR.replace("class Model", "class ModelNew")
    async with preparing(problem, tmp_path, settings=SETTINGS) as (judge, reference):
        assert reference.baselines.eager.median_ms > 0
        verdict = await judge.evaluate(Candidate(new))
        assert verdict.status is Status.OK, verdict
        assert verdict.speedup_vs_eager is not None
        wrong = await judge.evaluate(Candidate(new.replace("self.norm(x)", "self.norm(x.detach())")))
        assert wrong.status is Status.WRONG_RESULT, wrong
        assert "gradient of input 1" in wrong.message


SWIGLU = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return nn.functional.silu(a) * b


def get_inputs():
    return [torch.randn(32, 16)]
"""


@pytest.mark.slow
@pytest.mark.ci
async def test_a_class_without_parameters_has_gradients_of_its_inputs(tmp_path: Path) -> None:
    new = SWIGLU.replace("class Model", "class ModelNew")
    without = new.replace("    def forward", "    @torch.no_grad()\n    def forward")
    async with preparing(make_problem(tmp_path / "model.py", SWIGLU), tmp_path, settings=SETTINGS) as (judge, _):
        assert (await judge.evaluate(Candidate(new))).status is Status.OK
        wrong = await judge.evaluate(Candidate(without))
        assert wrong.status is Status.WRONG_RESULT, wrong
        assert "does not lead back to the inputs and weights" in wrong.message
        assert "torch.autograd.Function" in wrong.message


STATEFUL = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))

    def forward(self, x):
        self.mean = 0.5 * self.mean + 0.5 * x.detach().mean(0)
        return torch.relu(x - self.mean)


def get_inputs():
    return [torch.rand(32, 16)]


def get_init_inputs():
    return [16]
"""


@pytest.mark.slow
@pytest.mark.ci
async def test_what_each_call_moves_is_as_at_first_in_each_call_also_where_it_is_timed(tmp_path: Path) -> None:
    async with preparing(make_problem(tmp_path / "model.py", STATEFUL), tmp_path, settings=SETTINGS) as (judge, _):
        new = STATEFUL.replace("class Model", "class ModelNew")
        verdict = await judge.evaluate(
            Candidate(
                new.replace("self.mean = 0.5 * self.mean +", "self.mean.mul_(0.5).add_(").replace(
                    "mean(0)\n", "mean(0))\n"
                )
            )
        )
        assert verdict.status is Status.OK, verdict
        assert verdict.speedup_vs_eager is not None
        wrong = await judge.evaluate(
            Candidate(new.replace("self.mean = ", "mean = ").replace("x - self.mean", "x - mean"))
        )
        assert wrong.status is Status.WRONG_RESULT, wrong
        assert "buffer mean" in wrong.message
