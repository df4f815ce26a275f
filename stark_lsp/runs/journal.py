"""The run's journal: exchanges go to the store before anybody uses the answer, and so does what was lost."""

from __future__ import annotations

import asyncio

from stark_lsp.core.conversation import Answer, Exchange, Loss, Question
from stark_lsp.core.status import ModelRole
from stark_lsp.store import RunStore


class StoreJournal:
    """`core.conversation.Journal` on the store."""

    def __init__(self, store: RunStore, run_id: str) -> None:
        self._store = store
        self._run_id = run_id

    async def find(self, attempt: int, role: ModelRole, ordinal: int) -> Answer | None:
        """Return the answer that arrived earlier for this place, None if there is none."""
        return await asyncio.to_thread(self._store.exchanges.find, self._run_id, attempt, role, ordinal)

    async def question_at(self, attempt: int, role: ModelRole, ordinal: int) -> Question | None:
        """Return the question whose answer `find` returns, None if there is none."""
        kept = await asyncio.to_thread(self._store.exchanges.get, self._run_id, attempt, role, ordinal)
        return None if kept is None else kept.question

    async def keep(self, exchange: Exchange) -> None:
        """Keep an exchange; a cancelled run keeps it all the same, since it is paid for."""
        await asyncio.shield(asyncio.to_thread(self._store.exchanges.keep, self._run_id, exchange))

    async def lose(self, loss: Loss) -> None:
        """Keep what a call has cost that ended without an answer; a cancelled run keeps it all the same."""
        await asyncio.shield(asyncio.to_thread(self._store.losses.keep, self._run_id, loss))
