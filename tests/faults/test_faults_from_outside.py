"""Any of our processes may be killed at any time: the call under way says so, and the next candidate is judged."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import psutil
import pytest
import pytest_asyncio
from fault_cases import FAULTS, RAW, STUCK, problem_at, settings
from fault_watch import MARK, above, by_name, by_role, kill, marked, running, strays, until

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault
from stark_lsp.core.status import VerdictStatus as Status
from stark_lsp.evaluation.judge import WorkerJudge, open_judge

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"),
    pytest.mark.asyncio(loop_scope="module"),
]

LIMIT_S = 8.0
ENDLESS = Candidate(STUCK)
SLOW_BUILD = RAW.replace("#include <cstring>", "#include <cstring>\n#include <random>\n#include <map>")
"""An honest candidate whose compiler can be caught at work."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def judge(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkerJudge]:
    folder, mark = tmp_path_factory.mktemp("outside"), secrets.token_hex(8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, mark)
        opened = await open_judge(
            problem_at(folder),
            interpreter=sys.executable,
            # Long enough that each process is killed before the limit of a step is.
            settings=replace(settings(), run_timeout_s=LIMIT_S, build_timeout_s=30.0),
            cache_dir=folder / "cache",
            log=lambda line: None,
        )
        try:
            await opened.prepare(lambda text: None)
            yield opened
            await until(lambda: not strays(mark, opened.pid), "something outside the worker's tree is left running")
        finally:
            await opened.close()
    await until(lambda: not marked(mark), "something is left running after the judge was closed")


async def next_is_ok(judge: WorkerJudge, source: str = RAW) -> None:
    verdict = await judge.evaluate(Candidate(source))
    assert verdict.status is Status.OK, (verdict.status, verdict.message, verdict.log[-500:])


async def stuck(judge: WorkerJudge) -> psutil.Process:
    """Return the process that the endless candidate runs in."""
    await until(lambda: by_name(judge.pid, "stuck"), "the candidate is at work", 60.0)
    return by_name(judge.pid, "stuck")[0]


def building(judge: WorkerJudge) -> list[psutil.Process]:
    """Return the builders whose compiler is at work."""
    builders = {process.pid: process for process in by_role(judge.pid, "builder")}
    over = [parent.pid for compiler in by_name(judge.pid, "cc1plus") for parent in above(compiler)]
    return [builders[pid] for pid in dict.fromkeys(over) if pid in builders]


async def test_a_killed_runner_is_the_candidates_crash(judge: WorkerJudge) -> None:
    task = asyncio.create_task(judge.evaluate(ENDLESS))
    (await stuck(judge)).kill()
    assert (await task).status is Status.CRASHED
    await next_is_ok(judge)


async def test_a_stopped_runner_runs_into_its_limit(judge: WorkerJudge) -> None:
    task = asyncio.create_task(judge.evaluate(ENDLESS))
    (await stuck(judge)).suspend()
    assert (await task).status is Status.TIMED_OUT
    await next_is_ok(judge)


async def test_spares_and_reference_runners_that_are_killed_are_started_again(judge: WorkerJudge) -> None:
    killed = [process for role in ("runner", "compiler", "builder") for process in by_role(judge.pid, role)]
    # bubblewrap ends after what it runs, and only then is a spare known to be dead.
    killed += [one for process in killed for one in above(process) if one.name() == "bwrap"]
    for process in killed:
        kill(process)
    await until(lambda: not any(map(running, killed)), "what was killed has ended")
    await next_is_ok(judge)


async def test_a_killed_compiler_is_started_again(judge: WorkerJudge) -> None:
    task = asyncio.create_task(judge.evaluate(Candidate(SLOW_BUILD)))
    compilers: list[psutil.Process] = []
    await until(lambda: compilers.extend(by_name(judge.pid, "cc1plus")) or compilers, "the compiler is at work", 60.0)
    for process in compilers:
        kill(process)
    assert (await task).status is Status.OK
    await next_is_ok(judge, SLOW_BUILD)


async def test_after_a_killed_builder_another_one_builds(judge: WorkerJudge) -> None:
    source = SLOW_BUILD.replace("#include <map>", "#include <map>\n#include <unordered_map>")
    task = asyncio.create_task(judge.evaluate(Candidate(source)))
    found: list[psutil.Process] = []
    await until(lambda: found.extend(building(judge)) or found, "a builder is at work", 60.0)
    kill(found[0])
    assert (await task).status is Status.OK
    await next_is_ok(judge, source)


async def test_builders_that_are_killed_again_and_again_are_said_and_leave_nothing_to_wait_for(
    judge: WorkerJudge,
) -> None:
    source = SLOW_BUILD.replace("#include <map>", "#include <map>\n#include <list>")
    task = asyncio.create_task(judge.evaluate(Candidate(source)))
    killed: set[int] = set()
    while not task.done():
        for builder in building(judge):
            if builder.pid not in killed:
                killed.add(builder.pid)
                kill(builder)
        await asyncio.sleep(0.02)
    verdict = await task
    assert verdict.status is Status.COMPILE_ERROR
    assert verdict.message == "It could not be built: the process that builds was killed by SIGKILL."
    assert len(killed) == 2
    await next_is_ok(judge, source)


@pytest.mark.parametrize("who", ["worker", "guard"])
async def test_a_worker_or_guard_that_dies_between_request_and_reply_is_replaced(judge: WorkerJudge, who: str) -> None:
    assert judge.pid is not None
    guard = psutil.Process(judge.pid)
    task = asyncio.create_task(judge.evaluate(ENDLESS))
    await stuck(judge)
    below = guard.children(recursive=True)
    (guard if who == "guard" else guard.children()[0]).kill()
    with pytest.raises(Fault, match="SIGKILL"):
        await task
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not [process for process in alive if running(process)]
    await next_is_ok(judge)
    assert judge.pid != guard.pid


async def test_a_worker_that_dies_during_a_build_is_replaced_and_the_build_is_made_anew(judge: WorkerJudge) -> None:
    assert judge.pid is not None
    source = SLOW_BUILD.replace("#include <map>", "#include <map>\n#include <set>")
    task = asyncio.create_task(judge.evaluate(Candidate(source)))
    await until(lambda: by_name(judge.pid, "cc1plus"), "the compiler is at work", 60.0)
    psutil.Process(judge.pid).children()[0].kill()
    with pytest.raises(Fault, match="SIGKILL"):
        await task
    await next_is_ok(judge, source)


async def test_what_fails_beside_others_does_not_fail_them(judge: WorkerJudge) -> None:
    crashing = Candidate(FAULTS["a write to an illegal address"].source)
    verdicts = await asyncio.gather(*(judge.evaluate(one) for one in (Candidate(RAW), crashing, Candidate(RAW))))
    assert [verdict.status for verdict in verdicts] == [Status.OK, Status.CRASHED, Status.OK]
