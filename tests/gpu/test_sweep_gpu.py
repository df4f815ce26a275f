"""Constants of a Triton kernel that were left open are settled within an attempt, on a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "evaluation"))

from judge_cases import judging, make_problem
from one_attempt import attempt

from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import DeviceChoice

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

REFERENCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x + 1.0) * 0.5


def get_inputs():
    return [torch.randn(4096, 4096)]
"""

CANDIDATE = """import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK = 16
WARPS = 4
TUNE = {"BLOCK": [16, 1024, 2048], "WARPS": [4, 64], "if": "BLOCK < 2048"}


@triton.jit
def fused_kernel(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < count, other=0.0) + 1.0
    tl.store(y + at, tl.where(value < 0.0, 0.0, value) * 0.5, mask=at < count)


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        x = x.contiguous()
        y = torch.empty_like(x)
        with torch.cuda.device(x.device):
            fused_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK=BLOCK, num_warps=WARPS)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 0.5 * (x + 1.0 > 0)


class ModelNew(nn.Module):
    def forward(self, x):
        if not x.is_cuda or x.dtype is not torch.float32 or x.numel() == 0:
            return torch.relu(x + 1.0) * 0.5
        return Fused.apply(x)
"""


async def test_the_fastest_block_that_works_is_written_into_a_triton_kernel(tmp_path: Path) -> None:
    problem = make_problem(tmp_path / "model.py", REFERENCE, device=DeviceChoice.CUDA)
    settings = EvaluationSettings(compile_baseline=False)
    async with judging(problem, tmp_path, settings=settings) as (judge, log):
        reference = await judge.prepare(lambda text: None)
        made = await attempt(CANDIDATE, problem, reference, judge)
    verdict = made.verdict
    assert verdict is not None
    assert verdict.ok, (verdict.message, log)
    assert verdict.tuned == "BLOCK = 1024, WARPS = 4", verdict.swept
    assert "\nBLOCK = 1024\nWARPS = 4\n" in made.candidate.source
    assert "TUNE" not in made.candidate.source
    tried = {one.values: one.speedup_vs_eager for one in verdict.swept}
    assert len(tried) == 4, "2048 is not allowed"
    assert tried["BLOCK = 1024, WARPS = 64"] is None, "no GPU has so many threads in a block"
    assert tried[verdict.tuned] == verdict.speedup_vs_eager
