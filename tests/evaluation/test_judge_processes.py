"""Deadlines and endings: what runs below the worker never outlives what it was started for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
from judge_cases import HONEST, KERNEL, LAUNCH, QUICK, RAW, REFERENCE, candidate_with, judging, make_problem, preparing

from stark_lsp.contract.process_trees import descendants, parents
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.core.verdict import Verdict
from stark_lsp.evaluation.judge import WorkerJudge
from stark_lsp.evaluation.supervisor import Supervisor, WorkerState

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

SLOW_COMPILER = """#!/bin/sh
case "$*" in
  *--version*|*-dumpversion*|*-dumpfullversion*) exec {compiler} "$@" ;;
esac
exec sleep {seconds}
"""
SECONDS = "31415.9"
"""How long the compiler sleeps, by which it is found."""


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not, unless threads of it still end: nobody can wait for it until then."""
    return pid in parents()


async def until(condition, seconds: float = 60.0) -> None:  # type: ignore[no-untyped-def]
    """Wait for something that must happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.02)


def slow_compiler(folder: Path) -> Path:
    """Return a compiler that never ends."""
    program = folder / "slow-g++"
    program.write_text(SLOW_COMPILER.format(compiler="g++", seconds=SECONDS))
    program.chmod(0o755)
    return program


def compilers(judge: WorkerJudge) -> list[int]:
    """Return the slow compilers that run below a judge."""
    found = []
    for pid in descendants(judge.pid) if judge.pid is not None else []:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", SECONDS.encode()]:
                found.append(pid)
    return found


@pytest.mark.slow
async def test_an_endless_forward_pass_is_stopped_and_the_next_candidate_is_judged(tmp_path: Path) -> None:
    settings = replace(QUICK, run_timeout_s=2.0)
    async with preparing(make_problem(tmp_path / "model.py"), tmp_path, settings=settings) as (judge, _):
        verdict = await judge.evaluate(Candidate(candidate_with("while True:\n    pass")))
        assert verdict.status is Status.TIMED_OUT, verdict
        assert "2 s" in verdict.message
        kernel = KERNEL.replace("float v =", "volatile int go = 1; while (go) {} float v =")
        verdict = await judge.evaluate(Candidate(candidate_with(LAUNCH, before=kernel)))
        assert verdict.status is Status.TIMED_OUT, verdict
        verdict = await judge.evaluate(Candidate(candidate_with(HONEST)))
        assert verdict.status is Status.OK, verdict


@pytest.mark.slow
async def test_a_build_that_was_killed_does_not_hang_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = slow_compiler(tmp_path)
    problem = make_problem(tmp_path / "model.py")
    with monkeypatch.context() as patch:
        patch.setenv("CXX", str(program))
        settings = replace(QUICK, build_timeout_s=10.0)
        async with preparing(problem, tmp_path, settings=settings) as (judge, _):
            task = asyncio.create_task(judge.evaluate(Candidate(RAW)))
            await until(lambda: compilers(judge))
            verdict = await task
            assert verdict.status is Status.TIMED_OUT, verdict
            assert "compiling" in verdict.message
            assert not compilers(judge)
    async with preparing(problem, tmp_path) as (judge, _):
        assert (await judge.evaluate(Candidate(RAW))).status is Status.OK


ENDLESS = candidate_with("while True:\n    pass")


@pytest.mark.slow
async def test_a_killed_worker_is_one_fault_and_the_next_calls_are_judged_by_another(tmp_path: Path) -> None:
    told: list[str] = []
    settings = replace(QUICK, run_timeout_s=8.0)
    problem = make_problem(tmp_path / "model.py")
    async with preparing(problem, tmp_path, settings=settings, notice=told.append) as (judge, _):
        assert judge.pid is not None
        first = judge.pid
        below = descendants(first)
        tasks = [asyncio.create_task(judge.evaluate(Candidate(ENDLESS))) for _ in range(2)]
        await asyncio.sleep(0.5)
        assert judge.under_way == 2
        os.kill(descendants(first)[0], signal.SIGKILL)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        [fault] = [one for one in ended if isinstance(one, Fault)]
        assert "SIGKILL" in fault.message
        [other] = [one for one in ended if isinstance(one, Verdict)]
        assert other.status is Status.TIMED_OUT, "it was judged again, by another worker"
        await until(lambda: not any(alive(pid) for pid in [first, *below]))
        honest = [judge.evaluate(Candidate(candidate_with(HONEST))) for _ in range(2)]
        verdicts = await asyncio.gather(*honest)
        assert [verdict.status for verdict in verdicts] == [Status.OK, Status.OK], verdicts
        assert judge.pid != first
        assert told.count("The worker was lost; starting another one") == 1
        assert any(text.startswith("Starting the worker again: ") for text in told)


@pytest.mark.slow
async def test_a_judge_that_is_closed_while_a_worker_is_started_again_leaves_nothing(tmp_path: Path) -> None:
    async with preparing(make_problem(tmp_path / "model.py"), tmp_path) as (judge, _):
        first = judge.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: judge.state is WorkerState.DEAD)
        task = asyncio.create_task(judge.evaluate(Candidate(candidate_with(HONEST))))
        await until(lambda: judge.pid not in (None, first))
        second = judge.pid
        assert second is not None
        below = [second, *descendants(second)]
        await judge.close()
        with pytest.raises(Fault, match="closed"):
            await task
        assert not [pid for pid in below if alive(pid)]


@pytest.mark.slow
@pytest.mark.parametrize("back", [False, True])
async def test_a_folder_that_is_removed_while_the_worker_starts_is_named(tmp_path: Path, back: bool) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    problem = make_problem(folder / "model.py", REFERENCE)
    async with judging(problem, tmp_path) as (judge, _):
        shutil.rmtree(folder)
        if back:
            folder.mkdir()
        with pytest.raises(Fault, match="was removed or replaced while the run started"):
            await judge.prepare(lambda text: None)
    if not back:
        with pytest.raises(Fault, match="was removed or replaced while the run started"):
            await Supervisor(sys.executable, str(folder), print).start()


async def test_a_lost_reference_process_is_started_again(tmp_path: Path) -> None:
    async with preparing(make_problem(tmp_path / "model.py"), tmp_path) as (judge, _):
        assert judge.pid is not None
        worker = descendants(judge.pid)[0]
        below = descendants(worker)
        for pid in below:
            # Some go with those before them.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # On a busy machine they last a moment longer.
        await until(lambda: not any(alive(pid) for pid in below))
        verdict = await judge.evaluate(Candidate(candidate_with(HONEST)))
        assert verdict.status is Status.OK, verdict


SERVER = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from judge_cases import candidate_with, judging, make_problem
from stark_lsp.core.candidate import Candidate

async def main():
    folder = Path({folder!r})
    async with preparing(make_problem(folder / "model.py"), folder) as (judge, _):
        print(judge.pid, flush=True)
        await judge.evaluate(Candidate(candidate_with("while True:\\n    pass")))

asyncio.run(main())
"""


