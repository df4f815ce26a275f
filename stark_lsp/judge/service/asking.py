"""Ask a process that holds a module, first of all to load it; a candidate's failure is what goes wrong there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..processes.runners import RUNNER_FAILURES, RunnerProcess
from .classify import classify
from .failed import Failed

if TYPE_CHECKING:
    from ..reference.reference import Reference

Ask = Callable[..., dict[str, Any]]
"""`ask(stage, command, **params)`: asks a candidate's process; raises `Failed` when it fails."""


def asking(runner: RunnerProcess, settings: dict[str, Any], path: str) -> Ask:
    """Return what asks one process.

    Parameters
    ----------
    settings
        `core.EvaluationSettings` in wire form.
    path
        The candidate file, for the lines of messages.
    """
    run_s, build_s = float(settings["run_timeout_s"]), float(settings["build_timeout_s"])

    def ask(stage: str, command: str, **params: Any) -> dict[str, Any]:
        try:
            return dict(runner.ask(command, run_s=run_s, build_s=build_s, **params))
        except RUNNER_FAILURES as error:
            raise Failed(classify(error, stage, path)) from error

    return ask


def loading(reference: Reference, runner: RunnerProcess, threads: int, weights: str = "") -> dict[str, Any]:
    """Return what a runner is told of how to load a module, whatever it is.

    Parameters
    ----------
    weights
        A file with other weights than the constructor's.
    """
    return {
        "init": runner.give(reference.init_path),
        "weights": runner.give(weights or reference.weights_path),
        "device": reference.device,
        "mode": reference.mode,
        "gradients": reference.gradients,
        "threads": threads,
    }
