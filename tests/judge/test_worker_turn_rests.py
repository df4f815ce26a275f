"""While something is timed, what comes up beside it rests."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from stark_lsp.contract import process_trees
from stark_lsp.judge.device.turns import Turns
from stark_lsp.judge.processes.failures import RunnerFailure, RunnerTimedOut
from stark_lsp.judge.processes.folders import Folder
from stark_lsp.judge.processes.runners import RunnerProcess
from stark_lsp.judge.timing.problem_runners import Bench

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def all_stopped(pids: list[int], stopped: bool) -> bool:
    """Wait for it: a signal takes a moment."""
    deadline = time.monotonic() + 20.0
    while any((state(pid) == "T") != stopped for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    return all((state(pid) == "T") == stopped for pid in pids)


def test_children_that_are_at_work_rest_in_a_turn_until_what_is_timed_needs_a_compiler(tmp_path: Path) -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    pids = [one.pid for one in busy]
    try:
        reference: Any = SimpleNamespace(device="cpu", cases=[SimpleNamespace(outputs=SimpleNamespace(nbytes=0))])
        children = [SimpleNamespace(resting=functools.partial(process_trees.stopped, pid)) for pid in pids]
        pool: Any = SimpleNamespace(busy=lambda: children)
        bench = Bench(reference, {}, pool, 1, Turns(str(tmp_path), "cpu"))
        for needs_a_compiler in (False, True):
            with bench.turn():
                assert all_stopped(pids, True)
                if needs_a_compiler:
                    bench.wake()
                    assert all_stopped(pids, False)
            assert all_stopped(pids, False)
    finally:
        for one in busy:
            one.kill()
            one.wait()


def test_a_child_that_rests_does_not_run_out_of_time_nor_keep_the_judge_busy(tmp_path: Path) -> None:
    child = RunnerProcess(dict(os.environ), Folder(str(tmp_path)), 10_000, role="builder")
    try:
        assert child.busy
        child.wait_ready()
        assert not child.busy
        answers: list[BaseException] = []
        looks: list[int] = []
        # Who looks for compilers looks at everything that runs, which disturbs a timing.
        child._compilers = lambda: looks.append(1) or []

        def ask() -> None:
            try:
                child.ask("build", run_s=1.0, build_s=1.0, request={})
            except RunnerFailure as error:
                answers.append(error)

        with child.resting():
            asking = threading.Thread(target=ask)
            asking.start()
            asking.join(2.5)
            assert asking.is_alive()
            assert not answers
            assert child.busy
            assert not looks
        asking.join(20.0)
        assert not asking.is_alive()
        assert not any(isinstance(answer, RunnerTimedOut) for answer in answers), answers
    finally:
        child.kill()
