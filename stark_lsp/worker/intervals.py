"""Medians and ratios with 95 % intervals."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

RESAMPLES = 2000
SEED = 20240


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


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Return `core.Interval` of the median of ours/theirs, round by round.

    The interval is a percentile bootstrap over rounds with a fixed seed, so the same rounds always give the
    same interval.
    """
    ratios = [a / b for a, b in zip(ours, theirs)]  # noqa: B905 - Python 3.9 has no `strict`
    rng = random.Random(SEED)
    n = len(ratios)
    found: list[float] = sorted(median(rng.choices(ratios, k=n)) for _ in range(RESAMPLES))
    value = median(ratios)
    low, high = found[int(0.025 * RESAMPLES)], found[int(0.975 * RESAMPLES) - 1]
    return {"value": value, "low": min(low, value), "high": max(high, value)}
