"""What the user says to a run while it goes on, from anywhere: with everything real but the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from messages_api.kernels import Expert
from messages_api.server import TEST_KEY, MessagesServer
from model_runs import options, problem_in, session

from stark_lsp.core.events import Event, Judged, Notice
from stark_lsp.core.run import Budget
from stark_lsp.core.status import ModelRole, RunState
from stark_lsp.core.steering import Steering, SteeringKind
from stark_lsp.runs.session import RunSession
from stark_lsp.search.randomness import parse_state
from stark_lsp.store import RunStore


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "state" / "runs.sqlite3")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MessagesServer]:
    with MessagesServer(Expert()) as opened:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", opened.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", TEST_KEY)
        yield opened


def said(kind: SteeringKind, **more: object) -> Steering:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Steering(kind, when=now, **more)  # type: ignore[arg-type]


async def until(condition: Callable[[], bool], task: asyncio.Task[object]) -> None:
    while not condition():
        assert not task.done(), task.result()
        await asyncio.sleep(0.02)


def judged(events: list[Event]) -> list[Judged]:
    return [event for event in events if isinstance(event, Judged)]


def nothing_under_way(store: RunStore, run_id: str) -> bool:
    stored = store.load(run_id)
    begun = {attempt.id for attempt in parse_state(stored.rng_state).begun}
    return begun <= set(stored.nodes) and all(node.verdict is not None for node in stored.nodes.values())


@pytest.mark.slow
async def test_a_run_is_paused_hinted_given_another_budget_and_goes_on(
    tmp_path: Path, store: RunStore, server: MessagesServer
) -> None:
    events: list[Event] = []
    run: RunSession = session(problem_in(tmp_path), options(30), store, events)
    task = asyncio.create_task(run.execute())
    await until(lambda: len(judged(events)) >= 1, task)

    # From a store of its own, as another process would.
    outside = RunStore(store.path)
    outside.steerings.add(run.id, said(SteeringKind.PAUSE))
    await until(lambda: any(isinstance(one, Notice) and one.text.startswith("Paused") for one in events), task)
    await until(lambda: run.course.paused, task)
    await until(lambda: nothing_under_way(outside, run.id), task)
    # What is in the store already is told a moment later.
    stored = {node.id for node in outside.load(run.id).nodes.values() if node.parent is not None}
    await until(lambda: stored <= {event.node.id for event in judged(events)}, task)
    count, asked = len(judged(events)), len(server.requests)
    await asyncio.sleep(1.0)
    assert (len(judged(events)), len(server.requests)) == (count, asked), "it went on in spite of the pause"

    hint = "Rows are always contiguous, and never longer than 256."
    outside.steerings.add(run.id, said(SteeringKind.HINT, text=hint))
    outside.steerings.add(run.id, said(SteeringKind.BUDGET, budget=Budget(count + 2)))
    outside.steerings.add(run.id, said(SteeringKind.RESUME))
    run.steer()
    ended = await asyncio.wait_for(task, 120)

    assert ended.state is RunState.FINISHED
    assert ended.budget == Budget(count + 2)
    attempts = [node for node in run.nodes.values() if node.parent is not None]
    assert len(attempts) == count + 2
    later = server.requests[asked:]
    assert later
    assert all(hint in request.text for request in later)
    assert not any(hint in request.text for request in server.requests[:asked])


@pytest.mark.slow
async def test_a_pinned_attempt_is_gone_on_from_and_a_pruned_one_is_not(
    tmp_path: Path, store: RunStore, server: MessagesServer
) -> None:
    events: list[Event] = []
    run = session(problem_in(tmp_path), options(6), store, events)
    task = asyncio.create_task(run.execute())
    await until(lambda: any(one.node.verdict and one.node.verdict.ok for one in judged(events)), task)
    ok = next(one.node.id for one in judged(events) if one.node.verdict and one.node.verdict.ok)
    await asyncio.to_thread(store.steerings.add, run.id, said(SteeringKind.PIN, node=ok))
    run.steer()
    await until(lambda: run.course.pinned == ok, task)
    known = max(run.nodes)
    await asyncio.wait_for(task, 120)
    # One attempt may have been chosen before the word was heard.
    later = [node for node in run.nodes.values() if node.id > known + 1]
    assert later
    assert all(node.parent == ok for node in later)


@pytest.mark.slow
async def test_a_budget_given_at_the_start_goes_before_one_that_was_said_earlier(
    tmp_path: Path, store: RunStore, server: MessagesServer
) -> None:
    problem = problem_in(tmp_path)
    events: list[Event] = []
    first = session(problem, options(30), store, events)
    task = asyncio.create_task(first.execute())
    await until(lambda: len(judged(events)) >= 1, task)
    past = replace(said(SteeringKind.BUDGET, budget=Budget(25)), when="2020-01-01T00:00:00+00:00")
    await asyncio.to_thread(store.steerings.add, first.id, past)
    first.steer()
    await until(lambda: first.run.budget == Budget(25), task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    made = len(store.load(first.id).nodes) - 1
    second = session(problem, replace(options(made + 1), resume=True), store, [])
    ended = await second.execute()
    assert second.resumed
    assert ended.budget == Budget(made + 1)
    assert len(second.nodes) - 1 <= made + 2
    roles = {exchange.question.role for exchange in store.exchanges.list(ended.id)}
    assert roles <= {ModelRole.PLAN, ModelRole.CODE, ModelRole.DEBUG}
