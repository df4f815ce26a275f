"""Hold what a candidate returned while it was timed against what the reference gives for the same inputs.

Nobody knows beforehand how many rounds there will be, so a reservoir is kept of those that are over: after any number
of rounds it is a sample of them in which each is as likely as any other, and in each of its rounds one call was drawn
after the outputs of all its calls had been pledged (sampling algorithm R, https://doi.org/10.1145/3147.3165). Whoever
leaves out the work of a share `f` of the timed calls, in whatever rounds, goes unseen with a probability of at most
`(1 - f) ** n`, where `n` is the size of the reservoir: `MOST`, or `FEWEST` for large outputs, and fewer for gigabytes
(`memory_plan`); of fewer rounds all are looked at. (The mean of products of `n` of some numbers is never above the
`n`-th power of their mean.) For 30 % of the calls that is 6 %, or 12 % for large outputs. The rounds that the judge
times by its own clock have a reservoir of their own, which holds two at least: together 3 %, or 6 %. The last round is
looked at in any case, so whoever stops working and does not begin again is always found.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..correctness import compare
from ..correctness.classify import Failed, Finding
from ..transport import tensorfile
from . import kept
from .timer import HEADER_ROOM, Round, Timer

MOST = 8
"""Calls that are compared, each of another round, besides one of the last round."""
FEWEST = 6
"""The same for outputs so large that these take more than `BYTES`."""
CLOCK = 3
"""The same for rounds that the judge times by its own clock, of which there are few."""
BYTES = 64 << 20
"""Bytes of outputs that more than `FEWEST` calls may take."""
GPU_SHARE = 16
"""On a GPU they may take one part in so many of its memory; the others wait on the host."""
FREE_SHARE = 8
"""Where there are fewer than `FEWEST`, one may take one part in so many of what is free."""


Reliably = Callable[[Timer], contextlib.AbstractContextManager[None]]
"""Around what is asked of a runner of the reference, see `bench.Bench.reliably`."""


class Seen(NamedTuple):
    """One output that was fetched."""

    seed: str
    call: int
    digest: int
    """That was pledged for it."""
    outputs: tensorfile.Loaded


@dataclass(eq=False)
class Recheck:
    """Draws calls of rounds that are over, and judges what they gave; raises `Failed` where that is wrong."""

    expected_bytes: int
    """Bytes of the outputs of one call, as the reference has them."""
    own_errors: list[float] | None
    """The reference's own rounding errors, see `compare.compare`."""
    most: int = MOST
    """Rounds that are looked at, besides the last."""
    device: str = "cpu"
    """Where the calls are made, `cpu` or `cuda`."""

    def __post_init__(self) -> None:
        self._limit = 4 * self.expected_bytes + HEADER_ROOM
        self.most = min(self.most, max(FEWEST, BYTES // max(1, self.expected_bytes)))
        self._rounds = 0
        self._seen: list[Seen] = []
        self._unseen: tuple[str, Round] | None = None

    def of_the_clock(self) -> Recheck:
        """Return another one, for the rounds that the judge times by its own clock."""
        return Recheck(self.expected_bytes, self.own_errors, min(CLOCK, self.most), self.device)

    def look(self, seed: str, made: Round, timer: Timer) -> None:
        """Take in a round that is over; perhaps fetch the output of one of its calls.

        Raises
        ------
        Failed
            It cannot be read.
        """
        self._rounds += 1
        place = len(self._seen) if len(self._seen) < self.most else secrets.randbelow(self._rounds)
        if place >= self.most:
            self._unseen = seed, made
            return
        self._unseen = None
        self._seen[place : place + 1] = [self._fetch(seed, made, timer)]

    def finish(self, timer: Timer) -> None:
        """Fetch an output of the last round as well; that it was the last nobody knew before."""
        if self._unseen is not None:
            self._seen.append(self._fetch(*self._unseen, timer))
            self._unseen = None

    def _fetch(self, seed: str, made: Round, timer: Timer) -> Seen:
        index = secrets.randbelow(len(made.pledge))
        with _readable("What it returned while timed could not be read"):
            outputs = timer.kept(index, self._limit)
        return Seen(seed, index, made.pledge[index], self._put_aside(outputs))

    def _put_aside(self, outputs: tensorfile.Loaded) -> tensorfile.Loaded:
        """Move outputs to the host where those that wait on a GPU would take much of its memory."""
        if not any(tensor.is_cuda for tensor in outputs.tensors):
            return outputs
        total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        # By the files' limit, not by what a file says of itself.
        if (self.most + 1) * self.expected_bytes * GPU_SHARE <= total:
            return outputs
        if self.most < FEWEST and self.expected_bytes * FREE_SHARE <= torch.cuda.mem_get_info()[0]:
            # There are few of them.
            return outputs
        return outputs.moved("cpu")

    def judge(self, candidate: Timer, eager: Timer, reliably: Reliably | None = None) -> None:
        """Compare all that was fetched with the reference.

        Parameters
        ----------
        candidate, eager
            Both with the same weights.
        reliably
            Around what is asked of `eager`; when that fails, this may be called again.

        Raises
        ------
        Failed
            It is not what was pledged, or not what the reference gives.
        """
        while self._seen:
            seen = self._seen[-1]
            with reliably(eager) if reliably is not None else contextlib.nullcontext():
                expected = self._alone(eager, seen.seed, seen.call)
            found = seen.outputs
            alike = _alike(expected, found)
            # A file may claim tensors of any size by strides of zero: only what has the expected sizes is written out.
            if alike and not _pledged(found, seen.digest, self.device):
                raise Failed(Finding("CHEATED", "It changed what it had returned after it was timed."))
            wrong = self._differs(expected, found)
            if wrong is None and alike:
                self._seen.pop()
                continue
            if wrong is None:
                raise Failed(Finding("CHEATED", "Its outputs while timed were not written by the judge's own code."))
            again = self._differs(expected, self._alone(candidate, seen.seed, seen.call))
            if again is not None:
                raise Failed(Finding(again.status, f"{again} (with inputs that were mixed anew for timing)"))
            raise Failed(Finding("CHEATED", f"It gave another result while it was timed: {wrong}"))

    def _alone(self, timer: Timer, seed: str, index: int) -> tensorfile.Loaded:
        with _readable("The outputs could not be read back"):
            return timer.alone(seed, index, self._limit)

    def _differs(self, expected: tensorfile.Loaded, found: tensorfile.Loaded) -> compare.Mismatch | None:
        try:
            compare.compare(expected, found, compare.Figures(), self.own_errors)
        except compare.Mismatch as error:
            return error
        return None


@contextlib.contextmanager
def _readable(words: str) -> Iterator[None]:
    """Have a file that cannot be read be the failure of who wrote it."""
    try:
        yield
    except tensorfile.Damaged as error:
        raise Failed(Finding("WRONG_SHAPE", f"{words}: {error}.")) from error


def _alike(expected: tensorfile.Loaded, found: tensorfile.Loaded) -> bool:
    """Whether there are as many tensors of each dtype and shape; their order is a matter of how a dict was filled."""
    ours, theirs = (
        sorted((str(tensor.dtype), tuple(tensor.shape)) for tensor in loaded.tensors) for loaded in (expected, found)
    )
    return ours == theirs


def _pledged(found: tensorfile.Loaded, digest: int, device: str) -> bool:
    """Whether outputs have the digest that was sent with the times."""
    try:
        return kept.digest_of(found.skeleton, found.tensors, device) == digest
    except RecursionError:
        # Our own code does not write a tree so deep.
        return False
