"""The times of one candidate in several processes, for calls so short that it matters which process they run in.

What a call takes besides its work, the launch of its kernels and fetching their code, differs from process to process
and stays as it is in each. The middle half of the processes counts, and the interval reaches from the first to the
last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from . import intervals
from .rounds import RoundTimes

PROCESSES = 7
WORTH = 0.01
"""It is done where processes are expected to differ by more than this share of a call (standard deviation)."""
CANDIDATE = "candidate"


class Times(Protocol):
    """Times of each side, in milliseconds."""

    def timing(self, name: str) -> dict[str, Any]:
        """Return `core.Timing` of one side in wire form."""

    def ratio(self, ours: str, theirs: str) -> dict[str, float]:
        """Return `core.Interval` of the time of `ours` over that of `theirs`."""

    def median(self, name: str) -> float:
        """Return the median of a side in milliseconds."""

    def made(self, name: str) -> int:
        """Return how many calls of a side were timed."""


def worthwhile(times: RoundTimes) -> bool:
    """Whether the candidate is to be timed in more processes than one."""
    return not times.early and times.apart_ms.get(CANDIDATE, 0.0) > WORTH * times.median(CANDIDATE)


class SeveralTimes:
    """Times of all sides, where each part has another process of the candidate.

    Parameters
    ----------
    parts
        At least one.
    """

    def __init__(self, parts: Sequence[RoundTimes]) -> None:
        self._parts = list(parts)

    def timing(self, name: str) -> dict[str, Any]:
        """Return `core.Timing` of one side: the midmean of the processes' medians, and how many samples they have."""
        every = [part.timing(name) for part in self._parts]
        medians = [one["median_ms"] for one in every]
        found = intervals.timing(medians)
        return {**found, "median_ms": _between(medians), "n": sum(one["n"] for one in every)}

    def ratio(self, ours: str, theirs: str) -> dict[str, float]:
        """Return `core.Interval` of the time of `ours` over that of `theirs`.

        By what processes of the candidate differ is in the interval already; the originals have but one or two.
        """
        ratios = sorted(part.ratio(ours, theirs)["value"] for part in self._parts)
        low, high = intervals.median_ranks(len(ratios))
        value = _between(ratios)
        others = [
            part.apart_ms.get(name, 0.0) / part.median(name)
            for part in self._parts
            for name in (ours, theirs)
            if name != CANDIDATE
        ]
        spread = 1.96 * max([*others, *(part.between for part in self._parts)])
        below = math.hypot(math.log(value / ratios[low]), spread)
        above = math.hypot(math.log(ratios[high] / value), spread)
        return {"value": value, "low": value * math.exp(-below), "high": value * math.exp(above)}

    def median(self, name: str) -> float:
        """Return the median of a side in milliseconds."""
        return float(self.timing(name)["median_ms"])

    def made(self, name: str) -> int:
        """Return how many calls of a side were timed, in all processes."""
        return sum(part.made(name) for part in self._parts)

    def note(self) -> str:
        """Return what a user should know about it."""
        every = sorted(1e3 * part.median(CANDIDATE) for part in self._parts)
        return (
            f"Its calls are short, so it was timed in {len(every)} processes, where one took {every[0]:.2f} to "
            f"{every[-1]:.2f} us; the middle half of them counts."
        )


def _between(samples: Sequence[float]) -> float:
    """Return the midmean, which rounding may not carry out of the samples."""
    return min(max(intervals.midmean(samples), min(samples)), max(samples))
