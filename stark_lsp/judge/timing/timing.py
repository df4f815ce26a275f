"""Time a verified candidate, taking turns with the reference, and see that its times can be true."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...contract.errors import Broken
from ..device import observe
from ..device.slots import Waiting
from ..processes.runners import RUNNER_FAILURES, RunnerProcess
from ..service.classify import Finding, classify
from ..service.failed import Failed
from ..service.problem_runners import Bench, reference_timed, spin_limit
from . import contexts, hidden, rounds, wall
from .recheck import Recheck
from .session import Plan, Session, covered, fitting, longest
from .several import PROCESSES, SeveralTimes, Times, worthwhile
from .timer import Timer
from .wall import Sample

_FIGURES = re.compile(r"[0-9]+([.,][0-9]+)*(e[-+]?[0-9]+)?")
TAILS = 4
"""Calls that are looked at for work on other streams."""
TAIL_MS = 0.05
"""Waiting for a device that is done already takes less than this."""


class Measured:
    """What timing one candidate gave.

    Parameters
    ----------
    times
        Times of all sides.
    beside
        Which of `bench.COMPILED` were among them.
    notes
        What a user should know about these times.
    """

    def __init__(self, times: Times, beside: Sequence[str], notes: list[str]) -> None:
        self.times = times
        self.beside = tuple(beside)
        self.notes = notes


class Memory:
    """How fast the device writes, for the fastest time that can be true.

    Parameters
    ----------
    bytes_per_s
        Measured bandwidth of its memory.
    cache_bytes
        Size of its last-level cache.
    """

    def __init__(self, bytes_per_s: float, cache_bytes: int) -> None:
        self.bytes_per_s = bytes_per_s
        self.cache_bytes = cache_bytes


def measure(
    bench: Bench,
    runner: RunnerProcess,
    settings: dict[str, Any],
    *,
    final: bool,
    compiled: Sequence[str],
    path: str,
    weights: str,
    waiting: Waiting | None = None,
    begin: Callable[[], None] | None = None,
    memory: Memory | None = None,
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
    waiting
        Told while others use the device.
    begin
        Told when the device is ours.
    memory
        What the device's memory was measured to do, None if it was not.

    Raises
    ------
    Failed
        The candidate failed while it was timed, or its times or outputs were not true.
    Broken
        The reference could not be timed.
    """
    attempt = _Attempt(bench, runner, settings, final=final, compiled=compiled, path=path)
    with bench.turn(waiting):
        if begin is not None:
            begin()
        return attempt.run(weights, memory)


def elsewhere(first: Measured, again: Callable[[], Measured]) -> Measured:
    """Time a candidate in further processes, where it matters which one its calls run in.

    Parameters
    ----------
    first
        What the first one gave.
    again
        Times it in another process.
    """
    if not isinstance(first.times, rounds.RoundTimes) or not worthwhile(first.times):
        return first
    every = [first, *(again() for _ in range(PROCESSES - 1))]
    times = SeveralTimes([one.times for one in every if isinstance(one.times, rounds.RoundTimes)])
    return Measured(times, first.beside, [*_by_words(note for one in every for note in one.notes), times.note()])


def _by_words(notes: Iterable[str]) -> list[str]:
    """Return the first of all notes that differ by their figures only."""
    found: dict[str, str] = {}
    for note in notes:
        found.setdefault(_FIGURES.sub("0", note), note)
    return list(found.values())


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

    def session(tally: hidden.Tally) -> Session:
        plan = Plan(settings, final=False, most=longest(bench))
        sides = {name: bench.side(name, plan.seeds, tally, plan.calls) for name in names}
        with observe.observing(bench.device) as watch:
            times = plan.interleave(sides, bench.between)
        return Session(times, watch, tally, bench.recheck(), {name: bench.held(name).launch_ms for name in names})

    found: Session = reference_timed(bench, lambda: covered(bench, names, session))
    return found.times, found.notes(bench)


