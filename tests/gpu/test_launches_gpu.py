"""A module that is bound by its launches, rewritten as a CUDA graph, gains in the judge as in a plain loop."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import DeviceChoice, Dialect, VerdictStatus
from stark_lsp.discovery.problems import make_problem
from stark_lsp.evaluation.judge import open_judge

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")]

REFERENCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(128, 128) for _ in range(3)])

    def forward(self, x):
        state = [(x.new_zeros(x.shape[1], 128), x.new_zeros(x.shape[1], 128)) for _ in self.cells]
        out = []
        for step in x:
            for number, cell in enumerate(self.cells):
                state[number] = cell(step, state[number])
                step = state[number][0]
            out.append(step)
        return torch.stack(out)


def get_inputs():
    return [torch.randn(24, 2, 128)]


def get_init_inputs():
    return []
"""

GRAPH = (
    REFERENCE.split("def get_inputs")[0]
    .replace("class Model(", "class ModelNew(")
    .replace("def forward(", "def plain(")
    + '''    def fast(self, x):
        key = (x.shape, x.dtype, x.device, *(p.data_ptr() for p in self.parameters()))
        if getattr(self, "_key", None) != key:
            self._key, self._x = key, torch.zeros_like(x)
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side), torch.no_grad():
                for _ in range(3):
                    self.plain(self._x)
            torch.cuda.current_stream().wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            with torch.no_grad(), torch.cuda.graph(self._graph):
                self._out = self.plain(self._x)
        self._x.copy_(x)
        self._graph.replay()
        return self._out.clone()

    def forward(self, x):
        if not x.is_cuda or torch.is_autocast_enabled():
            return self.plain(x)
        return Replayed.apply(self, x, *self.parameters())


class Replayed(torch.autograd.Function):
    """The graph forward; backward computes the PyTorch form anew."""

    @staticmethod
    def forward(ctx, module, x, *parameters):
        ctx.module = module
        ctx.save_for_backward(x, *parameters)
        return module.fast(x)

    @staticmethod
    def backward(ctx, grad):
        x, *parameters = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_(x.requires_grad)
            wanted = [t for t in (x, *parameters) if t.requires_grad]
            found = iter(torch.autograd.grad(ctx.module.plain(x), wanted, grad))
        return (None, *[next(found) if t.requires_grad else None for t in (x, *parameters)])
'''
)


def plain_loop() -> float:
    """Return the speed-up by events around single calls, caches flushed before, the two in turns."""
    spaces: list[dict[str, Any]] = [{}, {}]
    for text, space in zip((REFERENCE, GRAPH), spaces, strict=True):
        exec(text, space)
    sides = [spaces[0]["Model"]().cuda().eval(), spaces[1]["ModelNew"]().cuda().eval()]
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    times: list[list[float]] = [[], []]
    for index in range(60):
        x = torch.randn(24, 2, 128, device="cuda")
        for side, found in zip(sides, times, strict=True):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            flush.zero_()
            begin.record()
            side(x)
            end.record()
            torch.cuda.synchronize()
            if index >= 10:
                found.append(begin.elapsed_time(end))
    return statistics.median(times[0]) / statistics.median(times[1])


async def test_a_cuda_graph_gains_what_a_plain_loop_shows(tmp_path: Path) -> None:
    path = tmp_path / "lstm.py"
    path.write_text(REFERENCE)
    judge = await open_judge(
        make_problem(str(path), REFERENCE, "Model", device=DeviceChoice.CUDA),
        interpreter=sys.executable,
        settings=EvaluationSettings(compile_baseline=False),
        cache_dir=tmp_path / "cache",
        log=print,
    )
    try:
        await judge.prepare(print)
        verdict = await judge.confirm(Candidate(GRAPH, Dialect.TORCH), tools=False)
    finally:
        await judge.close()
    assert verdict.status is VerdictStatus.OK, verdict
    assert verdict.speedup_vs_eager is not None
    expected = plain_loop()
    print(f"judge {verdict.speedup_vs_eager}, plain loop {expected:.2f}")
    assert expected > 3.0
    assert verdict.speedup_vs_eager.value == pytest.approx(expected, rel=0.15)
