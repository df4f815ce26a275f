"""What is needed to have a further process load a candidate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..processes.runners import RunnerProcess

if TYPE_CHECKING:
    from ..service.judging import Judge


@dataclass(frozen=True)
class Loadable:
    """A candidate that was verified in its first process."""

    judge: Judge
    """Everything that was made once for the problem."""
    source: str
    loading: Callable[[RunnerProcess], dict[str, Any]]
    """Returns what a runner is told to load it."""
    build: Callable[[RunnerProcess, dict[str, Any]], dict[str, Any]]
    """Answers a runner's request to build."""

    def ask(self, runner: RunnerProcess, *, run_s: float, build_s: float) -> None:
        """Have a runner load it; `RunnerProcess.files` has its file as `candidate.py`.

        Raises
        ------
        RunnerError, RunnerDied, RunnerTimedOut, RunnerFlooded, RunnerForged, RunnerExceeded
        """
        runner.ask("load_candidate", run_s=run_s, build_s=build_s, **self.loading(runner))

    def hand_over(self, runner: RunnerProcess) -> str:
        """Write it where a runner finds it; returns its path."""
        runner.builds = lambda request: self.build(runner, request)
        return runner.files.write("candidate.py", self.source)
