"""The purse: what is spent and set aside never comes to more than the limit."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import NEW, question

from stark_lsp.agents.models.prices import Price, Prices
from stark_lsp.agents.models.purse import Purse, Reservation
from stark_lsp.agents.models.sizes import most_tokens, worst_case
from stark_lsp.core.conversation import Spend, Usage
from stark_lsp.core.errors import BadInput
from stark_lsp.core.roles import BudgetSpent
from stark_lsp.core.run import Budget

PRICES = Prices({NEW: Price(2.0, 2.5, 0.1, 10.0)})
WORST = worst_case(question())
DOLLARS = PRICES.models[NEW].most(WORST)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_no_order_of_calls_crosses_a_limit(data: st.DataObject) -> None:
    limit_tokens = data.draw(st.integers(0, 12 * WORST.total))
    limit_dollars = data.draw(st.floats(0.0, 12 * DOLLARS))
    purse = Purse(Budget(tokens=limit_tokens, dollars=limit_dollars), PRICES)

    def within() -> None:
        tokens, dollars = purse.reserved
        assert purse.spend.usage.total + tokens <= limit_tokens
        assert purse.spend.dollars + dollars <= limit_dollars + 1e-9

    async def caller(plan: list[tuple[int, float, str]]) -> None:
        for pause, share, end in plan:
            try:
                reservation = await purse.reserve(question(), NEW)
            except BudgetSpent:
                within()
                return
            within()
            for _ in range(pause):
                await asyncio.sleep(0)
            used = Usage(
                input_tokens=int(WORST.cache_write_tokens * share), output_tokens=int(WORST.output_tokens * share)
            )
            if end == "settle":
                purse.settle(reservation, used, NEW)
            else:
                purse.release(reservation)
                if end == "lose":
                    purse.lose(used, NEW)
            within()

    step = st.tuples(st.integers(0, 4), st.floats(0.0, 1.0), st.sampled_from(["settle", "settle", "release", "lose"]))
    plans = data.draw(st.lists(st.lists(step, min_size=1, max_size=5), min_size=1, max_size=5))

    async def everybody() -> None:
        # A caller that waited for ever would end this test by its time limit.
        await asyncio.gather(*(caller(plan) for plan in plans))

    asyncio.run(everybody())
    assert purse.reserved == (0, 0.0)


async def test_a_call_that_would_not_fit_alone_is_refused_before_it_is_made() -> None:
    purse = Purse(Budget(dollars=DOLLARS * 0.99), PRICES)
    with pytest.raises(BudgetSpent, match=r"could cost \$0\.0\d"):
        await purse.reserve(question(), NEW)
    tokens = Purse(Budget(tokens=WORST.total - 1), PRICES)
    with pytest.raises(BudgetSpent, match="tokens"):
        await tokens.reserve(question(), NEW)
    assert tokens.spend == Spend()


async def test_a_call_waits_for_others_under_way_and_then_fits() -> None:
    purse = Purse(Budget(tokens=WORST.total * 2 - 1), PRICES)
    first = await purse.reserve(question(), NEW)
    second = asyncio.create_task(purse.reserve(question(), NEW))
    await asyncio.sleep(0)
    assert not second.done()
    purse.settle(first, Usage(input_tokens=10, output_tokens=10), NEW)
    assert isinstance(await second, Reservation)


async def test_a_call_that_waits_is_refused_when_the_others_used_too_much() -> None:
    purse = Purse(Budget(tokens=WORST.total * 2 - 1), PRICES)
    first = await purse.reserve(question(), NEW)
    second = asyncio.create_task(purse.reserve(question(), NEW))
    await asyncio.sleep(0)
    purse.settle(first, WORST, NEW)
    with pytest.raises(BudgetSpent):
        await second


async def test_a_raised_limit_lets_go_on_and_a_lowered_one_stops() -> None:
    purse = Purse(Budget(tokens=WORST.total), PRICES)
    first = await purse.reserve(question(), NEW)
    purse.change(Budget(tokens=WORST.total - 1))
    with pytest.raises(BudgetSpent):
        await purse.reserve(question(), NEW)
    purse.change(Budget(tokens=None))
    await purse.reserve(question(), NEW)
    purse.change(Budget(tokens=1))
    purse.settle(first, WORST, NEW)
    with pytest.raises(BudgetSpent):
        await purse.reserve(question(), NEW)


async def test_waiting_for_a_raised_limit_ends_when_it_is_raised() -> None:
    purse = Purse(Budget(tokens=WORST.total * 2 - 1), PRICES)
    await purse.reserve(question(), NEW)
    second = asyncio.create_task(purse.reserve(question(), NEW))
    await asyncio.sleep(0)
    purse.change(Budget(tokens=WORST.total * 2))
    assert isinstance(await second, Reservation)


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    purse = Purse(Budget(tokens=WORST.total * 2 - 1), PRICES)
    first = await purse.reserve(question(), NEW)
    second = asyncio.create_task(purse.reserve(question(), NEW))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    purse.release(first)
    assert purse.reserved == (0, 0.0)


async def test_a_limit_of_dollars_needs_known_prices() -> None:
    purse = Purse(Budget(dollars=1.0), PRICES)
    purse.check([NEW])
    with pytest.raises(BadInput, match="price of mystery is unknown"):
        purse.check([NEW, "mystery"])
    with pytest.raises(BadInput, match="unknown"):
        await purse.reserve(question(), "mystery")
    Purse(Budget(tokens=10), PRICES).check(["mystery"])


async def test_a_limit_of_dollars_is_held_over_the_others_where_one_is_not_counted() -> None:
    purse = Purse(Budget(dollars=0.001), PRICES, uncounted=("mystery",))
    purse.check([NEW, "mystery"])
    purse.settle(await purse.reserve(question(), "mystery"), Usage(output_tokens=10**6))
    with pytest.raises(BudgetSpent):
        await purse.reserve(question(), NEW)


async def test_calls_of_unknown_price_are_counted_as_such() -> None:
    told: list[Spend] = []
    purse = Purse(Budget(), PRICES, on_spend=told.append)
    purse.settle(await purse.reserve(question(), "mystery"), Usage(output_tokens=5))
    purse.settle(await purse.reserve(question(), NEW), Usage(output_tokens=100))
    assert purse.spend == Spend(2, Usage(output_tokens=105), pytest.approx(0.001), unpriced=1)
    assert len(told) == 2


async def test_settling_twice_counts_once() -> None:
    purse = Purse(Budget(), PRICES)
    reservation = await purse.reserve(question(), NEW)
    purse.settle(reservation, Usage(output_tokens=5), NEW)
    purse.settle(reservation, Usage(output_tokens=5), NEW)
    purse.release(reservation)
    assert purse.spend.calls == 1


async def test_a_resumed_run_begins_with_what_was_spent() -> None:
    purse = Purse(Budget(tokens=WORST.total + 99), PRICES, Spend(3, Usage(output_tokens=100), 0.5))
    with pytest.raises(BudgetSpent):
        await purse.reserve(question(), NEW)


@given(st.text(max_size=200))
def test_the_bound_is_half_the_bytes_or_more(text: str) -> None:
    size = len(text.encode("utf-8", "replace"))
    assert size / 2 <= most_tokens(text) <= size + 1


def test_the_worst_case_counts_all_that_is_sent() -> None:
    assert worst_case(replace(question(), body="x" * 1000)).total - worst_case(question(body="")).total == 500
    assert worst_case(question(tool=None)).total < worst_case(question()).total
    assert WORST.output_tokens == question().max_tokens
