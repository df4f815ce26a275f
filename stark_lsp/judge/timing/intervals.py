"""Medians and ratios with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

TAIL = 0.025
"""What a 95 % interval leaves out on each side."""
NORMAL = 1.4826
"""Standard deviation of a normal distribution over the median of its absolute values."""


def median_ranks(n: int) -> tuple[int, int]:
    """Return the 0-based ranks of the order statistics that enclose the median.

    The number of samples below the median is binomial(n, 1/2), whatever the distribution of the samples
    (Conover, Practical Nonparametric Statistics, section 3.2). For fewer than six samples no pair reaches
    95 %; then these are the smallest and the largest sample.
    """
    cumulative = 0.0
    rank = 0
    while rank < n // 2:
        ways = math.lgamma(n + 1) - math.lgamma(rank + 1) - math.lgamma(n - rank + 1)
        cumulative += math.exp(ways - n * math.log(2.0))
        if cumulative > TAIL:
            break
        rank += 1
    low = max(0, rank - 1)
    return low, n - 1 - low


def timing(samples: Sequence[float]) -> dict[str, Any]:
    """Return `core.Timing` in wire form: the median of samples in milliseconds."""
    ordered = sorted(samples)
    low, high = median_ranks(len(ordered))
    return {"median_ms": median(ordered), "low_ms": ordered[low], "high_ms": ordered[high], "n": len(ordered)}


def paired_ratio(ours: Sequence[float], theirs: Sequence[float], between: float = 0.0) -> dict[str, float]:
    """Return `core.Interval` of the median of ours/theirs, round by round.

    Order statistics of the ratios enclose their median for this pair of processes. What two fresh processes
    of the same code differ by, for instance because their memory lies elsewhere, is no part of that; it is
    added in quadrature on the logarithmic scale.

    Parameters
    ----------
    between
        Standard deviation of the logarithm of the ratio of two fresh processes that run the same code.
    """
    ratios = sorted(a / b for a, b in zip(ours, theirs))
    low, high = median_ranks(len(ratios))
    value = median(ratios)
    spread = 1.96 * between
    below = math.hypot(math.log(value / ratios[low]), spread)
    above = math.hypot(math.log(ratios[high] / value), spread)
    return {"value": value, "low": value * math.exp(-below), "high": value * math.exp(above)}


def half_width(ratio: dict[str, float]) -> float:
    """Return half of an interval's width as a fraction of its value."""
    return (ratio["high"] - ratio["low"]) / 2.0 / ratio["value"]


def between_sessions(medians: Sequence[float], prior: float) -> float:
    """Return the standard deviation of the logarithm of the ratio of two sessions that time the same code.

    Rounds of one session are not independent of each other: where memory lies and which CPU a thread wakes on may
    last for all of them. What that amounts to shows in how one and the same process differs from one session to the
    next. From the median step (1.4826 times the median of |x| estimates a normal deviation), since a few sessions
    may be far off for other reasons.

    Parameters
    ----------
    medians
        Times of the same code in sessions that followed each other.
    prior
        What is assumed before there are any; counts as three steps.
    """
    steps = [abs(math.log(b / a)) for a, b in zip(medians, medians[1:])]  # noqa: RUF007 - Python 3.9
    return NORMAL * median([*steps, *[prior / NORMAL] * 3])
