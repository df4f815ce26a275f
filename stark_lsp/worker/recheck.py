"""Hold what a candidate returned while it was timed against what the reference gives for the same inputs."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from . import compare, kept, tensorfile
from .classify import Finding
from .failed import Failed
from .timer import HEADER_ROOM, Round, Timer

SURE = 3
"""One of the first rounds is looked at in any case; which of them nobody knows before it is over."""
SHARE = 4
"""Of the others, about one in so many."""
BYTES = 32 << 20
"""Bytes of outputs that are looked at beyond the first."""
MOST = 5
"""Calls that are looked at."""


class Seen(NamedTuple):
    """One output that was fetched."""

    seed: str
    call: int
    outputs: tensorfile.Loaded


class Recheck:
    """Draws calls of rounds that are over, and judges what they gave.

    Parameters
    ----------
    expected_bytes
        Bytes of the outputs of one call, as the reference has them.
    own_errors
        The reference's own rounding errors, see `compare.compare`.
    """

    def __init__(self, expected_bytes: int, own_errors: list[float] | None) -> None:
        self._limit = 4 * expected_bytes + HEADER_ROOM
        self._bytes = max(1, expected_bytes)
        self._own_errors = own_errors
        self._sure = secrets.randbelow(SURE)
        self._seen: list[Seen] = []
        self._unseen: tuple[str, Round] | None = None

    def look(self, number: int, seed: str, made: Round, timer: Timer) -> None:
        """Take in a round that is over; perhaps fetch the output of one of its calls.

        Raises
        ------
        Failed
            It is not what was pledged, or cannot be read.
        """
        more = len(self._seen) < MOST and len(self._seen) * self._bytes < BYTES
        if number == self._sure or (more and secrets.randbelow(SHARE) == 0):
            self._fetch(seed, made, timer)
        else:
            self._unseen = seed, made

    def finish(self, timer: Timer) -> None:
        """Fetch an output of the last round as well; that it was the last nobody knew before.

        Raises
        ------
        Failed
        """
        if self._unseen is not None and len(self._seen) * self._bytes < BYTES:
            self._fetch(*self._unseen, timer)

    def _fetch(self, seed: str, made: Round, timer: Timer) -> None:
        self._unseen = None
        index = secrets.randbelow(len(made.pledge))
        try:
            outputs = timer.kept(index, self._limit)
        except tensorfile.Damaged as error:
            raise Failed(Finding("WRONG_SHAPE", f"What it returned while timed could not be read: {error}.")) from error
        if kept.digest_of(outputs.tensors) != made.pledge[index]:
            raise Failed(Finding("CHEATED", "It changed what it had returned after it was timed."))
        self._seen.append(Seen(seed, index, outputs))

    def judge(self, candidate: Timer, eager: Timer) -> None:
        """Compare all that was fetched with the reference.

        Parameters
        ----------
        candidate, eager
            Both with the same weights.

        Raises
        ------
        Failed
        """
        for seen in self._seen:
            expected = self._alone(eager, seen.seed, seen.call)
            wrong = self._differs(expected, seen.outputs)
            if wrong is None:
                continue
            again = self._differs(expected, self._alone(candidate, seen.seed, seen.call))
            if again is not None:
                raise Failed(Finding(again.status, f"{again} (with inputs that were mixed anew for timing)"))
            raise Failed(Finding("CHEATED", f"It gave another result while it was timed: {wrong}"))

    def _alone(self, timer: Timer, seed: str, index: int) -> tensorfile.Loaded:
        try:
            return timer.alone(seed, index, self._limit)
        except tensorfile.Damaged as error:
            raise Failed(Finding("WRONG_SHAPE", f"The outputs could not be read back: {error}.")) from error

    def _differs(self, expected: tensorfile.Loaded, found: tensorfile.Loaded) -> compare.Mismatch | None:
        try:
            compare.compare(expected, found, compare.Figures(), self._own_errors)
        except compare.Mismatch as error:
            return error
        return None
