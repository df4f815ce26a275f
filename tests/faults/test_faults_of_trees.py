"""Children as the judge keeps them: ended once, watched while they rest, and found however they are dying."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from stark_lsp.contract import process_trees
from stark_lsp.contract.frames import DeadlinePassed
from stark_lsp.judge.device.turns import Turns
from stark_lsp.judge.processes import limits as limits_module
from stark_lsp.judge.processes import runners
from stark_lsp.judge.processes.confinement import Confinement
from stark_lsp.judge.processes.failures import RunnerError, RunnerExceeded
from stark_lsp.judge.processes.limits import Exceeded, Limits, RestWatch, disk_limit
from stark_lsp.judge.processes.pool import Pool
from stark_lsp.judge.processes.runners import RunnerProcess
from stark_lsp.judge.sandbox import Layer

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

HALF_DEAD = """
import ctypes, subprocess, sys, threading, time
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
threading.Thread(target=time.sleep, args=(600,)).start()
print(child.pid, flush=True)
ctypes.CDLL(None).pthread_exit(None)  # the main thread ends, the process lives on in its other thread
"""


def test_a_process_whose_main_thread_has_ended_is_killed_with_all_below_it() -> None:
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(HALF_DEAD)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    grandchild = psutil.Process(int(parent.stdout.readline()))
    try:
        while psutil.Process(parent.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        assert {parent.pid, grandchild.pid} <= set(process_trees.descendants(os.getpid()))
        spare = {pid for pid in process_trees.descendants(os.getpid()) if pid not in (parent.pid, grandchild.pid)}
        assert process_trees.kill_below(os.getpid(), spare=spare, seconds=30.0)
        assert parent.wait(30) == -9
        psutil.wait_procs([grandchild], timeout=30)
        assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE
    finally:
        parent.kill()
        if grandchild.is_running():
            grandchild.kill()


class Switched(Limits):
    """Limits that are passed as soon as somebody says so."""

    def __init__(self) -> None:
        super().__init__(1 << 40)
        self.passed = False
        self.looks = 0

    def check(self, pid: int, folder: str) -> Exceeded | None:
        self.looks += 1
        return Exceeded("disk", "it wrote too much") if self.passed else super().check(pid, folder)


@pytest.fixture
def limits() -> Switched:
    return Switched()


@pytest.fixture
def child(tmp_path: Path, limits: Switched) -> Iterator[RunnerProcess]:
    confinement, turns = Confinement(Layer.PROCESS, gpu=False), Turns(str(tmp_path / "locks"), "cpu")
    children = Pool(dict(os.environ), str(tmp_path), 10_000, confinement, limits, turns=turns)
    started = children.take("runner")
    try:
        yield started
    finally:
        children.end(started)


def ask(child: RunnerProcess, *, timed: bool = False) -> None:
    """Ask something that fails in the child, which goes on."""
    with pytest.raises(RunnerError):
        child.ask("rebuild", weights="/nowhere", run_s=60.0, timed=timed)


def test_what_passes_a_limit_while_it_waits_is_stopped_and_the_next_request_says_so(
    child: RunnerProcess, limits: Switched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "REST_S", 0.0)
    monkeypatch.setattr(limits_module, "REST_WATCH_S", 0.01)
    watch = RestWatch(child.watch_rest)
    ask(child)
    assert child.alive
    limits.passed = True
    while child.alive:
        time.sleep(0.01)
    watch.end()
    with pytest.raises(RunnerExceeded, match="it wrote too much"):
        child.ask("rebuild", weights="/nowhere", run_s=60.0)


def test_nobody_looks_at_what_a_child_takes_while_the_judges_clock_runs(
    child: RunnerProcess, limits: Switched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "WATCH_S", 0.0)
    child.wait_ready()
    receive, waited = child._channel.receive, []

    def late(deadline: float | None = None) -> dict[str, Any]:
        """Have each answer be late once."""
        waited.append(deadline)
        if len(waited) % 2:
            raise DeadlinePassed
        return receive()

    monkeypatch.setattr(child._channel, "receive", late)
    limits.looks = 0
    ask(child, timed=True)
    assert (limits.looks, len(waited)) == (0, 2)
    ask(child)
    assert (limits.looks, len(waited)) == (1, 4)
    limits.passed = True
    ask(child, timed=True)
    with pytest.raises(RunnerExceeded, match="it wrote too much"):
        child.look()


def test_a_child_is_ended_once_so_that_nobody_who_got_its_number_is_harmed(
    child: RunnerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(child)
    child.kill()
    assert not child.stuck
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, sig: sent.append(pid))
    monkeypatch.setattr(os, "killpg", lambda pid, sig: sent.append(pid))
    child.kill()
    assert sent == []


def test_a_child_may_take_half_of_the_disk_that_would_be_free_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Disk:
        f_bavail, f_frsize = 1 << 20, 4096

    monkeypatch.setattr(os, "statvfs", lambda path: Disk)
    assert disk_limit(str(tmp_path), 0) == 2 << 30
    assert disk_limit(str(tmp_path), 2 << 30) == 3 << 30
    Disk.f_bavail = 10
    assert disk_limit(str(tmp_path), 0) == limits_module.DISK_LEAST
