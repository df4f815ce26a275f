"""Which runs are gone on with, and with which settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages_api.kernels import Expert
from messages_api.server import TEST_KEY, MessagesServer
from model_runs import options, problem_in, session

from stark_lsp.core.agent_settings import AgentSettings, RoleSettings
from stark_lsp.core.errors import BadInput
from stark_lsp.core.events import Ended, Event, Notice
from stark_lsp.core.plan import Anchor
from stark_lsp.core.run import Budget, Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import Decision, Limit, RunState
from stark_lsp.discovery.problems import make_problem
from stark_lsp.runs.resumption import differences, settings_now, with_default
from stark_lsp.store import RunStore

SETTINGS = st.builds(
    SearchSettings,
    policy=st.sampled_from(["auto", "greedy", "mcts"]),
    epsilon=st.floats(0, 1),
    window_size=st.integers(1, 9),
    in_flight=st.integers(1, 4),
)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "state" / "runs.sqlite3")


@given(SETTINGS, SETTINGS)
def test_on_a_command_line_what_was_said_wins_and_what_was_not_stays(
    stored: SearchSettings, said: SearchSettings
) -> None:
    now = settings_now(stored, said, SearchSettings(), complete=False)
    for name in ("policy", "epsilon", "window_size", "in_flight"):
        default = getattr(SearchSettings(), name)
        expected = stored if getattr(said, name) == default else said
        assert getattr(now, name) == getattr(expected, name)


@given(SETTINGS, SETTINGS)
def test_in_an_editor_all_settings_are_those_of_now(stored: SearchSettings, said: SearchSettings) -> None:
    assert settings_now(stored, said, SearchSettings(), complete=True) == said


def test_of_one_role_a_single_setting_may_change() -> None:
    stored = replace(AgentSettings(), code=RoleSettings("big", 0.1, None, 9000), dialect="triton")
    said = replace(AgentSettings(), code=replace(AgentSettings().code, max_tokens=64000))
    now = settings_now(stored, said, AgentSettings(), complete=False)
    assert now == replace(stored, code=RoleSettings("big", 0.1, None, 64000))
    assert differences(stored, now) == ("code.max_tokens 9000 -> 64000",)
    assert differences(stored, replace(stored, dialect="raw")) == ("dialect triton -> raw",)


def test_the_usual_limit_of_money_counts_where_none_was_asked_for() -> None:
    assert with_default(Budget(5), 10.0) == Budget(5, dollars=10.0)
    assert with_default(Budget(5, tokens=9), 10.0) == Budget(5, tokens=9)
    assert with_default(Budget(5, dollars=20.0), 10.0) == Budget(5, dollars=20.0)


@pytest.mark.parametrize(
    ("limit", "before", "now", "beyond"),
    [
        (Limit.ATTEMPTS, Budget(5), Budget(5), False),
        (Limit.ATTEMPTS, Budget(5), Budget(6), True),
        (Limit.DOLLARS, Budget(dollars=10.0), Budget(60, dollars=10.0), False),
        (Limit.DOLLARS, Budget(dollars=10.0), Budget(dollars=20.0), True),
        (Limit.DOLLARS, Budget(dollars=10.0), Budget(), True),
        (Limit.TOKENS, Budget(tokens=10), Budget(tokens=9), False),
        (Limit.SECONDS, Budget(seconds=10.0), Budget(seconds=5.0), True),
    ],
)
def test_only_a_larger_budget_lets_a_search_go_on(limit: Limit, before: Budget, now: Budget, beyond: bool) -> None:
    assert now.goes_beyond(before, limit) is beyond


def anchors_of(node: Node) -> tuple[Anchor, ...]:
    return node.plan.anchors if node.plan is not None else ()


@pytest.mark.slow
async def test_a_run_that_had_spent_its_budget_goes_on_with_a_larger_one_and_only_then(
    tmp_path: Path, store: RunStore
) -> None:
    problem = problem_in(tmp_path)
    asked = replace(options(1, model="playbook"), resume=True)
    first = await session(problem, asked, store, []).execute()
    assert first.ended_by is Limit.ATTEMPTS

    events: list[Event] = []
    # A line at the top costs nothing: the class is the same, and what was planned stands a line lower.
    planned = [anchor.span.start for node in store.load(first.id).nodes.values() for anchor in anchors_of(node)]
    problem = make_problem(problem.path, "# a line above\n" + problem.text, None, device=problem.device)
    longer = session(problem, replace(asked, budget=Budget(2)), store, events)
    second = await longer.execute()
    assert longer.resumed
    assert second.id == first.id
    assert second.problem.text == problem.text
    earlier = {number: node for number, node in store.load(first.id).nodes.items() if number < 2}
    moved = [anchor for node in earlier.values() for anchor in anchors_of(node)]
    assert [anchor.span.start for anchor in moved] == [line + 1 for line in planned]
    assert all(anchor.text.split("\n")[0] == problem.text.split("\n")[anchor.span.start] for anchor in moved)
    assert earlier[0].candidate.source == problem.slice.text
    assert sorted(longer.nodes) == [0, 1, 2]
    assert second.ended_by is Limit.ATTEMPTS

    same = session(problem, replace(asked, budget=Budget(2)), store, [])
    assert (await same.execute()).id != first.id, "with nothing more to spend the user wants a new run"

    decided = replace(store.load(same.id).run, decision=Decision.REJECTED)
    store.update(decided)
    assert store.latest_resumable(problem, "playbook", Budget(9)).run.id == first.id  # type: ignore[union-attr]


async def test_a_run_that_cannot_go_on_any_more_is_told_as_that_and_leaves_no_other(
    tmp_path: Path, store: RunStore
) -> None:
    asked = replace(options(1, model="playbook"), resume=True, run="gone")
    events: list[Event] = []
    with pytest.raises(BadInput, match="Run gone cannot be gone on with any more"):
        await session(problem_in(tmp_path), asked, store, events).execute()
    assert (store.list(), [event for event in events if isinstance(event, Ended)]) == ([], [])


@pytest.mark.slow
async def test_a_run_that_the_clock_ended_goes_on(tmp_path: Path, store: RunStore) -> None:
    problem = problem_in(tmp_path)
    asked = replace(options(1, model="playbook"), resume=True)
    first = await session(problem, replace(asked, budget=Budget(1, seconds=0.01)), store, []).execute()
    assert (first.state, first.ended_by) == (RunState.FINISHED, Limit.SECONDS)
    again = session(problem, asked, store, [])
    second = await again.execute()
    assert (second.id, second.state, second.ended_by) == (first.id, RunState.FINISHED, Limit.ATTEMPTS)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MessagesServer]:
    with MessagesServer(Expert()) as opened:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", opened.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", TEST_KEY)
        yield opened


@pytest.mark.slow
async def test_settings_that_were_changed_since_hold_for_a_run_that_is_taken_up(
    tmp_path: Path, store: RunStore, server: MessagesServer
) -> None:
    problem = problem_in(tmp_path)
    short = replace(AgentSettings(), code=replace(AgentSettings().code, max_tokens=9000), dialect="inline")
    first = await session(problem, replace(options(1), agents=short), store, []).execute()

    longer = replace(AgentSettings(), code=replace(AgentSettings().code, max_tokens=16000))
    events: list[Event] = []
    again = session(problem, replace(options(2), agents=longer, resume=True), store, events)
    second = await again.execute()
    assert second.id == first.id
    asked = [exchange.question for exchange in store.exchanges.list(second.id)]
    limits = {question.attempt: question.max_tokens for question in asked if question.role.value == "code"}
    assert limits == {1: 9000, 2: 16000}
    told = [event.text for event in events if isinstance(event, Notice)]
    assert "Changed since this run began: code.max_tokens 9000 -> 16000." in told
