"""The judge on a GPU, through the raw dialect: every way a CUDA kernel can go wrong, and the next one after it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

torch = pytest.importorskip("torch")

from stark_lsp.contract.process_trees import descendants
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.problem import InputSpec, Problem, SourceSlice, Span
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import DeviceChoice, InputSource, Mode
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.core.verdict import Reference, Verdict
from stark_lsp.evaluation.judge import WorkerJudge, open_judge

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
    pytest.mark.asyncio(loop_scope="module"),
]

SETTINGS = EvaluationSettings(run_timeout_s=10.0)

REFERENCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))

    def forward(self, x):
        return torch.relu(x * self.weight + 1.0) * 0.5 + torch.sigmoid(x)


def get_inputs():
    return [torch.randn(4096, 4096)]


def get_init_inputs():
    return [4096]
"""

RAW = '''import ctypes

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>
__global__ void fused_kernel(const float* x, const float* w, float* y, int64_t count, int64_t n) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < count) {
        float v = x[i] * w[i % n] + 1.0f;
        y[i] = (v < 0.0f ? 0.0f : v) * 0.5f + 1.0f / (1.0f + expf(-x[i]));
    }
}
extern "C" int fused(const float* x, const float* w, float* y, int64_t count, int64_t n, void* stream) {
    int64_t blocks = (count + 255) / 256;
    fused_kernel<<<blocks, 256, 0, (cudaStream_t)stream>>>(x, w, y, count, n);
    return (int)cudaGetLastError();
}
"""
_library = None


def library():
    global _library
    if _library is None:
        path = load_inline(
            "fused", "", SOURCE, functions=None, no_implicit_headers=True, is_python_module=False, with_cuda=True
        )
        _library = ctypes.CDLL(path)
    return _library


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        x = x.contiguous()
        y = torch.empty_like(x)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, weight, y)]
        with torch.cuda.device(x.device):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            sizes = [ctypes.c_int64(x.numel()), ctypes.c_int64(x.shape[-1])]
            error = library().fused(*pointers, *sizes, stream)
        if error:
            raise RuntimeError(f"fused: CUDA error {error}")
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        passed = 0.5 * gradient * (x * weight + 1.0 > 0)
        s = torch.sigmoid(x)
        return passed * weight + gradient * s * (1 - s), (passed * x).sum(0)


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))

    def forward(self, x):
        if x.dtype != torch.float32 or self.weight.dtype != torch.float32:
            return torch.relu(x * self.weight + 1.0) * 0.5 + torch.sigmoid(x)
        return Fused.apply(x, self.weight)
'''


def changed(old: str, new: str) -> str:
    """Return the good candidate with one change."""
    assert old in RAW
    return RAW.replace(old, new)


def problem_at(folder: Path, text: str = REFERENCE) -> Problem:
    lines = text.splitlines()
    start = lines.index("class Model(nn.Module):")
    return Problem(
        path=str(folder / "model.py"),
        qualname="Model",
        text=text,
        slice=SourceSlice(text, tuple(range(len(lines)))),
        class_span=Span(start, start),
        inputs=InputSpec(InputSource.FUNCTIONS, "get_inputs", "get_init_inputs"),
        device=DeviceChoice.CUDA,
    )


