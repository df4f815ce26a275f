"""Time a verified candidate, taking turns with the reference, and hold its times against the judge's clock."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...contract.errors import Broken
from ..correctness.classify import Failed, classify
from ..device import observe
from ..device.turns import Waiting
from ..processes.runners import RUNNER_FAILURES, RunnerProcess
from . import rounds, wall
from .problem_runners import Bench, reference_timed
from .recheck import Recheck
from .session import Plan, Session, fitting, longest
from .timer import Timer
from .wall import Sample


@dataclass(eq=False)
class Measured:
    """What timing one candidate gave."""

    times: rounds.RoundTimes
    """Times of all sides."""
    beside: Sequence[str]
    """Which of `bench.COMPILED` were among them."""
    notes: list[str]
    """What a user should know about these times."""
    without_gradients: rounds.RoundTimes | None = None
    """Times of eager and the candidate under `torch.no_grad()`, where the others are of calls that record gradients."""


def measure(
    bench: Bench,
    runner: RunnerProcess,
    settings: dict[str, Any],
    *,
    final: bool,
    compiled: Sequence[str],
    path: str,
    weights: str,
    both_modes: bool = False,
    waiting: Waiting | None = None,
    begin: Callable[[], None] | None = None,
) -> Measured:
    """Time the candidate in `runner`, interleaved with eager (and what torch.compile made).

    Parameters
    ----------
    settings
        `core.EvaluationSettings` in wire form.
    final
        Time it longer, and against `compiled` as well.
    compiled
        Which of `bench.COMPILED` there are.
    path
        The candidate file, for the lines of messages.
    weights
        File of the weights that the candidate has now.
    both_modes
        Whether the calls record gradients and can do without: what is final is then timed without as well.
    waiting
        Told while others use the device.
    begin
        Told when the device is ours.

    Raises
    ------
    Failed
        The candidate failed while it was timed, or its outputs were not what the reference gives.
    Broken
        The reference could not be timed.
    """
    attempt = _Attempt(bench, runner, settings, final=final, compiled=compiled, path=path)
    with bench.turn(waiting):
        if begin is not None:
            begin()
        return attempt.run(weights, both_modes=final and both_modes)


def baselines(bench: Bench, settings: dict[str, Any], names: list[str]) -> tuple[rounds.RoundTimes, list[str]]:
    """Time the reference itself; to be called with the device held (`Bench.turn`).

    Parameters
    ----------
    names
        `eager` and perhaps some of `bench.COMPILED`, whose runners stand.

    Returns
    -------
    tuple
        The times, and what a user should know about them.

    Raises
    ------
    Broken
        The reference could not be timed.
    """

    def session() -> Session:
        plan = Plan(settings, final=False, most=longest(bench))
        sides = {name: bench.side(name, plan.seeds, plan.calls) for name in names}
        with observe.observing(bench.device) as watch:
            times = plan.interleave(sides, bench.between)
        return Session(times, watch, bench.recheck())

    found: Session = reference_timed(bench, session)
    return found.times, found.notes(bench)


class _Attempt:
    """The timing of one candidate."""

    def __init__(
        self,
        bench: Bench,
        runner: RunnerProcess,
        settings: dict[str, Any],
        *,
        final: bool,
        compiled: Sequence[str],
        path: str,
    ) -> None:
        self._bench = bench
        self._runner = runner
        self._settings = settings
        self._final = final
        self._names = ["eager", *(compiled if final else ())]
        self._path = path

    def run(self, weights: str, *, both_modes: bool) -> Measured:
        """Time it and hold the times against the judge's clock."""
        limit = float(self._settings["run_timeout_s"])
        timer = self._asking(
            lambda: self._bench.timer(self._runner, run_s=limit, build_s=float(self._settings["build_timeout_s"]))
        )
        session: Session = reference_timed(self._bench, lambda: self._rounds(timer, final=self._final))
        times, recheck = session.times, session.recheck
        notes = session.notes(self._bench)
        times.between = max(self._bench.between, session.watch.unlucky)
        if times.early:
            notes.append(f"Timing stopped early: it is more than {rounds.LOSER:g} times slower.")
        self._recheck(recheck, timer, weights)
        recheck = recheck.of_the_clock()
        notes += reference_timed(self._bench, lambda: self._by_the_clock(timer, times, recheck))
        # What it did while the judge held the clock must be the work as well.
        self._recheck(recheck, timer, weights)
        without = self._without_gradients(timer, weights) if both_modes else None
        return Measured(times, self._names[1:], notes, without)

    def _without_gradients(self, timer: Timer, weights: str) -> rounds.RoundTimes:
        """Time it under `torch.no_grad()`, where a candidate may be another one."""

        def recording(gradients: bool) -> None:
            with self._bench.reliably(eager := self._bench.held("eager")):
                eager.record(gradients=gradients)
            self._asking(lambda: timer.record(gradients=gradients))

        def run() -> Session:
            recording(False)
            try:
                return self._rounds(timer, final=False)
            finally:
                recording(True)

        session: Session = reference_timed(self._bench, run)
        session.times.between = max(self._bench.between, session.watch.unlucky)
        self._recheck(session.recheck, timer, weights)
        return session.times

    def _asking(self, run: Callable[[], Any]) -> Any:
        """Ask the candidate's runner; what goes wrong is the candidate's failure."""
        try:
            return run()
        except RUNNER_FAILURES as error:
            raise Failed(classify(error, "time", self._path)) from error

    def _recheck(self, recheck: Recheck, timer: Timer, weights: str) -> None:
        """Compare what was drawn; where eager's process is lost, that is no failure of the candidate's."""

        def run() -> None:
            try:
                eager = self._bench.eager_with(weights)
            except RUNNER_FAILURES as error:
                raise Broken(f"The reference could not be compared with: {error}.", "Try again.") from error
            self._asking(lambda: recheck.judge(timer, eager, self._bench.reliably))

        reference_timed(self._bench, run)

    def _rounds(self, timer: Timer, *, final: bool) -> Session:
        """Take turns; whatever fails before the candidate's turn is no fault of its own."""
        try:
            return self._session(timer, final=final)
        except RUNNER_FAILURES as error:
            raise Broken(f"The reference could not be timed: {error}.", "Try again.") from error

    def _session(self, timer: Timer, *, final: bool) -> Session:
        plan = Plan(self._settings, final=final, most=longest(self._bench))
        recheck = self._bench.recheck()

        def candidate(index: int) -> list[float]:
            def ask() -> list[float]:
                made = timer.round(plan.seeds[index], plan.calls[index] if plan.calls else 0)
                recheck.look(plan.seeds[index], made, timer)
                return made.sample.ms

            times: list[float] = self._asking(ask)
            return times

        names = self._names if final else self._names[:1]
        sides = {name: self._alone(self._bench.side(name, plan.seeds, plan.calls)) for name in names}
        sides["candidate"] = candidate
        with observe.observing(self._bench.device) as watch:
            give_up = 0 if self._final else rounds.LOSER_ROUNDS[self._bench.device]
            times = plan.interleave(sides, self._bench.between, candidate="candidate", give_up=give_up)
        self._asking(lambda: recheck.finish(timer))
        return Session(times, watch, recheck)

    def _alone(self, side: rounds.Side) -> rounds.Side:
        """Return a side during whose turns the candidate's process is stopped."""

        def turn(index: int) -> list[float]:
            with self._runner.resting():
                return side(index)

        return turn

    def _by_the_clock(self, timer: Timer, times: rounds.RoundTimes, recheck: Recheck) -> list[str]:
        """Have the judge's clock count where it allows no time as short as the reported one; returns a note of that."""
        eager, claimed = self._bench.held("eager"), times.median("candidate")

        def trusted(calls: int) -> Sample:
            with self._runner.resting(), self._bench.reliably(eager):
                return eager.by_the_clock(secrets.token_hex(8), calls).sample

        def run(calls: int) -> Sample:
            def ask() -> Sample:
                seed = secrets.token_hex(8)
                made = timer.by_the_clock(seed, calls)
                recheck.look(seed, made, timer)
                return made.sample

            sample: Sample = self._asking(ask)
            return sample

        # Only whether others keep the processors busy matters here.
        with observe.observing("cpu") as watch:
            judged = wall.judged(run, trusted, claimed, times.median("eager"), self._bench.device, fitting(self._bench))
        self._asking(lambda: recheck.finish(timer))
        agreement = wall.agreement(judged, claimed, self._bench.device, busy=watch.busy)
        if agreement is wall.Agreement.UNSURE:
            times.doubt("candidate", judged.ms / claimed)
            return [
                f"The judge's clock was unsteady: a call takes {claimed:.4g} ms, perhaps up to {judged.ms:.4g} ms. "
                "The interval says so."
            ]
        if agreement is wall.Agreement.AGREES:
            return []
        times.stretch("candidate", judged.ms / claimed)
        return [
            f"Its process reported {claimed:.4g} ms for a call, but by the judge's clock a call takes "
            f"{judged.ms:.4g} ms. The judge's clock counts."
        ]
