"""Answers are kept before they are used; what was paid for is not asked again."""

import asyncio
from typing import Any

import pytest
from messages_api import replies
from model_cases import HURRIED, NEW, PLAN, MemoryJournal, question

from stark_lsp.agents.models.journaled import JournaledModel
from stark_lsp.agents.models.prices import Price, Prices
from stark_lsp.agents.models.purse import Purse
from stark_lsp.agents.models.sizes import worst_case
from stark_lsp.core.conversation import Answer, Exchange, Question, Spend, Usage
from stark_lsp.core.errors import BadInput, Fault, NotNow
from stark_lsp.core.roles import BudgetSpent
from stark_lsp.core.run import Budget
from stark_lsp.core.status import ModelRole, StopReason

PRICES = Prices({NEW: Price(2.0, 2.5, 0.1, 10.0)})
WELL = replies.tool(PLAN)


def _purse(budget: Budget | None = None) -> Purse:
    return Purse(budget or Budget(), PRICES)


async def test_an_answer_in_the_journal_is_used_instead_of_a_paid_call(serve: Any, connect: Any) -> None:
    server, journal = serve([WELL]), MemoryJournal()
    first = await JournaledModel(connect(server), journal, _purse()).ask(question())
    purse = _purse(Budget(tokens=0))
    again = await JournaledModel(connect(server), journal, purse).ask(question())
    assert again == first
    assert len(server.requests) == 1
    assert purse.spend == Spend()


async def test_another_place_in_the_run_is_another_question(serve: Any, connect: Any) -> None:
    server, journal = serve([WELL]), MemoryJournal()
    model = JournaledModel(connect(server), journal, _purse())
    for changes in ({}, {"attempt": 2}, {"ordinal": 1}, {"role": ModelRole.DEBUG}, {"attempt": 2}):
        await model.ask(question(**changes))
    assert len(server.requests) == len(journal.exchanges) == 4


async def test_the_exchange_has_question_answer_cost_and_time(serve: Any, connect: Any) -> None:
    journal, purse = MemoryJournal(), _purse()
    answer = await JournaledModel(connect(serve([WELL])), journal, purse).ask(question())
    (exchange,) = journal.exchanges
    assert exchange.question == question()
    assert exchange.answer == answer
    assert exchange.dollars == pytest.approx(PRICES.cost(NEW, answer.usage))
    assert exchange.when.endswith("+00:00")
    assert purse.spend == Spend(1, answer.usage, exchange.dollars or 0.0)
    assert purse.reserved == (0, 0.0)


async def test_a_question_that_does_not_fit_is_not_sent(serve: Any, connect: Any) -> None:
    server, journal = serve([WELL]), MemoryJournal()
    purse = _purse(Budget(tokens=worst_case(question()).total - 1))
    with pytest.raises(BudgetSpent):
        await JournaledModel(connect(server), journal, purse).ask(question())
    assert server.requests == []
    assert journal.exchanges == []


@pytest.mark.parametrize("reply", [replies.refusal(), replies.empty(), replies.cut_off("{"), replies.malformed("{")])
async def test_answers_that_are_no_use_are_kept_and_paid_all_the_same(serve: Any, connect: Any, reply: Any) -> None:
    journal, purse = MemoryJournal(), _purse()
    await JournaledModel(connect(serve([reply])), journal, purse).ask(question())
    assert len(journal.exchanges) == purse.spend.calls == 1


async def test_a_call_that_failed_gives_back_what_was_set_aside(serve: Any, connect: Any) -> None:
    purse = _purse()
    with pytest.raises(BadInput):
        await JournaledModel(connect(serve([replies.unauthorized()])), MemoryJournal(), purse).ask(question())
    assert purse.reserved == (0, 0.0)
    assert purse.spend == Spend()


async def test_broken_tries_are_paid_and_in_the_exchange(serve: Any, connect: Any) -> None:
    long = {**PLAN, "advice": "word " * 300}
    journal, purse = MemoryJournal(), _purse()
    server = serve([replies.cut(long, after=6), replies.rate_limited("0"), replies.tool(long)])
    answer = await JournaledModel(connect(server), journal, purse).ask(question())
    assert purse.spend.usage == answer.usage == journal.exchanges[0].answer.usage
    assert purse.spend.calls == 1
    assert purse.spend.dollars == pytest.approx(journal.exchanges[0].dollars)
    assert answer.usage.input_tokens + answer.usage.cache_read_tokens + answer.usage.cache_write_tokens > 500


