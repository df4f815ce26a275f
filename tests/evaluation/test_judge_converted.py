"""A class whose table says what it is converted to is judged so, and its candidates with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_cases import make_problem, preparing

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.problem import InputSpec
from stark_lsp.core.status import InputSource
from stark_lsp.core.status import VerdictStatus as Status

REFERENCE = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64))

    def forward(self, x):
        return F.silu(x) * self.weight
"""


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
async def test_candidates_are_converted_as_the_original(tmp_path: Path, dtype: str) -> None:
    table = {"class": "Model", "dtype": dtype, "args": [{"shape": [32, 64], "dtype": "bfloat16"}]}
    problem = make_problem(tmp_path / "model.py", REFERENCE, inputs=InputSpec(InputSource.TABLE, table=table))
    right = REFERENCE.replace("Model", "ModelNew").replace("F.silu(x)", "F.silu(x.float()).to(x.dtype)")
    async with preparing(problem, tmp_path) as (judge, prepared):
        verdict = await judge.evaluate(Candidate(right))
    assert prepared.environment.weights_dtype == dtype
    assert prepared.outputs == (f"{dtype}[32x64]",)
    assert verdict.status is Status.OK, verdict


CALLED = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 128)
        self.second = nn.Linear(128, 64)

    def forward(self, x):
        return x + self.second(torch.relu(self.first(x)))


def get_inputs():
    return [torch.randn(32, 64)]
"""
GUARDED = """    def forward(self, x):
        if not torch.is_autocast_enabled("cpu") or torch.get_autocast_dtype("cpu") != torch.bfloat16:
            raise RuntimeError("it is called without autocast")
"""


@pytest.mark.slow
@pytest.mark.ci
async def test_a_class_is_called_under_autocast_as_its_table_says(tmp_path: Path) -> None:
    inputs = InputSpec(InputSource.FUNCTIONS, "get_inputs", table={"class": "Model", "autocast": "bfloat16"})
    problem = make_problem(tmp_path / "model.py", CALLED, inputs=inputs)
    right = CALLED.replace("Model", "ModelNew").replace("    def forward(self, x):\n", GUARDED)
    async with preparing(problem, tmp_path) as (judge, prepared):
        verdict = await judge.evaluate(Candidate(right))
        lower = await judge.evaluate(Candidate(right.replace("return x +", "return x.bfloat16() +")))
    assert prepared.environment.autocast == "bfloat16"
    assert prepared.environment.weights_dtype == ""
    assert any('called under torch.autocast("cpu", torch.bfloat16)' in note for note in prepared.notes)
    assert prepared.outputs == ("float32[32x64]",)
    assert verdict.status is Status.OK, verdict
    assert lower.status is Status.WRONG_DTYPE, lower
