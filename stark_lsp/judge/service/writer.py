"""The process that asks Inductor what it writes for the reference."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ..device.turns import Waiting
from ..processes.failures import RunnerFailure
from ..processes.runners import RunnerProcess
from ..processes.spawning import COMPILER
from ..timing.problem_runners import Bench


class Writer:
    """One process, since Inductor may take longer than anybody waits for it.

    On a GPU it is kept for the next recipe unless the problem is large.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._lock = threading.Lock()
        self._runner: RunnerProcess | None = None
        self._begun: Future[RunnerProcess] | None = None
        self._asked: RunnerProcess | None = None

    def begin(self) -> None:
        """Have it come up beside whatever goes on; it rests while something is timed."""
        ahead = ThreadPoolExecutor(1, thread_name_prefix="stark-writer")
        self._begun = ahead.submit(self._start)
        ahead.shutdown(wait=False)

    def _start(self) -> RunnerProcess:
        bench = self._bench
        runner = bench.pool.reference_runner(COMPILER)
        try:
            bench.load(runner)
            if bench.device == "cuda":
                # On a CPU a compiler would be at work for seconds, which asking needs none of.
                runner.ask("warm_up_inductor", run_s=float(bench.settings["compile_timeout_s"]))
        except RunnerFailure:
            bench.pool.end(runner)
            raise
        return runner

    def _take(self) -> RunnerProcess:
        """Return the process, started when need be."""
        runner, self._runner = self._runner, None
        begun, self._begun = self._begun, None
        if runner is not None:
            return runner
        return begun.result() if begun is not None else self._start()

    def written(
        self,
        recipe: dict[str, Any],
        waiting: Waiting,
        begin: Callable[[], None],
        cancelled: Callable[[], bool],
    ) -> dict[str, Any]:
        """Return what torch.compile writes for the reference, see `analysis.inductor.program`; `none` says why not.

        Parameters
        ----------
        waiting, begin
            Told while others use the device, and when it is ours: on a GPU Inductor times kernels to choose among them.
        cancelled
            Whether nobody waits for it any more; `give_up` tells when it comes to be so.
        """
        bench, runner = self._bench, None
        on_gpu = bench.device == "cuda"
        keep = on_gpu and not bench.reference.plan.large
        with self._lock:
            try:
                runner = self._asked = self._take()
                if cancelled():
                    runner.strike()
                inputs = runner.give(bench.reference.cases[0].inputs_path)
                limit = float(bench.settings["compile_timeout_s"])
                with bench.turn(waiting) if on_gpu else contextlib.nullcontext():
                    begin()
                    found = dict(runner.ask("written", inputs=inputs, recipe=recipe, run_s=limit))
            except RunnerFailure as error:
                found, keep = {"none": f"{type(error).__name__}: {error}"}, False
            self._asked = None
            if keep:
                self._runner = runner
            elif runner is not None:
                bench.pool.end(runner)
        return found

    def give_up(self) -> None:
        """End what is being written: nobody waits for it any more, and others want the device."""
        asked = self._asked
        if asked is not None:
            asked.strike()
