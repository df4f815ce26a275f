"""What a call has cost that ended without an answer is in the store: limits hold when the run is taken up again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from messages_api import replies
from model_cases import NEW, PLAN, MemoryJournal, question

from stark_lsp.agents.models import anthropic
from stark_lsp.agents.models.journaled import JournaledModel
from stark_lsp.agents.models.patience import Patience
from stark_lsp.agents.models.prices import Price, Prices
from stark_lsp.agents.models.purse import Purse
from stark_lsp.agents.models.reading import AnswerReader
from stark_lsp.agents.models.sizes import worst_case
from stark_lsp.core.conversation import Loss, Spend
from stark_lsp.core.errors import Fault
from stark_lsp.core.problem import InputSpec, Problem, SourceSlice, Span
from stark_lsp.core.roles import BudgetSpent
from stark_lsp.core.run import Budget, Run
from stark_lsp.core.status import ModelRole, RunState
from stark_lsp.runs.journal import StoreJournal
from stark_lsp.store import RunStore

PRICES = Prices({NEW: Price(2.0, 2.5, 0.1, 10.0)})
LONG = {**PLAN, "advice": "word " * 300}
STUCK = replies.tool(LONG, pause_s=300.0, pause_before=4)
"""An answer that does not go on after some of it."""
TEXT = "class Model: ...\n"
PROBLEM = Problem("model.py", "Model", TEXT, SourceSlice(TEXT, (0,)), Span(0, 0), InputSpec())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    made = RunStore(tmp_path / "runs.sqlite3")
    made.create(Run("r1", PROBLEM, 0, NEW, Budget(5), RunState.RUNNING))
    yield made
    made.close()


@pytest.fixture
def arrived(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Is set when the first half of an answer is there."""
    event = asyncio.Event()

    class Watched(AnswerReader):
        def feed(self, event_: Mapping[str, Any]) -> None:
            super().feed(event_)
            if self.started and self._size > 0:
                event.set()

    monkeypatch.setattr(anthropic, "AnswerReader", Watched)
    return event


async def cancel_midway(model: JournaledModel, arrived: asyncio.Event) -> None:
    asking = asyncio.create_task(model.ask(question()))
    await arrived.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_what_a_cancelled_call_has_cost_is_in_the_store(
    serve: Any, connect: Any, store: RunStore, arrived: asyncio.Event
) -> None:
    purse = Purse(Budget(), PRICES)
    model = JournaledModel(connect(serve([STUCK])), StoreJournal(store, "r1"), purse)
    await cancel_midway(model, arrived)
    assert purse.spend.usage.total > 300, "what was read is certain"
    assert purse.spend.calls == 1
    assert RunStore(store.path).exchanges.spend("r1") == purse.spend
    (loss,) = store.losses.list("r1")
    assert (loss.attempt, loss.role, loss.ordinal) == (1, ModelRole.PLAN, 0)
    assert loss.model == NEW
    assert loss.usage == purse.spend.usage
    assert loss.dollars == pytest.approx(PRICES.cost(NEW, loss.usage))
    assert loss.when.endswith("+00:00")
    assert loss.why == "cancelled"


async def test_it_is_no_answer_when_the_run_is_taken_up_again(
    serve: Any, connect: Any, store: RunStore, arrived: asyncio.Event
) -> None:
    server = serve([STUCK, replies.tool(PLAN)])
    first = Purse(Budget(), PRICES)
    await cancel_midway(JournaledModel(connect(server), StoreJournal(store, "r1"), first), arrived)
    assert store.exchanges.find("r1", 1, ModelRole.PLAN, 0) is None
    assert store.exchanges.list("r1") == ()
    second = Purse(Budget(), PRICES, store.exchanges.spend("r1"))
    answer = await JournaledModel(connect(server), StoreJournal(store, "r1"), second).ask(question())
    assert answer.tool_input == PLAN
    assert len(server.requests) == 2
    assert second.spend.usage == first.spend.usage + answer.usage
    assert store.exchanges.spend("r1") == second.spend


async def test_limits_hold_over_a_cancel_and_a_resume(
    serve: Any, connect: Any, store: RunStore, arrived: asyncio.Event
) -> None:
    budget = Budget(tokens=worst_case(question()).total)
    server = serve([STUCK, replies.tool(PLAN)])
    await cancel_midway(JournaledModel(connect(server), StoreJournal(store, "r1"), Purse(budget, PRICES)), arrived)
    purse = Purse(budget, PRICES, store.exchanges.spend("r1"))
    with pytest.raises(BudgetSpent):
        await JournaledModel(connect(server), StoreJournal(store, "r1"), purse).ask(question())
    assert len(server.requests) == 1


