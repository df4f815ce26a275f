"""Questions and answers that several tests use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stark_lsp.agents.models.patience import Patience
from stark_lsp.core.conversation import Answer, Exchange, Loss, Question, Tool
from stark_lsp.core.status import ModelRole

HURRIED = Patience(tries=5, first_pause=0.005, longest_pause=0.02, pauses=1.0, connect=2.0, silence=5.0, one_try=20.0)
"""Short pauses for tests."""
PLAN = {"title": "Fuse", "advice": "One pass.", "annotated_source": "class Model: ..."}
TOOL = Tool(
    "submit_plan",
    "Hand the plan in.",
    {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
)
OLD = "claude-sonnet-4-6"
"""Takes a temperature and a forced tool."""
NEW = "claude-sonnet-5-5"
"""Takes neither."""


def question(**changes: Any) -> Question:
    """Return a question; what `changes` names is different."""
    base = Question(
        attempt=1,
        role=ModelRole.PLAN,
        system="You are an expert.",
        shared="The class and an example. " * 40,
        body="What was tried.",
        tool=TOOL,
        max_tokens=1000,
    )
    return replace(base, **changes)


def waits() -> tuple[list[str], Callable[[str], None]]:
    """Return a list, and what appends to it."""
    said: list[str] = []
    return said, said.append


class MemoryJournal:
    """A journal in memory."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.losses: list[Loss] = []

    async def find(self, attempt: int, role: ModelRole, ordinal: int) -> Answer | None:
        """Return the answer that was kept for this place."""
        kept = self._at(attempt, role, ordinal)
        return None if kept is None else kept.answer

    async def question_at(self, attempt: int, role: ModelRole, ordinal: int) -> Question | None:
        """Return the question that was answered in this place."""
        kept = self._at(attempt, role, ordinal)
        return None if kept is None else kept.question

    def _at(self, attempt: int, role: ModelRole, ordinal: int) -> Exchange | None:
        for exchange in self.exchanges:
            asked = exchange.question
            if (asked.attempt, asked.role, asked.ordinal) == (attempt, role, ordinal):
                return exchange
        return None

    async def keep(self, exchange: Exchange) -> None:
        """Keep an exchange."""
        self.exchanges.append(exchange)

    async def lose(self, loss: Loss) -> None:
        """Keep what a call has cost that ended without an answer."""
        self.losses.append(loss)
