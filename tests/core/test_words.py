"""What the words can say about themselves."""

from __future__ import annotations

import hashlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.problem import InputSpec, Problem, SourceSlice, Span
from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole, VerdictStatus
from stark_lsp.core.verdict import Interval, Timing, Verdict


def node(verdict: Verdict | None) -> Node:
    return Node(1, 0, AgentRole.CODE, Candidate("x"), verdict=verdict)


def test_the_score_is_the_share_of_the_references_time_and_infinite_without_one() -> None:
    taken = Timing(2.5, 2, 3, 10)
    assert node(Verdict(VerdictStatus.OK, runtime=taken, speedup_vs_eager=Interval(4.0, 3.9, 4.1))).score == 0.25
    assert Node(0, None, AgentRole.ROOT, Candidate("x"), verdict=Verdict(VerdictStatus.OK, runtime=taken)).score == 1.0
    assert node(None).score == math.inf
    assert not node(None).failed
    failed = node(Verdict(VerdictStatus.WRONG_RESULT))
    assert failed.score == math.inf
    assert failed.failed


def test_the_defaults_are_the_papers() -> None:
    defaults = SearchSettings()
    assert (defaults.epsilon, defaults.root_children, defaults.dead_branch_children) == (0.3, 5, 3)
    assert (defaults.leaderboard_size, defaults.window_size, defaults.attempts) == (2, 5, 30)


@pytest.mark.parametrize("name", ["root_children", "window_size", "attempts", "in_flight", "fault_limit"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "3"])
def test_a_setting_that_makes_no_sense_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        SearchSettings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [-0.1, 1.1, math.nan])
def test_epsilon_is_a_probability(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        SearchSettings(epsilon=epsilon)


@given(st.text(st.characters(codec="utf-8")))
def test_the_same_source_has_the_same_digest(source: str) -> None:
    assert Candidate(source).digest == hashlib.sha256(source.encode()).hexdigest()


def test_a_problem_names_its_new_class() -> None:
    part = SourceSlice("a\nb\n", (4, -1))
    problem = Problem("/m.py", "Outer.Block", "", part, Span(0, 0), InputSpec())
    assert (problem.class_name, problem.new_name, problem.key) == ("Block", "BlockNew", "/m.py::Outer.Block")
    assert [part.to_document(line) for line in (0, 1, 2, -1)] == [4, None, None, None]


def test_spans_and_intervals_hold_together() -> None:
    assert 3 in Span(3, 5)
    assert 5 in Span(3, 5)
    assert 6 not in Span(3, 5)
    for start, end in ((-1, 2), (4, 3)):
        with pytest.raises(ValueError, match="not a span"):
            Span(start, end)
    with pytest.raises(ValueError, match="not an interval"):
        Interval(1.0, 2.0, 3.0)
