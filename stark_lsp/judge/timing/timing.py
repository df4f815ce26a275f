"""Time a verified candidate, taking turns with the reference, and hold its times against the judge's clock."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...contract.errors import Broken
from ..correctness.classify import Failed, classify
from ..device import observe
from ..processes.failures import RunnerFailure
from ..processes.runners import RunnerProcess
from . import clock, kept, rounds, wall
from .problem_runners import Bench, reference_timed
from .recheck import CLOCK
from .timer import Timer
from .wall import Sample

BACKWARD_MS = 1000.0
"""Calls that take longer are not timed with backward, which would take minutes."""
FORGIVEN = ("OUT_OF_MEMORY", "RUNTIME_ERROR")
"""What may end timing with backward, of which several processes at once hold the memory: nobody is judged by it."""


@dataclass(eq=False)
class Measured:
    """What timing one candidate gave."""

    times: rounds.RoundTimes
    """Times of all sides."""
    beside: Sequence[str]
    """Which of `problem_runners.COMPILED` were among them."""
    notes: list[str]
    """What a user should know about these times."""
    without_gradients: rounds.RoundTimes | None = None
    """Times of eager and the candidate under `torch.no_grad()`, where the others are of calls that record gradients."""
    with_backward: rounds.RoundTimes | None = None
    """The same with backward after each call."""

    def to_wire(self) -> dict[str, Any]:
        """Return what `core.Verdict` tells of times, in wire form."""
        times = self.times
        beside = {name: (times.timing(name), times.ratio(name, "candidate")) for name in self.beside}
        compiled, max_autotuned = (beside.get(name, (None, None)) for name in ("compile", "max_autotune"))
        return {
            "runtime": times.timing("candidate"),
            "eager": times.timing("eager"),
            "speedup_vs_eager": times.ratio("eager", "candidate"),
            **{
                f"speedup_{name}": other.ratio("eager", "candidate") if other else None
                for name, other in (
                    ("without_gradients", self.without_gradients),
                    ("with_backward", self.with_backward),
                )
            },
            "compiled": compiled[0],
            "speedup_vs_compile": compiled[1],
            "max_autotuned": max_autotuned[0],
            "speedup_vs_max_autotune": max_autotuned[1],
        }


@dataclass(eq=False)
class Session:
    """What one session of timing gave."""

    times: rounds.RoundTimes
    watch: observe.Watch

    def notes(self, bench: Bench) -> list[str]:
        """Have the bench learn from the session, and return what a user should know about it."""
        if not self.times.early and not self.watch.unlucky:
            # How much sessions differ.
            bench.remember(self.times.rounds_ms("eager"))
        return list(self.watch.notes)


def baselines(bench: Bench, settings: dict[str, Any], names: list[str]) -> tuple[rounds.RoundTimes, list[str]]:
    """Time the reference itself; to be called with the device held (`Bench.turn`).

    Parameters
    ----------
    names
        `eager` and perhaps some of `problem_runners.COMPILED`, whose runners stand.

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
        plan = rounds.Plan.of(settings, final=False, most=_longest(bench))
        sides = {name: bench.side(name, plan) for name in names}
        with observe.observing(bench.device) as watch:
            times = rounds.interleave(sides, plan)
        return Session(times, watch)

    with bench.trimmed():
        found: Session = reference_timed(session)
    return found.times, found.notes(bench)


