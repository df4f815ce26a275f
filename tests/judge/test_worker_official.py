"""Finalists on a GPU are called as often as official evaluators do, wherever there is time for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.wire import to_wire
from stark_lsp.evaluation.judge import fewest_calls
from stark_lsp.judge.service.attempt import Attempt
from stark_lsp.judge.timing import official, timing
from stark_lsp.judge.timing.rounds import RoundTimes
from stark_lsp.judge.timing.session import FINAL_SHARE, Plan
from stark_lsp.judge.timing.timing import Measured

SETTINGS: dict[str, Any] = to_wire(EvaluationSettings())


def made(settings: dict[str, Any], in_a_round: int, slower: int = 1) -> int:
    """Return how many calls of a candidate a finalist's plan makes, if timing ends as early as it may."""
    plan = Plan(settings, final=True)
    counts = [0, 0]

    def eager(index: int) -> list[float]:
        counts[0] += in_a_round
        return [1.0] * in_a_round

    def candidate(index: int) -> list[float]:
        each = max(1, in_a_round // slower)
        counts[1] += each
        return [0.5] * each

    times = plan.interleave({"eager": eager, "candidate": candidate}, 0.0, candidate="candidate")
    assert [times.made("eager"), times.made("candidate")] == counts
    return min(counts)


def test_without_it_long_calls_are_timed_too_seldom() -> None:
    assert made(SETTINGS, 1) < 100
    assert official.SHARE == FINAL_SHARE


@given(st.integers(1, 500), st.integers(1, 2))
def test_at_least_so_many_calls_of_each_side_are_made(in_a_round: int, slower: int) -> None:
    settings = official.at_least(100, SETTINGS, in_a_round=in_a_round, call_ms=10.0 / in_a_round, sides=3)
    assert made(settings, in_a_round, slower) >= 100


def test_short_calls_are_timed_as_ever() -> None:
    assert official.at_least(100, SETTINGS, in_a_round=10, call_ms=1.0, sides=3) is SETTINGS
    assert official.at_least(0, SETTINGS, in_a_round=1, call_ms=1000.0, sides=3) is SETTINGS


def test_calls_of_seconds_are_timed_as_often_as_time_allows() -> None:
    settings = official.at_least(100, SETTINGS, in_a_round=1, call_ms=5000.0, sides=3)
    assert settings["final_timing_s"] == official.LONGEST_S
    patient = {**SETTINGS, "final_timing_s": 900.0}
    assert official.at_least(100, patient, in_a_round=1, call_ms=5000.0, sides=3)["final_timing_s"] == 900.0


def test_there_is_time_for_that_many_calls_where_they_are_not_so_long() -> None:
    settings = official.at_least(100, SETTINGS, in_a_round=1, call_ms=20.0, sides=3)
    assert SETTINGS["final_timing_s"] <= settings["final_timing_s"] < official.LONGEST_S
    assert settings["final_timing_s"] >= 100 * 3 * 0.020


def test_what_the_user_chose_stands() -> None:
    assert fewest_calls(EvaluationSettings()) == 100
    assert fewest_calls(EvaluationSettings(final_rounds=80, final_timing_s=60.0)) == 100
    assert fewest_calls(EvaluationSettings(final_rounds=6)) == 0
    assert fewest_calls(EvaluationSettings(final_timing_s=2.0)) == 0
    assert fewest_calls(EvaluationSettings(timed_calls=30)) == 0
    fixed = {**SETTINGS, "timed_calls": 30}
    assert official.at_least(100, fixed, in_a_round=1, call_ms=5000.0, sides=3) is fixed


def finalist(device: str, made: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Attempt, Any]:
    """Return an attempt on a finalist whose calls take as long as a round, and what its timing gave."""
    judge: Any = SimpleNamespace(
        bench=SimpleNamespace(in_a_round=1),
        reference=SimpleNamespace(device=device, weights_path="weights.pt"),
        settings=SETTINGS,
        eager_ms=20.0,
        compiled=["compile"],
        memory=None,
        builds=None,
    )
    candidate = {"source": "", "class_name": "ModelNew"}
    attempt = Attempt(judge, candidate, True, lambda text, seconds: None, calls=100)

    def measure(bench: Any, runner: Any, settings: dict[str, Any], **options: Any) -> Measured:
        assert settings is attempt._timing
        times = RoundTimes({name: [[1.0]] * made for name in ("eager", "candidate", "compile")}, early=False)
        return Measured(times, ["compile"], [])

    monkeypatch.setattr(timing, "measure", measure)
    runner: Any = SimpleNamespace()
    return attempt, attempt._counted(attempt._time(runner, "", attempt._timing))


def test_a_finalist_on_a_gpu_says_if_it_was_called_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    attempt, measured = finalist("cuda", 99, monkeypatch)
    assert attempt._timing["final_rounds"] == 200
    assert measured.notes == [official.FEWER.format(made=99, calls=100)]
    assert finalist("cuda", 100, monkeypatch)[1].notes == []


def test_on_a_cpu_a_finalist_is_timed_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    attempt, measured = finalist("cpu", 20, monkeypatch)
    assert attempt._timing is SETTINGS
    assert measured.notes == []
