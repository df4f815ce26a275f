"""A class that is constructed with modules is judged like any other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from judge_cases import QUICK, make_problem, preparing

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.status import VerdictStatus as Status

REFERENCE = """import functools

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, fn, norm):
        super().__init__()
        self.fn, self.norm = fn, norm(64)

    def forward(self, x):
        return self.norm(self.fn(x)) + x


def get_inputs():
    return [torch.randn(32, 64)]


def get_init_inputs():
    return [nn.Linear(64, 64), functools.partial(nn.LayerNorm, eps=1e-3)]
"""
CANDIDATE = REFERENCE.partition("def get_inputs")[0].replace("Model", "ModelNew")


# In every run of the tests they travel without processes, see tests/judge/test_worker_configurations.py.
@pytest.mark.slow
async def test_modules_and_partial_calls_reach_a_candidate(tmp_path: Path) -> None:
    settings = replace(QUICK, special_inputs=False, profile=False)
    async with preparing(make_problem(tmp_path / "model.py", REFERENCE), tmp_path, settings=settings) as (judge, _):
        right = await judge.evaluate(Candidate(CANDIDATE.replace("self.fn(x)) + x", "self.fn(x)).add(x)")))
        wrong = await judge.evaluate(Candidate(CANDIDATE.replace("norm(64)", "nn.LayerNorm(64, eps=1.0)")))
    assert (right.status, wrong.status) == (Status.OK, Status.WRONG_RESULT)
