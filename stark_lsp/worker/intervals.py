"""Medians and ratios with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def median(samples: Sequence[float]) -> float:
    """Return the median of at least one sample."""
    ordered = sorted(samples)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def median_ranks(n: int, confidence: float = 0.95) -> tuple[int, int]:
    """Return the 0-based ranks of the order statistics that enclose the median.

    The number of samples below the median is binomial(n, 1/2), whatever the distribution of the samples
    (Conover, Practical Nonparametric Statistics, section 3.2). For fewer than six samples no pair reaches
    95 %; then these are the smallest and the largest sample.
    """
    tail = (1.0 - confidence) / 2.0
    cumulative = 0.0
    rank = 0
    while rank < n // 2:
        cumulative += math.comb(n, rank) * 0.5**n
        if cumulative > tail:
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
    ratios = sorted(a / b for a, b in zip(ours, theirs))  # noqa: B905 - Python 3.9 has no `strict`
    low, high = median_ranks(len(ratios))
    value = median(ratios)
    spread = 1.96 * between
    below = math.hypot(math.log(value / ratios[low]), spread)
    above = math.hypot(math.log(ratios[high] / value), spread)
    return {"value": value, "low": value * math.exp(-below), "high": value * math.exp(above)}


def half_width(ratio: dict[str, float]) -> float:
    """Return half of an interval's width as a fraction of its value."""
    return (ratio["high"] - ratio["low"]) / 2.0 / ratio["value"]


def deviation(ratios: Sequence[float]) -> float:
    """Return the standard deviation of the logarithms of ratios whose true value is 1."""
    if not ratios:
        return 0.0
    return math.sqrt(sum(math.log(ratio) ** 2 for ratio in ratios) / len(ratios))
