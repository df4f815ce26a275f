"""A finalist is timed in each way that it may be called: gradients recorded, not recorded, with backward."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from judge_cases import QUICK, THOROUGH, judging, make_problem, preparing

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import Mode
from stark_lsp.core.status import VerdictStatus as Status

MODULE = """import torch
import torch.nn as nn


def slowly(x):
    a = torch.eye(256)
    for _ in range(60):
        a = a @ a
    return x * a[0, 0]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(128))

    def forward(self, x):
        return {body}


def get_inputs():
    return [torch.randn(64, 128)]
"""
FORM = "torch.relu(x + self.weight)"
FUNCTION = """

class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.relu(x + weight)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        passed = slowly(gradient * (x + weight > 0))
        return passed, passed.sum(0)

"""


@pytest.mark.slow
async def test_who_lacks_memory_for_backward_alone_is_not_blamed(tmp_path: Path) -> None:
    plain = MODULE.format(body=FORM)
    full = FUNCTION.replace(
        "x, weight = ctx", "seen.append(1)\n        if len(seen) > 8:\n            raise {}\n        x, weight = ctx"
    )
    full = full.replace("class Relu", "seen = []\n\n\nclass Relu").replace(
        "{}", 'torch.OutOfMemoryError("Tried to allocate")'
    )
    source = MODULE.format(body="Relu.apply(x, self.weight)").replace("class Model", full + "class ModelNew")
    async with preparing(make_problem(tmp_path / "model.py", plain), tmp_path, settings=THOROUGH) as (judge, _):
        verdict = await judge.confirm(Candidate(source.replace("slowly(gradient", "(gradient")))
    assert verdict.status is Status.OK, verdict
    assert verdict.speedup_with_backward is None
    assert verdict.speedup_without_gradients is not None


@pytest.mark.slow
async def test_in_training_mode_the_profile_is_that_of_forward_and_backward(tmp_path: Path) -> None:
    problem = replace(make_problem(tmp_path / "model.py"), mode=Mode.TRAINING)
    async with judging(problem, tmp_path, settings=replace(QUICK, profile=True)) as (judge, _):
        profile = (await judge.prepare(lambda text: None)).profile
        assert profile is not None
        assert any("backward" in one.name for one in profile.launched)
        # Inputs, weights and outputs, and gradients of the first two.
        assert profile.bytes == 4 * (3 * 64 * 128 + 2 * 128)


@pytest.mark.slow
@pytest.mark.ci
async def test_each_side_is_called_in_the_way_that_is_told(tmp_path: Path) -> None:
    # By far slower where gradients are recorded, so that a single call in the other way would show.
    slow = MODULE.format(body=f"slowly({FORM}) if torch.is_grad_enabled() else {FORM}")
    quick = MODULE.format(body="Relu.apply(x, self.weight)").replace("class Model", FUNCTION + "class ModelNew")
    settings = replace(THOROUGH, rounds=8, final_rounds=8, target_error=0.0)
    problem = make_problem(tmp_path / "model.py", slow)
    async with preparing(problem, tmp_path, settings=settings) as (judge, _):
        first = await judge.evaluate(Candidate(quick))
        assert (first.speedup_without_gradients, first.speedup_with_backward) == (None, None)
        verdict = await judge.confirm(Candidate(quick))
    assert verdict.status is Status.OK, verdict
    recorded, without, trained = (
        verdict.speedup_vs_eager,
        verdict.speedup_without_gradients,
        verdict.speedup_with_backward,
    )
    assert recorded is not None
    assert recorded.value > 10
    assert without is not None
    assert without.value < 3
    # The one is slow forward, the other backward.
    assert trained is not None
    assert 0.2 < trained.value < 5
