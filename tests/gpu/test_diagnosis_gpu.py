"""What limits a call on a GPU is found where it is known beforehand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.agents.diagnosis import MOST, Bottleneck, Diagnosis, diagnose
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import Dialect
from stark_lsp.discovery.problems import make_problem
from stark_lsp.evaluation.judge import open_judge
from stark_lsp.judge.profile import counters

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

MODULES = """import torch
import torch.nn as nn


class Scale(nn.Module):
    def forward(self, x):
        return x * 2.0


def get_inputs_for_Scale():
    return [torch.randn(8192, 8192)]


class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4096, 4096) / 64)

    def forward(self, x):
        return x @ self.weight


def get_inputs_for_Product():
    return [torch.randn(4096, 4096)]


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(80)])

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


def get_inputs_for_Chain():
    return [torch.randn(4, 16)]
"""


COLUMNS = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double_columns(x, y, width, BLOCK: tl.constexpr):
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = row * width + tl.program_id(0)
    tl.store(y + at, tl.load(x + at) * 2.0)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        if x.dim() != 2 or x.shape[0] % 128 or x.requires_grad:
            return x * 2.0
        y = torch.empty_like(x)
        double_columns[(x.shape[1], x.shape[0] // 128)](x, y, x.shape[1], BLOCK=128)
        return y
"""
"""Each warp reads a column: of 32 bytes that are moved it uses four."""


async def found(folder: Path, name: str) -> Diagnosis:
    problem = make_problem(str(folder / "modules.py"), MODULES, name)
    settings = EvaluationSettings(compile_baseline=False, seeds=2, rounds=10)
    judge = await open_judge(
        problem, interpreter=sys.executable, settings=settings, cache_dir=folder / "cache", log=print
    )
    try:
        reference = await judge.prepare(print)
    finally:
        await judge.close()
    made = diagnose(reference.profile, reference.baselines.eager, reference.environment, reference.device)
    print("\n".join(made.sentences))
    assert 2 <= len(made.sentences) <= MOST
    return made


@pytest.mark.parametrize(
    ("name", "bottleneck", "said"),
    [
        ("Scale", Bottleneck.MEMORY, "that a large copy reaches here"),
        ("Product", Bottleneck.COMPUTE, "large ones of its dtype reach"),
        ("Chain", Bottleneck.OVERHEAD, "No kernel runs in"),
    ],
)
async def test_what_limits_a_call_is_told(tmp_path: Path, name: str, bottleneck: Bottleneck, said: str) -> None:
    (tmp_path / "modules.py").write_text(MODULES)
    made = await found(tmp_path, name)
    assert made.bottleneck is bottleneck
    assert any(said in sentence for sentence in made.sentences)


@pytest.mark.skipif(counters.find() is None or counters.forbidden(), reason="needs Nsight Compute, and counters")
async def test_what_the_hardware_counted_is_told(tmp_path: Path) -> None:
    (tmp_path / "modules.py").write_text(MODULES)
    problem = make_problem(str(tmp_path / "modules.py"), MODULES, "Scale")
    settings = EvaluationSettings(compile_baseline=False, seeds=2, rounds=10)
    candidate = Candidate(COLUMNS, Dialect.TRITON)
    judge = await open_judge(
        problem, interpreter=sys.executable, settings=settings, cache_dir=tmp_path / "cache", log=print
    )
    try:
        device = (await judge.prepare(print)).device
        plain = await judge.evaluate(candidate)
        verdict = await judge.counted(candidate, plain)
        again = await judge.counted(candidate, plain)
    finally:
        await judge.close()
    assert verdict.ok, verdict.message
    assert verdict.profile is not None
    assert verdict.profile.notes == ()
    assert again == verdict, "they are read once for a source"
    made = diagnose(verdict.profile, verdict.runtime, verdict.environment, device)
    print("\n".join(made.sentences))
    said = " ".join(made.sentences)
    assert "its loads use 4 of each 32 bytes that are moved (32 sectors a request)" in said
    assert "for data from global or local memory (long scoreboard)" in said
