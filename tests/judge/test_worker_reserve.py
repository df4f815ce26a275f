"""Processes for the next candidates are replaced when that holds nobody up, and at once when none is left."""

from __future__ import annotations

import threading
import time

import pytest

from stark_lsp.judge.processes import reserve
from stark_lsp.judge.processes.reserve import Reserve


class Children:
    """Counts instead of starting anything."""

    def __init__(self) -> None:
        self.ready = 0
        self.filled = threading.Event()

    def left(self) -> int:
        return self.ready

    def replenish(self, count: int) -> None:
        self.ready = count
        self.filled.set()

    def take(self) -> None:
        self.ready -= 1
        self.filled.clear()


def judged(children: Children, kept: Reserve, *, builds: bool = False) -> None:
    kept.begin()
    children.take()
    if builds:
        kept.building()
    kept.end()


@pytest.fixture
def children() -> Children:
    return Children()


def patient(children: Children) -> Reserve:
    kept = Reserve(children, 5, patient=True)
    kept.fill()
    return kept


def test_candidates_that_follow_at_once_find_nobody_coming_up(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "CALM_S", 60.0)
    kept = patient(children)
    for left in (4, 3, 2, 1):
        judged(children, kept)
        assert children.ready == left
    judged(children, kept)
    assert children.ready == 5


def test_a_build_is_the_time_to_replace_them_once_few_are_left(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "CALM_S", 60.0)
    kept = patient(children)
    judged(children, kept, builds=True)
    assert children.ready == 4
    judged(children, kept, builds=True)
    assert children.ready == 5


def test_after_a_moment_without_candidates_all_are_replaced(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "CALM_S", 0.05)
    kept = patient(children)
    kept.begin()
    judged(children, kept)
    time.sleep(0.2)
    assert children.ready == 4, "another candidate is still judged"
    kept.end()
    assert children.filled.wait(10.0)
    assert children.ready == 5


def test_without_patience_each_is_replaced_as_soon_as_its_candidate_is_judged(children: Children) -> None:
    kept = Reserve(children, 1, patient=False)
    kept.fill()
    children.take()
    kept.building()
    assert children.ready == 0
    kept.begin()
    kept.end()
    assert children.ready == 1
