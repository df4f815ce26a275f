"""The judge's side of one runner that is timed: rounds by both clocks, and the outputs of its calls."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import time
from typing import Any, NamedTuple

import torch

from ..processes.runners import RunnerForged, RunnerProcess
from ..transport import tensorfile
from .wall import Sample

MOST = 200
"""Calls of one round."""
DEVICE_LIMIT = 64 << 30
"""Bytes up to which outputs are compared on the device they were made on."""
LEAD_MS, MOST_LEAD_MS = 1.0, 10.0
LEAD_COSTS = 2.0
"""So many times what a call costs with all that goes with it."""
HEADER_ROOM = 1 << 20
"""Bytes of an output file besides the tensors."""


class Round(NamedTuple):
    """What one round gave."""

    sample: Sample
    pledge: list[int]
    """A digest of the output of each call, in order."""
    late: int = 0
    """Calls that were still being launched when the gate before them had opened, see `hidden`."""


class Timer:
    """A runner whose module is loaded, and what it holds for timing.

    Parameters
    ----------
    runner
        The runner.
    seconds
        Limit for one request.
    """

    def __init__(self, runner: RunnerProcess, seconds: float) -> None:
        self.runner = runner
        self._seconds = seconds
        self.calls = 1
        """Calls of a round."""
        self.launch_ms = 0.0
        """How long the processor takes to launch a call on a GPU."""
        self.lead_ms = 0.0
        """Gate before a call that the judge times by its own clock, on a GPU.

        It is longer than all that the processor does for a call, so that only the device's work adds to it.
        """

    def hold(
        self,
        inputs: list[str],
        *,
        warmup: int,
        round_ms: float,
        run_s: float,
        build_s: float,
        picking: bool = True,
    ) -> None:
        """Have it load input sets and warm up.

        Parameters
        ----------
        inputs
            Files that fresh inputs are mixed from.
        run_s, build_s
            Limits, see `RunnerProcess.ask`.
        picking
            See `fresh.Mixer`.

        Raises
        ------
        RunnerError, RunnerDied, RunnerTimedOut, RunnerFlooded, RunnerForged, RunnerExceeded
        """
        answer = self.runner.ask(
            "hold",
            inputs=[self.runner.give(path) for path in inputs],
            warmup=warmup,
            round_ms=round_ms,
            picking=picking,
            run_s=run_s,
            build_s=build_s,
        )
        calls = answer.get("calls")
        if not isinstance(calls, int) or not 1 <= calls <= MOST:
            raise self._forged("a number of calls", calls)
        cost = answer.get("cost_ms")
        if not isinstance(cost, float) or not cost >= 0.0:
            raise self._forged("the cost of a call", cost)
        launch = answer.get("launch_ms")
        if not isinstance(launch, float) or not 0.0 <= launch < math.inf:
            raise self._forged("the length of a launch", launch)
        self.calls, self.launch_ms = calls, launch
        # Who says less than is true is measured less well, to his own harm; who says more only waits.
        self.lead_ms = min(max(LEAD_MS, LEAD_COSTS * cost), MOST_LEAD_MS)

    def round(
        self, seed: str, calls: int = 0, *, flush: bool = True, empty: bool = False, lead_ms: float | None = None
    ) -> Round:
        """Time one round.

        Parameters
        ----------
        seed
            What the inputs are made from.
        calls
            How many; as many as make a round by default.
        flush, empty
            See `timed.Timed.time`.
        lead_ms
            Gate before each call, see `gate`; the usual one by default.

        Raises
        ------
        RunnerError, RunnerDied, RunnerTimedOut, RunnerFlooded, RunnerForged, RunnerExceeded
        """
        calls = calls or self.calls
        if self.runner.device == "cuda":
            _come_between()
        begin = time.perf_counter_ns()
        gate = {} if lead_ms is None else {"gate_ms": lead_ms}
        answer = self.runner.ask("time", seed=seed, calls=calls, flush=flush, empty=empty, run_s=self._seconds, **gate)
        wall_ms = (time.perf_counter_ns() - begin) / 1e6
        times, late, pledge = answer.get("ms"), answer.get("late"), answer.get("pledge")
        least = 0.0 if empty else 1e-7
        if not isinstance(times, list) or not all(isinstance(one, float) and least <= one < 1e9 for one in times):
            raise self._forged("times", times)
        # Both clocks tick at the same rate; a thousandth is room for those that do not quite.
        if len(times) != calls or sum(times) > 1.001 * wall_ms + 0.1:
            raise self._forged("times of that many calls", times)
        # One for each call, so that any of them may be drawn.
        if not isinstance(pledge, list) or len(pledge) != calls or not all(type(one) is int for one in pledge):
            raise self._forged("digests of that many outputs", pledge)
        if type(late) is not int or not 0 <= late <= calls:
            raise self._forged("a number of late calls", late)
        return Round(Sample(wall_ms, times), pledge, late)

    def sample(self, calls: int, lead_ms: float, *, empty: bool = False) -> Sample:
        """Time a round with warm caches and inputs of its own."""
        return self.round(secrets.token_hex(8), calls, flush=False, empty=empty, lead_ms=lead_ms).sample

    def kept(self, index: int, limit: int) -> tensorfile.Loaded:
        """Return what call `index` of the last round returned.

        Parameters
        ----------
        limit
            Largest file in bytes that is accepted.

        Raises
        ------
        tensorfile.Damaged
            It cannot be read, or is longer.
        """
        return self._outputs("kept", limit, index=index)

    def alone(self, seed: str, index: int, limit: int) -> tensorfile.Loaded:
        """Return what one call of a round returns when it is made once more, untimed.

        Raises
        ------
        tensorfile.Damaged
        """
        return self._outputs("alone", limit, seed=seed, index=index)

    def tails_ms(self, calls: int) -> list[tuple[float, float]]:
        """Return for some calls how long their stream took, and how much longer the whole device."""
        answer = self.runner.ask("tails", seed=secrets.token_hex(8), calls=calls, run_s=self._seconds).get("ms")
        if not isinstance(answer, list):
            raise self._forged("times", answer)
        try:
            return [(float(done), float(tail)) for done, tail in answer]
        except (TypeError, ValueError, OverflowError):
            raise self._forged("times", answer) from None

    def _outputs(self, command: str, limit: int, **params: Any) -> tensorfile.Loaded:
        path = os.path.join(self.runner.files.out, f"timed-{secrets.token_hex(4)}.raw")
        try:
            self.runner.ask(command, outputs=path, run_s=self._seconds, **params)
            # By the limit, which is the same for all sides, so that what is compared lies in one place.
            device = self.runner.device if limit <= DEVICE_LIMIT else "cpu"
            return tensorfile.load(path, limit, device, self.runner.exchange)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def _forged(self, what: str, found: Any) -> RunnerForged:
        self.runner.kill()
        return RunnerForged(f"{what} that are none: {str(found)[:100]}")


def _come_between() -> None:
    """Use the GPU from this process, so that it serves another one than the runner in between (`clock.FRESH`)."""
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
