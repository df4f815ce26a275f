"""Statistics: what counts, what does not, and how sure one can be."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean, median

import pytest
from bench_cases import MS, failed, row
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.bench import statistics, tables
from stark_lsp.bench.arms import by_arm, labels
from stark_lsp.bench.rows import Attempt, Baseline, Outcome
from stark_lsp.bench.statistics import Share
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.status import AgentRole, VerdictStatus
from stark_lsp.core.verdict import Baselines, Stage

ratios = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=30)

ROWS = (
    row("1/1", gains={"eager": (2.0, 1.8, 2.2), "compile": (0.9, 0.8, 1.0)}, attempts="OK WRONG_RESULT"),
    row("1/2", gains={"eager": (1.0, 0.95, 1.05), "compile": (1.5, 1.4, 1.6)}, attempts="COMPILE_ERROR OK"),
    row("1/3", gains={"eager": (0.5, 0.4, 0.6), "compile": 3.0}, attempts="OK CHEATED NO_CANDIDATE"),
    row("1/4", attempts="REFUSED LOAD_ERROR TIMED_OUT"),
    failed("1/5", Outcome.DEGENERATE),
    failed("1/6", Outcome.FAULT),
    failed("1/7", Outcome.UNUSABLE),
)


def test_success_counts_verified_candidates_among_measured_cells_only() -> None:
    assert statistics.success(ROWS) == Share(3, 4)
    assert {one.outcome for one in statistics.left_out(ROWS)} == {Outcome.DEGENERATE, Outcome.FAULT, Outcome.UNUSABLE}


def test_fast_means_at_least_as_fast_and_strictly_so_by_the_whole_interval() -> None:
    eager = statistics.against(ROWS, Baseline.EAGER)
    assert eager is not None
    assert eager.fast == Share(2, 4), "exactly as fast counts, unsolved does not"
    assert eager.strictly == Share(1, 4)
    assert eager.fast_p == (Share(1, 4), Share(1, 4), Share(0, 4)), "p is to be exceeded"
    compiled = statistics.against(ROWS, Baseline.COMPILE)
    assert compiled is not None
    assert compiled.fast == Share(2, 4)
    assert compiled.strictly == Share(1, 4), "a ratio without an interval is never beyond doubt"


@given(ratios)
def test_fast_p_falls_with_p_and_never_exceeds_fast_1(values: list[float]) -> None:
    rows = [row(f"1/{number}", gains={"eager": value}) for number, value in enumerate(values)]
    found = statistics.against(rows, Baseline.EAGER)
    assert found is not None
    hits = [found.fast.hits, *(share.hits for share in found.fast_p)]
    assert hits == sorted(hits, reverse=True)
    assert hits[1:] == [sum(value > p for value in values) for p in (1.0, 1.5, 2.0)]


def test_speed_is_over_solved_cells_and_its_mean_is_arithmetic() -> None:
    found = statistics.against(ROWS, Baseline.EAGER)
    assert found is not None
    assert found.speeds is not None
    assert found.speeds.mean.value == pytest.approx(3.5 / 3)
    assert found.speeds.geomean.value == pytest.approx(1.0)
    assert found.speeds.median.value == 1.0
    assert found.speeds.mean.n == 3


def test_a_baseline_that_failed_on_a_problem_is_not_held_against_anyone() -> None:
    rows = (*ROWS[:1], row("1/8", gains={"eager": 1.0}, baselines=Baselines(MS)))
    found = statistics.against(rows, Baseline.COMPILE)
    assert found is not None
    assert found.fast.n == 1
    assert statistics.against(rows[1:], Baseline.COMPILE) is None


def test_of_two_modes_of_torch_compile_the_faster_counts_in_each_cell() -> None:
    rows = (
        row("1/1", gains={"compile": (2.0, 1.9, 2.1), "max-autotune": (1.1, 0.9, 1.3)}),
        row("1/2", gains={"compile": (1.2, 1.1, 1.3), "max-autotune": (4.0, 3.0, 5.0)}),
        row("1/3", gains={"compile": 2.0, "max-autotune": (3.0, 2.9, 3.1)}),
        row("1/4", gains={"compile": (5.0, 4.0, 6.0)}, baselines=Baselines(MS, MS)),
    )
    found = statistics.against(rows, *statistics.RIVALS[statistics.BETTER_COMPILE])
    assert found is not None
    assert found.speeds is not None
    assert found.speeds.mean.value == pytest.approx((1.1 + 1.2 + 2.0 + 5.0) / 4)
    assert (found.fast, found.strictly) == (Share(4, 4), Share(2, 4))
    lines = tables.speeds(by_arm(rows), 1).splitlines()
    assert [line.split(" | ")[1] for line in lines[2:]] == ["eager", "compile", "max-autotune", "better compile"]


def test_rates_are_over_all_attempts() -> None:
    assert statistics.compile_rate(ROWS) == Share(6, 10)
    assert statistics.correct_rate(ROWS) == Share(3, 10)
    assert statistics.statuses(ROWS)[VerdictStatus.OK] == 3
    assert sum(statistics.statuses(ROWS).values()) == 10


@pytest.mark.parametrize("status", ["TIMED_OUT", "OUT_OF_MEMORY", "CRASHED", "CHEATED"])
def test_what_was_stopped_before_it_was_loaded_did_not_compile(status: str) -> None:
    stages = [*Stage, None]
    made = tuple(
        Attempt(number, 0, AgentRole.CODE, VerdictStatus(status), failed_in=stage)
        for number, stage in enumerate(stages, 1)
    )
    rows = [replace(row("1/1"), attempts=made)]
    assert statistics.compile_rate(rows) == Share(4, 8), "verify, time, profile, and one that nobody knows of"


def test_of_nothing_there_are_no_figures() -> None:
    assert statistics.success(()).value is None
    assert statistics.success(()).interval is None
    assert statistics.speeds(()) is None
    assert statistics.against((), Baseline.EAGER) is None
    assert by_arm([failed("1/1", Outcome.FAULT)]) == {}


@given(ratios, st.integers(0, 5))
def test_an_interval_holds_its_figure_lies_within_the_values_and_can_be_made_again(
    values: list[float], seed: int
) -> None:
    pairs = [(str(place), value) for place, value in enumerate(values)]
    for statistic in (fmean, statistics.geomean, median):
        clusters = [[value] for _, value in pairs]
        one = statistics.bootstrap(clusters, statistic, seed, 40)
        assert one == statistics.bootstrap(clusters, statistic, seed, 40)
        assert one.n == len(values)
        if len(values) < statistics.FEWEST:
            assert (one.low, one.high) == (None, None)
            continue
        assert one.low is not None
        assert one.high is not None
        assert min(values) * (1 - 1e-9) <= one.low <= one.value <= one.high <= max(values) * (1 + 1e-9)


@given(ratios)
def test_the_geometric_mean_of_inverses_is_the_inverse_and_never_above_the_mean(values: list[float]) -> None:
    inverse = statistics.geomean([1 / value for value in values])
    assert math.isclose(statistics.geomean(values), 1 / inverse, rel_tol=1e-9)
    assert statistics.geomean(values) <= fmean(values) * (1 + 1e-9)


@given(st.integers(0, 60), st.integers(1, 60))
def test_the_interval_of_a_share_holds_it_and_stays_within_0_and_1(hits: int, n: int) -> None:
    share = Share(min(hits, n), n)
    assert share.interval is not None
    low, high = share.interval
    assert 0 <= low <= (share.value or 0) <= high <= 1
    assert low < high


def test_seeds_of_one_problem_do_not_count_as_problems_of_their_own() -> None:
    values = [1.0, 2.0, 4.0]
    once = statistics.speeds([(str(value), value) for value in values])
    thrice = statistics.speeds([(str(value), value) for value in values for _ in range(3)])
    assert once is not None
    assert thrice is not None
    assert (thrice.mean.low, thrice.mean.high) == (once.mean.low, once.mean.high)
    assert thrice.mean.n == 9


def test_figures_of_unlike_devices_are_never_added_up() -> None:
    arms = by_arm([row("1/1"), row("1/1", device="Another"), row("1/2")])
    assert [(arm.device, len(rows)) for arm, rows in arms.items()] == [("A device", 2), ("Another", 1)]


def test_runtimes_are_compared_on_problems_that_both_solved() -> None:
    ours = [row("1/1", gains={"eager": 4.0}), row("1/2", gains={"eager": 3.0}), row("1/3")]
    theirs = [row("1/1", "sampling", gains={"eager": 2.0}), row("1/3", "sampling", gains={"eager": 9.0})]
    assert statistics.runtime_ratios(ours, theirs) == (("1/1", 2.0),)


def test_what_was_asked_for_in_another_way_is_never_added_up() -> None:
    one = row("1/1", gains={"eager": 2.0})
    others = (
        replace(one, agents=AgentSettings(dialect="triton")),
        replace(one, search=replace(one.search, in_flight=4)),
    )
    assert len(by_arm([one, *others])) == 3
    names = labels(list(by_arm([one, *others]))).values()
    assert list(names) == [
        "stark (1 at a time, dialect auto)",
        "stark (1 at a time, dialect triton)",
        "stark (4 at a time, dialect auto)",
    ]
