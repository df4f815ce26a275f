"""Run a candidate once more under a tool that watches it: a memory checker, or hardware counters."""

from __future__ import annotations

from collections.abc import Callable

from ..processes.confinement import Tool
from ..processes.folders import Folder
from ..processes.pool import Pool
from ..processes.runners import RUNNER_FAILURES, RunnerProcess
from ..profile import counters
from . import sanitize

Load = Callable[[RunnerProcess, float], None]
"""Has a runner load the candidate, within so many seconds; raises what `RunnerProcess.ask` does."""

SLOWER = 20.0
"""How many times longer everything may take under a tool."""
LONGEST_S = 300.0
"""After so long a tool is given up in any case, which a note then says: somebody waits for the finalist."""
LAST_WORDS_S = 60.0
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


def longest(run_s: float) -> float:
    """Return how long a pass may take under a tool that takes `run_s` at most without one."""
    return min(LONGEST_S, SLOWER * run_s)


def run(
    children: Pool,
    tool: Tool,
    load: Load,
    command: str,
    *,
    limit: float,
    inputs: str,
) -> str:
    """Run one forward pass of a candidate under a tool.

    Parameters
    ----------
    load
        Has a runner load it.
    command
        The runner's command for the pass.
    limit
        How many seconds loading it may take, and how many the pass.
    inputs
        File with the inputs.

    Returns
    -------
    str
        What the tool wrote to its report; whatever came until the run failed, if it did.
    """
    runner = children.watched_runner(tool)
    report = f"{runner.files.out}/{REPORT}"
    try:
        try:
            load(runner, limit)
            extra = {} if command == "counters" else {"outputs": f"{runner.files.out}/outputs.raw"}
            runner.ask(command, run_s=limit, build_s=limit, inputs=runner.give(inputs), **extra)
            runner.finish(min(limit, LAST_WORDS_S))
        except RUNNER_FAILURES:
            # What the tool says until then is what is wanted; the run itself was verified without it.
            runner.kill()
        return _report(report)
    finally:
        children.end(runner)


def _report(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(REPORT_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""
