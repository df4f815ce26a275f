"""A model that answers from a transcript, with no network: what was answered once is answered again."""

from __future__ import annotations

from collections.abc import Iterable

from stark_lsp.core.conversation import Answer, Exchange, Question
from stark_lsp.core.roles import NothingToPropose
from stark_lsp.core.status import ModelRole


class ReplayModel:
    """Answers each question as it was answered at the same place in the run of a transcript.

    Parameters
    ----------
    exchanges
        Of the transcript. Of several at one place the last one counts.
    name
        What a person calls it.
    lenses
        Whether plans were asked for with lenses then, because the model took no temperature.
    """

    def __init__(self, exchanges: Iterable[Exchange], name: str = "replay", *, lenses: bool = False) -> None:
        self._name = name
        self._lenses = lenses
        self._exchanges: dict[tuple[int, ModelRole, int], Exchange] = {
            (exchange.question.attempt, exchange.question.role, exchange.question.ordinal): exchange
            for exchange in exchanges
        }
        self.differing = 0
        """Questions asked so far that are not word for word those of the transcript, for instance as a template was
        edited since."""

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self._name

    def takes_temperature(self, name: str = "") -> bool | None:
        """Return False where plans were asked for with lenses then, else None: questions come out as they did."""
        return False if self._lenses else None

    async def ask(self, question: Question) -> Answer:
        """Return the answer at this place of the transcript.

        Raises
        ------
        NothingToPropose
            The transcript has none.
        """
        exchange = self._exchanges.get((question.attempt, question.role, question.ordinal))
        if exchange is None:
            raise NothingToPropose(
                f"The transcript has no answer for attempt {question.attempt} ({question.role.value})."
            )
        if exchange.question.digest != question.digest:
            self.differing += 1
        return exchange.answer

    async def question_at(self, attempt: int, role: ModelRole, ordinal: int) -> Question | None:
        """Return the question at this place of the transcript."""
        exchange = self._exchanges.get((attempt, role, ordinal))
        return None if exchange is None else exchange.question

    async def close(self) -> None:
        """Do nothing: there is no connection."""
