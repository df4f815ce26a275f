"""Runs on a language model, with everything real but the model: faults, budgets, systems, replays."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from messages_api import replies
from messages_api.kernels import NEW_GELU, Expert
from messages_api.replies import Reply
from messages_api.server import TEST_KEY, MessagesServer, Request
from model_runs import Serve, options, problem_in, session

from stark_lsp.core.agent_adjust import adjusted
from stark_lsp.core.agent_settings import AgentSettings, RoleSettings
from stark_lsp.core.errors import BadInput
from stark_lsp.core.events import Ended, Event, Judged, Notice, Outlook, Spent
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.status import AgentRole, ModelRole, RunState, VerdictStatus
from stark_lsp.runs.session import RunSession
from stark_lsp.store import RunStore, transcripts

PASSING: tuple[Callable[[], Reply], ...] = (
    lambda: replies.rate_limited("0"),
    replies.overloaded,
    replies.server_error,
    lambda: replies.cut({"title": "half a", "source": "plan"}),
)
"""Faults after which the same question is asked again."""
LASTING: tuple[Callable[[], Reply], ...] = (
    lambda: replies.refusal("cyber", "The request was declined."),
    lambda: replies.malformed('{"title": "no end'),
    lambda: replies.cut_off('{"source": "import torch'),
    replies.empty,
    lambda: replies.text("```python\nprint('a program, and no module')\n```"),
)
"""Answers that hold nothing to judge."""


class Faulty:
    """An expert that fails in every third call, in all ways by turns."""

    def __init__(self) -> None:
        self.expert = Expert()
        self.injected: list[str] = []

    def __call__(self, request: Request) -> Reply:
        place = request.number
        if place % 3:
            return self.expert(request)
        ways = [("passing", way) for way in PASSING] + [("lasting", way) for way in LASTING]
        kind, way = ways[place // 3 % len(ways)]
        self.injected.append(kind)
        return way()


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    return problem_in(tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "state" / "runs.sqlite3")


@pytest.mark.slow
@pytest.mark.parametrize("corrections", [0, 2])
async def test_thirty_attempts_with_faults_in_a_third_of_the_calls_lose_nothing(
    corrections: int, problem: Problem, store: RunStore, serve: Serve
) -> None:
    faulty = Faulty()
    server = serve(faulty)
    events: list[Event] = []
    run = await session(problem, options(30, in_flight=3, corrections=corrections), store, events).execute()

    assert run.state is RunState.FINISHED, run.message
    stored = store.load(run.id)
    attempts = [node for node in stored.nodes.values() if node.parent is not None]
    assert len(attempts) == 30
    assert all(node.verdict is not None for node in attempts)
    assert any(node.verdict is not None and node.verdict.ok for node in attempts)

    exchanges = store.exchanges.list(run.id)
    answered = [request for request in server.requests if request.reply is not None and request.reply.status == 200]
    whole = [request for request in answered if request.reply is not None and request.reply.cut_after is None]
    assert len(exchanges) == len(whole), "an answer that arrived is not in the record"
    empty = [node for node in attempts if node.verdict and node.verdict.status is VerdictStatus.NO_CANDIDATE]
    lost = faulty.injected.count("lasting")
    assert lost > 0
    assert len(empty) < lost if corrections else len(empty) == lost
    assert all(node.verdict and node.verdict.message for node in empty), "a fault without its reason"
    troubles = sum(len(exchange.answer.troubles) for exchange in exchanges)
    assert troubles == faulty.injected.count("passing") > 0

    spend = store.exchanges.spend(run.id)
    assert spend.calls == len(exchanges)
    told = [event.spend for event in events if isinstance(event, Spent)]
    assert told[-1].dollars == pytest.approx(spend.dollars)
    everything = json.dumps([str(event) for event in events]) + transcripts.dumps(transcripts.collect(store, run.id))
    assert TEST_KEY not in everything
    assert TEST_KEY.encode() not in store.path.read_bytes()


@pytest.mark.slow
async def test_a_run_ends_before_its_limit_of_money(problem: Problem, store: RunStore, serve: Serve) -> None:
    server = serve(Expert())
    limit = 0.12  # some questions with what their answers may cost at most, not as many as thirty attempts ask
    short = RoleSettings(max_tokens=2000)
    agents = AgentSettings(plan=short, code=short, debug=short)
    wanted = replace(options(30), budget=Budget(30, dollars=limit), agents=agents)
    run = await session(problem, wanted, store, []).execute()
    asked = len(server.requests)
    assert run.state is RunState.FINISHED
    assert f"limit of ${limit:.2f}" in run.message
    spend = store.exchanges.spend(run.id)
    assert 0 < spend.dollars <= limit
    assert spend.calls == asked, "a question was asked and its answer lost"


@pytest.mark.slow
@pytest.mark.parametrize("system", ["sampling", "reflexion", "search-agent", "ma-only"])
async def test_the_other_systems_of_the_paper_run(problem: Problem, store: RunStore, serve: Serve, system: str) -> None:
    serve(Expert())
    run = await session(problem, options(3, system=system), store, []).execute()
    assert run.state is RunState.FINISHED
    nodes = [node for node in store.load(run.id).nodes.values() if node.parent is not None]
    assert len(nodes) == 3
    asked = [exchange.question for exchange in store.exchanges.list(run.id)]
    roles = Counter(question.role for question in asked if question.ordinal == 0)
    if system == "ma-only":
        assert roles[ModelRole.PLAN] == roles[ModelRole.CODE] > 0
        return
    role = ModelRole.SAMPLING if system == "sampling" else ModelRole.REFLEXION
    assert set(roles) == {role}
    assert {node.role for node in nodes} == {AgentRole(role.value)}
    if system == "reflexion":
        assert [node.parent for node in nodes] == [0, 1, 2]
    if system == "sampling":
        assert {node.parent for node in nodes} == {0}


@pytest.mark.slow
async def test_a_transcript_runs_again_without_any_network(
    problem: Problem, store: RunStore, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = serve(Faulty())
    first = await session(problem, options(6), store, []).execute()
    path = tmp_path / "run.json"
    path.write_text(transcripts.dumps(transcripts.collect(store, first.id)))
    server.close()
    monkeypatch.delenv("ANTHROPIC_API_KEY")

    second = await session(problem, options(30, model=f"replay:{path}"), store, []).execute()
    assert second.model == "replay:run.json"
    assert second.state is RunState.FINISHED
    before, after = store.load(first.id).nodes, store.load(second.id).nodes
    for number, node in before.items():
        again = after[number]
        assert (again.parent, again.role, again.candidate.source) == (node.parent, node.role, node.candidate.source)
        assert again.verdict is not None
        assert node.verdict is not None
        assert again.verdict.status is node.verdict.status
    assert len(after) == len(before)
    assert store.exchanges.spend(second.id).dollars == 0


@pytest.mark.usefixtures("one_judge")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_server_with_the_chat_completions_api_answers_a_run(problem: Problem, store: RunStore) -> None:
    def expert(request: Request) -> Reply:
        """Hand the plan in; write the code as text, as small models do."""
        if request.tool == "submit_plan":
            plan = {"title": "One operator", "advice": "One pass over the data instead of several."}
            return replies.tool({**plan, "annotated_source": NEW_GELU["operator"]})
        return replies.text(f"Here it is:\n```python\n{NEW_GELU['operator']}```\n")

    with MessagesServer(expert, key=None) as server:
        name = f"openai:qwen3:8b@{server.url}/v1"
        run = await session(problem, options(1, model=name), store, []).execute()
        assert {request.path for request in server.requests} == {"/v1/chat/completions"}
    assert (run.state, run.model) == (RunState.FINISHED, name)
    node = store.load(run.id).nodes[1]
    assert node.plan is not None
    assert node.plan.title == "One operator"
    assert node.verdict is not None
    assert node.verdict.ok
    spend = store.exchanges.spend(run.id)
    assert (spend.calls, spend.unpriced) == (2, 2)
    assert spend.usage.total > 1000


class Typing:
    """An expert whose candidates have a stray bracket at first, which it takes out by an edit."""

    def __init__(self) -> None:
        self.expert = Expert()
        self.asked: list[str] = []
        self.holding: threading.Event | None = None

    def __call__(self, request: Request) -> Reply:
        correcting = "what you have just handed in" in request.text
        self.asked.append("correct" if correcting else request.tool)
        if correcting and self.holding is not None:
            self.holding.wait(20)
        if correcting:
            return replies.tool(
                {"edits": [{"search": ".to(x.dtype)\n)", "replace": ".to(x.dtype)"}], "summary": "A bracket."}
            )
        reply = self.expert(request)
        if request.tool == "submit_kernel" and reply.tool_input is not None:
            source = f"Here:\n```python\n{reply.tool_input['source']})\n```\nDone."
            return replies.tool({**reply.tool_input, "source": source})
        return reply


@pytest.mark.usefixtures("one_judge")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_stray_bracket_costs_no_attempt(problem: Problem, store: RunStore, serve: Serve) -> None:
    server = serve(Typing())
    run = await session(problem, options(1), store, []).execute()
    node = store.load(run.id).nodes[1]
    assert node.verdict is not None
    assert node.verdict.ok, node.verdict.message
    assert (node.role, node.corrections) == (AgentRole.CODE, 1)
    places = [(one.question.role, one.question.ordinal) for one in store.exchanges.list(run.id, 1)]
    assert places == [(ModelRole.PLAN, 0), (ModelRole.CODE, 0), (ModelRole.CODE, 1)]
    read = [one.answer.usage for one in store.exchanges.list(run.id, 1)]
    assert read[2].cache_read_tokens == read[1].cache_write_tokens > 0, "what is alike was not read from the cache"
    assert "does not parse" in server.requests[2].text


@pytest.mark.usefixtures("one_judge")
@pytest.mark.asyncio(loop_scope="module")
async def test_another_model_corrects_and_another_one_comes_in_when_the_search_stagnates(
    problem: Problem, store: RunStore, serve: Serve
) -> None:
    typing = Typing()
    # Nothing but the first attempt has a candidate.
    server = serve(lambda request: typing(request) if len(server.requests) <= 3 else replies.refusal("cyber", "No."))
    routed = AgentSettings(
        playbook=False,
        correction_model="claude-haiku-5-5",
        stagnation_model="claude-opus-5-5",
        stagnation_attempts=2,
    )
    events: list[Event] = []
    run = await session(problem, replace(options(5), agents=routed), store, events).execute()
    stored = store.load(run.id)
    asked = [(one.question.attempt, one.question.model) for one in store.exchanges.list(run.id)]
    assert [request.body["model"] for request in server.requests][2] == "claude-haiku-5-5"
    assert asked[:3] == [(1, ""), (1, ""), (1, "claude-haiku-5-5")]
    assert stored.nodes[1].candidate.model == "claude-haiku-5-5"
    # As the search saw it: whether the attempt was faster is for this machine to say, and is measured anew at the end.
    begun = max((event.node.id for event in events if isinstance(event, Judged) and event.leader), default=0)
    strong = [number for number, model in asked if model == "claude-opus-5-5"]
    assert strong == list(range(begun + 3, 6)), "two attempts in a row came after the best, which begins anew"
    assert all(exchange.dollars for exchange in store.exchanges.list(run.id) if exchange.answer.usage.total)
    outlook = " ".join(event.text for event in events if isinstance(event, Notice | Outlook))
    assert "claude-haiku-5-5 corrects within an attempt" in outlook
    assert "claude-opus-5-5 plans and writes after 2 attempts without a new best" in outlook


@pytest.mark.slow
async def test_without_corrections_a_stray_bracket_is_for_the_debug_agent(
    problem: Problem, store: RunStore, serve: Serve
) -> None:
    serve(Typing())
    run = await session(problem, options(2, epsilon=1.0, corrections=0), store, []).execute()
    nodes = store.load(run.id).nodes
    assert nodes[1].verdict is not None
    assert nodes[1].verdict.status is VerdictStatus.LOAD_ERROR
    assert "does not parse" in nodes[1].verdict.message
    assert (nodes[2].parent, nodes[2].role, nodes[2].plan) == (1, AgentRole.DEBUG, nodes[1].plan)
    assert nodes[2].verdict is not None
    assert nodes[2].verdict.ok


@pytest.mark.slow
async def test_a_run_cancelled_in_a_correction_goes_on_with_it_and_runs_again_from_its_transcript(
    problem: Problem, store: RunStore, serve: Serve, tmp_path: Path
) -> None:
    typing = Typing()
    typing.holding = threading.Event()
    server = serve(typing)
    first = session(problem, options(1), store, [])
    running = asyncio.create_task(first.execute())
    while "correct" not in typing.asked and not running.done():
        await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert list(store.load(first.id).nodes) == [0], "the attempt is still under way"
    typing.holding.set()
    second = await session(problem, replace(options(1), resume=True), store, []).execute()
    assert second.id == first.id
    assert typing.asked == ["submit_plan", "submit_kernel", "correct", "correct"], "what had arrived was asked again"
    node = store.load(first.id).nodes[1]
    assert node.verdict is not None
    assert (node.corrections, node.verdict.ok) == (1, True)

    path = tmp_path / "run.json"
    path.write_text(transcripts.dumps(transcripts.collect(store, first.id)))
    server.close()
    again = await session(problem, options(1, model=f"replay:{path}"), store, []).execute()
    replayed = store.load(again.id).nodes[1]
    assert (replayed.candidate, replayed.corrections) == (node.candidate, 1)


async def begun(problem: Problem, store: RunStore, attempts: int) -> tuple[str, dict[int, Node]]:
    """Let a model go on from what the playbook knows; return the run and its nodes, of which the first is that."""
    one = session(problem, replace(options(attempts), agents=AgentSettings()), store, [])
    await one.execute()
    nodes = store.load(one.id).nodes
    seed = nodes[1]
    assert seed.parent == 0
    assert seed.plan is not None
    assert seed.plan.strategy
    assert seed.verdict is not None
    assert seed.verdict.ok
    asked = {exchange.question.attempt for exchange in store.exchanges.list(one.id)}
    assert asked == set(range(2, attempts + 1))
    return one.id, nodes


@pytest.mark.usefixtures("one_judge")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_model_begins_with_what_the_playbook_knows(problem: Problem, store: RunStore, serve: Serve) -> None:
    # Nothing else is judged.
    server = serve(lambda request: replies.refusal("cyber", "The request was declined."))
    await begun(problem, store, 3)
    assert "by a built-in expert" in str(server.requests[0].body)


@pytest.mark.slow
async def test_what_the_playbook_knew_is_there_when_a_transcript_runs_again(
    problem: Problem, store: RunStore, serve: Serve
) -> None:
    serve(Expert())
    run_id, nodes = await begun(problem, store, 4)
    path = Path(problem.path).with_name("again.json")
    path.write_text(transcripts.dumps(transcripts.collect(store, run_id)))
    again = session(problem, options(4, model=f"replay:{path}"), store, [])
    await again.execute()
    assert {n: node.candidate.source for n, node in store.load(again.id).nodes.items()} == {
        n: node.candidate.source for n, node in nodes.items()
    }


@pytest.mark.usefixtures("one_judge")
@pytest.mark.asyncio(loop_scope="module")
async def test_what_it_may_cost_and_who_answers_is_told_before_the_first_question_and_a_key_that_fails_with_a_cure(
    problem: Problem, store: RunStore, serve: Serve
) -> None:
    server = serve(lambda request: replies.unauthorized())
    told: list[tuple[str, int]] = []

    def heard(event: Event) -> None:
        if isinstance(event, Notice):
            told.append((event.text, len(server.requests)))

    one = session(problem, replace(options(3, model="auto"), default_dollars=10.0), store, [])
    one._emit_outside = heard
    with pytest.raises(BadInput, match="API key") as caught:
        await one.execute()
    assert caught.value.cure
    assert server.requests
    assert [asked for _, asked in told] == [0, 0]
    assert told[0][0] == "Plans and kernels come from Claude (a key is set)"
    assert "$" in told[1][0]
    assert "questions" in told[1][0]
    assert "stops before $10.00" in told[1][0]
    run = store.load(one.id).run
    assert run.state is RunState.FAILED
    assert run.model == "anthropic"
    assert run.budget == Budget(3, dollars=10.0)


@pytest.mark.usefixtures("one_judge")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("model", "told", "dollars"),
    [
        ("anthropic", "$10.00, since no other limit was set; what mystery takes is not counted", 10.0),
        ("anthropic:mystery", "price of mystery is unknown. No limit of tokens or dollars holds.", None),
    ],
)
async def test_a_model_without_a_price_takes_no_limit_from_the_others_and_is_told(
    problem: Problem, store: RunStore, serve: Serve, model: str, told: str, dollars: float | None
) -> None:
    serve(lambda request: replies.unauthorized())
    agents = adjusted(AgentSettings(playbook=False), {"plan.model": "mystery"})
    events: list[Event] = []
    one = session(problem, replace(options(3, model=model), default_dollars=10.0, agents=agents), store, events)
    with pytest.raises(BadInput, match="no model mystery"):
        await one.execute()
    assert [event.text for event in events if isinstance(event, Outlook) and told in event.text]
    assert store.load(one.id).run.budget == Budget(3, dollars=dollars)


@pytest.mark.usefixtures("one_judge")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_cancel_after_its_end_was_recorded_changes_nothing(
    problem: Problem, store: RunStore, serve: Serve
) -> None:
    serve(lambda request: replies.refusal("cyber", "No."))
    running: list[asyncio.Task[Run]] = []
    asked: list[bool] = []

    def emit(event: Event) -> None:
        if isinstance(event, Ended):
            asked.append(running[0].cancel())

    ended = RunSession(problem, options(1), store=store, emit=emit, log=lambda line: None)
    running.append(asyncio.create_task(ended.execute()))
    run = await running[0]
    assert asked == [True]
    assert run.state is RunState.FINISHED
    assert store.load(run.id).run == run


async def test_the_playbook_is_no_single_agent(problem: Problem, store: RunStore) -> None:
    with pytest.raises(BadInput, match="works as a team"):
        await session(problem, options(1, model="playbook", system="sampling"), store, []).execute()


# In every run of the tests the purse refuses it, see tests/agents_models/test_models_purse.py.
@pytest.mark.slow
async def test_a_limit_of_money_that_cannot_be_held_is_refused(problem: Problem, store: RunStore, serve: Serve) -> None:
    server = serve(Expert())
    wanted = replace(options(1, model="anthropic:a-model-of-mine"), budget=Budget(1, dollars=1.0))
    with pytest.raises(BadInput, match=r"price of a-model-of-mine is unknown.*"):
        await session(problem, wanted, store, []).execute()
    assert not server.requests