@dataclass(eq=False)
class Timing:
    """The timing of one candidate, interleaved with eager (and what torch.compile made), while the device is held."""

    bench: Bench
    runner: RunnerProcess
    settings: dict[str, Any]
    """`core.EvaluationSettings` in wire form."""
    final: bool
    """Time it longer."""
    compiled: Sequence[str]
    """Which of `problem_runners.COMPILED` it is timed beside, if it is final."""
    path: str
    """The candidate file, for the lines of messages."""
    weights: str
    """File of the weights that the candidate has now."""

    def run(self) -> Measured:
        """Time it and hold the times against the judge's clock; what is final also without gradients and with backward.

        Raises
        ------
        Failed
            The candidate failed while it was timed, or its outputs were not what the reference gives.
        Broken
            The reference could not be timed.
        """
        limit = float(self.settings["run_timeout_s"])
        with self._asking():
            timer = self.bench.timer(self.runner, run_s=limit, build_s=float(self.settings["build_timeout_s"]))
        session: Session = reference_timed(lambda: self._rounds(timer, final=self.final))
        times = session.times
        notes = session.notes(self.bench)
        times.between = max(self.bench.between, session.watch.unlucky)
        if times.early:
            notes.append(f"Timing stopped early: it is more than {rounds.LOSER:g} times slower.")
        made, asked = sum(map(len, times.calls["candidate"])), int(self.settings.get("timed_calls", 0))
        if made < asked:
            notes.append(f"{made} instead of {asked} calls were timed, for as long as timing may take.")
        notes += reference_timed(lambda: self._by_the_clock(timer, times))
        reference = self.bench.reference
        without = self._otherwise(timer, gradients=False) if self.final and reference.differentiable else None
        soon = reference.backward is not None and times.median("eager") <= BACKWARD_MS
        trained = self._with_backward(timer) if self.final and soon else None
        return Measured(times, self.compiled, notes, without, trained)

    def _with_backward(self, timer: Timer) -> rounds.RoundTimes | None:
        """Time it with backward, which who trains waits for too; None where that takes more memory than there is."""
        try:
            return self._otherwise(timer, backward=True)
        except Broken:
            return None
        except Failed as failure:
            if failure.finding.status not in FORGIVEN:
                raise
            return None

    def _otherwise(self, timer: Timer, *, gradients: bool = True, backward: bool = False) -> rounds.RoundTimes:
        """Time calls that are made in another way, see `Timer.record`."""
        count = self._plan(final=False).rounds

        def recording(gradients: bool, backward: bool) -> None:
            for eager in self.bench.eager(count):
                with self.bench.reliably(eager):
                    eager.record(gradients=gradients, backward=backward)
            with self._asking():
                timer.record(gradients=gradients, backward=backward)

        def run() -> Session:
            recording(gradients, backward)
            try:
                return self._rounds(timer, final=False)
            finally:
                recording(True, False)

        session: Session = reference_timed(run)
        session.times.between = max(self.bench.between, session.watch.unlucky)
        return session.times

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Ask the candidate's runner in the block; what goes wrong is the candidate's failure."""
        try:
            yield
        except RunnerFailure as error:
            raise Failed(classify(error, "time", self.path)) from error

    def _plan(self, *, final: bool) -> rounds.Plan:
        return rounds.Plan.of(self.settings, final=final, most=_longest(self.bench))

    def _rounds(self, timer: Timer, *, final: bool) -> Session:
        """Take turns."""
        plan = self._plan(final=final)
        recheck = self.bench.recheck(timer, self.weights)

        def candidate(index: int) -> list[float]:
            with self._asking():
                made = timer.round(*plan.round(index))
                recheck.look(plan.seeds[index], made)
                return made.sample.ms

        names = ("eager", *self.compiled) if final else ("eager",)
        sides = {name: self._alone(self.bench.side(name, plan)) for name in names}
        sides["candidate"] = candidate
        with observe.observing(self.bench.device) as watch:
            give_up = 0 if self.final else rounds.LOSER_ROUNDS[self.bench.device]
            times = rounds.interleave(sides, plan, give_up=give_up)
        with self._asking():
            recheck.finish()
        return Session(times, watch)

    def _alone(self, side: rounds.Side) -> rounds.Side:
        """Return a side during whose turns the candidate's process is stopped."""

        def turn(index: int) -> list[float]:
            with self.runner.resting():
                return side(index)

        return turn

    def _by_the_clock(self, timer: Timer, times: rounds.RoundTimes) -> list[str]:
        """Have the judge's clock count where it allows no time as short as the reported one; returns a note of that."""
        eager, claimed = self.bench.held("eager"), times.median("candidate")
        # What it does while the judge holds the clock must be the work as well.
        recheck = self.bench.recheck(timer, self.weights, CLOCK)

        def trusted(calls: int) -> Sample:
            with self.runner.resting(), self.bench.reliably(eager):
                return eager.by_the_clock(secrets.token_hex(8), calls).sample

        def run(calls: int) -> Sample:
            seed = secrets.token_hex(8)
            with self._asking():
                made = timer.by_the_clock(seed, calls)
                recheck.look(seed, made)
                return made.sample

        # Only whether others keep the processors busy matters here.
        with observe.observing("cpu") as watch:
            judged = wall.judged(run, trusted, claimed, times.median("eager"), self.bench.device, _fitting(self.bench))
        with self._asking():
            recheck.finish()
        agreement = wall.agreement(judged, claimed, self.bench.device, busy=watch.busy)
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


def _fitting(bench: Bench) -> int:
    """Return how many calls of a round all have their outputs kept."""
    return kept.fitting(bench.device, bench.output_bytes)


def _longest(bench: Bench) -> int:
    """Return how many calls a round may have that is timed with empty caches."""
    return min(_fitting(bench), clock.FRESH) if bench.device == "cuda" else _fitting(bench)