def _resting(side: rounds.Side, idle: wall.Idle) -> rounds.Side:
    """Return a side during whose turns the candidate must rest."""
    return lambda index: idle.during(lambda: side(index))


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

    def run(self, weights: str, memory: Memory | None) -> Measured:
        """Time it and hold the times against everything known."""
        limit = float(self._settings["run_timeout_s"])
        timer = self._asking(
            lambda: self._bench.timer(self._runner, run_s=limit, build_s=float(self._settings["build_timeout_s"]))
        )
        threads = wall.thread_count(self._runner.pid)
        session: Session = reference_timed(self._bench, lambda: self._rounds(timer))
        times, recheck = session.times, session.recheck
        notes = self._told(session, timer)
        self._at_rest(threads)
        self._recheck(recheck, timer, weights)
        recheck = recheck.of_the_clock()
        gate_ms = session.tally.gate_ms or 0.0
        notes += reference_timed(
            self._bench, lambda: self._hold_against_the_clock(timer, times, memory, recheck, gate_ms)
        )
        # What it did while the judge held the clock must be the work as well.
        self._recheck(recheck, timer, weights)
        return Measured(times, self._names[1:], notes)

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

    def _rounds(self, timer: Timer) -> Session:
        """Take turns; whatever fails before the candidate's turn is no fault of its own."""
        try:
            return covered(self._bench, self._names, lambda tally: self._session(timer, tally))
        except RUNNER_FAILURES as error:
            raise Broken(f"The reference could not be timed: {error}.", "Try again.") from error

    def _session(self, timer: Timer, tally: hidden.Tally) -> Session:
        plan = Plan(self._settings, final=self._final, most=longest(self._bench))
        recheck = self._bench.recheck()

        def candidate(index: int) -> list[float]:
            def ask() -> list[float]:
                made = timer.round(plan.seeds[index], plan.calls[index] if plan.calls else 0, lead_ms=tally.gate_ms)
                tally.add("candidate", made.late, len(made.sample.ms))
                recheck.look(plan.seeds[index], made, timer)
                return made.sample.ms

            times: list[float] = self._asking(ask)
            return times

        idle = wall.Idle(self._runner.pid)
        sides = {name: _resting(self._bench.side(name, plan.seeds, tally, plan.calls), idle) for name in self._names}
        sides["candidate"] = candidate
        with observe.observing(self._bench.device) as watch:
            give_up = 0 if self._final else rounds.LOSER_ROUNDS[self._bench.device]
            times = plan.interleave(sides, self._bench.between, candidate="candidate", give_up=give_up)
        self._asking(lambda: recheck.finish(timer))
        busy = idle.busy()
        # Where the user has threads spin, they spin into the turns of others.
        if busy and spin_limit(os.environ):
            raise Failed(
                Finding("CHEATED", f"Its process went on working ({busy:.1f} CPUs) while the original was timed.")
            )
        launch_ms = {name: self._bench.held(name).launch_ms for name in self._names}
        return Session(times, watch, tally, recheck, {**launch_ms, "candidate": timer.launch_ms})

    def _told(self, session: Session, timer: Timer) -> list[str]:
        """Return what a user should know about the times."""
        times = session.times
        notes = session.notes(self._bench)
        times.between = max(self._bench.between, session.watch.unlucky)
        if session.tally.hid("eager"):
            notes += hidden.waiting_counts(session.launch_ms["eager"], timer.launch_ms, times.median("eager"))
        launches = {"candidate": self._runner.launch_us, **self._bench.launches(self._names)}
        chance = (contexts.unlike(each, self._bench.launch_us, name) for name, each in launches.items())
        notes += [note for note in chance if note is not None]
        if times.early:
            notes.append(f"Timing stopped early: it is more than {rounds.LOSER:g} times slower.")
        return notes

    def _at_rest(self, threads: int) -> None:
        """See that nothing goes on in the candidate's process while it waits."""
        busy = wall.still_working(self._runner.pid)
        if busy:
            more = wall.thread_count(self._runner.pid) - threads
            text = f", {more} of them new" if more > 0 else ""
            raise Failed(
                Finding("CHEATED", f"Its threads{text} went on working ({busy:.1f} CPUs) after its calls had returned.")
            )

    def _hold_against_the_clock(
        self, timer: Timer, times: rounds.RoundTimes, memory: Memory | None, recheck: Recheck, gate_ms: float
    ) -> list[str]:
        """Accuse a candidate whose times cannot be true; returns what is to be known of times that were corrected.

        Parameters
        ----------
        gate_ms
            What hid its launches when these times were taken; no less hides them here.
        """
        device, median_ms = self._bench.device, times.median("candidate")
        if memory is not None:
            floor = wall.floor_ms(self._bench.output_bytes, memory.cache_bytes, memory.bytes_per_s)
            text = wall.too_fast(median_ms, floor)
            if text:
                raise Failed(Finding("CHEATED", text))
        eager = self._bench.held("eager")
        lead_ms = max(timer.lead_ms, eager.lead_ms, gate_ms) if device == "cuda" else 0.0

        def empty(calls: int) -> Sample:
            with self._bench.reliably(eager):
                return eager.sample(calls, lead_ms, empty=True)

        def run(calls: int) -> Sample:
            def ask() -> Sample:
                seed = secrets.token_hex(8)
                made = timer.round(seed, calls, flush=False, lead_ms=lead_ms)
                recheck.look(seed, made, timer)
                return made.sample

            sample: Sample = self._asking(ask)
            return sample

        def own_empty(calls: int) -> Sample:
            recheck.forget()
            sample: Sample = self._asking(lambda: timer.sample(calls, lead_ms, empty=True))
            return sample

        most = fitting(self._bench)
        # Only whether others keep the processors busy matters here.
        with observe.observing("cpu") as watch:
            text = wall.accusation(run, empty, own_empty, device, median_ms, lead_ms, most=most)
        if text is not None and watch.busy:
            text = wall.accusation(run, empty, own_empty, device, median_ms, lead_ms, wall.BUSY, most)
        if text is None and device == "cuda":
            text = self._tails(timer, median_ms)
        if text:
            raise Failed(Finding("CHEATED", text))
        found = [] if device == "cuda" else self._by_the_clock(run, empty, times, most)
        self._asking(lambda: recheck.finish(timer))
        return found

    def _by_the_clock(self, run: wall.Run, empty: wall.Run, times: rounds.RoundTimes, most: int) -> list[str]:
        """Have the judge's clock count where it allows no time as short as the reported one."""
        claimed = times.median("candidate")
        with observe.observing("cpu") as watch:
            judged = wall.judged_ms(run, empty, claimed, most)
        factor = judged / claimed
        if factor <= wall.AGREE["busy" if watch.busy else "quiet"]:
            return []
        text = f"reported {claimed:.4g} ms for a call, but by the judge's clock a call takes {judged:.4g} ms."
        if factor > wall.FORGED and not watch.busy:
            raise Failed(Finding("CHEATED", f"It {text}"))
        times.stretch("candidate", factor)
        return [f"Its process {text} The judge's clock counts."]

    def _tails(self, timer: Timer, median_ms: float) -> str | None:
        """Say that work goes on after the candidate's stream is done, None if it does not."""
        least = float("inf")
        for _ in range(wall.MOST):
            tails: list[tuple[float, float]] = self._asking(lambda: timer.tails_ms(TAILS))
            least = min([least, *(tail for _, tail in tails)])
            if least <= max(TAIL_MS, 0.3 * median_ms):
                return None
        return (
            f"Work went on for {least:.3g} ms after its stream was done: a call must wait for work that it starts on "
            "other streams."
        )
