"""Time a verified candidate, taking turns with the reference."""

from __future__ import annotations

from typing import Any

from . import rounds
from .bench import Bench, reference_timed, time_round
from .classify import classify
from .errors import Broken
from .failed import Failed
from .runners import RUNNER_FAILURES, RunnerProcess


class Measured:
    """What timing one candidate gave.

    Parameters
    ----------
    times
        Times of all sides.
    with_compile
        Whether torch.compile was one of them.
    notes
        What a user should know about these times.
    """

    def __init__(self, times: rounds.RoundTimes, with_compile: bool, notes: list[str]) -> None:
        self.times = times
        self.with_compile = with_compile
        self.notes = notes


def measure(
    bench: Bench, runner: RunnerProcess, settings: dict[str, Any], *, final: bool, compiled: bool, path: str
) -> Measured:
    """Time the candidate in `runner`, interleaved with eager (and torch.compile).

    Parameters
    ----------
    settings
        `core.EvaluationSettings` in wire form.
    final
        Time it longer, and against torch.compile if `compiled` says that there is one.
    path
        The candidate file, for the lines of messages.

    Raises
    ------
    Failed
        The candidate failed while it was timed.
    Broken
        The reference could not be timed.
    """
    limit = float(settings["run_timeout_s"])
    try:
        bench.hold(runner, run_s=limit, build_s=float(settings["build_timeout_s"]))
    except RUNNER_FAILURES as error:
        raise Failed(classify(error, "time", path)) from error
    names = ["eager", "compile"] if final and compiled else ["eager"]

    def candidate() -> list[float]:
        try:
            return time_round(runner, limit)
        except RUNNER_FAILURES as error:
            raise Failed(classify(error, "time", path)) from error

    def run() -> rounds.RoundTimes:
        try:
            sides = {name: bench.side(name) for name in names}
        except RUNNER_FAILURES as error:
            raise Broken(f"The reference could not be timed: {error}.", "Try again.") from error
        sides["candidate"] = candidate
        if final:
            count, seconds = int(settings["final_rounds"]), float(settings["final_timing_s"])
            return rounds.interleave(sides, count, seconds=seconds)
        count, seconds = int(settings["rounds"]), float(settings["timing_s"])
        return rounds.interleave(sides, count, seconds=seconds, candidate="candidate")

    times = reference_timed(bench, run)
    notes = [f"Timing stopped early: it is more than {rounds.LOSER:g} times slower."] if times.early else []
    return Measured(times, "compile" in names, notes)
