"""What a run takes along from earlier ones: once, for good, and only where the user wants it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from messages_api import replies
from messages_api.kernels import Expert
from messages_api.replies import Reply
from messages_api.server import TEST_KEY, MessagesServer, Request
from model_runs import Serve, options, problem_in, session

from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.events import Event, Notice
from stark_lsp.core.paper import as_in_paper
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole, ModelRole, RunState, VerdictStatus
from stark_lsp.core.verdict import Baselines, Environment, Reference, Timing, Verdict
from stark_lsp.discovery.problems import make_problem
from stark_lsp.judge.device.fingerprint import device_name
from stark_lsp.store import RunStore, transcripts

TOLD = "What came of plans in earlier runs"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MessagesServer]:
    """An expert whose code does not parse."""
    expert = Expert()

    def spoiled(request: Request) -> Reply:
        reply = expert(request)
        if request.tool == "submit_kernel" and reply.tool_input is not None:
            return replies.tool({**reply.tool_input, "source": "class ModelNew(:\n"})
        return reply

    opened = MessagesServer(spoiled).start()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", opened.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", TEST_KEY)
    yield opened
    opened.close()


def plans(store: RunStore, run_id: str) -> list[str]:
    """Return what each question to the plan agent tells of earlier runs; times are taken anew in each sitting."""
    asked = [one.question for one in store.exchanges.list(run_id) if one.question.role is ModelRole.PLAN]
    assert not any(TOLD in question.body for question in asked)
    return [question.shared.partition(TOLD)[2] for question in asked]


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    return problem_in(tmp_path)


@pytest.fixture
def store(tmp_path: Path, problem: Problem) -> RunStore:
    """A store with a run that failed, on this very device."""
    machine = Environment(device_name("cpu"), "cpu", "3", sys.executable, "2")
    reference = Reference(machine, Baselines(Timing(1.0, 0.9, 1.1, 9)))
    made = RunStore(tmp_path / "state" / "runs.sqlite3")
    made.create(Run("1f3a", problem, 0, "anthropic", Budget(1), RunState.FINISHED, reference=reference))
    failed = Verdict(VerdictStatus.WRONG_RESULT, "It differs.")
    made.put_node("1f3a", Node(5, 0, AgentRole.CODE, Candidate("x = 1"), Plan("Unroll it", "Do."), failed), "a state")
    return made


WANTED = options(1, policy="best-of-k")


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.usefixtures("one_judge")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_run_takes_along_what_failed_before_and_tells_it_to_its_end(
    server: MessagesServer, problem: Problem, store: RunStore
) -> None:
    events: list[Event] = []
    run = await session(problem, WANTED, store, events).execute()
    (note,) = store.get(run.id).notes
    assert note.id == "1f3a.5"
    assert any(note.id in event.text for event in events if isinstance(event, Notice))
    (asked,) = plans(store, run.id)
    assert "Unroll it: wrong result (It differs.)\n```" in asked
    # Whatever becomes of the note meanwhile.
    store.notes.rewrite(note, None)
    again = await session(problem, replace(WANTED, budget=Budget(2), resume=True), store, []).execute()
    assert (again.id, again.notes) == (run.id, (note,))
    assert plans(store, run.id) == [asked, asked]


@pytest.mark.slow
async def test_a_replay_tells_what_the_transcript_told(
    server: MessagesServer, problem: Problem, store: RunStore, tmp_path: Path
) -> None:
    run = await session(problem, WANTED, store, []).execute()
    path = tmp_path / "run.json"
    path.write_text(transcripts.dumps(transcripts.collect(store, run.id)))
    empty = RunStore(tmp_path / "elsewhere.sqlite3")
    replayed = await session(problem, options(1, model=f"replay:{path}"), empty, []).execute()
    assert replayed.notes == run.notes != ()
    assert plans(empty, replayed.id) == plans(store, run.id)


@pytest.mark.slow
async def test_nothing_is_taken_along_where_the_user_forbids_it(
    server: MessagesServer, problem: Problem, store: RunStore
) -> None:
    without = replace(WANTED, agents=replace(WANTED.agents, notes=False))
    run = await session(problem, without, store, []).execute()
    assert run.notes == ()
    assert plans(store, run.id) == [""]
    # Nor is it told any more where the run had been told before.
    told = await session(problem, WANTED, store, []).execute()
    again = await session(problem, replace(without, budget=Budget(2), resume=True, complete=True), store, []).execute()
    assert again.id == told.id
    assert [bool(asked) for asked in plans(store, told.id)] == [True, False]


@pytest.mark.slow
async def test_tools_tell_of_earlier_runs_what_the_run_took_along(
    serve: Serve, problem: Problem, store: RunStore, tmp_path: Path
) -> None:
    text = "from torch import nn\nclass Model(nn.Module):\n    def forward(self, x):\n        return x.softmax(-1)\n"
    text += "def get_inputs():\n    return []\n"
    other = make_problem(str(tmp_path / "other.py"), text, "Model")
    store.create(replace(store.get("1f3a"), id="2b4c", problem=other))
    (node,) = store.load("1f3a").nodes.values()
    store.put_node("2b4c", replace(node, plan=Plan("A trick of theirs", "Do.")), "a state")

    def asks(request: Request) -> Reply:
        first = request.tool == "submit_kernel" and not request.results
        return replies.call("search_notes", which="all") if first else Expert()(request)

    serve(asks)
    run = await session(problem, replace(WANTED, search=SearchSettings("stark-tools")), store, []).execute()
    told = [turn.result for one in store.exchanges.list(run.id) for turn in one.question.turns]
    assert any("Unroll it" in result for result in told)
    assert not any("A trick of theirs" in result for result in told)


def test_the_paper_has_no_memory() -> None:
    assert AgentSettings().notes
    assert not as_in_paper(SearchSettings(), AgentSettings())[1].notes
