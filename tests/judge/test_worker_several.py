"""One candidate in several processes: the middle one counts, and the interval knows how far they lie apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.judge.timing.official import MORE_ROUNDS, once_more
from stark_lsp.judge.timing.rounds import RoundTimes, apart_ms
from stark_lsp.judge.timing.several import PROCESSES, SeveralTimes, worthwhile

CALL = 0.004


def times(candidate_ms: float, eager_ms: float = 2 * CALL, rounds: int = 8, apart: float = 0.0) -> RoundTimes:
    """Return the times of one process, the same in all rounds of two calls."""
    made = RoundTimes({"eager": [[eager_ms] * 2] * rounds, "candidate": [[candidate_ms] * 2] * rounds}, False)
    made.apart_ms = {"eager": apart, "candidate": apart}
    return made


def test_a_process_with_slow_launches_does_not_count() -> None:
    several = SeveralTimes([times(CALL * share) for share in (1.0, 1.01, 0.99, 1.12, 1.0)])
    found = several.timing("candidate")
    assert found["median_ms"] == several.median("candidate") == pytest.approx(CALL, rel=4e-3)
    assert (found["low_ms"], found["high_ms"]) == (pytest.approx(0.99 * CALL), pytest.approx(1.12 * CALL))
    assert found["n"] == 5 * 8
    assert several.made("candidate") == 5 * 8 * 2
    assert "5 processes" in several.note()
    assert "3.96 to 4.48 us" in several.note()


def test_the_ratio_reaches_over_all_processes() -> None:
    several = SeveralTimes([times(CALL * share) for share in (1.0, 1.01, 0.99, 1.12, 1.0)])
    ratio = several.ratio("eager", "candidate")
    assert ratio["value"] == pytest.approx(2.0, rel=4e-3)
    assert ratio["low"] == pytest.approx(2.0 / 1.12)
    assert ratio["high"] == pytest.approx(2.0 / 0.99)


def test_what_processes_of_the_original_differ_by_is_added_and_those_of_the_candidate_not_twice() -> None:
    alike = [times(CALL, apart=0.0002) for _ in range(PROCESSES)]
    ratio = SeveralTimes(alike).ratio("eager", "candidate")
    # Of the original alone: 0.2 us of 8.
    assert ratio["high"] == pytest.approx(2.0 * 2.71828 ** (1.96 * 0.0002 / (2 * CALL)), rel=1e-4)
    assert ratio["high"] < alike[0].ratio("eager", "candidate")["high"]


@given(st.lists(st.floats(min_value=0.001, max_value=1.0), min_size=1, max_size=9))
def test_the_value_is_inside_of_the_interval_and_between_the_processes(each: list[float]) -> None:
    several = SeveralTimes([times(one) for one in each])
    found, ratio = several.timing("candidate"), several.ratio("eager", "candidate")
    assert min(each) <= found["low_ms"] <= found["median_ms"] <= found["high_ms"] <= max(each)
    assert ratio["low"] <= ratio["value"] <= ratio["high"]


def test_it_is_done_for_short_calls_and_for_those_of_many_launches() -> None:
    def made(call_ms: float, launch_ms: float) -> RoundTimes:
        return times(call_ms, apart=apart_ms("cuda", launch_ms))

    assert worthwhile(made(0.004, 0.01))
    assert worthwhile(made(0.040, 0.2))
    assert not worthwhile(made(0.040, 0.01))
    assert not worthwhile(made(4.0, 1.0))
    # Nothing of that on a CPU.
    assert not worthwhile(times(0.001, apart=apart_ms("cpu", 0.01)))


def test_nothing_that_lost_early_is_timed_again() -> None:
    early = RoundTimes({"eager": [[0.001]] * 3, "candidate": [[0.004]] * 3}, True)
    early.apart_ms = {"candidate": 0.0002}
    assert not worthwhile(early)


def test_further_processes_get_fewer_rounds() -> None:
    assert once_more({"final_rounds": 68, "seeds": 5}) == {"final_rounds": MORE_ROUNDS, "seeds": 5}
    assert once_more({"final_rounds": 6})["final_rounds"] == 6