async def test_broken_tries_are_in_the_store_where_none_came_to_an_end(
    serve: Any, connect: Any, store: RunStore
) -> None:
    purse = Purse(Budget(), PRICES)
    with pytest.raises(Fault) as caught:
        await JournaledModel(connect(serve([replies.cut(LONG, after=5)])), StoreJournal(store, "r1"), purse).ask(
            question()
        )
    (loss,) = store.losses.list("r1")
    assert loss.why == caught.value.message
    assert loss.usage == purse.spend.usage
    assert store.exchanges.spend("r1") == purse.spend
    assert purse.spend.calls == 1, "one call, however many tries"


async def test_a_try_is_in_the_store_after_which_no_other_fits(serve: Any, connect: Any, store: RunStore) -> None:
    purse = Purse(Budget(tokens=worst_case(question()).total + 50), PRICES)
    server = serve([replies.cut({**PLAN, "advice": "word " * 700}, after=7)])
    with pytest.raises(BudgetSpent):
        await JournaledModel(connect(server), StoreJournal(store, "r1"), purse).ask(question())
    assert len(server.requests) == 1
    assert store.exchanges.spend("r1") == purse.spend != Spend()


async def test_a_try_is_in_the_store_when_the_pause_after_it_is_cancelled(
    serve: Any, connect: Any, store: RunStore
) -> None:
    purse, waits = Purse(Budget(), PRICES), asyncio.Event()
    patience = Patience(first_pause=60.0, longest_pause=60.0)
    model = connect(serve([replies.cut(LONG, after=6)]), patience=patience, on_wait=lambda _: waits.set())
    asking = asyncio.create_task(JournaledModel(model, StoreJournal(store, "r1"), purse).ask(question()))
    await waits.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert store.exchanges.spend("r1") == purse.spend != Spend()
    assert purse.reserved == (0, 0.0)


async def test_a_loss_whose_price_is_unknown_is_counted_as_such(
    serve: Any, connect: Any, store: RunStore, arrived: asyncio.Event
) -> None:
    purse = Purse(Budget(), Prices())
    await cancel_midway(JournaledModel(connect(serve([STUCK])), StoreJournal(store, "r1"), purse), arrived)
    assert (purse.spend.calls, purse.spend.unpriced, purse.spend.dollars) == (1, 1, 0.0)
    assert store.exchanges.spend("r1") == purse.spend


async def test_a_call_that_cost_nothing_leaves_nothing(serve: Any, connect: Any, store: RunStore) -> None:
    purse = Purse(Budget(), PRICES)
    server = serve([replies.tool(PLAN, delay_s=300.0)])
    asking = asyncio.create_task(JournaledModel(connect(server), StoreJournal(store, "r1"), purse).ask(question()))
    while not server.requests:
        await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert store.losses.list("r1") == ()
    assert purse.spend == Spend()


class _Slow(MemoryJournal):
    """A journal that takes its time to keep a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.keeping = asyncio.Event()
        self.go_on = asyncio.Event()

    async def lose(self, loss: Loss) -> None:
        self.keeping.set()
        await self.go_on.wait()
        await super().lose(loss)


async def test_a_second_cancel_does_not_lose_it(serve: Any, connect: Any, arrived: asyncio.Event) -> None:
    journal = _Slow()
    model = JournaledModel(connect(serve([STUCK])), journal, Purse(Budget(), PRICES))
    asking = asyncio.create_task(model.ask(question()))
    await arrived.wait()
    asking.cancel()
    await journal.keeping.wait()
    for _ in range(3):
        asking.cancel()
        await asyncio.sleep(0)
    journal.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(journal.losses) == 1


class _FullDisk(MemoryJournal):
    async def lose(self, loss: Loss) -> None:
        raise Fault("The disk is full.")


async def test_a_loss_that_cannot_be_kept_is_logged_and_the_cancel_goes_on(
    serve: Any, connect: Any, arrived: asyncio.Event, caplog: pytest.LogCaptureFixture
) -> None:
    purse = Purse(Budget(), PRICES)
    with caplog.at_level(logging.WARNING):
        await cancel_midway(JournaledModel(connect(serve([STUCK])), _FullDisk(), purse), arrived)
    assert "The disk is full." in caplog.text
    assert purse.spend.calls == 1
