"""What only a finalist on a GPU goes through: memory checkers, and a reader of hardware counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..correctness.classify import Failed, Finding
from ..processes.confinement import Tool
from ..processes.runner import cut
from ..profile import counters
from . import sanitize, watched

if TYPE_CHECKING:
    from ..service.judging import Judge

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
    case, run_s, patience = judge.reference.cases[0], float(judge.settings["run_timeout_s"]), watched.Patience()

    def look(tool: Tool) -> str:
        return watched.run(judge.pool, tool, load, "forward", run_s=run_s, inputs=case.inputs_path, patience=patience)[
            1
        ]

    tools = [watched.sanitizer(program, tool) for tool in sanitize.TOOLS]
    notes = []
    for tool, report in zip(sanitize.TOOLS, watched.side_by_side(tools, look, case.inputs_nbytes)):  # noqa: B905
        found = sanitize.read(report, kernels, resources())
        if found is not None:
            finding = Finding("CRASHED", found.message)
            finding.details = cut(report, SANITIZER_LOG)
            raise Failed(finding)
        if kernels and not sanitize.complete(report):
            notes.append(sanitize.incomplete(tool))
    return notes


def read_counters(judge: Judge, load: watched.Load) -> tuple[list[dict[str, Any]], list[str]]:
    """Return hardware counters of a pass, and what a user should know."""
    ncu = counters.find()
    if ncu is None:
        return [], [counters.MISSING]
    inputs, run_s = judge.reference.cases[0].inputs_path, float(judge.settings["run_timeout_s"])
    return counters.read(watched.run(judge.pool, watched.ncu(ncu), load, "counters", run_s=run_s, inputs=inputs)[1])
