"""Run a candidate once more under a tool that watches it: a memory checker, or hardware counters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from ..processes import copies
from ..processes.folders import Folder
from ..processes.pool import Pool
from ..processes.runners import RunnerFailure, RunnerProcess

Load = Callable[[RunnerProcess, float], None]
"""Has a runner load the candidate, within so many seconds; raises what `RunnerProcess.ask` does."""

Under = Callable[[list[str], str], list[str]]
"""Returns a command that runs another one under a tool, which writes its report to a file."""

SLOWER = 20.0
"""How many times longer everything may take under a tool."""
LONGEST_S = 300.0
"""After so long a tool is given up in any case, which a note then says: somebody waits for the finalist."""
LAST_WORDS_S = 60.0
REPORT = "tool.txt"
REPORT_LIMIT = 16 << 20


def longest(run_s: float) -> float:
    """Return how long a pass may take under a tool that takes `run_s` at most without one."""
    return min(LONGEST_S, SLOWER * run_s)


def run(children: Pool, under: Under, load: Load, command: str, *, limit: float, inputs: str) -> str:
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

    def tool(argv: list[str], folder: Folder) -> list[str]:
        return under(argv, f"{folder.out}/{REPORT}")

    runner = children.watched_runner(tool)
    report = f"{runner.files.out}/{REPORT}"
    try:
        try:
            load(runner, limit)
            extra = {} if command == "counters" else {"outputs": f"{runner.files.out}/outputs.raw"}
            runner.ask(command, run_s=limit, build_s=limit, inputs=runner.give(inputs), **extra)
            runner.finish(min(limit, LAST_WORDS_S))
        except RunnerFailure:
            # What the tool says until then is what is wanted; the run itself was verified without it.
            runner.kill()
        # It lies where the candidate may write.
        with contextlib.suppress(OSError), copies.regular(report) as file:
            return file.read(REPORT_LIMIT).decode("utf-8", "replace")
        return ""
    finally:
        children.end(runner)
