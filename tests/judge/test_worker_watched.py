"""Passes under tools: how long each has, and whose processes are whose."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("torch")

from stark_lsp.judge.device.turns import Turns
from stark_lsp.judge.processes.confinement import Confinement
from stark_lsp.judge.processes.folders import Folder
from stark_lsp.judge.processes.pool import Pool
from stark_lsp.judge.processes.runners import RunnerDied, RunnerProcess, RunnerTimedOut
from stark_lsp.judge.sandbox import Layer
from stark_lsp.judge.tools import finalist, sanitize

if TYPE_CHECKING:
    from stark_lsp.judge.processes.confinement import Tool
    from stark_lsp.judge.service.judging import Judge

SUMMARY = "========= ERROR SUMMARY: 0 errors"


def limits(monkeypatch: pytest.MonkeyPatch, reports: list[str]) -> tuple[list[float], list[str]]:
    """Return how long each tool of a finalist had, given what they wrote, and the notes."""
    seen: list[float] = []

    def run(*_: object, limit: float, **__: object) -> str:
        seen.append(limit)
        return reports[len(seen) - 1]

    monkeypatch.setattr(finalist, "run", run)
    monkeypatch.setattr(sanitize, "available", lambda: "sanitizer")
    case = SimpleNamespace(inputs_path="inputs.raw")
    judge = SimpleNamespace(pool=None, reference=SimpleNamespace(cases=[case]), settings={"run_timeout_s": 60.0})
    notes = finalist.check_memory(cast("Judge", judge), lambda *_: None, ["kernel"], dict)
    return seen, notes


def test_once_one_tool_is_through_the_next_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, notes = limits(monkeypatch, [SUMMARY, ""])
    assert seen == [finalist.LONGEST_S, finalist.LEAST_S]
    assert notes == [sanitize.incomplete("initcheck")]


def test_a_tool_that_is_given_up_tells_nothing_about_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, notes = limits(monkeypatch, ["", SUMMARY])
    assert seen == [finalist.LONGEST_S] * 2
    assert notes == [sanitize.incomplete("memcheck")]


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
