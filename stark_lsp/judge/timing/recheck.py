"""Hold what a candidate returned while it was timed against what the reference gives for the same inputs.

Nobody knows beforehand how many rounds there will be. The first few are looked at, and of the later ones number k with
a probability of `n / k`: what a reservoir of `n` rounds would take in, so that after any number of rounds those that
were looked at hold a sample of `n` in which each is as likely as any other (sampling algorithm R,
https://doi.org/10.1145/3147.3165). In each of them one call is drawn after the outputs of all its calls had been
pledged. Whoever leaves out the work of a share `f` of the timed calls, in whatever rounds, goes unseen with a
probability of at most `(1 - f) ** n`, where `n` is `MOST`, or `FEWEST` for large outputs, and fewer for gigabytes
(`memory_plan`); of fewer rounds all are looked at. (The mean of products of `n` of some numbers is never above the
`n`-th power of their mean.) For 30 % of the calls that is 6 %, or 12 % for large outputs. The rounds that the judge
times by its own clock are drawn from by themselves, two at least: together 3 %, or 6 %. The last round is looked at in
any case, so whoever stops working and does not begin again is always found.

What is drawn is compared at once: gigabytes of several rounds would have to wait somewhere.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import torch

from ..correctness import compare, nearby
from ..correctness.classify import Failed, Finding
from ..transport import tensorfile
from . import kept
from .timer import Round, Timer

MOST = 8
"""Calls that are compared at least, each of another round, besides one of the last round."""
FEWEST = 6
"""The same for outputs so large that these take more than `BYTES`."""
CLOCK = 3
"""The same for rounds that the judge times by its own clock, of which there are few."""
BYTES = 64 << 20
"""Bytes of outputs that more than `FEWEST` calls may take."""


Reliably = Callable[[Timer], contextlib.AbstractContextManager[None]]
"""Around what is asked of a runner of the reference, see `problem_runners.Bench.reliably`."""


@dataclass(eq=False)
class Recheck:
    """Draws calls of rounds that are over and compares what they gave.

    Its methods raise `Failed` where that is not what was pledged, or not what the reference gives.
    """

    candidate: Timer
    """Whose rounds are looked at."""
    eager: Timer
    """The reference, with the same weights."""
    expected_bytes: int
    """Bytes of the outputs of one call, as the reference has them."""
    own_errors: list[float] | None = None
    """The reference's own rounding errors, and"""
    tolerance: compare.Tolerance = compare.USUAL
    """how much room there is for them."""
    most: int = MOST
    """Rounds that are looked at whenever there are so many, besides the last."""
    device: str = "cpu"
    """Where the calls are made, `cpu` or `cuda`."""
    reliably: Reliably = lambda timer: contextlib.nullcontext()
    """Around what is asked of `eager`."""

    def __post_init__(self) -> None:
        self._limit = 4 * self.expected_bytes + tensorfile.ROOM
        self.most = min(self.most, max(FEWEST, BYTES // max(1, self.expected_bytes)))
        self._rounds = 0
        self._unseen: tuple[str, Round] | None = None

    def look(self, seed: str, made: Round) -> None:
        """Take in a round that is over; perhaps compare the output of one of its calls."""
        self._rounds += 1
        if self._rounds > self.most and secrets.randbelow(self._rounds) >= self.most:
            self._unseen = seed, made
            return
        self._unseen = None
        self._compare(seed, made)

    def finish(self) -> None:
        """Compare an output of the last round as well; that it was the last nobody knew before."""
        if self._unseen is not None:
            self._compare(*self._unseen)
            self._unseen = None

    def _compare(self, seed: str, made: Round) -> None:
        try:
            self._compared(seed, made)
        finally:
            if self.device == "cuda" and self.expected_bytes >= kept.SINGLE:
                # Two more outputs beside those of a call that is timed.
                torch.cuda.empty_cache()

    def _compared(self, seed: str, made: Round) -> None:
        call = secrets.randbelow(len(made.pledge))
        # The original first: of gigabytes it is called before the others are fetched, and not beside them.
        with self.reliably(self.eager):
            expected = self._alone(self.eager, seed, call)
        with _readable("What it returned while timed could not be read"):
            found = self.candidate.kept(call, self._limit)
        alike = _alike(expected, found)
        # A file may claim tensors of any size by strides of zero: only what has the expected sizes is written out.
        if alike and not _pledged(found, made.pledge[call], self.device):
            raise Failed(Finding("CHEATED", "It changed what it had returned after it was timed."))
        wrong = self._differs(expected, found, seed, call)
        if wrong is None and alike:
            return
        if wrong is None:
            raise Failed(Finding("CHEATED", "Its outputs while timed were not written by the judge's own code."))
        again = self._differs(expected, self._alone(self.candidate, seed, call), seed, call)
        if again is not None:
            raise Failed(Finding(again.status, f"{again} (with inputs that were mixed anew for timing)"))
        raise Failed(Finding("CHEATED", f"It gave another result while it was timed: {wrong}"))

    def _alone(self, timer: Timer, seed: str, index: int) -> tensorfile.Loaded:
        with _readable("The outputs could not be read back"):
            return timer.alone(seed, index, self._limit)

    def _differs(
        self, expected: tensorfile.Loaded, found: tensorfile.Loaded, seed: str, index: int
    ) -> compare.Mismatch | None:
        def close_by() -> Generator[tensorfile.Loaded, None, None]:
            for draw in range(1, nearby.DRAWS + 1):
                with self.reliably(self.eager), _readable("The outputs could not be read back"):
                    made = self.eager.alone(seed, index, self._limit, draw, self.tolerance.rounded_to)
                yield made

        try:
            figures, room = compare.Figures(), self.tolerance
            compare.compare(expected, found, figures, self.own_errors, tolerance=room, nearby=close_by)
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
