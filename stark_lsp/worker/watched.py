"""Run a candidate once more under a tool that watches it: a memory checker, or hardware counters."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from . import sanitize
from .confinement import Tool
from .folders import Folder
from .profile import counters
from .runners import RUNNER_FAILURES, RunnerProcess

if TYPE_CHECKING:
    from .judging import Judge

SLOWER = 20.0
"""How many times longer everything may take under a tool."""
LONGEST_S = 300.0
"""After so long a tool is given up in any case, which a note then says: somebody waits for the finalist."""
LAST_WORDS_S = 60.0
SMALL = 1 << 30
"""Bytes of inputs up to which several passes fit the device side by side."""
REPORT = "tool.txt"
REPORT_LIMIT = 16 << 20


def ncu(program: str) -> Tool:
    """Return what runs a child under Nsight Compute."""

    def tool(command: list[str], folder: Folder) -> list[str]:
        return counters.command(program, command, f"{folder.out}/{REPORT}")

    return tool


def sanitizer(program: str, tool: str) -> Tool:
    """Return what runs a child under one of compute-sanitizer's tools."""

    def wrapped(command: list[str], folder: Folder) -> list[str]:
        assigned = [f"{name}={value}" for name, value in sanitize.environment().items()]
        report = f"{folder.out}/{REPORT}"
        return ["/usr/bin/env", *assigned, *sanitize.wrap(command, tool=tool, log=report, program=program)]

    return wrapped


def run(
    judge: Judge,
    source: str,
    loading: Callable[[RunnerProcess], dict[str, Any]],
    build: Callable[[RunnerProcess, dict[str, Any]], dict[str, Any]],
    tool: Tool,
    command: str,
    inputs: str,
) -> tuple[str, str]:
    """Run one forward pass under a tool.

    Parameters
    ----------
    source
        The candidate.
    loading
        Returns what a runner is told to load it.
    build
        Answers a runner's request to build.
    command
        The runner's command for the pass.
    inputs
        File with the inputs.

    Returns
    -------
    tuple
        What was printed, and what the tool wrote to its report; whatever came until the run failed, if it did.
    """
    limit = min(LONGEST_S, SLOWER * float(judge.settings["run_timeout_s"]))
    runner = judge.children.watched_runner(tool)
    try:
        runner.files.write("candidate.py", source)
        runner.builds = lambda request: build(runner, request)
        try:
            runner.ask("load_candidate", run_s=limit, build_s=limit, **loading(runner))
            extra = {} if command == "counters" else {"outputs": f"{runner.files.out}/outputs.raw"}
            runner.ask(command, run_s=limit, build_s=limit, inputs=runner.give(inputs), **extra)
            runner.finish(LAST_WORDS_S)
        except RUNNER_FAILURES:
            # What the tool says until then is what is wanted; the run itself was verified without it.
            runner.kill()
        return runner.log(), _report(f"{runner.files.out}/{REPORT}")
    finally:
        judge.children.end(runner)


def side_by_side(tools: list[Tool], run: Callable[[Tool], str], inputs_bytes: int) -> list[str]:
    """Run one pass under each of several tools at the same time, as far as memory allows; returns their reports.

    Most of a pass under a tool is importing torch and loading its kernels, one thread's work.

    Parameters
    ----------
    run
        Runs one pass and returns the report; called from several threads.
    inputs_bytes
        Size of the inputs of a pass.
    """
    with ThreadPoolExecutor(max_workers=len(tools) if inputs_bytes <= SMALL else 1) as pool:
        return list(pool.map(run, tools))


def _report(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(REPORT_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""
