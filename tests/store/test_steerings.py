"""What a user tells a run is kept in order, and whoever follows the run finds it once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from store_cases import run, steerings

from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import RunState
from stark_lsp.core.steering import Steering, SteeringKind, course
from stark_lsp.store import RunStore


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    made = RunStore(tmp_path / "runs.sqlite3")
    made.create(run())
    made.create(run("r2"))
    return made


def test_who_follows_a_run_finds_what_is_new(store: RunStore) -> None:
    follower = RunStore(store.path)
    assert follower.steerings.since("r1", 0) == ()
    pin, hint, *later = steerings()
    numbers = [store.steerings.add("r1", pin), store.steerings.add("r1", hint)]
    assert follower.steerings.since("r1", 0) == ((numbers[0], pin), (numbers[1], hint))
    store.steerings.add("r2", Steering(SteeringKind.PAUSE))
    for one in later:
        numbers.append(store.steerings.add("r1", one))
    assert follower.steerings.since("r1", numbers[1]) == tuple(zip(numbers[2:], later, strict=True))
    assert follower.steerings.since("r1", numbers[-1]) == ()
    assert numbers == sorted(set(numbers))
    assert course(one for _, one in follower.steerings.since("r1")) == course(steerings())


def test_numbers_are_never_given_out_again(store: RunStore) -> None:
    last = store.steerings.add("r1", Steering(SteeringKind.PAUSE))
    store.update(run(state=RunState.CANCELLED))
    store.delete("r1")
    store.create(run())
    assert store.steerings.since("r1") == ()
    assert store.steerings.add("r1", Steering(SteeringKind.RESUME)) > last


def test_an_unknown_run_cannot_be_told_anything(store: RunStore) -> None:
    with pytest.raises(BadInput, match="no run r9 in the store"):
        store.steerings.add("r9", Steering(SteeringKind.PAUSE))
    assert store.steerings.since("r9") == ()


def test_what_a_newer_version_said_is_left_out_and_logged_once(
    store: RunStore, caplog: pytest.LogCaptureFixture
) -> None:
    strange = store.steerings.add("r1", Steering(SteeringKind.PAUSE))
    known = store.steerings.add("r1", Steering(SteeringKind.RESUME))
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE steerings SET wire = replace(wire, 'pause', 'fly') WHERE number = ?", (strange,))
    for _ in range(3):
        assert store.steerings.since("r1", 0) == ((known, Steering(SteeringKind.RESUME)),)
    assert caplog.text.count(f"steering {strange} of run r1") == 1


def test_text_that_utf8_cannot_encode_comes_back(store: RunStore) -> None:
    odd = Steering(SteeringKind.HINT, text="\ud800 \0", when="\udcff")
    store.steerings.add("r1", odd)
    ((_, found),) = store.steerings.since("r1")
    assert found == odd
