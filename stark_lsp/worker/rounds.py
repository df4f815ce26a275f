"""Interleaved timing: the sides take turns, round by round, and never run at the same time.

Slow drifts of the machine (clocks, heat, other load) then hit all sides alike, and the ratio of two
rounds that stand next to each other is hardly touched by them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from . import intervals

LOSER = 3.0
"""A candidate this many times slower than the reference is given up early."""
LOSER_ROUNDS = 3
FEWEST = 6
"""Rounds that are always made: with fewer no 95 % interval of a median exists."""

Side = Callable[[], list[float]]
"""Times one round and returns the milliseconds of each call."""


class RoundTimes:
    """Round medians of each side, in milliseconds."""

    def __init__(self, medians: dict[str, list[float]], early: bool) -> None:
        self._medians = medians
        self.early = early
        """Whether it was stopped as a clear loser."""

    def timing(self, name: str) -> dict[str, Any]:
        """Return `core.Timing` of one side in wire form."""
        return intervals.timing(self._medians[name])

    def ratio(self, ours: str, theirs: str) -> dict[str, float]:
        """Return `core.Interval` of the time of `ours` over that of `theirs`."""
        return intervals.paired_ratio(self._medians[ours], self._medians[theirs])


def interleave(
    sides: dict[str, Side],
    rounds: int,
    *,
    seconds: float = float("inf"),
    candidate: str | None = None,
    against: str = "eager",
) -> RoundTimes:
    """Time all sides for a number of rounds.

    Parameters
    ----------
    sides
        By name; every other round goes through them backwards, so that none is always first.
    rounds, seconds
        After `seconds` no further round is begun, once `FEWEST` (or `rounds`, if fewer) are made.
    candidate, against
        If the candidate turns out to be `LOSER` times slower than `against`, the rest is skipped.
    """
    medians: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    begin = time.monotonic()
    for index in range(rounds):
        if index >= FEWEST and time.monotonic() - begin > seconds:
            break
        for name in names if index % 2 == 0 else reversed(names):
            medians[name].append(intervals.median(sides[name]()))
        if candidate is None or index + 1 != LOSER_ROUNDS or rounds == LOSER_ROUNDS:
            continue
        # The best round of the one against the worst of the other: a busy machine alone does not end it.
        if min(medians[candidate]) > LOSER * max(medians[against]):
            return RoundTimes(medians, True)
    return RoundTimes(medians, False)