async def test_no_further_try_is_made_once_it_could_cross_the_limit(serve: Any, connect: Any) -> None:
    long = {**PLAN, "advice": "word " * 700}
    purse = _purse(Budget(tokens=worst_case(question()).total + 100))
    server = serve([replies.cut(long, after=7), replies.tool(long)])
    with pytest.raises(BudgetSpent):
        await JournaledModel(connect(server), MemoryJournal(), purse).ask(question())
    assert len(server.requests) == 1
    assert purse.spend.usage.total > 100
    assert purse.reserved == (0, 0.0)


async def test_the_last_broken_try_is_paid_too(serve: Any, connect: Any) -> None:
    purse = _purse()
    with pytest.raises(Fault):
        await JournaledModel(connect(serve([replies.cut(PLAN, after=5)])), MemoryJournal(), purse).ask(question())
    assert purse.spend.usage.total >= HURRIED.tries * 5
    assert purse.reserved == (0, 0.0)


class _SlowJournal(MemoryJournal):
    def __init__(self) -> None:
        super().__init__()
        self.keeping = asyncio.Event()
        self.go_on = asyncio.Event()

    async def keep(self, exchange: Exchange) -> None:
        self.keeping.set()
        await self.go_on.wait()
        await super().keep(exchange)


async def test_a_cancel_while_the_answer_is_kept_does_not_lose_it(serve: Any, connect: Any) -> None:
    journal, purse = _SlowJournal(), _purse()
    asking = asyncio.create_task(JournaledModel(connect(serve([WELL])), journal, purse).ask(question()))
    await journal.keeping.wait()
    for _ in range(3):
        asking.cancel()
        await asyncio.sleep(0)
    journal.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(journal.exchanges) == purse.spend.calls == 1


class _FullDisk(MemoryJournal):
    async def keep(self, exchange: Exchange) -> None:
        raise Fault("The disk is full.", cure="Free some space.", path="runs.sqlite3")


async def test_an_answer_that_cannot_be_kept_is_not_used_but_paid_and_no_further_one_is(
    serve: Any, connect: Any
) -> None:
    purse = _purse()
    with pytest.raises(NotNow, match="disk is full") as caught:
        await JournaledModel(connect(serve([WELL])), _FullDisk(), purse).ask(question())
    assert (caught.value.cure, caught.value.path) == ("Free some space.", "runs.sqlite3")
    assert purse.spend.calls == 1


class _Plain:
    """A model that neither meters nor says what it takes."""

    name = "plain"

    async def ask(self, question: Question) -> Answer:
        return Answer(StopReason.COMPLETE, "yes", usage=Usage(output_tokens=3))

    async def close(self) -> None:
        """Do nothing."""


async def test_any_model_can_be_journaled() -> None:
    purse = _purse()
    model = JournaledModel(_Plain(), MemoryJournal(), purse)
    assert (await model.ask(question())).text == "yes"
    assert model.name == "plain"
    assert model.takes_temperature("x") is None
    assert purse.spend.unpriced == 1
    await model.close()


async def test_what_the_model_takes_is_passed_on(serve: Any, connect: Any) -> None:
    assert JournaledModel(connect(serve([WELL])), MemoryJournal(), _purse()).takes_temperature() is False


async def test_parallel_questions_hold_the_limit_together(serve: Any, connect: Any) -> None:
    worst = worst_case(question()).total
    purse, journal = _purse(Budget(tokens=worst * 2)), MemoryJournal()
    server = serve([replies.tool(PLAN, usage={"input_tokens": 300, "output_tokens": 700})])
    model = JournaledModel(connect(server), journal, purse)
    results = await asyncio.gather(*(model.ask(question(attempt=n)) for n in range(8)), return_exceptions=True)
    assert any(isinstance(one, BudgetSpent) for one in results)
    assert len(journal.exchanges) >= 2
    assert purse.spend.usage.total <= worst * 2


async def test_a_price_for_long_inputs_is_asked_of_each_call_by_itself() -> None:
    """A try that was lost and the answer may together be as long as neither was."""
    prices = Prices({"tiered": Price(1.0, 1.0, 1.0, 1.0, above=100_000, long=Price(9.0, 9.0, 9.0, 9.0))})

    class Tiered:
        name = "tiered"

        async def ask_metered(self, asked: Any, meter: Any) -> Answer:
            await meter.lost(Usage(input_tokens=75_000, output_tokens=10))
            usage = Usage(input_tokens=75_000, output_tokens=1000)
            return Answer(StopReason.COMPLETE, text="x", usage=usage, model="tiered")

    journal, purse = MemoryJournal(), Purse(Budget(), prices)
    await JournaledModel(Tiered(), journal, purse).ask(question())  # type: ignore[arg-type]
    assert journal.exchanges[0].dollars == pytest.approx(purse.spend.dollars)
