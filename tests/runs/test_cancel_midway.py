"""A run that is cancelled while a model answers has recorded what the answer has cost until then."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from messages_api import replies
from messages_api.kernels import Expert
from messages_api.replies import Reply
from messages_api.server import TEST_KEY, MessagesServer, Request
from model_runs import options, problem_in, session

from stark_lsp.agents.models import anthropic
from stark_lsp.agents.models.reading import AnswerReader
from stark_lsp.core.events import Event, Spent
from stark_lsp.core.status import RunState
from stark_lsp.store import RunStore


class Stuck:
    """An expert whose first answer stops in the middle."""

    def __init__(self) -> None:
        self.expert = Expert()

    def __call__(self, request: Request) -> Reply:
        if request.number == 1:
            return replies.tool({"title": "half a plan, " * 30}, pause_s=300.0, pause_before=4)
        return self.expert(request)


@pytest.mark.slow
async def test_a_run_cancelled_within_an_answer_goes_on_with_what_it_has_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = asyncio.Event()

    class Watched(AnswerReader):
        def feed(self, event: Mapping[str, Any]) -> None:
            super().feed(event)
            if self.started and self.usage.output_tokens > 10:
                arrived.set()

    monkeypatch.setattr(anthropic, "AnswerReader", Watched)
    problem, store = problem_in(tmp_path), RunStore(tmp_path / "state" / "runs.sqlite3")
    with MessagesServer(Stuck()) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", TEST_KEY)
        events: list[Event] = []
        first = session(problem, options(1), store, events)
        running = asyncio.create_task(first.execute())
        await asyncio.wait({running, asyncio.create_task(arrived.wait())}, return_when=asyncio.FIRST_COMPLETED)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        (loss,) = store.losses.list(first.id)
        paid = store.exchanges.spend(first.id)
        assert paid.usage == loss.usage
        assert paid.usage.total > 100
        assert [event.spend for event in events if isinstance(event, Spent)][-1] == paid

        again: list[Event] = []
        second = session(problem, replace(options(1), resume=True), store, again)
        run = await second.execute()
    assert run.id == first.id
    assert run.state is RunState.FINISHED, run.message
    assert store.losses.list(first.id) == (loss,)
    exchanges = store.exchanges.list(first.id)
    total = store.exchanges.spend(first.id)
    assert total.calls == len(exchanges) + 1
    told = [event.spend for event in again if isinstance(event, Spent)][-1]
    assert told == replace(total, dollars=pytest.approx(total.dollars))
    assert all(exchange.answer.usage.total > 0 for exchange in exchanges)
