"""What is told to a run: how commands are read, which are offered where, how it is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server_views import failed, hovered, node, plan, verified, view

from stark_lsp.core.errors import BadInput
from stark_lsp.core.run import Budget
from stark_lsp.core.status import VerdictStatus
from stark_lsp.core.steering import Course, Hint, Steering, SteeringKind, course
from stark_lsp.core.wire import from_wire, to_wire
from stark_lsp.runs.sitting import spoken
from stark_lsp.server.features.code_actions import run_commands, steering_commands
from stark_lsp.server.features.lenses import under_way_command
from stark_lsp.server.features.steering import HINT_LIMIT, KINDS, Target, read
from stark_lsp.server.runs.views import Phase

WHEN = "2026-01-01T00:00:00+00:00"
TARGET = Target("abcd1234", "Model", frozenset({0, 1, 2}), Budget(30, dollars=2.0), None)
ANY_JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())


def test_each_kind_of_steering_has_a_command() -> None:
    assert set(KINDS.values()) == set(SteeringKind)
    assert all(command == f"stark.{kind.value}" for command, kind in KINDS.items())


def test_a_node_is_read_where_one_is_needed() -> None:
    for kind in (SteeringKind.PIN, SteeringKind.PRUNE, SteeringKind.RESTORE):
        assert read(kind, {"node": 2}, TARGET, WHEN) == Steering(kind, node=2, attempt=2, when=WHEN)
        for odd in ({}, {"node": 9}, {"node": "2"}, {"node": True}, {"node": 1.5}):
            with pytest.raises(BadInput, match="attempt"):
                read(kind, odd, TARGET, WHEN)
    assert read(SteeringKind.PAUSE, {"node": 9}, TARGET, WHEN).node is None


def test_the_class_itself_cannot_be_given_up_but_can_be_gone_on_from() -> None:
    assert read(SteeringKind.PIN, {"node": 0}, TARGET, WHEN).node == 0
    with pytest.raises(BadInput, match="cannot be given up"):
        read(SteeringKind.PRUNE, {"node": 0}, TARGET, WHEN)


def test_a_hint_is_for_the_run_or_for_one_attempt_and_not_endless() -> None:
    assert read(SteeringKind.HINT, {"text": " use  float32 \n"}, TARGET, WHEN).text == "use float32"
    assert read(SteeringKind.HINT, {"text": "x", "node": 1}, TARGET, WHEN).node == 1
    for odd in ({}, {"text": ""}, {"text": 3}, {"text": "x" * (HINT_LIMIT + 1)}, {"text": "x", "node": 7}):
        with pytest.raises(BadInput):
            read(SteeringKind.HINT, odd, TARGET, WHEN)


def test_a_hint_cannot_bring_control_characters_along() -> None:
    assert read(SteeringKind.HINT, {"text": "a\x1b[2Jb\u202ec"}, TARGET, WHEN).text == "a[2Jbc"


def test_a_budget_keeps_the_limits_that_are_not_named() -> None:
    told = read(SteeringKind.BUDGET, {"attempts": 50, "seconds": 60}, TARGET, WHEN)
    assert told.budget == Budget(50, 60.0, None, 2.0)
    assert read(SteeringKind.BUDGET, {"dollars": None}, TARGET, WHEN).budget == Budget(30)
    for odd in ({}, {"attempts": 0}, {"attempts": None}, {"dollars": -1}, {"tokens": 1.5}, {"seconds": "long"}):
        with pytest.raises(BadInput):
            read(SteeringKind.BUDGET, odd, TARGET, WHEN)


@given(
    st.sampled_from(list(SteeringKind)),
    st.dictionaries(st.sampled_from(["run", "node", "text", "attempts", "seconds", "tokens", "dollars"]), ANY_JSON),
)
def test_whatever_comes_is_refused_in_words_or_can_be_stored_and_followed(
    kind: SteeringKind, arguments: dict[str, Any]
) -> None:
    try:
        steering = read(kind, arguments, TARGET, WHEN)
    except BadInput:
        return
    assert from_wire(to_wire(steering), Steering) == steering
    assert course([steering]) is not None
    assert spoken(steering).endswith(".")


def test_a_plan_of_a_run_under_way_offers_to_go_on_from_it_or_to_give_it_up() -> None:
    shown = view(node(1, 0, plan("Fuse"), verified(2.0)), node(2, 1, plan("More"), None))
    assert [c.title for c in steering_commands(shown, 1, asks=False)] == [
        "STARK: go on from attempt 1",
        "STARK: give attempt 1 up",
    ]
    (*_, hint) = steering_commands(shown, 2, asks=True)
    assert (hint.command, hint.arguments) == ("stark.hint", [{"run": "abcd1234", "node": 2}])
    assert steering_commands(shown, 3, asks=True) == []
    assert steering_commands(view(node(1, 0, plan("Fuse"), None), phase=Phase.OFFERED), 1, asks=True) == []


def test_what_was_told_is_taken_back_by_the_same_action() -> None:
    shown = view(node(1, 0, plan("Fuse"), verified(2.0)))
    shown.course = Course(pinned=1, pruned=frozenset({1}))
    assert [c.command for c in steering_commands(shown, 1, asks=False)] == ["stark.unpin", "stark.restore"]


def test_a_paused_run_says_so_and_offers_to_go_on() -> None:
    shown = view(node(1, 0, plan("Fuse"), verified(2.0)))
    shown.status = "attempt 1 of 30"
    shown.course = Course(paused=True)
    assert shown.paused
    assert [c.command for c in run_commands(shown)] == ["stark.cancel", "stark.resume"]
    assert under_way_command(shown).arguments == [{"run": "abcd1234"}]
    assert "Run abcd1234 with playbook · paused, attempt 1 of 30" in hovered(shown)[1]
    shown.phase = Phase.OVER
    assert not shown.paused


def test_hover_tells_what_the_user_said_of_an_attempt() -> None:
    shown = view(node(1, 0, plan("Fuse"), failed(VerdictStatus.CRASHED, "")))
    shown.course = Course(1, frozenset({1}), (Hint("[x](command:y)", 1), Hint("elsewhere", 2)))
    markdown, _ = hovered(shown)
    told = "**You** had the run go on from this attempt; gave this branch up; told the agents `[x](command:y)`"
    assert told in markdown
    assert "elsewhere" not in markdown


def test_the_budget_is_the_one_that_was_told_last() -> None:
    shown = view()
    assert shown.budget == Budget()
    shown.course = replace(shown.course, budget=Budget(7))
    assert shown.budget.attempts == 7
