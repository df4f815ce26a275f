"""The runners of one problem: the reference's, kept for the whole run, and one for each candidate."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from . import fingerprint
from .children import Children
from .errors import Broken
from .reference import Reference
from .rounds import Side
from .runners import RUNNER_FAILURES, RunnerForged, RunnerProcess

SETS = 3
"""Input sets that timed calls rotate through."""
SETS_LIMIT = 1 << 30
"""Bytes of inputs that a runner holds for timing; one set is held in any case."""


def spin_limit(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what keeps OpenMP threads from spinning for milliseconds where they wait for each other.

    GNU OpenMP spins 300,000 times by default, some 4 ms; when two threads of a region land on one core, each
    region then takes a scheduler tick. A user's own policy is left as it is.
    """
    if "OMP_WAIT_POLICY" in environ or "GOMP_SPINCOUNT" in environ:
        return {}
    return {"GOMP_SPINCOUNT": "5000"}


class ReferenceLost(Exception):
    """A reference runner failed in the midst of timing; no fault of the candidate."""


def runner_environment(device: str, threads: int, cache_dir: str) -> dict[str, str]:
    """Return the environment that all children of a judge start from.

    Parameters
    ----------
    threads
        CPU threads for torch and for kernels with OpenMP.
    cache_dir
        Folder that is kept between runs.
    """
    jobs = str(max(1, min(4, os.cpu_count() or 1)))
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        **spin_limit(os.environ),
        "MAX_JOBS": os.environ.get("MAX_JOBS", jobs),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache_dir, "inductor"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    arch = fingerprint.architecture(device)
    if arch:
        environment["TORCH_CUDA_ARCH_LIST"] = arch
    return environment


class Bench:
    """Times modules in runners, and keeps those of the reference.

    Parameters
    ----------
    reference
        The prepared reference.
    settings
        `core.EvaluationSettings` in wire form.
    children
        Starts runners.
    threads
        CPU threads for torch and for kernels with OpenMP.
    """

    def __init__(self, reference: Reference, settings: dict[str, Any], children: Children, threads: int) -> None:
        self._reference = reference
        self._settings = settings
        self._children = children
        self._threads = threads
        self._sides: dict[str, RunnerProcess | None] = {"eager": None, "compile": None}

    def timing_inputs(self) -> list[str]:
        """Return the input files that timed calls rotate through."""
        paths = [case.inputs_path for case in self._reference.cases[:SETS]]
        while len(paths) > 1 and sum(os.path.getsize(path) for path in paths) > SETS_LIMIT:
            paths.pop()
        return paths

    def hold(self, runner: RunnerProcess, *, run_s: float, build_s: float) -> None:
        """Have a loaded runner warm up and get ready to be timed."""
        runner.ask(
            "hold",
            inputs=[runner.give(path) for path in self.timing_inputs()],
            warmup=int(self._settings["warmup"]),
            round_ms=float(self._settings["round_ms"]),
            run_s=run_s,
            build_s=build_s,
        )

    def side(self, name: str) -> Side:
        """Return what times one round of `eager` or `compile`, its runner started when need be.

        Raises
        ------
        RunnerError, RunnerDied, RunnerTimedOut
            The runner cannot be brought to the point where it can be timed.
        """
        runner = self._sides[name]
        if runner is None or not runner.alive:
            self._children.end(runner)
            self._sides[name] = None
            runner = self._start_reference(name)
            self._sides[name] = runner
        return self._timed(runner)

    def _timed(self, runner: RunnerProcess) -> Side:
        def once() -> list[float]:
            try:
                return time_round(runner, float(self._settings["run_timeout_s"]))
            except RUNNER_FAILURES as error:
                runner.kill()
                raise ReferenceLost(f"{type(error).__name__}: {error}") from error

        return once

    def _start_reference(self, name: str) -> RunnerProcess:
        reference = self._reference
        runner = self._children.reference_runner()
        try:
            runner.ask(
                "load_reference",
                path=reference.path,
                text=reference.text,
                qualname=reference.qualname,
                init=runner.give(reference.init_path),
                weights=runner.give(reference.weights_path),
                device=reference.device,
                mode=reference.mode,
                threads=self._threads,
                environment={},
                run_s=float(self._settings["load_timeout_s"]),
                build_s=float(self._settings["load_timeout_s"]),
            )
            limit = float(self._settings["run_timeout_s"])
            if name == "compile":
                limit = float(self._settings["compile_timeout_s"])
                runner.ask("compile", run_s=limit)
            self.hold(runner, run_s=limit, build_s=limit)
        except RUNNER_FAILURES:
            self._children.end(runner)
            raise
        return runner

    def drop(self, name: str) -> None:
        """End a reference runner until it is needed again."""
        self._children.end(self._sides[name])
        self._sides[name] = None


def time_round(runner: RunnerProcess, seconds: float) -> list[float]:
    """Time one round of a runner; returns milliseconds of each call.

    Raises
    ------
    RunnerError, RunnerDied, RunnerTimedOut, RunnerFlooded, RunnerForged
    """
    times = runner.ask("time", run_s=seconds).get("ms")
    if not isinstance(times, list) or not times or not all(isinstance(t, float) and 0.0 < t < 1e9 for t in times):
        runner.kill()
        raise RunnerForged(f"times that are no times: {str(times)[:100]}")
    return times


Progress = Callable[[str, float], None]
"""Tells what begins now and how many seconds it may take at most."""


def reference_timed(bench: Bench, run: Callable[[], Any]) -> Any:
    """Run a timing that involves reference runners; once more if one of them was lost.

    Raises
    ------
    Broken
        It was lost twice.
    """
    try:
        return run()
    except ReferenceLost:
        pass
    try:
        return run()
    except ReferenceLost as error:
        raise Broken(
            f"The reference could not be timed: {error}.", "Check the machine's memory and try again."
        ) from error
