"""Where no sandbox takes its processes along, a guard that is killed leaves nothing behind either."""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from fault_cases import FAULTS, problem_at, settings
from fault_watch import MARK, by_name, marked, until

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault
from stark_lsp.core.status import Isolation
from stark_lsp.evaluation.judge import open_judge
from stark_lsp.evaluation.processes import kill_marked

EXIT = {"x86_64": 60, "aarch64": 93}
"""Number of exit(2) by machine."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@pytest.mark.slow
@pytest.mark.ci
async def test_a_compiler_at_work_ends_with_the_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = secrets.token_hex(8)
    monkeypatch.setenv(MARK, mark)
    judge = await open_judge(
        problem_at(tmp_path),
        interpreter=sys.executable,
        settings=replace(settings(), isolation=Isolation.OFF, build_timeout_s=60.0),
        cache_dir=tmp_path / "cache",
        log=lambda line: None,
    )
    try:
        await judge.prepare(lambda text: None)
        task = asyncio.create_task(judge.evaluate(Candidate(FAULTS["a template bomb"].source)))
        await until(lambda: by_name(judge.pid, "cc1plus"), "the compiler is at work", 60.0)
        assert judge.pid is not None
        psutil.Process(judge.pid).kill()
        with pytest.raises(Fault, match="SIGKILL"):
            await task
        assert not marked(mark)
    finally:
        await judge.close()


@pytest.mark.slow
@pytest.mark.ci
def test_what_is_being_started_is_found_although_its_environment_cannot_be_read_yet() -> None:
    # While exec(2) puts a program in place its environment reads as empty: some rounds in a hundred come upon that.
    for _ in range(200):
        mark = secrets.token_hex(8)
        started = subprocess.Popen(["sleep", "600"], env={**os.environ, "A_MARK": mark}, start_new_session=True)
        try:
            assert kill_marked("A_MARK", mark)
            assert started.wait(20) == -9
        finally:
            started.kill()
            started.wait()


def test_what_goes_on_without_its_main_thread_is_found() -> None:
    mark = secrets.token_hex(8)
    # exit(2), not exit_group(2): the other thread lives on.
    code = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); "
        f"ctypes.CDLL(None).syscall({EXIT[platform.machine()]}, 0)"
    )
    started = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "A_MARK": mark}, start_new_session=True)
    try:
        while psutil.Process(started.pid).status() != psutil.STATUS_ZOMBIE:
            assert started.poll() is None
            time.sleep(0.005)
        assert kill_marked("A_MARK", mark)
        assert started.wait(30) == -9
    finally:
        started.kill()
        started.wait()


def test_only_what_carries_the_mark_is_killed() -> None:
    wanted, other = secrets.token_hex(8), secrets.token_hex(8)
    started = [
        subprocess.Popen(["sleep", "600"], env={**os.environ, "A_MARK": value}, start_new_session=True)
        for value in (wanted, other)
    ]
    try:
        # Until the program has been started in its place, it still is this one.
        while any(b"A_MARK=" not in Path(f"/proc/{one.pid}/environ").read_bytes() for one in started):
            time.sleep(0.005)
        kill_marked("A_MARK", wanted)
        assert started[0].wait(30) == -9
        assert started[1].poll() is None
    finally:
        for one in started:
            one.kill()
            one.wait()
