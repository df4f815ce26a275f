"""Deadlines and endings: what runs below the worker never outlives what it was started for."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
from judge_cases import HONEST, KERNEL, LAUNCH, QUICK, RAW, candidate_with, judging, make_problem

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.evaluation.processes import descendants
from stark_lsp.evaluation.supervisor import WorkerState

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

SLOW_COMPILER = """#!/bin/sh
case "$*" in
  *--version*|*-dumpversion*|*-dumpfullversion*) exec {compiler} "$@" ;;
esac
echo $$ >> {mark}
exec sleep 600
"""


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


async def until(condition, seconds: float = 60.0) -> None:  # type: ignore[no-untyped-def]
    """Wait for something that must happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.02)


def slow_compiler(folder: Path) -> tuple[Path, Path]:
    """Return a compiler that never ends, and the file it writes its process id to."""
    program, mark = folder / "slow-g++", folder / "compilers"
    program.write_text(SLOW_COMPILER.format(compiler="g++", mark=mark))
    program.chmod(0o755)
    return program, mark


async def test_an_endless_forward_pass_is_stopped_and_the_next_candidate_is_judged(tmp_path: Path) -> None:
    settings = replace(QUICK, run_timeout_s=2.0)
    async with judging(make_problem(tmp_path / "model.py"), tmp_path, settings=settings) as (judge, _):
        await judge.prepare(lambda text: None)
        verdict = await judge.evaluate(Candidate(candidate_with("while True:\n    pass")))
        assert verdict.status is Status.TIMED_OUT, verdict
        assert "2 s" in verdict.message
        kernel = KERNEL.replace("float v =", "volatile int go = 1; while (go) {} float v =")
        verdict = await judge.evaluate(Candidate(candidate_with(LAUNCH, before=kernel)))
        assert verdict.status is Status.TIMED_OUT, verdict
        assert (await judge.evaluate(Candidate(candidate_with(HONEST)))).status is Status.OK


async def test_a_build_that_was_killed_does_not_hang_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, mark = slow_compiler(tmp_path)
    problem = make_problem(tmp_path / "model.py")
    with monkeypatch.context() as patch:
        patch.setenv("CXX", str(program))
        settings = replace(QUICK, build_timeout_s=1.0)
        async with judging(problem, tmp_path, settings=settings) as (judge, _):
            await judge.prepare(lambda text: None)
            verdict = await judge.evaluate(Candidate(RAW))
            assert verdict.status is Status.TIMED_OUT, verdict
            assert "compiling" in verdict.message
            assert not any(alive(int(pid)) for pid in mark.read_text().split())
    async with judging(problem, tmp_path) as (judge, _):
        await judge.prepare(lambda text: None)
        assert (await judge.evaluate(Candidate(RAW))).status is Status.OK


async def test_closing_in_the_midst_of_a_build_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, mark = slow_compiler(tmp_path)
    monkeypatch.setenv("CXX", str(program))
    async with judging(make_problem(tmp_path / "model.py"), tmp_path) as (judge, _):
        await judge.prepare(lambda text: None)
        task = asyncio.create_task(judge.evaluate(Candidate(RAW)))
        await until(mark.exists)
        assert judge.pid is not None
        below = [judge.pid, *descendants(judge.pid)]
        assert int(mark.read_text().split()[0]) in below
        await judge.close()
        assert not [pid for pid in below if alive(pid)]
        assert judge.state is WorkerState.CLOSED
        with pytest.raises(Fault, match="closed"):
            await task


async def test_a_worker_that_is_killed_is_a_fault_and_takes_everything_with_it(tmp_path: Path) -> None:
    async with judging(make_problem(tmp_path / "model.py"), tmp_path) as (judge, _):
        await judge.prepare(lambda text: None)
        assert judge.pid is not None
        below = descendants(judge.pid)
        task = asyncio.create_task(judge.evaluate(Candidate(candidate_with("while True:\n    pass"))))
        await asyncio.sleep(0.5)
        os.kill(below[0], signal.SIGKILL)
        with pytest.raises(Fault, match="SIGKILL"):
            await task
        await until(lambda: not any(alive(pid) for pid in below), 5.0)
        assert judge.state is WorkerState.DEAD
        with pytest.raises(Fault):
            await judge.evaluate(Candidate(candidate_with(HONEST)))


async def test_a_lost_reference_process_is_started_again(tmp_path: Path) -> None:
    async with judging(make_problem(tmp_path / "model.py"), tmp_path) as (judge, _):
        await judge.prepare(lambda text: None)
        assert judge.pid is not None
        worker = descendants(judge.pid)[0]
        for pid in descendants(worker):
            os.kill(pid, signal.SIGKILL)
        assert (await judge.evaluate(Candidate(candidate_with(HONEST)))).status is Status.OK


SERVER = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from judge_cases import candidate_with, judging, make_problem
from stark_lsp.core.candidate import Candidate

async def main():
    folder = Path({folder!r})
    async with judging(make_problem(folder / "model.py"), folder) as (judge, _):
        await judge.prepare(lambda text: None)
        print(judge.pid, flush=True)
        await judge.evaluate(Candidate(candidate_with("while True:\\n    pass")))

asyncio.run(main())
"""


async def test_when_the_server_is_killed_no_process_is_left(tmp_path: Path) -> None:
    code = textwrap.dedent(SERVER).format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    guard = int(await server.stdout.readline())
    await asyncio.sleep(0.5)
    below = [guard, *descendants(guard)]
    assert len(below) >= 3
    server.kill()
    await server.wait()
    await until(lambda: not any(alive(pid) for pid in below), 5.0)
