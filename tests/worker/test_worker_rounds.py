"""Interleaved rounds: taking turns, and giving up on clear losers."""

from __future__ import annotations

from collections.abc import Callable

from stark_lsp.worker.rounds import LOSER_ROUNDS, interleave


def side(name: str, order: list[str], times: Callable[[int], float]) -> Callable[[], list[float]]:
    def once() -> list[float]:
        order.append(name)
        return [times(order.count(name) - 1)] * 3

    return once


def test_sides_take_turns_and_none_is_always_first() -> None:
    order: list[str] = []
    sides = {name: side(name, order, lambda i: 1.0) for name in ("eager", "candidate")}
    times = interleave(sides, 4, candidate="candidate")
    assert order == ["eager", "candidate", "candidate", "eager"] * 2
    assert times.timing("eager")["n"] == 4
    assert not times.early


def test_a_clear_loser_is_given_up_after_three_rounds() -> None:
    order: list[str] = []
    sides = {"eager": side("eager", order, lambda i: 1.0), "candidate": side("candidate", order, lambda i: 10.0)}
    times = interleave(sides, 12, candidate="candidate")
    assert times.early
    assert times.timing("candidate")["n"] == LOSER_ROUNDS
    assert times.ratio("eager", "candidate")["value"] == 0.1


def test_one_slow_round_is_no_reason_to_give_up() -> None:
    order: list[str] = []
    slow_once = side("candidate", order, lambda i: 1.0 if i == 1 else 50.0)
    sides = {"eager": side("eager", order, lambda i: 1.0), "candidate": slow_once}
    assert not interleave(sides, 6, candidate="candidate").early
