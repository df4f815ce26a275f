"""Interleaved rounds: taking turns, and giving up on clear losers."""

from __future__ import annotations

from collections.abc import Callable

from stark_lsp.judge.timing.problem_runners import of_twin
from stark_lsp.judge.timing.rounds import FEWEST, LOSER_ROUNDS, Plan, interleave


def side(name: str, order: list[str], times: Callable[[int], float]) -> Callable[[int], list[float]]:
    def once(index: int) -> list[float]:
        order.append(name)
        return [times(index)] * 3

    return once


def test_sides_take_turns_and_none_is_always_first() -> None:
    order: list[str] = []
    sides = {name: side(name, order, lambda i: 1.0) for name in ("eager", "candidate")}
    times = interleave(sides, Plan(4))
    assert order == ["eager", "candidate", "candidate", "eager"] * 2
    assert times.timing("eager")["n"] == 4
    assert not times.early


def test_a_clear_loser_is_given_up_after_three_rounds() -> None:
    order: list[str] = []
    sides = {"eager": side("eager", order, lambda i: 1.0), "candidate": side("candidate", order, lambda i: 10.0)}
    times = interleave(sides, Plan(12), give_up=LOSER_ROUNDS["cuda"])
    assert times.early
    assert times.timing("candidate")["n"] == LOSER_ROUNDS["cuda"]
    assert times.ratio("eager", "candidate")["value"] == 0.1


def test_one_slow_round_is_no_reason_to_give_up() -> None:
    order: list[str] = []
    slow_once = side("candidate", order, lambda i: 1.0 if i == 1 else 50.0)
    sides = {"eager": side("eager", order, lambda i: 1.0), "candidate": slow_once}
    assert not interleave(sides, Plan(6), give_up=3).early


def test_it_ends_once_the_ratio_is_known_well_enough() -> None:
    order: list[str] = []
    sides = {
        "eager": side("eager", order, lambda i: 1.0 + 0.004 * (i % 2)),
        "candidate": side("candidate", order, lambda i: 0.5),
    }
    assert interleave(sides, Plan(40, target=0.01)).timing("candidate")["n"] == FEWEST
    assert interleave(sides, Plan(40, target=0.01, fewest=15)).timing("candidate")["n"] == 15


def test_a_ratio_that_stays_uncertain_takes_all_rounds() -> None:
    order: list[str] = []
    sides = {
        "eager": side("eager", order, lambda i: 1.0 + 0.2 * (i % 3)),
        "candidate": side("candidate", order, lambda i: 1.0),
    }
    assert interleave(sides, Plan(20, target=0.01)).timing("candidate")["n"] == 20


def test_after_the_time_is_up_only_the_fewest_rounds_are_made() -> None:
    order: list[str] = []
    sides = {name: side(name, order, lambda i: 1.0) for name in ("eager", "candidate")}
    assert interleave(sides, Plan(40, seconds=0.0)).timing("eager")["n"] == FEWEST


def test_every_call_counts_where_a_number_of_calls_is_fixed() -> None:
    order: list[str] = []
    sides = {name: side(name, order, lambda i: 1.0 + i) for name in ("eager", "candidate")}
    times = interleave(sides, Plan(10, calls=[3] * 10))
    assert times.timing("candidate")["n"] == 30
    assert times.median("candidate") == 5.5


def test_the_second_process_of_eager_is_as_often_first_in_a_round_as_the_first() -> None:
    # Every other round goes backwards.
    places = [(of_twin(index), index % 2) for index in range(8)]
    assert all(places.count((twin, backwards)) == 2 for twin in (False, True) for backwards in (0, 1))
