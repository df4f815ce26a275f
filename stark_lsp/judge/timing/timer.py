"""The judge's side of one runner that is timed: rounds by both clocks, and the outputs of its calls."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..processes.failures import RunnerForged
from ..processes.runners import RunnerProcess
from ..transport import tensorfile
from .kept import MOST
from .wall import Sample

DEVICE_LIMIT = 64 << 30
"""Bytes up to which outputs are compared on the device they were made on."""


class Round(NamedTuple):
    """What one round gave."""

    sample: Sample
    pledge: list[int]
    """A digest of the output of each call, in order."""


@dataclass(eq=False)
class Timer:
    """A runner whose module is loaded, and what it holds for timing; asking it may raise `RunnerFailure`, and
    `tensorfile.Damaged` where outputs cannot be read or are too long.
    """

    runner: RunnerProcess
    """The runner."""
    seconds: float
    """Limit for one request."""

    def __post_init__(self) -> None:
        self.calls = 1
        """Calls of a round."""
        self.pledges = True
        """Whether it sends digests of what its calls return."""

    def hold(self, inputs: list[str], **how: Any) -> None:
        """Have it load files that inputs are mixed from, and warm up, see `Timed.hold` and `RunnerProcess.ask`."""
        answer = self.runner.ask("hold", inputs=[self.runner.give(path) for path in inputs], **how)
        calls = answer.get("calls")
        if not isinstance(calls, int) or not 1 <= calls <= MOST:
            raise self._forged("a number of calls", calls)
        self.calls = calls

    def round(self, seed: str, calls: int = 0, *, flush: bool = True, pledge: bool = False) -> Round:
        """Time one round, see `timed.Timed.time`.

        Parameters
        ----------
        calls
            As many as make a round by default.
        pledge
            Have digests made also where they are of no use.
        """
        calls, pledges = calls or self.calls, pledge or self.pledges
        if self.runner.device == "cuda":
            _come_between()
        begin = time.perf_counter_ns()
        how = {"flush": flush, "pledge": pledges}
        answer = self.runner.ask("time", seed=seed, calls=calls, **how, run_s=self.seconds, timed=True)
        wall_ms = (time.perf_counter_ns() - begin) / 1e6
        self.runner.look()
        times, digests = answer.get("ms"), answer.get("pledge")
        if not isinstance(times, list) or not all(isinstance(one, float) and 1e-7 <= one < 1e9 for one in times):
            raise self._forged("times", times)
        # Both clocks tick at the same rate; a thousandth is room for those that do not quite.
        if len(times) != calls or sum(times) > 1.001 * wall_ms + 0.1:
            raise self._forged("times of that many calls", times)
        # One for each call, so that any of them may be drawn.
        pledged = calls if pledges else 0
        if not isinstance(digests, list) or len(digests) != pledged or not all(type(one) is int for one in digests):
            raise self._forged("digests of that many outputs", digests)
        return Round(Sample(wall_ms, times), digests)

    def by_the_clock(self, seed: str, calls: int) -> Round:
        """Make a round that the judge times by its own clock.

        On a GPU it is as others are, since emptying the caches hides some of what launching a call takes. On a CPU the
        caches stay warm: emptying them takes longer than most calls.
        """
        return self.round(seed, calls, flush=self.runner.device == "cuda", pledge=True)

    def trim(self) -> None:
        """Have memory given back that is held for the next call."""
        self.runner.ask("trim", run_s=self.seconds)

    def record(self, *, gradients: bool, backward: bool = False) -> None:
        """Have further calls be timed where gradients are recorded, or under `torch.no_grad()`.

        Parameters
        ----------
        backward
            Have backward follow each of them.
        """
        # Backward leaves much behind that calls without it have no use for.
        self.trim()
        self.runner.ask("record", gradients=gradients, backward=backward, run_s=self.seconds)

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

    def alone(self, seed: str, index: int, limit: int, moved: int = 0, autocast: str = "") -> tensorfile.Loaded:
        """Return what one call of a round returns when it is made once more, untimed.

        Parameters
        ----------
        moved
            Draw of inputs close by to take instead, 0 for none, and
        autocast
            what they are cast to: see `correctness.nearby`.
        """
        return self._outputs("alone", limit, seed=seed, index=index, moved=moved, autocast=autocast)

    def _outputs(self, command: str, limit: int, **params: Any) -> tensorfile.Loaded:
        path = os.path.join(self.runner.files.out, f"timed-{secrets.token_hex(4)}.raw")
        try:
            self.runner.ask(command, outputs=path, run_s=self.seconds, **params)
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
