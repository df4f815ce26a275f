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
from stark_lsp.judge.processes.failures import RunnerDied, RunnerError, RunnerTimedOut
from stark_lsp.judge.processes.folders import Folder
from stark_lsp.judge.processes.pool import Pool
from stark_lsp.judge.processes.runners import RunnerProcess
from stark_lsp.judge.sandbox import Layer
from stark_lsp.judge.tools import finalist, sanitize

if TYPE_CHECKING:
    from stark_lsp.judge.processes.confinement import Tool
    from stark_lsp.judge.service.judging import Judge


def test_a_checker_that_was_given_up_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    case = SimpleNamespace(inputs_path="inputs.raw")
    judge = SimpleNamespace(pool=None, reference=SimpleNamespace(cases=[case]), settings={"run_timeout_s": 60.0})
    runner = cast("RunnerProcess", object())
    for report, notes in (("========= ERROR SUMMARY: 0 errors", []), ("", [sanitize.INCOMPLETE])):
        monkeypatch.setattr(finalist, "run", lambda *_, report=report, **__: report)
        assert finalist.check_memory(cast("Judge", judge), runner, lambda *_: None, ["kernel"], dict) == notes


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


def load(runner: RunnerProcess, seconds: float, text: str = ENDLESS) -> None:
    runner.files.write("candidate.py", text)
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
        weights_dtype="",
        autocast="",
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


RECORDS = """import torch

graph = object()
torch.cuda.CUDAGraph.capture_begin(graph, pool=None, capture_error_mode="thread_local")
torch.cuda.CUDAGraph.capture_end(graph)
torch.cuda.CUDAGraph.replay(graph)
raise RuntimeError("nothing was recorded")
"""


def test_under_a_memory_checker_graphs_run_at_once(runner: RunnerProcess) -> None:
    try:
        runner.ask("unrecorded", run_s=60.0)
        with pytest.raises(RunnerError, match="nothing was recorded"):
            load(runner, 60.0, RECORDS)
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
