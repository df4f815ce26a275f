"""What only a finalist on a GPU goes through: memory checkers, and a reader of hardware counters."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...contract.errors import cut
from ..correctness.classify import Failed, Finding
from ..profile import counters
from . import sanitize, watched

if TYPE_CHECKING:
    from ..service.judging import Judge

LEAST_S, TIMES = 20.0, 10.0
"""Once one tool is through, the next has so many times as long as it took, and at least so long.

Tools make a pass slower in much the same way. But a kernel can make one of them hang: on an H200 initcheck did not
come back in 75 seconds from one that stores by `cp.async.bulk`, which memcheck was through with in two.
"""
SANITIZER_LOG = 8000
"""Characters of compute-sanitizer's report that are kept."""


def check_memory(
    judge: Judge, load: watched.Load, kernels: Sequence[str], resources: Callable[[], Mapping[str, Any]]
) -> list[str]:
    """Look for memory errors of a candidate's kernels with compute-sanitizer, where that is installed.

    Parameters
    ----------
    kernels
        Names of the kernels that it defines.
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
    program = sanitize.available()
    if program is None:
        return [sanitize.MISSING]
    inputs = judge.reference.cases[0].inputs_path
    limit = watched.longest(float(judge.settings["run_timeout_s"]))
    notes = []
    for tool in sanitize.TOOLS:
        begin = time.monotonic()
        under = partial(sanitize.command, program, tool)
        report = watched.run(judge.pool, under, load, "forward", limit=limit, inputs=inputs)
        found = sanitize.read(report, kernels, resources())
        if found is not None:
            raise Failed(Finding("CRASHED", found.message, details=cut(report, SANITIZER_LOG)))
        if sanitize.complete(report):
            limit = min(limit, max(LEAST_S, TIMES * (time.monotonic() - begin)))
        elif kernels:
            notes.append(sanitize.incomplete(tool))
    return notes


def read_counters(judge: Judge, load: watched.Load) -> tuple[list[dict[str, Any]], list[str]]:
    """Return hardware counters of a pass, and what a user should know."""
    ncu = counters.find()
    if ncu is None:
        return [], [counters.MISSING]
    inputs = judge.reference.cases[0].inputs_path
    limit = watched.longest(float(judge.settings["run_timeout_s"]))
    under = partial(counters.command, ncu)
    return counters.read(watched.run(judge.pool, under, load, "counters", limit=limit, inputs=inputs))
