"""Which of what was said to a run still counts when it is taken up."""

from __future__ import annotations

from pathlib import Path

import pytest
from model_runs import problem_in

from stark_lsp.core.run import Budget, Run
from stark_lsp.core.steering import Course, Steering, SteeringKind
from stark_lsp.runs.follower import SteeringFollower
from stark_lsp.store import RunStore


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    made = RunStore(tmp_path / "runs.sqlite3")
    made.create(Run("r1", problem_in(tmp_path), 0, "playbook", Budget()))
    return made


def said(kind: SteeringKind, **more: object) -> Steering:
    return Steering(kind, when="2026-01-01T00:00:00+00:00", **more)  # type: ignore[arg-type]


def follower(store: RunStore, heard: int = 0) -> SteeringFollower:
    return SteeringFollower(store, "r1", lambda course, fresh: None, lambda text: None, heard)


async def test_a_budget_that_an_earlier_sitting_followed_counts_no_more_however_that_ended(store: RunStore) -> None:
    store.steerings.add("r1", said(SteeringKind.BUDGET, budget=Budget(dollars=20.0)))
    store.steerings.add("r1", said(SteeringKind.PIN, node=1))
    killed = follower(store)
    await killed.catch_up()
    assert killed.course == Course(pinned=1, budget=Budget(dollars=20.0))

    taken_up = follower(store, killed.heard)
    await taken_up.catch_up()
    assert taken_up.course == Course(pinned=1)


async def test_a_budget_that_was_said_while_the_run_stood_still_counts(store: RunStore) -> None:
    first = follower(store)
    await first.catch_up()
    store.steerings.add("r1", said(SteeringKind.BUDGET, budget=Budget(50)))
    taken_up = follower(store, first.heard)
    await taken_up.catch_up()
    assert taken_up.course.budget == Budget(50)
    assert taken_up.heard > first.heard
