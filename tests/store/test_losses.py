"""What was paid for nothing is kept, adds up with what was answered, and is no answer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_cases import exchange, loss, run
from store_strategies import losses

from stark_lsp.core.conversation import Loss, Spend, Usage
from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import ModelRole, RunState
from stark_lsp.store import RunStore, rows
from stark_lsp.store.schema import migrate


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    made = RunStore(tmp_path / "runs.sqlite3")
    made.create(run())
    yield made
    made.close()


def test_losses_come_back_in_order_and_one_place_may_have_several(store: RunStore) -> None:
    made = [loss(2), loss(1), loss(2)]
    for one in made:
        store.losses.keep("r1", one)
    store.create(run("r2"))
    again = RunStore(store.path)
    assert list(again.losses.list("r1")) == made
    assert again.losses.list("r2") == ()


def test_spend_is_of_answers_and_losses(store: RunStore) -> None:
    store.exchanges.keep("r1", exchange(1, usage=Usage(100, 20, 300, 50), dollars=0.25))
    store.losses.keep("r1", loss(1, usage=Usage(1, 2, 3, 4), dollars=0.5))
    store.losses.keep("r1", loss(2, usage=Usage(7, 0, 0, 0), dollars=None))
    assert store.exchanges.spend("r1") == Spend(3, Usage(108, 22, 303, 54), 0.75, unpriced=1)
    assert store.exchanges.spend("r1", 1) == Spend(2, Usage(101, 22, 303, 54), 0.75)
    assert store.exchanges.spend("r1", 2) == Spend(1, Usage(7), 0.0, unpriced=1)


def test_a_loss_is_never_found_as_an_answer(store: RunStore) -> None:
    lost = loss(2)
    store.losses.keep("r1", lost)
    assert store.exchanges.find("r1", 2, ModelRole.CODE, 0) is None
    assert store.exchanges.list("r1") == ()
    store.exchanges.keep("r1", exchange(2, ModelRole.CODE))
    assert store.exchanges.find("r1", 2, ModelRole.CODE, 0) == exchange(2, ModelRole.CODE).answer
    assert store.exchanges.spend("r1").calls == 2


def test_figures_no_service_should_send_do_not_break_the_sum(store: RunStore) -> None:
    for _ in range(3):
        store.losses.keep("r1", loss(usage=Usage(10**30, -5, 2**63, 7), dollars=float("nan")))
    most = 3 * rows.MOST_TOKENS
    assert store.exchanges.spend("r1") == Spend(3, Usage(most, 0, most, 21), 0.0, unpriced=3)


def test_a_loss_of_an_unknown_run_is_bad_input(store: RunStore) -> None:
    with pytest.raises(BadInput, match="no run r9 in the store"):
        store.losses.keep("r9", loss())


def test_losses_go_with_their_run(store: RunStore) -> None:
    store.losses.keep("r1", loss())
    store.update(run("r1", RunState.CANCELLED))
    store.delete("r1")
    with sqlite3.connect(store.path) as connection:
        assert connection.execute("SELECT count(*) FROM losses").fetchone() == (0,)


def test_one_that_cannot_be_read_is_left_out_and_still_counts(
    store: RunStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.losses.keep("r1", loss(1))
    store.losses.keep("r1", loss(2))
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE losses SET wire = '{}' WHERE attempt = 1")
    assert store.losses.list("r1") == (loss(2),)
    assert "a loss of run r1" in caplog.text
    assert store.exchanges.spend("r1").calls == 2


@settings(max_examples=40, deadline=None)
@given(st.lists(losses, max_size=4))
def test_whatever_is_kept_comes_back(made: list[Loss]) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    store = RunStore(":memory:")
    migrate(connection, store.path)
    store._database._open = lambda: connection  # type: ignore[method-assign]
    store.create(run(), losses=made)
    assert list(store.losses.list("r1")) == made
    connection.close()
