"""A model whose every answer is kept before it is used, and whose every question is paid for from a purse.

1. The journal is asked for the answer of an earlier process: what was paid for is not asked again.
2. The worst case is set aside in the purse, which refuses what could cross a limit.
3. The question is asked.
4. The exchange is kept in the journal, even if the run is cancelled meanwhile, and only then the answer is returned.
   Of a call that ends without an answer, what it has cost is kept there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timezone

from stark_lsp.agents.models.metering import MeteredModel
from stark_lsp.agents.models.purse import Purse, Reservation
from stark_lsp.core.conversation import Answer, Exchange, Journal, Loss, Model, Question, Remembering, Usage
from stark_lsp.core.errors import Fault, NotNow, StarkError
from stark_lsp.core.status import ModelRole

_log = logging.getLogger(__name__)


_ENDED = "cancelled"
_LONGEST_WHY = 500
"""Characters of what ended a call."""


class JournaledModel:
    """`Model` over another one, a journal and a purse.

    Parameters
    ----------
    model
        Who is asked.
    journal
        Where exchanges are kept.
    purse
        What pays for them.
    """

    def __init__(self, model: Model, journal: Journal, purse: Purse) -> None:
        self._model = model
        self._journal = journal
        self._purse = purse

    @property
    def name(self) -> str:
        """What a person calls the model."""
        return self._model.name

    def takes_temperature(self, name: str = "") -> bool | None:
        """Return whether a model takes a temperature, None if that is not known."""
        known: Callable[[str], bool | None] | None = getattr(self._model, "takes_temperature", None)
        return None if known is None else known(name)

    async def question_at(self, attempt: int, role: ModelRole, ordinal: int) -> Question | None:
        """Return the question that was answered in this place of the run, or of the transcript that is replayed."""
        kept = await self._journal.question_at(attempt, role, ordinal)
        if kept is None and isinstance(self._model, Remembering):
            kept = await self._model.question_at(attempt, role, ordinal)
        return kept

    async def ask(self, question: Question) -> Answer:
        """Return the answer that is in the journal, else ask for it, and keep it.

        Raises
        ------
        BudgetSpent
            The question could cost more than is left; it was not sent.
        Fault, BadInput
            As the model does; or the journal cannot be read.
        NotNow
            The answer cannot be kept: each further one would be paid for and lost, too.
        asyncio.CancelledError
            The run was stopped. An answer that had arrived is in the journal, else what the call has cost.
        """
        kept = await self._journal.find(question.attempt, question.role, question.ordinal)
        if kept is not None:
            return kept
        asked = question.model or self.name
        till = _Till(self._purse, question, asked, await self._purse.reserve(question, asked))
        try:
            if isinstance(self._model, MeteredModel):
                answer = await self._model.ask_metered(question, till)
            else:
                answer = await self._model.ask(question)
        except (Exception, asyncio.CancelledError) as error:
            till.close()
            await self._lose(question, till, error)
            raise
        except BaseException:
            till.close()
            raise
        whole = replace(answer, usage=answer.usage + till.lost_usage)
        # One call by one: where a long input has a price of its own, their sum may be as long as none of them.
        cost, lost = self._purse.cost(answer.usage, whole.model or asked, asked=asked), till.lost_dollars
        cost = None if cost is None or lost is None else cost + lost
        try:
            await _in_any_case(self._journal.keep(Exchange(question, whole, cost, _now())))
        except Fault as trouble:
            raise NotNow(trouble.message, trouble.cure, trouble.path, trouble.line, trouble.details) from trouble
        finally:
            till.settle(answer)
        return whole

    async def _lose(self, question: Question, till: _Till, error: BaseException) -> None:
        """Keep what a call has cost that ended by an error."""
        if till.lost_usage.total == 0:
            return
        why = _ENDED if isinstance(error, asyncio.CancelledError) else str(getattr(error, "message", error))
        place = (question.attempt, question.role, question.ordinal)
        loss = Loss(*place, till.asked, till.lost_usage, till.lost_dollars, _now(), why[:_LONGEST_WHY])
        try:
            await _in_any_case(self._journal.lose(loss))
        except StarkError as trouble:
            # The error that ended the call goes on; a store that fails stops the run at the next answer.
            _log.warning("what a call has cost that ended without an answer could not be kept: %s", trouble)

    async def close(self) -> None:
        """Close the model's connections."""
        await self._model.close()


class _Till:
    """The meter of one question: what its tries cost comes out of the purse."""

    def __init__(self, purse: Purse, question: Question, asked: str, reservation: Reservation) -> None:
        self._purse = purse
        self._question = question
        self._reservation = reservation
        self.asked = asked
        """Who is asked."""
        self.lost_usage = Usage()
        """Of tries that gave no answer."""
        self.lost_dollars: float | None = 0.0
        """What they cost; None where the price is unknown."""

    async def lost(self, usage: Usage) -> None:
        """Take a try that was billed; return when the next one is set aside."""
        if usage.total == 0:
            return  # the reservation stands for the next try
        self.gone(usage)
        self._reservation = await self._purse.reserve(self._question, self.asked)

    def gone(self, usage: Usage) -> None:
        """Take the last try, which was billed."""
        self._purse.release(self._reservation)
        cost = self._purse.lose(usage, self.asked)
        self.lost_usage += usage
        self.lost_dollars = None if cost is None or self.lost_dollars is None else self.lost_dollars + cost

    def settle(self, answer: Answer) -> None:
        """Take the answer; what was lost before it is counted already."""
        self._purse.settle(self._reservation, answer.usage, answer.model)

    def close(self) -> None:
        """Take the end of a call without an answer: give back what is set aside, and count it if it was billed."""
        self._purse.release(self._reservation)
        if self.lost_usage.total:
            self._purse.give_up(priced=self.lost_dollars is not None)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


async def _in_any_case(work: Awaitable[None]) -> None:
    """Await work that goes on to its end though the one who waits is cancelled; the cancel comes after it."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled
