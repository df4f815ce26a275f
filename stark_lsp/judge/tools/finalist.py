"""What only a finalist on a GPU goes through: memory checkers, and a reader of hardware counters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..correctness.classify import Failed, Finding
from ..processes.confinement import Tool
from ..processes.runner import cut
from ..processes.runners import RunnerProcess
from ..profile import counters
from . import sanitize, watched
from .loadable import Loadable

SANITIZER_LOG = 8000
"""Characters of compute-sanitizer's report that are kept."""


class Tools:
    """Runs a candidate under the tools that the settings ask for.

    Parameters
    ----------
    candidate
        What was verified.
    kernels
        Names of the kernels that it defines.
    resources
        Returns what the compiler said of each of its kernels.
    notes
        What a user should know; added to.
    """

    def __init__(
        self, candidate: Loadable, kernels: Sequence[str], resources: Callable[[], Mapping[str, Any]], notes: list[str]
    ) -> None:
        self._building = threading.Lock()
        """Held while a pass under a tool asks for a library; several such passes go on at once."""
        self._candidate = replace(candidate, build=self._build_one_by_one)
        self._build = candidate.build
        self._kernels = kernels
        self._settings = candidate.judge.settings
        self._resources = resources
        self._notes = notes

    def run(self, inputs: str, progress: Callable[[str], None]) -> list[dict[str, Any]]:
        """Return hardware counters.

        Parameters
        ----------
        inputs
            File with the inputs of the pass.
        progress
            Told what begins.

        Raises
        ------
        Failed
            It reads or writes memory that is not its own.
        """
        if self._settings["sanitizer"]:
            progress("Looking for memory errors")
            self._sanitize(inputs)
        if not self._settings["counters"]:
            return []
        ncu = counters.find()
        if ncu is None:
            self._notes.append(counters.MISSING)
            return []
        progress("Reading hardware counters")
        _, text = self._watched(watched.ncu(ncu), "counters", inputs)
        metrics, notes = counters.read(text)
        self._notes += notes
        return metrics

    def _sanitize(self, inputs: str) -> None:
        """Look for memory errors of its kernels with compute-sanitizer, where that is installed."""
        program = sanitize.available()
        if program is None:
            self._notes.append(sanitize.MISSING)
            return
        tools = [watched.sanitizer(program, tool) for tool in sanitize.TOOLS]
        size = self._candidate.judge.reference.cases[0].inputs_nbytes
        patience = watched.Patience()
        reports = watched.side_by_side(tools, lambda tool: self._watched(tool, "forward", inputs, patience)[1], size)
        for tool, report in zip(sanitize.TOOLS, reports):  # noqa: B905 - Python 3.9
            found = sanitize.read(report, self._kernels, self._resources())
            if found is not None:
                finding = Finding("CRASHED", found.message)
                finding.details = cut(report, SANITIZER_LOG)
                raise Failed(finding)
            if self._kernels and not sanitize.complete(report):
                self._notes.append(sanitize.incomplete(tool))

    def _watched(
        self, tool: Tool, command: str, inputs: str, patience: watched.Patience | None = None
    ) -> tuple[str, str]:
        return watched.run(self._candidate, tool, command, inputs, patience)

    def _build_one_by_one(self, runner: RunnerProcess, request: dict[str, Any]) -> dict[str, Any]:
        with self._building:
            return self._build(runner, request)