def device_memory() -> int:
    """Return the MiB of memory in use on the first GPU."""
    listing = subprocess.run(
        ["nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(listing.stdout.split()[0])


def runs(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


async def open_at(
    folder: Path, settings: EvaluationSettings = SETTINGS, text: str = REFERENCE, mode: Mode = Mode.EVAL
) -> WorkerJudge:
    problem = replace(problem_at(folder, text), mode=mode)
    return await open_judge(
        problem, interpreter=sys.executable, settings=settings, cache_dir=folder / "cache", log=print
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prepared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[WorkerJudge, Reference]]:
    judge = await open_at(tmp_path_factory.mktemp("gpu"))
    try:
        yield judge, await judge.prepare(print, writing=True)
    finally:
        await judge.close()


async def verdict_of(prepared: tuple[WorkerJudge, Reference], source: str) -> Verdict:
    begin = time.monotonic()
    verdict = await prepared[0].evaluate(Candidate(source))
    print(f"{time.monotonic() - begin:.2f} s", verdict.status.value, verdict.message, verdict.stages_s)
    return verdict


async def test_preparing_names_gpu_driver_and_baselines(prepared: tuple[WorkerJudge, Reference]) -> None:
    reference = prepared[1]
    print(reference)
    assert reference.environment.device_type == "cuda"
    assert reference.environment.cuda
    assert reference.environment.driver
    assert reference.baselines.eager.median_ms > 0
    baselines = await prepared[0].baselines()
    assert baselines.compile is not None, baselines.compile_message
    assert not baselines.compile_message


async def test_gradients_of_torch_compile_are_of_what_flows_into_the_original(tmp_path: Path) -> None:
    # What the judge hands over lies in memory that is used anew with each request.
    judge = await open_at(tmp_path, mode=Mode.TRAINING)
    try:
        await judge.prepare(print)
        baselines = await judge.baselines()
        assert baselines.compile is not None, baselines.compile_message
    finally:
        await judge.close()


CONVOLUTIONS = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.embed = nn.Linear(1, n)
        self.convs = nn.ModuleList(nn.Conv2d(n, n, 3, padding=1) for _ in range(4))

    def forward(self, x, t):
        {check}
        x = x + self.embed(t.float())[:, :, None, None]
        for conv in self.convs:
            x = torch.relu(conv(x))
        return x


def get_inputs():
    return [torch.randn(8, 128, 64, 64), torch.rand(8, 1)]


def get_init_inputs():
    return [128]
"""


@pytest.mark.parametrize("check", ["pass", "assert self.embed.weight.dtype is torch.float32"])
async def test_where_the_class_names_float32_tf32_has_the_room_it_needs(tmp_path: Path, check: str) -> None:
    text = CONVOLUTIONS.format(check=check)
    judge = await open_at(tmp_path, text=text)
    try:
        await judge.prepare(print)
        source = text.replace("class Model(", "class ModelNew(").replace("return x\n", "return x.contiguous()\n")
        source = source.replace("conv(x)", "conv(x.contiguous(memory_format=torch.channels_last))")
        verdict = await judge.evaluate(Candidate(source))
        print(verdict.errors, verdict.notes)
        assert verdict.status is Status.OK, verdict
    finally:
        await judge.close()


async def test_what_torch_compile_writes_is_told(prepared: tuple[WorkerJudge, Reference]) -> None:
    begin = time.monotonic()
    written = await prepared[0].written({})
    print(f"{time.monotonic() - begin:.2f} s")
    assert "@triton.jit" in written["code"], written


async def test_a_good_kernel_is_ok(prepared: tuple[WorkerJudge, Reference]) -> None:
    verdict = await verdict_of(prepared, RAW)
    assert verdict.status is Status.OK, verdict
    assert verdict.weights_loaded
    assert verdict.speedup_vs_eager is not None
    print(verdict.runtime, verdict.speedup_vs_eager, verdict.errors)


async def test_a_confirmed_kernel_is_compared_with_torch_compile(prepared: tuple[WorkerJudge, Reference]) -> None:
    verdict = await prepared[0].confirm(Candidate(RAW))
    assert verdict.status is Status.OK, verdict
    assert verdict.runtime is not None
    assert SETTINGS.final_rounds // 2 <= verdict.runtime.n <= SETTINGS.final_rounds
    assert verdict.speedup_vs_compile is not None
    print(verdict.runtime, verdict.speedup_vs_eager, verdict.speedup_vs_compile)


async def test_the_unchanged_reference_is_ok(prepared: tuple[WorkerJudge, Reference]) -> None:
    verdict = await verdict_of(prepared, REFERENCE.replace("class Model", "class ModelNew"))
    assert verdict.status is Status.OK, verdict
    assert verdict.errors is not None
    assert verdict.errors.max_abs == 0.0
    print(verdict.speedup_vs_eager)


SLOW_TO_LAUNCH = """import time

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        end = time.perf_counter() + 0.0005
        while time.perf_counter() < end:
            pass
        return torch.relu(x) + 1.0


def get_inputs():
    return [torch.randn(64, 1024)]


def get_init_inputs():
    return []
"""
FAST_TO_LAUNCH = """import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1.0
"""


async def test_a_module_that_is_slow_to_launch_gains_by_being_launched_quickly(tmp_path: Path) -> None:
    judge = await open_at(tmp_path, replace(SETTINGS, compile_baseline=False), SLOW_TO_LAUNCH)
    try:
        reference = await judge.prepare(print)
        assert reference.baselines.eager.median_ms > 0.3
        verdict = await judge.evaluate(Candidate(FAST_TO_LAUNCH))
        assert verdict.status is Status.OK, verdict
        assert verdict.speedup_vs_eager is not None
        assert verdict.speedup_vs_eager.low > 3.0, "the same two kernels, launched at once"
    finally:
        await judge.close()


AS_GRAPH = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_relu(x_ptr, w_ptr, y_ptr, n, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, i < count)
    v = tl.maximum(x * tl.load(w_ptr + i % n, i < count) + 1.0, 0.0) * 0.5 + tl.sigmoid(x)
    tl.store(y_ptr + i, v, i < count)


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))
        self.graph = None

    def launch(self):
        y = torch.empty_like(self.given)
        scale_relu[(triton.cdiv(y.numel(), 1024),)](self.given, self.weight, y, y.shape[-1], y.numel(), 1024)
        return y

    @torch.no_grad()
    def forward(self, x):
        if self.graph is None or self.given.shape != x.shape:
            self.given = x.clone()
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self.launch()
            torch.cuda.current_stream().wait_stream(stream)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = self.launch()
        self.given.copy_(x)
        self.graph.replay()
        return self.y.clone()
"""
BESIDE = AS_GRAPH.replace(
    "    tl.store", "    v = tl.where(tl.load(x_ptr + count) == 12345.0, v + 1.0, v)\n    tl.store"
)


async def test_a_cuda_graph_is_checked_for_memory_errors(tmp_path: Path) -> None:
    text = REFERENCE.replace("4096, 4096", "64, 4096")
    judge = await open_at(tmp_path, replace(SETTINGS, compile_baseline=False, gradients=False), text)
    try:
        await judge.prepare(print)
        verdict = await judge.confirm(Candidate(AS_GRAPH))
        assert verdict.status is Status.OK, verdict
        assert not any("compute-sanitizer" in note for note in verdict.notes), verdict.notes
        verdict = await judge.confirm(Candidate(BESIDE))
        assert verdict.status is Status.CRASHED, verdict
        assert "scale_relu goes outside its memory" in verdict.message
    finally:
        await judge.close()


FAILURES = {
    "wrong": (changed("+ 1.0f;", "+ 1.01f;"), {Status.WRONG_RESULT}),
    "not finite": (changed("y[i] = (v", "y[i] = v / 0.0f + (v"), {Status.NOT_FINITE}),
    "changes its input": (changed("y[i] =", "((float*)x)[i] = y[i] ="), {Status.MUTATED_INPUT}),
    "does not compile": (changed("float v =", "flot v ="), {Status.COMPILE_ERROR}),
    "illegal address": (changed("y[i] =", "y[i + (1LL << 40)] ="), {Status.RUNTIME_ERROR}),
    "endless kernel": (
        changed("float v =", "while (*(const volatile float*)x < 1e30f) {} float v ="),
        {Status.TIMED_OUT},
    ),
    "bad launch": (changed("<<<blocks, 256", "<<<blocks, 4096"), {Status.RUNTIME_ERROR}),
    "out of memory": (
        changed("y = torch.empty_like(x)", "y = torch.empty(1 << 42, device=x.device)"),
        {Status.OUT_OF_MEMORY},
    ),
    "answers on the CPU": (changed("        return y\n", "        return y.cpu()\n"), {Status.WRONG_DTYPE}),
    "device assert": (
        changed("#include <cstdint>", "#include <cstdint>\n#include <cassert>").replace(
            "if (i < count) {", "assert(i < 5); if (i < count) {"
        ),
        {Status.RUNTIME_ERROR},
    ),
    "host crash": (
        changed("    int64_t blocks =", "    *(volatile int*)8 = 1;\n    int64_t blocks ="),
        {Status.CRASHED},
    ),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_each_failure_has_its_status_and_the_next_candidate_is_judged(
    prepared: tuple[WorkerJudge, Reference], name: str
) -> None:
    source, expected = FAILURES[name]
    verdict = await verdict_of(prepared, source)
    assert verdict.status in expected, verdict
    assert verdict.message
    if name == "does not compile":
        assert verdict.compiler
        assert verdict.compiler[0].line > 0
    assert (await verdict_of(prepared, RAW)).status is Status.OK


async def test_closing_in_the_midst_of_an_endless_kernel_frees_the_gpu(tmp_path: Path) -> None:
    judge = await open_at(tmp_path, replace(SETTINGS, compile_baseline=False, run_timeout_s=120.0))
    try:
        await judge.prepare(print)
        source, _ = FAILURES["endless kernel"]
        task = asyncio.create_task(judge.evaluate(Candidate(source)))
        done, _ = await asyncio.wait({task}, timeout=15.0)
        assert not done
        assert judge.pid is not None
        below = descendants(judge.pid)
        busy = device_memory()
        begin = time.monotonic()
        await judge.close()
        took = time.monotonic() - begin
        left = [pid for pid in below if runs(pid)]
        while device_memory() >= busy and time.monotonic() - begin < 10.0:
            await asyncio.sleep(0.05)
        freed = device_memory()
        took_memory = time.monotonic() - begin
        print(f"closed in {took:.2f} s, memory back in {took_memory:.2f} s: {busy} MiB, then {freed} MiB; left {left}")
        assert freed < busy
        assert not left
        await asyncio.gather(task, return_exceptions=True)
    finally:
        await judge.close()