# In every run of the tests a whole server is killed, see tests/e2e/test_e2e_runs.py.
@pytest.mark.slow
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
    await until(lambda: not any(alive(pid) for pid in below))


@pytest.mark.slow
@pytest.mark.ci
async def test_nothing_is_left_of_an_accepted_candidate_nor_of_a_judge_that_is_closed_in_the_midst_of_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("CXX", str(slow_compiler(tmp_path)))
    async with preparing(make_problem(tmp_path / "model.py"), tmp_path) as (judge, _):
        await judge_and_look(judge, tmp_path)
        await close_while_it_builds(judge)


async def judge_and_look(judge: WorkerJudge, folder: Path) -> None:
    """Judge a candidate and another one, whose process is the only one there is then."""
    source = candidate_with(f"print('called')\n{HONEST}", before="print('begun')")
    seen: set[Path] = set()

    def left() -> set[Path]:
        # Its folder goes when its process is gone; os.walk bears folders that go meanwhile.
        return {Path(place) for place, _, files in os.walk(folder) if "candidate.py" in files}

    async def look() -> None:
        while True:
            seen.update(left())
            await asyncio.sleep(0.02)

    looking = asyncio.create_task(look())
    verdict = await judge.evaluate(Candidate(source))
    assert verdict.status is Status.OK, verdict
    # The verdict does not wait until the process is gone, and has all that was printed nevertheless.
    assert verdict.log.startswith("begun")
    assert verdict.log.count("called") > 5
    looking.cancel()
    # One that runs: what is refused unread needs no process, and waits for none.
    verdict = await judge.evaluate(Candidate(candidate_with("raise ValueError('no')")))
    assert verdict.status is Status.RUNTIME_ERROR, verdict
    assert not left()
    assert len(seen) == 1, "it was not found while it lived either"


async def close_while_it_builds(judge: WorkerJudge) -> None:
    """Close a judge whose compiler never ends; nothing runs then."""
    task = asyncio.create_task(judge.evaluate(Candidate(RAW)))
    await until(lambda: compilers(judge))
    assert judge.pid is not None
    below = [judge.pid, *descendants(judge.pid)]
    assert set(compilers(judge)) <= set(below)
    await judge.close()
    assert not [pid for pid in below if alive(pid)]
    assert judge.state is WorkerState.CLOSED
    with pytest.raises(Fault, match="closed"):
        await task


@pytest.mark.slow
async def test_what_torch_compile_writes_is_given_up_when_nobody_waits_for_it(tmp_path: Path) -> None:
    # Inductor takes minutes for so many operations.
    many = "        for _ in range(3000):\n            x = x + torch.sin(x) * 1e-4\n"
    text = REFERENCE.replace("        return", f"{many}        return")
    path = tmp_path / "model.py"
    path.write_text(text)
    problem, told = make_problem(path, text), []
    settings = replace(QUICK, compile_baseline=True)
    async with preparing(problem, tmp_path, settings=settings, notice=told.append) as (judge, _):
        writing = asyncio.ensure_future(judge.written({}))
        await until(lambda: any(text.startswith("Reading what") for text in told))
        writing.cancel()
        same = text.replace("class Model(", "class ModelNew(")
        verdict = await asyncio.wait_for(judge.evaluate(Candidate(same)), 60.0)
        assert verdict.status is Status.OK, verdict.message
