"""Every word of the domain goes to JSON and back without loss."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from enum import Enum
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stark_lsp.core import candidate, events, plan, problem, run, status, verdict
from stark_lsp.core import settings as settings_module
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.events import Ended, Judged
from stark_lsp.core.problem import InputSpec, Span
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import AgentRole, Dialect, RunState, VerdictStatus
from stark_lsp.core.verdict import Baselines, Interval, Timing, Verdict
from stark_lsp.core.wire import WireError, dumps, from_wire, loads, to_wire

MODULES: tuple[ModuleType, ...] = (candidate, events, plan, problem, run, settings_module, verdict)


def words() -> list[type]:
    """All dataclasses of the room: a new one is covered without being named here."""
    return [
        kind
        for module in MODULES
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__
    ]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
FLOATS = st.floats(allow_nan=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
TABLES = st.dictionaries(TEXTS, JSON, max_size=3)

st.register_type_strategy(str, TEXTS)
st.register_type_strategy(float, FLOATS)
st.register_type_strategy(Span, st.tuples(st.integers(0, 999), st.integers(0, 99)).map(lambda p: Span(p[0], sum(p))))
st.register_type_strategy(
    Interval, st.tuples(FLOATS, FLOATS, FLOATS).map(sorted).map(lambda t: Interval(t[1], t[0], t[2]))
)
st.register_type_strategy(InputSpec, st.builds(InputSpec, table=TABLES))
st.register_type_strategy(Run, st.builds(Run, settings=TABLES))
COUNTS = st.integers(1, 50)
st.register_type_strategy(
    SearchSettings,
    st.builds(
        SearchSettings, policy=TEXTS, epsilon=st.floats(0, 1), root_children=COUNTS, dead_branch_children=COUNTS,
        leaderboard_size=COUNTS, window_size=COUNTS, attempts=COUNTS, in_flight=COUNTS, fault_limit=COUNTS,
        seed=st.integers(),
    ),
)  # fmt: skip


@pytest.mark.parametrize("kind", words(), ids=lambda kind: kind.__name__)
def test_each_word_round_trips(kind: type) -> None:
    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.from_type(kind))
    def round_trips(word: Any) -> None:
        text = dumps(word)
        again = loads(text, kind)
        assert again == word
        # Equal is not enough: a text equals an enum that is a text.
        assert repr(again) == repr(word)
        assert repr(json.loads(text)) == repr(to_wire(word))  # plain values only, lists and no tuples
        assert loads(dumps(word, indent=2), kind) == word

    round_trips()


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_floats_that_json_has_not_travel_as_text(value: float) -> None:
    text = dumps(Timing(value, 0.0, 0.0, 1))
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert repr(loads(text, Timing).median_ms) == repr(value)


def test_enums_come_back_as_enums() -> None:
    node = Node(1, 0, AgentRole.DEBUG, Candidate("", Dialect.TRITON), verdict=Verdict(VerdictStatus.CRASHED))
    again = loads(dumps(node), Node)
    assert again.role is AgentRole.DEBUG
    assert again.candidate.dialect is Dialect.TRITON
    assert again.failed


def test_a_verdict_stored_before_baselines_were_kept_with_it_is_still_read() -> None:
    word = Verdict(VerdictStatus.OK, runtime=Timing(1, 1, 1, 9), eager=Timing(2, 2, 2, 9))
    stored = to_wire(word)
    del stored["eager"], stored["compiled"]
    again = from_wire(stored, Verdict)
    assert (again.eager, again.compiled) == (None, None)
    prepared = Baselines(Timing(3, 3, 3, 9), Timing(4, 4, 4, 9))
    assert again.baselines(prepared) == prepared
    assert word.baselines(prepared) == Baselines(Timing(2, 2, 2, 9), Timing(4, 4, 4, 9))


def test_events_round_trip_with_what_they_carry() -> None:
    node = Node(3, 1, AgentRole.CODE, Candidate("x"), verdict=Verdict(VerdictStatus.OK, runtime=Timing(1, 1, 1, 9)))
    assert loads(dumps(Judged(node, True)), Judged) == Judged(node, True)
    assert Ended in words()


@pytest.mark.parametrize(
    ("data", "kind", "names"),
    [
        ({"attempts": 3, "atempts": 4}, Budget, "atempts"),
        ({"attempts": "3"}, Budget, "whole number: '3'"),
        ({"attempts": True}, Budget, "whole number: True"),
        ({"seconds": "soon"}, Budget, "seconds"),
        ({"start": 0}, Span, "end"),
        ({"start": 5, "end": 2}, Span, "not a span: 5..2"),
        ({"value": 1, "low": 2, "high": 3}, Interval, "not an interval"),
        ({"source": 3}, Candidate, "not a text: 3"),
        ({"source": "", "dialect": "fortran"}, Candidate, "fortran"),
        ({"status": "FINE"}, Verdict, "FINE"),
        ({"status": "OK", "weights_loaded": 1}, Verdict, "true or false: 1"),
        ({"epsilon": 1.5}, SearchSettings, "epsilon must lie in 0..1"),
        ({"window_size": 0}, SearchSettings, "window_size must be a whole number of at least 1"),
        ({"rounds": None}, EvaluationSettings, "rounds"),
        ([], Budget, "Budget"),
        (None, Verdict, "Verdict"),
    ],
)
def test_what_is_not_the_word_is_refused_by_name(data: Any, kind: type, names: str) -> None:
    with pytest.raises(WireError) as raised:
        from_wire(data, kind)
    assert names in str(raised.value)
    assert kind.__name__ in str(raised.value)


@pytest.mark.parametrize("text", ["", "{", "nul", b"\xff\xfe{"])
def test_what_is_not_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(WireError, match="not JSON"):
        loads(text, Budget)


@settings(max_examples=200, deadline=None)
@given(JSON, st.sampled_from(words()))
def test_no_json_value_breaks_the_reader(data: Any, kind: type) -> None:
    try:
        read = from_wire(data, kind)
    except WireError:
        return
    assert isinstance(read, kind)


def test_every_member_of_every_enum_has_its_own_value() -> None:
    for _, kind in inspect.getmembers(status, inspect.isclass):
        if issubclass(kind, Enum) and kind.__module__ == status.__name__:
            assert len(kind) == len(kind.__members__)


def test_which_run_states_are_an_end() -> None:
    assert {state for state in RunState if not state.over} == {RunState.PREPARING, RunState.RUNNING}


def test_only_ok_is_not_a_failure() -> None:
    assert [one for one in VerdictStatus if not one.failed] == [VerdictStatus.OK]
