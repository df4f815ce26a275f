"""Tools that watch a candidate on a GPU: a memory checker for finalists, a reader of hardware counters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...contract.errors import cut
from ..correctness.classify import Failed, Finding
from ..processes import copies
from ..processes.failures import RunnerFailure
from ..processes.folders import Folder
from ..processes.pool import Pool
from ..processes.runners import RunnerProcess
from ..profile import counters
from . import sanitize

if TYPE_CHECKING:
    from ..service.judging import Judge

Load = Callable[[RunnerProcess, float], None]
"""Has a runner load the candidate, within so many seconds; raises what `RunnerProcess.ask` does."""
Under = Callable[[list[str], str], list[str]]
"""Returns a command that runs another one under a tool, which writes its report to a file."""

SLOWER = 20.0
"""How many times longer everything may take under a tool."""
LONGEST_S = 60.0
"""After so long a tool is given up in any case, which a note then says: somebody waits for the finalist."""
LAST_WORDS_S = 60.0
REPORT = "tool.txt"
REPORT_LIMIT = 16 << 20
SANITIZER_LOG = 8000
"""Characters of compute-sanitizer's report that are kept."""


def begin_memory(judge: Judge, kernels: Sequence[str]) -> RunnerProcess | None:
    """Start a process under compute-sanitizer, None where that is not installed; it comes up beside what goes on.

    `kernels` are the names of those that the candidate's source defines.
    """
    program = sanitize.available()
    return None if program is None else begin(judge.pool, partial(sanitize.command, program, kernels))


def await_ready(runner: RunnerProcess) -> None:
    """Wait until a process under a tool is up: what is stopped meanwhile, as for a timing, may never come up."""
    # Where it failed, its report says so in the end.
    with contextlib.suppress(RunnerFailure):
        runner.wait_ready()


def check_memory(
    judge: Judge,
    runner: RunnerProcess | None,
    load: Load,
    kernels: Sequence[str],
    resources: Callable[[], Mapping[str, Any]],
) -> list[str]:
    """Look for memory errors of a candidate's kernels with compute-sanitizer.

    Parameters
    ----------
    runner
        As of `begin_memory`; it has ended afterwards.
    resources
        Returns what the compiler said of each of its kernels.

    Returns
    -------
    list of str
        What a user should know.

    Raises
    ------
    Failed
        It reads or writes memory that is not its own.
    """
    if runner is None:
        return [sanitize.MISSING]

    def load_unrecorded(runner: RunnerProcess, seconds: float) -> None:
        runner.ask("unrecorded", run_s=seconds)
        load(runner, seconds)

    report = run(judge, runner, load_unrecorded, "forward")
    found = sanitize.read(report, kernels, resources())
    if found is not None:
        raise Failed(Finding("CRASHED", found.message, details=cut(report, SANITIZER_LOG)))
    return [] if sanitize.complete(report) or not kernels else [sanitize.INCOMPLETE]


def read_counters(
    judge: Judge, kernel: str, load: Load, fill: Callable[[str], object]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return hardware counters of one launch of a kernel, and what a user should know.

    Parameters
    ----------
    kernel
        Its bare name.
    fill
        Puts what Triton compiled before into a folder.
    """
    ncu = counters.find()
    if ncu is None or counters.forbidden():
        return [], [counters.MISSING if ncu is None else counters.FORBIDDEN]
    runner = begin(judge.pool, partial(counters.command, ncu, kernel))
    fill(runner.files.triton)
    return counters.read(run(judge, runner, load, "counters"))


def begin(children: Pool, under: Under) -> RunnerProcess:
    """Start a process under a tool."""
    return children.watched_runner(lambda argv, folder: under(argv, _report(folder)))


def _report(folder: Folder) -> str:
    return f"{folder.out}/{REPORT}"


def run(judge: Judge, runner: RunnerProcess, load: Load, command: str) -> str:
    """Run one forward pass of a candidate under a tool.

    Parameters
    ----------
    runner
        As of `begin`; ended afterwards.

    Returns
    -------
    str
        What the tool wrote to its report; whatever came until the run failed, if it did.
    """
    report = _report(runner.files)
    # For loading it, and for the pass.
    limit = min(LONGEST_S, SLOWER * float(judge.settings["run_timeout_s"]))
    inputs = judge.reference.cases[0].inputs_path
    try:
        try:
            load(runner, limit)
            extra: dict[str, Any] = {} if command == "counters" else {"outputs": f"{runner.files.out}/outputs.raw"}
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
        judge.pool.end(runner)
