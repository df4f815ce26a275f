"""A small problem and candidates for it, good and bad."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from stark_lsp.core.problem import InputSpec, Problem, SourceSlice, Span
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import DeviceChoice, InputSource
from stark_lsp.core.verdict import Reference
from stark_lsp.evaluation.judge import WorkerJudge, open_judge

QUICK = EvaluationSettings(
    seeds=2,
    warmup=1,
    rounds=4,
    final_rounds=4,
    round_ms=3.0,
    compile_baseline=False,
    run_timeout_s=15.0,
    profile=False,
    gradients=False,
    special_inputs=False,
)
"""Few rounds and checks: most tests are about processes and messages. Profiles, gradients and special inputs take as
long as the rest of preparing, and the first gradients half a second in each candidate.
"""
THOROUGH = replace(QUICK, gradients=True, special_inputs=True)
"""All that a candidate is checked for, in few rounds."""

REFERENCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))

    def forward(self, x):
        return torch.relu(x * self.weight + 1.0)


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return [128]
"""


def make_problem(
    path: Path | str,
    text: str = REFERENCE,
    *,
    qualname: str = "Model",
    device: DeviceChoice = DeviceChoice.CPU,
    inputs: InputSpec | None = None,
) -> Problem:
    """Return the problem of a class whose inputs come from functions, or from `inputs`."""
    lines = text.splitlines()
    name = qualname.rpartition(".")[2]
    start = next((i for i, line in enumerate(lines) if line.strip().startswith(f"class {name}")), 0)
    if inputs is None:
        init = "get_init_inputs" if "def get_init_inputs" in text else None
        inputs = InputSpec(InputSource.FUNCTIONS, "get_inputs", init)
    return Problem(
        path=str(path),
        qualname=qualname,
        text=text,
        slice=SourceSlice(text, tuple(range(len(lines)))),
        class_span=Span(start, start),
        inputs=inputs,
        device=device,
    )


@asynccontextmanager
async def judging(
    problem: Problem,
    folder: Path,
    *,
    interpreter: str = sys.executable,
    settings: EvaluationSettings = QUICK,
    notice: Callable[[str], None] = lambda text: None,
) -> AsyncIterator[tuple[WorkerJudge, list[str]]]:
    """Open a judge with a cache in `folder`; close it in any case."""
    log: list[str] = []
    judge = await open_judge(
        problem,
        interpreter=interpreter,
        settings=settings,
        cache_dir=folder / "cache",
        log=log.append,
        notice=notice,
    )
    try:
        yield judge, log
    finally:
        await judge.close()


@asynccontextmanager
async def preparing(problem: Problem, folder: Path, **options: Any) -> AsyncIterator[tuple[WorkerJudge, Reference]]:
    """Open a judge, see `judging`, and have it prepare the problem."""
    async with judging(problem, folder, **options) as (judge, _):
        yield judge, await judge.prepare(lambda text: None)


async def prepare(problem: Problem, folder: Path, **options: Any) -> Reference:
    """Prepare a problem and close the judge again."""
    async with preparing(problem, folder, **options) as (_, reference):
        return reference


def candidate_with(forward: str, *, before: str = "", n: str = "n") -> str:
    """Return a candidate whose forward has the given body."""
    body = "\n".join("        " + line for line in forward.strip("\n").splitlines())
    return (
        f"import torch\nimport torch.nn as nn\n{before}\n\nclass ModelNew(nn.Module):\n"
        f"    def __init__(self, {n}):\n        super().__init__()\n"
        f"        self.weight = nn.Parameter(torch.randn({n}))\n\n    def forward(self, x):\n{body}\n"
    )


HONEST = "return torch.relu(x * self.weight + 1.0)"

KERNEL = '''
import ctypes
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cstdint>
extern "C" void fused(const float* x, const float* w, float* y, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < n; ++i) {
            float v = x[r * n + i] * w[i] + 1.0f;
            y[r * n + i] = v < 0.0f ? 0.0f : v;
        }
    }
}
"""
_library = None


def library():
    global _library
    if _library is None:
        path = load_inline("fused", SOURCE, functions=None, no_implicit_headers=True, is_python_module=False)
        _library = ctypes.CDLL(path)
    return _library


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        x = x.contiguous()
        y = torch.empty_like(x)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, weight, y)]
        library().fused(*pointers, ctypes.c_int64(x.shape[0]), ctypes.c_int64(x.shape[1]))
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        passed = gradient * (x * weight + 1.0 > 0)
        return passed * weight, (passed * x).sum(0)
'''

LAUNCH = "return Fused.apply(x, self.weight) if x.dtype == torch.float32 else torch.relu(x * self.weight + 1.0)"

RAW = candidate_with(LAUNCH, before=KERNEL)


def broken_kernel(old: str, new: str) -> str:
    """Return the raw candidate with a change in its kernel."""
    assert old in RAW
    return RAW.replace(old, new)
