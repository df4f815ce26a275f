"""Interleaved timing: the sides take turns, round by round, and never run at the same time.

Slow drifts of the machine (clocks, heat, other load) then hit all sides alike, and the ratio of two
rounds that stand next to each other is hardly touched by them.
"""

from __future__ import annotations

import secrets
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
OFFICIAL_ROUNDS = 10
"""Rounds that a fixed number of calls is divided into; more, if a round cannot have so many calls."""
FINAL_SHARE = 2
"""Of the final rounds, one half is made in any case."""
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
        self._perhaps: dict[str, float] = {}

    def stretch(self, name: str, factor: float) -> None:
        """Count the times of a side as so many times longer than it reported."""
        self.calls[name] = [[time * factor for time in made] for made in self.calls[name]]

    def doubt(self, name: str, factor: float) -> None:
        """Have intervals say that a side may take so many times longer than it reported."""
        self._perhaps[name] = factor

    def timing(self, name: str) -> dict[str, Any]:
        """Return `core.Timing` of one side in wire form."""
        if self.each:
            return intervals.timing([time for made in self.calls[name] for time in made])
        return intervals.timing(self.rounds_ms(name))

    def ratio(self, ours: str, theirs: str) -> dict[str, float]:
        """Return `core.Interval` of the time of `ours` over that of `theirs`."""
        found = intervals.paired_ratio(self.rounds_ms(ours), self.rounds_ms(theirs), self.between)
        return {**found, "low": found["low"] / self._perhaps.get(theirs, 1.0)}

    def rounds_ms(self, name: str) -> list[float]:
        """Return the median of each round of a side in milliseconds."""
        return [median(made) for made in self.calls[name]]

    def median(self, name: str) -> float:
        """Return the median of a side in milliseconds."""
        return float(self.timing(name)["median_ms"])


@dataclass
class Plan:
    """How many rounds are made, and how many calls each has."""

    rounds: int
    seconds: float = float("inf")
    """After so long no further round is begun, once `FEWEST` (or all, if there are fewer) are made."""
    target: float = 0.0
    """No further round is begun, once `fewest` are made and half of the 95 % interval of the candidate's ratio within
    this session is below this fraction; 0 makes all rounds."""
    fewest: int = FEWEST
    calls: list[int] | None = None
    """Calls of each round; None for as many as make a round."""

    def __post_init__(self) -> None:
        self.seeds = [secrets.token_hex(8) for _ in range(self.rounds)]

    def round(self, index: int) -> tuple[str, int]:
        """Return what the inputs of a round are made from, and how many calls it makes; 0 as many as make a round."""
        return self.seeds[index], self.calls[index] if self.calls else 0

    @classmethod
    def of(cls, settings: dict[str, Any], *, final: bool, most: int) -> Plan:
        """Return what `core.EvaluationSettings` in wire form ask for, with at most `most` calls in a round."""
        total = int(settings.get("timed_calls", 0))
        seconds = float(settings["final_timing_s" if final else "timing_s"])
        if total > 0:
            count = min(total, max(OFFICIAL_ROUNDS, -(-total // most)))
            each, more = divmod(total, count)
            return cls(count, seconds, calls=[each + (index < more) for index in range(count)])
        count, target = int(settings["final_rounds" if final else "rounds"]), float(settings.get("target_error", 0.0))
        return cls(count, seconds, target, count // FINAL_SHARE if final else FEWEST)


def interleave(sides: dict[str, Side], plan: Plan, *, give_up: int = 0) -> RoundTimes:
    """Time all sides as planned.

    Parameters
    ----------
    sides
        By name; every other round goes through them backwards, so that none is always first. If `candidate` is among
        them, its ratio to `eager` decides how many rounds are enough.
    give_up
        After so many rounds, if the candidate turns out to be `LOSER` times slower than eager, the rest is skipped; 0
        makes it in any case.
    """
    times = RoundTimes({name: [] for name in sides}, False, plan.calls is not None)
    names = list(sides)
    begin = time.monotonic()
    for index in range(plan.rounds):
        if index >= FEWEST and time.monotonic() - begin > plan.seconds:
            break
        for name in names if index % 2 == 0 else reversed(names):
            times.calls[name].append(sides[name](index))
        if "candidate" not in sides or plan.calls is not None:
            continue
        made, ours, theirs = index + 1, times.rounds_ms("candidate"), times.rounds_ms("eager")
        # The best round of the one against the worst of the other: a busy machine alone does not end it.
        if made == give_up < plan.rounds and min(ours) > LOSER * max(theirs):
            times.early = True
            break
        sure = plan.target > 0.0 and made >= max(plan.fewest, FEWEST)
        if sure and intervals.half_width(intervals.paired_ratio(theirs, ours)) <= plan.target:
            break
    return times
