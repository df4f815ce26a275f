"""The runners of one problem: the reference's, kept for the whole run, and one for each candidate."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from ...contract.errors import Broken
from ..correctness import compare
from ..correctness.classify import memory_full
from ..correctness.difference import difference
from ..device.turns import Turns, Waiting
from ..inputs import constants
from ..processes.failures import RunnerError, RunnerFailure
from ..processes.pool import Pool
from ..processes.runners import RunnerProcess
from ..processes.spawning import COMPILER, RUNNER
from ..reference.loading import working_folder
from ..reference.reference import Reference
from ..transport import tensorfile
from . import intervals
from .recheck import MOST, Recheck
from .rounds import FEWEST, Plan, Side
from .timer import Timer

TWIN = "twin"
"""A second process of the eager reference."""
COMPILED = {"compile": "default", "max_autotune": "max-autotune"}
"""Sides of the reference that torch.compile makes, with its mode."""
BETWEEN = {"cpu": 0.06, "cuda": 0.003}
"""What two sessions that time the same code are assumed to differ by at first, see `intervals.between_sessions`."""
SESSIONS = 16
"""So many sessions, the latest, say what they really differ by."""


class ReferenceLost(Exception):
    """A reference runner failed in the midst of timing; no fault of the candidate."""


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
        "weights_dtype": reference.weights_dtype,
        "autocast": reference.autocast,
        "device": reference.device,
        "mode": reference.mode,
        "gradients": reference.gradients,
        "threads": threads,
        "buffers": runner.give(reference.buffers.path) if reference.buffers is not None else "",
        "folder": working_folder(),
    }


@dataclass(eq=False)
class Bench:
    """Times modules in runners, and keeps those of the reference.

    What needs one of the reference raises what `held` does.
    """

    reference: Reference
    """The prepared reference."""
    settings: dict[str, Any]
    """`core.EvaluationSettings` in wire form."""
    pool: Pool
    """Starts runners."""
    threads: int
    """CPU threads for torch and for kernels with OpenMP."""
    turns: Turns
    """Keep work on the device apart from timing, which it would disturb."""

    def __post_init__(self) -> None:
        self._sides: dict[str, Timer | None] = dict.fromkeys(("eager", TWIN, *COMPILED))
        self._compiling: dict[str, RunnerProcess] = {}
        self.gave_up = False
        """Whether nobody waits for torch.compile any more."""
        self._weights = ""
        self._picking = True
        self._resting = contextlib.ExitStack()
        self._lock = threading.RLock()
        self._begun: dict[str, Future[Timer]] = {}
        """Of `COMPILED`, what comes up."""
        self.device = self.reference.device
        """`cpu` or `cuda`."""
        self._sessions: list[float] = []
        self._apart: list[float] = []
        self.output_bytes = self.reference.cases[0].outputs.nbytes
        """Bytes that one call returns."""

    @contextlib.contextmanager
    def turn(self, waiting: Waiting | None = None) -> Iterator[None]:
        """Hold the device alone: no other run or server of this user times on it meanwhile.

        Our own processes that come up, build or compile rest as long.

        Parameters
        ----------
        waiting
            Told "GPU busy: queued, 2 ahead" whenever that changes.
        """
        with self.turns.measuring(waiting), self._lock, self._resting as resting:
            for child in self.pool.busy():
                resting.enter_context(child.resting())
            yield

    def wake(self) -> None:
        """Have those that rest go on: what is timed needs a compiler itself, and may have to wait for one of theirs."""
        self._resting.close()

    def begin(self, name: str) -> None:
        """Have one of `COMPILED` come up beside whatever goes on; it rests while something is timed."""
        ahead = ThreadPoolExecutor(1, thread_name_prefix="stark-compile")
        self._begun[name] = ahead.submit(self._start_reference, name)
        ahead.shutdown(wait=False)

    def compile(self, name: str) -> None:
        """Have torch.compile make one of `COMPILED`, beside whatever goes on; it rests while something is timed."""
        begun = self._begun.pop(name, None)
        timer = begun.result() if begun is not None else self._start_reference(name)
        with self._lock:
            self._sides[name] = timer

    def off(self, name: str) -> float:
        """Return by what share of the original's result one of `COMPILED` is off, for the first inputs; 0 if unknown.

        It is made by `compile`. Rounding, also that of half precision, is a small share of it.
        """
        timer, case, reference = self.held(name), self.reference.cases[0], self.reference
        if reference.draws or reference.plan.large:
            # It may draw other numbers; of gigabytes one more copy is too much.
            return 0.0
        path, give = os.path.join(timer.runner.files.out, "first.raw"), timer.runner.give
        if case.cotangents_path:
            # Steps that warmed it up have moved statistics, and what else a class learns in forward.
            timer.runner.ask("use_weights", run_s=timer.seconds, weights=give(reference.weights_path))
        # What is given lasts for one request.
        flows = give(case.cotangents_path) if case.cotangents_path else ""
        timer.runner.ask("forward", inputs=give(case.inputs_path), outputs=path, run_s=timer.seconds, cotangents=flows)
        with self.turns.working():
            limit = 2 * case.outputs.nbytes + tensorfile.ROOM
            found = tensorfile.load(path, limit, reference.device, timer.runner.exchange).tensors
            pairs = list(zip(case.outputs.tensors, found))
            if [(a.shape, a.dtype) for a, _ in pairs] != [(b.shape, b.dtype) for b in found]:
                return 0.0
            # Places of what is nearly equal may be others by rounding alone.
            named = zip(reference.output_names(case.outputs), pairs)
            pairs = [(a, b) for name, (a, b) in named if not name.startswith("buffer ")]
            gaps = [difference(a, b) for a, b in pairs if a.is_floating_point() or a.is_complex()]
            if not all(gap.same_pattern for gap in gaps):
                return math.inf
            size = math.hypot(*(gap.size() for gap in gaps))
            return math.hypot(*(gap.norm() for gap in gaps)) / size if size and math.isfinite(size) else 0.0

    def give_up_compiling(self) -> None:
        """End what torch.compile is at, and all that it begins; whoever waits for it is told that its process died."""
        self.gave_up = True
        for runner in list(self._compiling.values()):
            runner.strike()

    def timer(self, runner: RunnerProcess, *, run_s: float, build_s: float) -> Timer:
        """Have a loaded runner warm up and get ready to be timed."""
        timer = Timer(runner, float(self.settings["run_timeout_s"]))
        timer.hold(
            timing_inputs(self.reference),
            warmup=int(self.settings["warmup"]),
            round_ms=float(self.settings["round_ms"]),
            picking=self._picking,
            run_s=run_s,
            build_s=build_s,
        )
        return timer

    def held(self, name: str) -> Timer:
        """Return `eager` or one of `COMPILED`, its runner started when need be.

        Raises
        ------
        RunnerFailure
            The runner cannot be brought to the point where it can be timed.
        """
        with self._lock:
            timer = self._sides[name]
            if timer is None or not timer.runner.alive:
                self.drop(name)
                timer = self._sides[name] = self._start_reference(name)
            return timer

    def start_eager(self, *, at_once: bool) -> None:
        """Have the processes of eager load and call the module; what fails is tried and told when it is needed.

        Parameters
        ----------
        at_once
            Whether they do so at the same time: on few cores that makes its calls look slow.
        """

        def start(name: str) -> Timer | None:
            try:
                return self._start_reference(name)
            except RunnerFailure:
                return None

        names = self._eager_names(int(self.settings["rounds"]))
        workers = len(names) if at_once else 1
        with self._lock, ThreadPoolExecutor(workers, thread_name_prefix="stark-reference") as pool:
            self._sides.update(zip(names, pool.map(start, names)))
        self.pool.end_ahead(RUNNER)

    def eager(self, rounds: int) -> list[Timer]:
        """Return the processes of eager that take turns in so many rounds, started when need be."""
        return [self.held(name) for name in self._eager_names(rounds)]

    def _eager_names(self, rounds: int) -> list[str]:
        """Return eager's processes: with too few rounds for an interval there is nothing for a second one to widen."""
        return ["eager", TWIN] if self.reference.plan.twin and rounds >= FEWEST else ["eager"]

    def side(self, name: str, plan: Plan) -> Side:
        """Return what times one round of a plan of `eager` or of one of `COMPILED`."""
        timers = self.eager(plan.rounds) if name == "eager" else [self.held(name)]

        def once(index: int) -> list[float]:
            timer = timers[-1] if of_twin(index) else timers[0]
            with self.reliably(timer):
                made = timer.round(*plan.round(index))
                if self.reference.plan.large:
                    timer.trim()
                return made.sample.ms

        return once

    @contextlib.contextmanager
    def reliably(self, timer: Timer) -> Iterator[None]:
        """Ask a runner of the reference in the block.

        Raises
        ------
        ReferenceLost
            It failed, which no candidate can be blamed for.
        """
        try:
            yield
        except RunnerFailure as error:
            timer.runner.kill()
            raise ReferenceLost(f"{type(error).__name__}: {error}") from error

    def eager_with(self, weights: str) -> Timer:
        """Return `eager` with the weights of a file."""
        timer = self.held("eager")
        if weights != self._weights:
            with self.reliably(timer):
                limit = float(self.settings["load_timeout_s"])
                timer.runner.ask("use_weights", weights=timer.runner.give(weights), run_s=limit)
            self._weights = weights
        return timer

    @property
    def between(self) -> float:
        """Standard deviation of the logarithm of the ratio of two processes that run the same code.

        Where a process has its memory, for instance, makes it faster or slower for all of its life, so that two
        processes of the reference tell more than one; and one process differs from session to session.
        """
        lasting = abs(median(self._apart)) if self._apart else 0.0
        return max(lasting, intervals.between_sessions(self._sessions, BETWEEN[self.device]))

    def remember(self, rounds_ms: list[float]) -> None:
        """Take in how long eager took in each round of a session during which nobody else kept the machine busy."""
        self._sessions = [*self._sessions, median(rounds_ms)][-SESSIONS:]
        first = [time for index, time in enumerate(rounds_ms) if not of_twin(index)]
        second = [time for index, time in enumerate(rounds_ms) if of_twin(index)]
        if self._sides[TWIN] is not None and first and second:
            apart = math.log(median(first) / median(second))
            self._apart = [*self._apart, apart][-SESSIONS:]

    def recheck(self, candidate: Timer, weights: str, most: int = MOST) -> Recheck:
        """Return what looks at the outputs of a candidate's timed calls.

        Parameters
        ----------
        most
            See `Recheck`; of large outputs it may be fewer.
        """
        reference, looks = self.reference, min(most, self.reference.plan.looks)
        first = reference.cases[0]
        tolerance = reference.tolerance
        if first.ieee_errors is not None:
            tolerance = replace(tolerance, limit=compare.LOWER_LIMIT)
        eager = self.eager_with(weights)
        return Recheck(
            candidate, eager, self.output_bytes, first.own_errors, tolerance, looks, self.device, self.reliably
        )

    def _start_reference(self, name: str) -> Timer:
        reference = self.reference
        runner = self.pool.reference_runner(COMPILER if name in COMPILED else RUNNER)
        try:
            # What it returns then comes back through memory on the GPU.
            runner.warm_up(self.pool.gpu.result())
            self.load(runner)
            limit = float(self.settings["run_timeout_s"])
            if name in COMPILED:
                limit = float(self.settings["compile_timeout_s"])
                self._compiling[name] = runner
                if self.gave_up:
                    runner.strike()
                runner.ask("compile", mode=COMPILED[name], run_s=limit)
            timer = self.timer(runner, run_s=limit, build_s=limit)
            # Nobody doubts the original, and of gigabytes they take longer than the calls.
            timer.pledges = not reference.plan.large
        except RunnerFailure as error:
            self.pool.end(runner)
            if name == "eager" and self._picking and isinstance(error, RunnerError):
                # Its inputs may hang together in a way that elements and samples of several inputs break.
                self._picking = False
                reference.notes.append(
                    "The original does not bear parts of several inputs together: timed calls mix or repeat whole ones."
                )
                return self._start_reference(name)
            raise
        finally:
            self._compiling.pop(name, None)
        if name == "eager":
            self._weights = reference.weights_path
        return timer

    def load(self, runner: RunnerProcess) -> None:
        """Load the user's class into a runner."""
        runner.ask(
            "load_reference",
            path=self.reference.path,
            text=self.reference.text,
            qualname=self.reference.qualname,
            **loading(self.reference, runner, self.threads),
            run_s=float(self.settings["load_timeout_s"]),
            build_s=float(self.settings["load_timeout_s"]),
        )

    @contextlib.contextmanager
    def trimmed(self) -> Iterator[None]:
        """Have the reference's runners give back after the block what gigabytes hold for the next call."""
        try:
            yield
        finally:
            if self.reference.plan.large:
                with self._lock:
                    standing = [timer for timer in self._sides.values() if timer is not None and timer.runner.alive]
                for timer in standing:
                    # Whoever needs it next starts another one.
                    with contextlib.suppress(RunnerFailure):
                        timer.trim()

    def drop(self, name: str) -> None:
        """End a runner of the reference until it is needed again."""
        with self._lock:
            timer = self._sides[name]
            if timer is not None:
                self.pool.end(timer.runner)
            self._sides[name] = None


