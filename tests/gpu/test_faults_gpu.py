"""Faults of the GPU that outlive the call they were made in; after each the next candidate is judged.

`test_judge_gpu.py` has the plain ones (illegal address, endless kernel, device assert, torch out of memory); here are
those that hide, that hold on to the device, and that kill what holds it. One worker judges them all.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

torch = pytest.importorskip("torch")

from test_judge_gpu import RAW, SETTINGS, changed, device_memory, problem_at

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.evaluation.judge import WorkerJudge, open_judge

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
    pytest.mark.asyncio(loop_scope="module"),
]

LIMIT_S = 6.0
SLACK_MIB = 2048
"""What differs between two moments of rest: spare runners use the GPU before they are wanted."""


def kernel(body: str, before: str = "") -> str:
    """Return the good candidate with device code at the beginning of each thread's work."""
    return changed("float v =", f"{body} float v =").replace("#include <cstdint>", f"#include <cstdint>\n{before}")


ENDLESS = kernel("while (*(const volatile float*)x < 1e30f) {}")

FAULTS: dict[str, tuple[str, set[Status]]] = {
    "an endless loop in one thread of many": (
        kernel("if (i == 4097) while (*(const volatile float*)x < 1e30f) {}"),
        {Status.TIMED_OUT},
    ),
    "an illegal write by the last thread": (
        kernel("if (i == count - 1) *(float*)8 = 1.0f;"),
        {Status.RUNTIME_ERROR},
    ),
    "a misaligned read": (
        kernel("if (i == 7) y[0] = *(const float*)((const char*)x + 1);"),
        {Status.RUNTIME_ERROR, Status.WRONG_RESULT},
    ),
    "a device assert": (
        kernel("assert(i < 5);", "#include <cassert>"),
        {Status.RUNTIME_ERROR},
    ),
    "a trap on the device": (kernel("if (i == 3) __trap();"), {Status.RUNTIME_ERROR}),
    "a stack overflow on the device": (
        kernel(
            "if (i == 0) y[0] = (float)deep(1);",
            "__device__ __noinline__ int deep(int n) { volatile int room[4096]; room[n & 4095] = n; "
            "return n > 1 << 24 ? 0 : deep(n + 1) + room[0]; }",
        ),
        {Status.RUNTIME_ERROR, Status.WRONG_RESULT},
    ),
    "device memory taken without end": (
        changed(
            "        y = torch.empty_like(x)\n",
            "        kept = []\n        while True:\n"
            "            kept.append(torch.empty(1 << 30, dtype=torch.uint8, device=x.device))\n",
        ),
        {Status.OUT_OF_MEMORY},
    ),
    "device memory taken behind torch's back": (
        changed(
            "    int64_t blocks =",
            "    for (void* p; cudaMalloc(&p, 1LL << 30) == cudaSuccess;) {}\n    int64_t blocks =",
        ),
        {Status.OK, Status.OUT_OF_MEMORY, Status.RUNTIME_ERROR, Status.REFUSED},
    ),
    "a sticky error that is caught": (
        changed(
            "        if error:\n            raise",
            "        try:\n            torch.cuda.synchronize()\n        except RuntimeError:\n"
            "            return torch.relu(x * self.weight + 1.0) * 0.5 + torch.sigmoid(x)\n"
            "        if error:\n            raise",
        ).replace("float v =", "*(float*)8 = 1.0f; float v ="),
        {Status.RUNTIME_ERROR, Status.REFUSED},
    ),
    "an error of the device that nobody looks at": (
        changed("    return (int)cudaGetLastError();", "    cudaGetLastError();\n    return 0;").replace(
            "float v =", "*(float*)8 = 1.0f; float v ="
        ),
        {Status.RUNTIME_ERROR},
    ),
    "a crash of the host with kernels under way": (
        changed(
            "    return (int)cudaGetLastError();",
            "    *(volatile int*)8 = 1;\n    return (int)cudaGetLastError();",
        ).replace("float v =", "for (int k = 0; k < 100000; ++k) y[i] = x[i] * k; float v ="),
        {Status.CRASHED},
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkerJudge]:
    folder: Path = tmp_path_factory.mktemp(secrets.token_hex(4))
    opened = await open_judge(
        problem_at(folder),
        interpreter=sys.executable,
        settings=replace(SETTINGS, run_timeout_s=LIMIT_S, compile_baseline=False, profile=False),
        cache_dir=folder / "cache",
        log=print,
        notice=print,
    )
    try:
        await opened.prepare(print)
        yield opened
    finally:
        await opened.close()


async def next_is_ok(judge: WorkerJudge) -> None:
    verdict = await judge.evaluate(Candidate(RAW))
    assert verdict.status is Status.OK, (verdict.status, verdict.message, verdict.log[-500:])


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_of_the_gpu_has_its_status_and_the_next_candidate_is_judged(
    judge: WorkerJudge, name: str
) -> None:
    await next_is_ok(judge)
    source, statuses = FAULTS[name]
    guard, before = judge.pid, device_memory()
    verdict = await judge.evaluate(Candidate(source))
    print(name, verdict.status, verdict.message, verdict.stages_s)
    assert verdict.status in statuses, (verdict.status, verdict.message, verdict.log[-500:])
    assert verdict.message or verdict.ok
    await next_is_ok(judge)
    assert judge.pid == guard, "the worker was lost"
    for _ in range(100):
        if device_memory() <= before + SLACK_MIB:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"device memory was not returned: {before} MiB before, {device_memory()} MiB now")


@pytest.mark.parametrize("who", ["worker", "guard"])
async def test_a_worker_that_dies_with_an_endless_kernel_under_way_frees_the_gpu(judge: WorkerJudge, who: str) -> None:
    await next_is_ok(judge)
    assert judge.pid is not None
    task = asyncio.create_task(judge.evaluate(Candidate(ENDLESS)))
    done, _ = await asyncio.wait({task}, timeout=LIMIT_S / 2)
    assert not done
    guard = psutil.Process(judge.pid)
    below = guard.children(recursive=True)
    (guard if who == "guard" else guard.children()[0]).kill()
    with pytest.raises(Fault, match="SIGKILL"):
        await task
    _, alive = psutil.wait_procs(below, timeout=10)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
    await next_is_ok(judge)


async def test_a_runner_that_is_killed_with_an_endless_kernel_under_way_is_a_crash_and_frees_the_gpu(
    judge: WorkerJudge,
) -> None:
    await next_is_ok(judge)
    assert judge.pid is not None
    guard = judge.pid
    task = asyncio.create_task(judge.evaluate(Candidate(ENDLESS)))
    done, _ = await asyncio.wait({task}, timeout=LIMIT_S / 2)
    assert not done
    confined = [one for one in psutil.Process(guard).children(recursive=True) if "layer" in " ".join(one.cmdline())]
    for process in confined:
        # The candidate's, and the spares: a GPU that is busy tells them apart no better than we can.
        if process.is_running():
            process.kill()
    verdict = await task
    assert verdict.status is Status.CRASHED, verdict
    await next_is_ok(judge)
    assert judge.pid == guard, "the worker was lost"
