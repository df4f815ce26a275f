"""The ways in which asking a child fails."""

from __future__ import annotations

import signal
from typing import Any

from .limits import Exceeded


class RunnerFailure(Exception):
    """Asking a child failed; the classes below are all ways in which it does."""


class RunnerError(RunnerFailure):
    """The runner's module raised; `report` is what `serving.report` returned."""

    def __init__(self, report: dict[str, Any]) -> None:
        super().__init__(str(report.get("text", "")))
        self.report = report


class RunnerDied(RunnerFailure):
    """The runner's process ended by itself; `code` is its exit code, negative for a signal."""

    def __init__(self, code: int) -> None:
        super().__init__(exit_text(code))
        self.code = code


class RunnerTimedOut(RunnerFailure):
    """A limit in seconds passed and the tree was killed; `building` says whether compilers were at work then."""

    def __init__(self, building: bool, seconds: float) -> None:
        super().__init__("building" if building else "running")
        self.building = building
        self.seconds = seconds


class RunnerFlooded(RunnerFailure):
    """The runner printed without end and was killed."""


class RunnerForged(RunnerFailure):
    """Something other than our code wrote to the judge's pipe."""


class RunnerExceeded(RunnerFailure):
    """The process tree passed a limit on memory, processes or disk, and was killed."""

    def __init__(self, exceeded: Exceeded) -> None:
        super().__init__(exceeded.text)
        self.exceeded = exceeded


def exit_text(code: int) -> str:
    """Return how a process ended, for a person."""
    if code >= 0:
        return f"ended with exit code {code}"
    known = -code in set(signal.Signals)
    return f"was killed by {signal.Signals(-code).name if known else f'signal {-code}'}"
