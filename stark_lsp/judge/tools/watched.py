"""Run a candidate once more under a tool that watches it: a memory checker, or hardware counters."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from ..processes.confinement import Tool
from ..processes.folders import Folder
from ..processes.runners import RUNNER_FAILURES, RunnerProcess
from ..profile import counters
from . import sanitize
from .loadable import Loadable

SLOWER = 20.0
"""How many times longer everything may take under a tool."""
LONGEST_S = 300.0
"""After so long a tool is given up in any case, which a note then says: somebody waits for the finalist."""
LEAST_S, TIMES = 20.0, 10.0
"""Once one tool is through, the others have so many times as long as it took, and at least so long.

Tools make a pass slower in much the same way. But a kernel can make one of them hang: on an H200 initcheck did not
come back in 75 seconds from one that stores by `cp.async.bulk`, which memcheck was through with in two.
"""
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


class Patience:
    """How long each of several tools has, side by side or one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: float | None = None
        self._begun: dict[RunnerProcess, float] = {}
        self._timers: dict[RunnerProcess, threading.Timer] = {}

    @contextlib.contextmanager
    def with_tool(self, runner: RunnerProcess) -> Iterator[None]:
        """Kill a runner in the block when its time is over."""
        begin = time.monotonic()
        with self._lock:
            self._begun[runner] = begin
            self._time(runner)
        through = False
        try:
            yield
            through = True
        finally:
            with self._lock:
                del self._begun[runner]
                timer = self._timers.pop(runner, None)
                if timer is not None:
                    timer.cancel()
                if through and self._seconds is None:
                    self._seconds = max(LEAST_S, TIMES * (time.monotonic() - begin))
                    for other in self._begun:
                        self._time(other)

    def _time(self, runner: RunnerProcess) -> None:
        if self._seconds is None:
            return
        left = self._begun[runner] + self._seconds - time.monotonic()
        timer = self._timers[runner] = threading.Timer(max(0.0, left), runner.strike)
        timer.daemon = True
        timer.start()


def run(
    candidate: Loadable, tool: Tool, command: str, inputs: str, patience: Patience | None = None
) -> tuple[str, str]:
    """Run one forward pass under a tool.

    Parameters
    ----------
    command
        The runner's command for the pass.
    inputs
        File with the inputs.
    patience
        Limits it by how long other tools take.

    Returns
    -------
    tuple
        What was printed, and what the tool wrote to its report; whatever came until the run failed, if it did.
    """
    limit = min(LONGEST_S, SLOWER * float(candidate.judge.settings["run_timeout_s"]))
    runner = candidate.judge.pool.watched_runner(tool)
    try:
        candidate.hand_over(runner)
        try:
            with patience.with_tool(runner) if patience is not None else contextlib.nullcontext():
                candidate.ask(runner, run_s=limit, build_s=limit)
                extra = {} if command == "counters" else {"outputs": f"{runner.files.out}/outputs.raw"}
                runner.ask(command, run_s=limit, build_s=limit, inputs=runner.give(inputs), **extra)
                runner.finish(LAST_WORDS_S)
        except RUNNER_FAILURES:
            # What the tool says until then is what is wanted; the run itself was verified without it.
            runner.kill()
        return runner.log(), _report(f"{runner.files.out}/{REPORT}")
    finally:
        candidate.judge.pool.end(runner)


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