def timing_inputs(reference: Reference) -> list[str]:
    """Return the files that the inputs of timed calls are mixed from."""
    paths = [case.inputs_path for case in reference.cases[: reference.plan.sets]]
    if len(paths) > 1:
        # What is the same for every seed takes other values as well, where the reference bears them.
        paths += [case.inputs_path for case in reference.special if case.words.startswith(constants.ONLY)]
    return paths


def of_twin(index: int) -> bool:
    """Whether the second process makes this round of eager; both are as often first in a round as second."""
    return index // 2 % 2 == 1


Progress = Callable[[str, float], None]
"""Tells what begins now and how many seconds it may take at most."""


def reference_timed(run: Callable[[], Any]) -> Any:
    """Run a timing that involves reference runners; once more if one of them was lost.

    Raises
    ------
    Broken
        It was lost twice, or cannot be timed. What is asked of a candidate does not fail in this way.
    """
    try:
        with contextlib.suppress(ReferenceLost):
            return run()
        return run()
    except (ReferenceLost, RunnerFailure) as error:
        lost, full = isinstance(error, ReferenceLost), memory_full(str(error))
        cure = "Check the machine's memory and try again." if lost else "Try again."
        if full:
            cure = "Free memory on the GPU or choose another one, and go on."
        details = error.report.get("traceback", "") if isinstance(error, RunnerError) else ""
        raise Broken(f"The reference could not be timed: {full or error}.", cure, details=details) from error
