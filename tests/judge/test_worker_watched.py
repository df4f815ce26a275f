"""Passes under tools: side by side where memory allows, and their reports in the order of the tools."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path
from typing import cast

import pytest

pytest.importorskip("torch")

from stark_lsp.judge.device.turns import Turns
from stark_lsp.judge.processes.confinement import Confinement, Tool
from stark_lsp.judge.processes.folders import Folder
from stark_lsp.judge.processes.pool import Pool
from stark_lsp.judge.processes.runners import RunnerDied, RunnerProcess, RunnerTimedOut
from stark_lsp.judge.sandbox import Layer
from stark_lsp.judge.tools import watched

TOOLS: list[Tool] = [watched.sanitizer("sanitizer", name) for name in ("memcheck", "initcheck")]


def test_small_passes_go_on_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=20.0)

    def run(tool: Tool) -> str:
        both.wait()
        return str(TOOLS.index(tool))

    assert watched.side_by_side(TOOLS, run, 1 << 20) == ["0", "1"]


def test_large_ones_go_on_one_after_the_other() -> None:
    both = threading.Barrier(2)

    def run(tool: Tool) -> str:
        with pytest.raises(threading.BrokenBarrierError):
            both.wait(0.3)
        return str(TOOLS.index(tool))

    assert watched.side_by_side(TOOLS, run, 2 << 30) == ["0", "1"]


def test_what_one_pass_raises_is_raised() -> None:
    def run(tool: Tool) -> str:
        if tool is TOOLS[1]:
            raise OSError("no room")
        return ""

    with pytest.raises(OSError, match="no room"):
        watched.side_by_side(TOOLS, run, 0)


class Struck(RunnerProcess):
    """Knows when it was struck."""

    def __init__(self) -> None:
        self.struck = threading.Event()

    def strike(self) -> None:
        self.struck.set()


def test_once_one_tool_is_through_the_other_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LEAST_S", 0.3)
    patience = watched.Patience()
    quick, endless = Struck(), Struck()
    with patience.with_tool(endless):
        assert not endless.struck.wait(0.5), "nobody knows yet how long a pass takes"
        with patience.with_tool(quick):
            pass
        assert endless.struck.wait(10.0)
    assert not quick.struck.is_set()


def test_a_tool_that_comes_after_another_has_a_limit_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LEAST_S", 0.3)
    patience = watched.Patience()
    with patience.with_tool(Struck()):
        pass
    endless, quick = Struck(), Struck()
    with patience.with_tool(endless):
        assert endless.struck.wait(10.0)
    with patience.with_tool(quick):
        pass
    assert not quick.struck.wait(0.6), "it was through in time"


def test_the_limit_is_many_times_what_the_first_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LEAST_S", 0.0)
    patience = watched.Patience()
    first, second = Struck(), Struck()
    with patience.with_tool(second):
        with patience.with_tool(first):
            time.sleep(0.1)
        assert not second.struck.wait(0.3)
        assert second.struck.wait(10.0)


def test_a_pass_that_fails_tells_nothing_about_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LEAST_S", 0.0)
    patience = watched.Patience()
    other = Struck()
    with patience.with_tool(other):
        with pytest.raises(RunnerDied), patience.with_tool(Struck()):
            raise RunnerDied(1)
        assert not other.struck.wait(0.3)


ENDLESS = "import time\ntime.sleep(3600)\n"


@pytest.fixture
def runner(tmp_path: Path) -> RunnerProcess:
    """A runner below a tool that stands beside it as a process of its own."""
    shell = shutil.which("sh") or "/bin/sh"

    def tool(command: list[str], folder: Folder) -> list[str]:
        return [shell, "-c", '"$@"; exit $?', "tool", *command]

    (tmp_path / "children").mkdir()
    turns = Turns(str(tmp_path / "locks"), "cpu")
    confinement = Confinement(Layer.PROCESS, gpu=False)
    children = Pool(dict(os.environ), str(tmp_path / "children"), 10_000, confinement, None, turns=turns)
    return children.watched_runner(cast("Tool", tool))


def load(runner: RunnerProcess, seconds: float) -> None:
    runner.files.write("candidate.py", ENDLESS)
    runner.ask(
        "load_candidate",
        path=os.path.join(runner.files.inside, "candidate.py"),
        context="",
        class_name="ModelNew",
        init="",
        weights="",
        device="cpu",
        mode="eval",
        gradients=False,
        threads=1,
        run_s=seconds,
        build_s=3600.0,
    )


def test_processes_of_the_tool_are_no_compilers(runner: RunnerProcess) -> None:
    try:
        with pytest.raises(RunnerTimedOut) as caught:
            load(runner, 1.0)
        assert "building" not in str(caught.value)
    finally:
        runner.kill()


def test_whoever_waits_for_a_runner_that_is_struck_is_told(runner: RunnerProcess) -> None:
    try:
        runner.wait_ready()
        timer = threading.Timer(1.0, runner.strike)
        timer.start()
        with pytest.raises(RunnerDied):
            load(runner, 60.0)
        timer.join()
    finally:
        runner.kill()
