"""Interleaved timing: the sides take turns, round by round, and never run at the same time.

Slow drifts of the machine (clocks, heat, other load) then hit all sides alike, and the ratio of two
rounds that stand next to each other is hardly touched by them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from . import intervals

LOSER = 3.0
"""A candidate this many times slower than the reference is given up early."""
LOSER_ROUNDS = {"cuda": 3, "cpu": 6}
"""Rounds after which that is decided; on a CPU others may keep the machine busy for the length of a few."""
FEWEST = 6
"""Rounds that are always made: with fewer no 95 % interval of a median exists."""

AGAINST = "eager"
"""What a candidate's times are held against while rounds go on."""
Side = Callable[[int], list[float]]
"""Times the round of that number and returns the milliseconds of each call."""


@dataclass(eq=False)
class RoundTimes:
    """Times of each side, in milliseconds."""

    calls: dict[str, list[list[float]]]
    """For each side the calls of each round."""
    early: bool
    """Whether it was stopped as a clear loser."""
    each: bool = False
    """Whether the time of a side is the median of all its calls, not of its rounds' medians."""
    between: float = 0.0
    """Standard deviation between two processes that run the same code, see `intervals.paired_ratio`."""

    def __post_init__(self) -> None:
        self._medians = {name: [median(one) for one in made] for name, made in self.calls.items()}
        self._perhaps: dict[str, float] = {}

    def stretch(self, name: str, factor: float) -> None:
        """Count the times of a side as so many times longer than it reported."""
        self.calls[name] = [[time * factor for time in made] for made in self.calls[name]]
        self._medians[name] = [median * factor for median in self._medians[name]]

    def doubt(self, name: str, factor: float) -> None:
        """Have intervals say that a side may take so many times longer than it reported."""
        self._perhaps[name] = factor

    def timing(self, name: str) -> dict[str, Any]:
        """Return `core.Timing` of one side in wire form."""
        if self.each:
            return intervals.timing([time for made in self.calls[name] for time in made])
        return intervals.timing(self._medians[name])

    def ratio(self, ours: str, theirs: str) -> dict[str, float]:
        """Return `core.Interval` of the time of `ours` over that of `theirs`."""
        found = intervals.paired_ratio(self._medians[ours], self._medians[theirs], self.between)
        return {**found, "low": found["low"] / self._perhaps.get(theirs, 1.0)}

    def rounds_ms(self, name: str) -> list[float]:
        """Return the median of each round of a side in milliseconds."""
        return list(self._medians[name])

    def median(self, name: str) -> float:
        """Return the median of a side in milliseconds."""
        return float(self.timing(name)["median_ms"])


def interleave(
    sides: dict[str, Side],
    rounds: int,
    *,
    seconds: float = float("inf"),
    candidate: str | None = None,
    target: float = 0.0,
    fewest: int = FEWEST,
    give_up: int = 0,
    each: bool = False,
    between: float = 0.0,
) -> RoundTimes:
    """Time all sides for a number of rounds.

    Parameters
    ----------
    sides
        By name; every other round goes through them backwards, so that none is always first.
    rounds, seconds
        After `seconds` no further round is begun, once `FEWEST` (or `rounds`, if fewer) are made.
    candidate
        Whose ratio to `AGAINST` counts.
    target
        No further round is begun, once `fewest` are made and half of the 95 % interval of that ratio within
        this session is below this fraction; 0 makes all rounds.
    give_up
        After so many rounds, if the candidate turns out to be `LOSER` times slower than `AGAINST`, the rest is
        skipped; 0 makes it in any case.
    each, between
        See `RoundTimes`.
    """
    calls: dict[str, list[list[float]]] = {name: [] for name in sides}
    medians: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    begin = time.monotonic()
    early = False
    for index in range(rounds):
        if index >= FEWEST and time.monotonic() - begin > seconds:
            break
        for name in names if index % 2 == 0 else reversed(names):
            calls[name].append(sides[name](index))
            medians[name].append(median(calls[name][-1]))
        if candidate is None:
            continue
        made, ours, theirs = index + 1, medians[candidate], medians[AGAINST]
        # The best round of the one against the worst of the other: a busy machine alone does not end it.
        if made == give_up < rounds and min(ours) > LOSER * max(theirs):
            early = True
            break
        sure = target > 0.0 and made >= max(fewest, FEWEST)
        if sure and intervals.half_width(intervals.paired_ratio(theirs, ours)) <= target:
            break
    return RoundTimes(calls, early, each=each, between=between)
