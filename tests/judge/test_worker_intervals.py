"""Medians, ratios and their intervals."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.judge.timing.intervals import (
    between_sessions,
    half_width,
    median_ranks,
    paired_ratio,
    timing,
)

times = st.floats(min_value=1e-4, max_value=1e4)


def coverage(n: int, low: int, high: int) -> float:
    """Probability that the median of a continuous distribution lies between two order statistics of n samples."""
    return sum(math.comb(n, k) for k in range(low + 1, high + 1)) / 2**n


@pytest.mark.parametrize("n", [6, 7, 12, 30, 31, 100])
def test_ranks_enclose_the_median_with_at_least_95_percent_and_not_much_more(n: int) -> None:
    low, high = median_ranks(n)
    assert coverage(n, low, high) >= 0.95
    assert coverage(n, low + 1, high - 1) < 0.95


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_few_samples_give_their_whole_range(n: int) -> None:
    assert median_ranks(n) == (0, n - 1)


def test_many_samples_have_ranks_as_well() -> None:
    # 1100 timed calls ended in an OverflowError.
    for n in (1100, 100_000):
        low, high = median_ranks(n)
        # By the normal distribution, to a rank.
        assert low == pytest.approx(n / 2 - 1.96 * n**0.5 / 2, abs=1.5)
        assert low + high == n - 1


@given(st.lists(times, min_size=1, max_size=40))
def test_a_timing_encloses_its_median(samples: list[float]) -> None:
    found = timing(samples)
    assert found["n"] == len(samples)
    assert found["low_ms"] <= found["median_ms"] <= found["high_ms"]


@given(st.lists(st.tuples(times, times), min_size=1, max_size=12))
def test_a_ratio_encloses_its_value_and_is_the_same_each_time(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    found = paired_ratio(ours, theirs)
    assert found["low"] <= found["value"] <= found["high"]
    assert found == paired_ratio(ours, theirs)


def test_a_common_drift_does_not_widen_the_ratio() -> None:
    drift = [1.0 + 0.1 * i for i in range(20)]
    found = paired_ratio([2 * d for d in drift], drift)
    assert found["low"] == pytest.approx(2.0)
    assert found["high"] == pytest.approx(2.0)


def test_equal_sides_with_noise_have_one_inside_the_interval() -> None:
    rng = random.Random(1)
    inside = 0
    for _ in range(20):
        ours = [1 + 0.05 * rng.random() for _ in range(12)]
        theirs = [1 + 0.05 * rng.random() for _ in range(12)]
        found = paired_ratio(ours, theirs)
        inside += found["low"] <= 1.0 <= found["high"]
    assert inside >= 18


def test_the_median_of_an_even_number_lies_between_the_middle_two() -> None:
    assert median([4.0, 1.0, 3.0, 2.0]) == 2.5


def test_what_processes_differ_by_widens_an_interval_on_both_sides() -> None:
    exact = paired_ratio([1.0] * 12, [1.0] * 12)
    assert (exact["low"], exact["high"]) == (1.0, 1.0)
    wide = paired_ratio([1.0] * 12, [1.0] * 12, between=0.01)
    assert wide["low"] == pytest.approx(math.exp(-0.0196))
    assert wide["high"] == pytest.approx(math.exp(0.0196))
    assert half_width(wide) == pytest.approx(0.0196, rel=0.01)


def test_what_sessions_differ_by_is_the_prior_at_first_and_then_what_was_seen() -> None:
    assert between_sessions([], 0.01) == pytest.approx(0.01)
    assert between_sessions([1.0], 0.01) == pytest.approx(0.01)
    rng = random.Random(3)
    seen = [math.exp(rng.gauss(0.0, 0.05)) for _ in range(400)]
    assert between_sessions(seen, 0.01) == pytest.approx(0.05 * math.sqrt(2), rel=0.2)


def test_one_session_that_is_far_off_does_not_widen_all_others() -> None:
    assert between_sessions([1.0, 1.01, 1.0, 30.0, 1.0, 1.01, 1.0, 1.01], 0.01) < 0.02
