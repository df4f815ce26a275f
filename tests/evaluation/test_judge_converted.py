"""A class whose table says what it is converted to is judged so, and its candidates with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_cases import judging, make_problem

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
    async with judging(problem, tmp_path) as (judge, _):
        prepared = await judge.prepare(lambda text: None)
        verdict = await judge.evaluate(Candidate(right))
    assert prepared.environment.weights_dtype == dtype
    assert prepared.outputs == (f"{dtype}[32x64]",)
    assert verdict.status is Status.OK, verdict
