"""`stark-tools`: the code agent tries its code with tools before it hands it in, on the real judge."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from messages_api import replies
from messages_api.kernels import NEW_GELU, Expert
from messages_api.replies import Reply
from messages_api.server import MessagesServer, Request
from model_runs import QUICK, Serve, options, problem_in, session

from stark_lsp.agents.tool_team import FIRST_STEP
from stark_lsp.cli.runs import attempt_page
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.conversation import Exchange
from stark_lsp.core.errors import BadInput
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Budget
from stark_lsp.core.status import ModelRole, RunState
from stark_lsp.core.verdict import Stage, Verdict
from stark_lsp.evaluation.judge import WorkerJudge
from stark_lsp.runs.options import RunOptions
from stark_lsp.store import RunStore, transcripts

SUMMARY = "One operator of PyTorch."
CALLS = [
    replies.call("build", source=NEW_GELU["loop"]),
    replies.call("build", edits=[{"search": "y[i] = x[i]", "replace": "y[i] = x[i];"}]),
    replies.call("check"),
    replies.call("check", edits=[{"search": "nowhere", "replace": ""}]),
    replies.call("profile", source=NEW_GELU["operator"]),
    replies.call("read_attempt", number=0),
    replies.call("search_notes", which="all"),
]
"""A kernel that does not compile, is repaired and found wrong; an edit that fits nowhere; another way, which works."""
SAID = [
    ("did not compile", "11 calls are left"),
    ("It builds, loads, and runs once. Nothing was compared.", "10 calls are left"),
    ("wrong result", "9 calls are left"),
    ("Not done. The edits do not fit.", "8 calls are left"),
    ("Correct; one call takes", "Profile of one call"),
    ("That is the reference", "6 calls are left"),
    ("There are none.", "5 calls are left"),
]


class Trying:
    """An expert that makes these calls before it hands in; may be held before one of them."""

    def __init__(self, calls: list[Reply], held: int = -1) -> None:
        self.expert = Expert()
        self.calls = calls
        self.held = held
        self.let_go = threading.Event()
        self.asked: list[int] = []
        """How many results each question to the code agent had."""

    def __call__(self, request: Request) -> Reply:
        if request.tool != "submit_kernel":
            return self.expert(request)
        made = len(request.results)
        self.asked.append(made)
        if made == self.held and not self.let_go.is_set():
            self.let_go.wait(30)
        return self.calls[made] if made < len(self.calls) else replies.tool({"summary": SUMMARY})


JUDGED = replace(QUICK, profile=True)


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    return problem_in(tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "state" / "runs.sqlite3")


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Stage | None]:
    """How far the judge was asked to go in each trial."""
    stages: list[Stage | None] = []
    real = WorkerJudge.try_out

    async def noted(self: WorkerJudge, candidate: Candidate, until: Stage | None = None) -> Verdict:
        stages.append(until)
        return await real(self, candidate, until)

    monkeypatch.setattr(WorkerJudge, "try_out", noted)
    return stages


def wanted(model: str = "anthropic") -> RunOptions:
    made = options(1, model=model, system="stark-tools")
    return replace(made, evaluation=JUDGED)


def code(store: RunStore, run_id: str) -> list[Exchange]:
    return [one for one in store.exchanges.list(run_id, 1) if one.question.role is ModelRole.CODE]


# In every run of the tests conversations go on without processes, see tests/agents/test_tools_of_the_code_agent.py.
@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.usefixtures("one_judge")
@pytest.mark.asyncio(loop_scope="module")
async def test_the_code_agent_tries_its_code_and_what_it_hands_in_is_judged_in_full(
    problem: Problem,
    store: RunStore,
    serve: Serve,
    tried: list[Stage | None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = serve(Trying(CALLS))
    run = await session(problem, wanted(), store, []).execute()
    assert run.state is RunState.FINISHED, run.message
    nodes = store.load(run.id).nodes
    assert list(nodes) == [0, 1], "tools make no attempts"
    node = nodes[1]
    assert (node.candidate.source, node.candidate.summary) == (NEW_GELU["operator"].lstrip("\n"), SUMMARY)
    assert node.verdict is not None
    assert node.verdict.ok
    assert node.verdict.runtime is not None
    assert tried == [Stage.BUILD, Stage.BUILD, Stage.VERIFY, None]

    steps = code(store, run.id)
    assert [one.question.ordinal for one in steps] == [0, *(FIRST_STEP + n for n in range(1, len(CALLS) + 1))]
    assert [one.answer.called for one in steps] == [*(call.tool_name for call in CALLS), ""]
    results = [turn.result for turn in steps[-1].question.turns]
    assert server.requests[-1].results == results
    attempt_page.show(store, store.load(run.id), 1, prompts=True, as_json=False)
    page = capsys.readouterr().out
    assert page.count("--- asked") == 2, "what was asked before is shown once"
    assert all(words in page for words in ("--- called check", "--- check told", "expected ‘;’"))
    for result, words in zip(results, SAID, strict=True):
        assert all(word in result for word in words), result
    # Figures that a busy machine gives may leave nothing to diagnose.
    assert "Diagnosis" in results[4] or "the machine was busy" in results[4]
    read = [one.answer.usage for one in steps]
    assert all(after.cache_read_tokens > before.cache_read_tokens for before, after in pairwise(read))

    path = tmp_path / "run.json"
    path.write_text(transcripts.dumps(transcripts.collect(store, run.id)))
    server.close()
    again = await session(problem, wanted(f"replay:{path}"), store, []).execute()
    assert store.load(again.id).nodes[1].candidate == node.candidate
    assert len(tried) == 4, "a replay has the results in its transcript"
    assert [one.question.turns for one in code(store, again.id)] == [one.question.turns for one in steps]


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.usefixtures("one_judge")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_run_that_is_cancelled_in_a_conversation_ends_at_once_and_goes_on_where_it_was(
    problem: Problem, store: RunStore, serve: Serve, tried: list[Stage | None]
) -> None:
    trying = Trying([replies.call("build", source=NEW_GELU["operator"]), replies.call("check")], held=2)
    server = serve(trying)
    first = session(problem, wanted(), store, [])
    running = asyncio.create_task(first.execute())
    while 2 not in trying.asked and not running.done():
        await asyncio.sleep(0.02)
    began = asyncio.get_running_loop().time()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert asyncio.get_running_loop().time() - began < 2.0
    assert list(store.load(first.id).nodes) == [0], "the attempt is still under way"
    trying.let_go.set()

    run = await session(problem, replace(wanted(), resume=True), store, []).execute()
    assert run.id == first.id
    assert trying.asked == [0, 1, 2, 2], "what had arrived was asked again"
    assert tried == [Stage.BUILD, Stage.VERIFY, Stage.VERIFY], "a result that is in an answered question was made again"
    node = store.load(run.id).nodes[1]
    assert node.verdict is not None
    assert node.verdict.ok
    assert len(code(store, run.id)) == 3
    assert sum(request.finished for request in server.requests) == 4


@pytest.mark.slow
async def test_who_goes_on_calling_tools_hands_in_what_was_tried_last(
    problem: Problem, store: RunStore, serve: Serve
) -> None:
    trying = Trying([replies.call("build", source=NEW_GELU["operator"]), *[replies.call("build")] * 20])
    serve(trying)
    one = wanted()
    run = await session(problem, replace(one, agents=replace(one.agents, tool_calls=2)), store, []).execute()
    assert trying.asked == [0, 1, 2]
    node = store.load(run.id).nodes[1]
    assert node.candidate.source == NEW_GELU["operator"]
    assert "last call: hand in now" in code(store, run.id)[-1].question.turns[-1].result


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.usefixtures("one_judge")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_conversation_ends_where_the_limit_of_tokens_could_be_crossed(
    problem: Problem, store: RunStore, serve: Serve
) -> None:
    trying = Trying([replies.call("search_notes", which="all")] * 12)
    serve(trying)
    one = wanted()
    short = replace(one.agents.code, max_tokens=1000)
    agents = replace(one.agents, plan=replace(one.agents.plan, max_tokens=1000), code=short)
    run = await session(problem, replace(one, budget=Budget(1, tokens=60_000), agents=agents), store, []).execute()
    assert 1 < len(trying.asked) < 12
    assert "tokens" in run.message
    assert store.exchanges.spend(run.id).usage.total <= 60_000


@pytest.mark.slow
async def test_the_chat_completions_api_has_conversations_too(problem: Problem, store: RunStore) -> None:
    trying = Trying([replies.call("build", source=NEW_GELU["operator"])])
    with MessagesServer(trying, key=None) as server:
        run = await session(problem, wanted(f"openai:a-model@{server.url}/v1"), store, []).execute()
    assert trying.asked == [0, 1]
    node = store.load(run.id).nodes[1]
    assert node.candidate.source == NEW_GELU["operator"]


@pytest.mark.parametrize("model", ["playbook", "editor"])
async def test_who_calls_no_tools_is_refused(problem: Problem, store: RunStore, model: str) -> None:
    with pytest.raises(BadInput, match=r"calls no tools|lends no model"):
        await session(problem, wanted(model), store, []).execute()
