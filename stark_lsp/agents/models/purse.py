"""Purse: no call is made that could carry a run over its limits of tokens and money.

Before a call its worst case is set aside: a bound on the tokens of the question, all at the dearest price of input,
and the longest answer allowed. When the answer is in, what it really used takes the place of that. So what was spent
and what is set aside never come to more than the limit, however many calls are under way.

A call that does not fit while others are under way waits for them, since most use far less than their worst case. One
that would not fit even if none were under way is refused.

Two things can still carry a run over a limit, by little: a question of more tokens than the bound says (`sizes`), and a
service that bills tries whose connection broke for more than had arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from stark_lsp.agents.models.prices import Prices
from stark_lsp.agents.models.sizes import worst_case
from stark_lsp.core.conversation import Question, Spend, Usage
from stark_lsp.core.errors import BadInput
from stark_lsp.core.roles import BudgetSpent
from stark_lsp.core.run import Budget
from stark_lsp.core.status import Limit


@dataclass(frozen=True)
class Reservation:
    """What is set aside for one call under way."""

    number: int
    model: str
    tokens: int
    dollars: float
    """0 where the price is unknown."""


class Purse:
    """What a run has spent and may spend; for use within one event loop.

    Parameters
    ----------
    budget
        Its limits of tokens and dollars are held; None is no limit.
    prices
        What tokens cost.
    spend
        What was spent before, when a run is resumed.
    on_spend
        Told of every change.
    uncounted
        Models of unknown price over which the limit of dollars is not held.
    """

    def __init__(
        self,
        budget: Budget,
        prices: Prices,
        spend: Spend | None = None,
        on_spend: Callable[[Spend], None] | None = None,
        uncounted: tuple[str, ...] = (),
    ) -> None:
        self._budget = budget
        self._prices = prices
        self._spend = spend or Spend()
        self._on_spend = on_spend or (lambda _: None)
        self._uncounted = frozenset(uncounted)
        self._open: dict[int, Reservation] = {}
        self._count = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def spend(self) -> Spend:
        """What was spent so far."""
        return self._spend

    @property
    def reserved(self) -> tuple[int, float]:
        """Tokens and dollars that are set aside for calls under way."""
        entries = self._open.values()
        return sum(entry.tokens for entry in entries), sum(entry.dollars for entry in entries)

    def check(self, models: Iterable[str]) -> None:
        """Refuse a limit of money that could not be held.

        Raises
        ------
        BadInput
            There is a limit in dollars, and the price of one of `models` is unknown.
        """
        if self._budget.dollars is None:
            return
        unknown = sorted({model for model in models if self._prices.of(model) is None} - self._uncounted)
        if unknown:
            raise BadInput(
                f"The price of {', '.join(unknown)} is unknown, so a limit in dollars cannot be held.",
                cure="Give its price in prices.toml (docs/models.md says how), or set a limit of tokens instead.",
            )

    def change(self, budget: Budget) -> None:
        """Let other limits hold from now on; calls under way are not touched."""
        self._budget = budget
        self._wake()

    async def reserve(self, question: Question, model: str) -> Reservation:
        """Set the worst case of a question aside; wait for calls under way if it fits only then.

        Parameters
        ----------
        question
            What is to be asked.
        model
            Who is to be asked.

        Raises
        ------
        BudgetSpent
            It would not fit even if no other call were under way.
        BadInput
            There is a limit in dollars, and the price of `model` is unknown.
        """
        worst = worst_case(question)
        while True:
            self.check([model])
            price = self._prices.of(model)
            dollars = 0.0 if price is None else price.most(worst)
            if self._fits(worst.total, dollars, alone=False):
                break
            if not self._fits(worst.total, dollars, alone=True) or not self._open:
                raise self._refusal(worst.total, dollars)
            await self._change()
        self._count += 1
        reservation = Reservation(self._count, model, worst.total, dollars)
        self._open[reservation.number] = reservation
        return reservation

    def settle(self, reservation: Reservation, usage: Usage, model: str = "") -> float | None:
        """Put what a call really used in the place of what was set aside; return its cost, None if unknown.

        Parameters
        ----------
        reservation
            What `reserve` gave; one that was settled or released before counts nothing again.
        usage
            What the call used.
        model
            Who answered, where that is not who was asked.
        """
        if self._open.pop(reservation.number, None) is None:
            return None
        cost = self.cost(usage, model or reservation.model, asked=reservation.model)
        self._spend = Spend(
            calls=self._spend.calls + 1,
            usage=self._spend.usage + usage,
            dollars=self._spend.dollars + (cost or 0.0),
            unpriced=self._spend.unpriced + (1 if cost is None else 0),
        )
        self._wake()
        self._on_spend(self._spend)
        return cost

    def lose(self, usage: Usage, model: str) -> float | None:
        """Count a try that was billed and gave no answer; return its cost, None if unknown; it is no call."""
        if usage.total == 0:
            return 0.0
        cost = self._prices.cost(model, usage)
        self._spend = replace(self._spend, usage=self._spend.usage + usage, dollars=self._spend.dollars + (cost or 0.0))
        self._wake()
        self._on_spend(self._spend)
        return cost

    def give_up(self, *, priced: bool) -> None:
        """Count a call that ended without an answer, after `lose` took what its tries cost."""
        unpriced = self._spend.unpriced + (0 if priced else 1)
        self._spend = replace(self._spend, calls=self._spend.calls + 1, unpriced=unpriced)
        self._on_spend(self._spend)

    def release(self, reservation: Reservation) -> None:
        """Give back what was set aside for a call that cost nothing."""
        if self._open.pop(reservation.number, None) is not None:
            self._wake()

    def cost(self, usage: Usage, model: str, asked: str = "") -> float | None:
        """Return what a call cost in US dollars by the price of who answered, else of who was asked."""
        cost = self._prices.cost(model, usage)
        return self._prices.cost(asked, usage) if cost is None and asked else cost

    def _fits(self, tokens: int, dollars: float, *, alone: bool) -> bool:
        set_aside = (0, 0.0) if alone else self.reserved
        limit = self._budget
        if limit.tokens is not None and self._spend.usage.total + set_aside[0] + tokens > limit.tokens:
            return False
        return limit.dollars is None or self._spend.dollars + set_aside[1] + dollars <= limit.dollars

    def _refusal(self, tokens: int, dollars: float) -> BudgetSpent:
        limit = self._budget
        if limit.tokens is not None and self._spend.usage.total + tokens > limit.tokens:
            spent = self._spend.usage.total
            return BudgetSpent(
                f"The next question could take {tokens:,} tokens, and of the limit of {limit.tokens:,} only "
                f"{max(0, limit.tokens - spent):,} are left.",
                Limit.TOKENS,
            )
        left = max(0.0, (limit.dollars or 0.0) - self._spend.dollars)
        return BudgetSpent(
            f"The next question could cost ${dollars:.2f}, and of the limit of ${limit.dollars or 0.0:.2f} only "
            f"${left:.2f} is left.",
            Limit.DOLLARS,
        )

    async def _change(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
