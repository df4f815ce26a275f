"""The conversation of the code agent with its tools: what is sent has a bound, and whatever a model calls is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from agent_cases import (
    FIRST_PLAN,
    PROBLEM,
    ROOT,
    SECOND,
    ScriptedModel,
    answered,
    candidate,
    context,
    reference,
    verified,
)
from test_prompt_bounds import text

from stark_lsp.agents.sections import TURNS, sections
from stark_lsp.agents.tool_team import ToolTeam
from stark_lsp.agents.toolbox import CONVERSATION, RESULT, SAID, Sources, forms
from stark_lsp.contract.counters import Counter
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.conversation import Answer, Question
from stark_lsp.core.roles import NoCandidate
from stark_lsp.core.run import Node, Note
from stark_lsp.core.status import StopReason, VerdictStatus
from stark_lsp.core.verdict import Interval, Metric, Stage, Verdict

MOST = 500_000
"""Characters that a conversation adds to a question."""
SOURCE = candidate().source


class Trials:
    """A judge that finds everything right, or whatever it is told to find."""

    def __init__(self, verdict: Verdict | None = None) -> None:
        self.verdict = verdict or verified(0.01, 1.5)
        self.sources: list[str] = []

    async def try_out(self, candidate: Candidate, until: Stage | None = None) -> Verdict:
        self.sources.append(candidate.source)
        return self.verdict

    async def counted(self, candidate: Candidate, verdict: Verdict) -> Verdict:
        counted = Metric(Counter.CONFLICTS.value, 79.0, "%")
        return replace(verdict, profile=replace(verdict.profile, metrics=(counted,)) if verdict.profile else None)


def call(name: str, **given: object) -> Answer:
    return replace(answered(), tool_input=given, called=name)


def in_order(*answers: Answer) -> Callable[[Question], Answer]:
    """Return what answers a question by how many calls it has."""
    return lambda question: answers[min(len(question.turns), len(answers) - 1)]


async def handed_in(
    answer: Callable[[Question], Answer],
    trials: Trials | None = None,
    agents: AgentSettings | None = None,
    notes: tuple[Note, ...] = (),
    tune: int = 0,
) -> tuple[Candidate, list[Question]]:
    nodes: dict[int, Node] = {0: ROOT, 2: SECOND}
    model = ScriptedModel(answer)
    sources = Sources(trials or Trials(), nodes.get, notes)
    team = ToolTeam(sources, model, PROBLEM, reference(), agents, tune=tune)
    return await team.code(context(), replace(FIRST_PLAN, annotated_source=""), Random(1)), model.questions


@pytest.mark.parametrize(
    ("name", "length", "sign", "field"),
    [
        ("build", 300_000, "\N{GRINNING FACE}", "source"),
        ("profile", 3_000, "é", "edits"),
        ("read_attempt", 3_000, "x", "number"),
        ("search_notes", 300_000, "\n", "which"),
        ("shell", 0, "", "other"),
    ],
)
async def test_a_conversation_has_a_bound_whatever_is_called_and_told(
    name: str, length: int, sign: str, field: str
) -> None:
    words = sign * length
    given: dict[str, object] = {
        "source": f"{SOURCE}\n# {words}",
        "edits": [{"search": words, "replace": words}] * 3,
        "which": words,
        "number": 10**length if length < 4_000 else words,
        "other": {"deep": [words]},
    }
    told = replace(verified(0.01, 1.5), notes=(text(length),), log=text(length), message=text(length))
    notes = (Note("r", 1, "C", (), "", "", "", "t", VerdictStatus.OK, text=words),) * 50
    answer = replace(call(name, **{field: given[field]}), text=words)
    asked: list[Question] = []

    def say(question: Question) -> Answer:
        asked.append(question)
        return answer

    agents = AgentSettings(tool_calls=30)
    try:
        await handed_in(say, Trials(told), agents, notes)
    except NoCandidate:
        assert field != "source" or length == 300_000 or name not in ("build", "profile")
    assert 1 < len(asked) <= agents.tool_calls + 1
    last = asked[-1]
    assert sum(one.characters for one in last.turns) <= MOST
    sizes = {one.name: one.characters for one in sections(last)}
    assert sizes[TURNS] == sum(one.characters for one in last.turns)
    assert all(len(one.result) <= RESULT + 100 and len(one.text) <= SAID + 100 for one in last.turns)
    assert "last call" in last.turns[-1].result
    assert not any("last call" in one.result for one in last.turns[:-1])


def test_the_bounds_are_told() -> None:
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
    assert all(f"{number:,} characters" in page for number in (MOST, CONVERSATION, RESULT))
    told = page.split("## Tools of the code agent")[1].split("\n## ")[0]
    assert all(f"| `{tool.name}` |" in told for tool in forms(AgentSettings()))


async def test_edits_are_to_what_the_last_call_left_and_handing_in_takes_it() -> None:
    trials = Trials()
    made, questions = await handed_in(
        in_order(
            call("build", source=SOURCE + "A = 1\n"),
            call("check", edits=[{"search": "A = 1", "replace": "A = 2"}]),
            call("time"),
            answered(summary="Two.", edits=[{"search": "A = 2", "replace": "A = 3"}]),
        ),
        trials,
    )
    assert [source.rstrip()[-5:] for source in trials.sources] == ["A = 1", "A = 2", "A = 2"]
    assert made.source == SOURCE + "A = 3\n"
    assert made.summary == "Two."
    first = questions[0]
    assert "12 calls in all" in first.body
    assert all(question.body == first.body and question.tools == first.tools for question in questions)


@pytest.mark.parametrize(
    ("answers", "ending"),
    [
        ([call("check", source=SOURCE), answered("I am done.")], SOURCE),
        ([call("check", source=SOURCE), answered(summary="As it is.")], SOURCE),
        ([call("check"), answered(edits=[{"search": "nowhere", "replace": ""}]), answered(source=SOURCE)], SOURCE),
        ([call("shell", command="rm -rf /"), answered(source=SOURCE, summary="")], SOURCE),
        ([replace(call("check"), tool_input=None, message="No JSON."), answered(source=SOURCE)], SOURCE),
        ([answered("I am done.")], None),
        ([answered(stop=StopReason.REFUSAL, message="The model declined to answer.")], None),
    ],
)
async def test_what_is_whole_is_taken_however_a_conversation_ends(answers: list[Answer], ending: str | None) -> None:
    if ending is None:
        with pytest.raises(NoCandidate):
            await handed_in(in_order(*answers))
        return
    made, questions = await handed_in(in_order(*answers))
    assert made.source == ending
    assert len(questions) == len(answers)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"source": {"path": "x.py"}}, "`source` cannot be used: it must be a text"),
        ({"source": 5, "edits": []}, "`source` cannot be used"),
        ({"edits": "not a list", "source": " "}, "`edits` cannot be used: it must be a list of objects"),
        ({}, "You have written nothing yet"),
    ],
)
async def test_a_call_that_brings_no_source_tries_nothing_else(given: dict[str, object], told: str) -> None:
    trials = Trials()
    wrong = call("check", **given)
    _, questions = await handed_in(in_order(wrong, answered(summary="Done."), answered(source=SOURCE)), trials)
    assert trials.sources == []
    assert told in questions[1].turns[0].result
    assert "has none of source" in questions[2].turns[1].result, "the reference is no candidate"
    if given:
        made, questions = await handed_in(in_order(call("check", source=SOURCE), answered(**given), answered()), trials)
        assert (made.source, trials.sources) == (SOURCE, [SOURCE])
        assert told in questions[2].turns[1].result


@pytest.mark.parametrize("tool", ["build", "check", "time", "profile"])
async def test_constants_that_cannot_be_tuned_are_refused_by_each_tool_as_when_handed_in(tool: str) -> None:
    source = f'{SOURCE}\nBLOCK = 128\nTUNE = {{"BLOCK": [64, 128], "if": "BLOCK <= ROWS"}}\n'
    for tune, tried in ((30, []), (0, [source])):
        trials = Trials()
        asked = in_order(call(tool, source=source), answered(source=SOURCE))
        _, questions = await handed_in(asked, trials, tune=tune)
        assert trials.sources == tried
        assert ("Failed: refused" in questions[1].turns[0].result) is (not tried)
        assert ("ROWS" in questions[1].turns[0].result) is (not tried)


async def test_attempts_and_notes_are_read_and_nothing_that_the_settings_forbid_is_offered() -> None:
    helped = Note("r", 3, "Norm", ("mean",), "", "", "", "One pass", VerdictStatus.OK, gain=Interval(2.0, 1.9, 2.1))
    failed = replace(helped, title="Two passes", status=VerdictStatus.WRONG_RESULT, gain=None)
    calls = [
        call("read_attempt", number=2),
        call("read_attempt", number=99),
        call("read_attempt", number="/etc/passwd"),
        call("search_notes", which="helped"),
        call("search_notes", which="failed"),
        answered(source=SOURCE),
    ]
    _, questions = await handed_in(in_order(*calls), notes=(helped, failed))
    read, none, path, good, bad = (turn.result for turn in questions[-1].turns)
    assert "Write one CUDA kernel" in read
    assert "sigm" in read
    assert "no attempt of that number" in none
    assert "no attempt of that number" in path
    assert "One pass" in good
    assert "Two passes" not in good
    assert "Two passes" in bad
    profiled = (
        (await handed_in(in_order(call("profile", source=SOURCE), answered(source=SOURCE))))[1][-1].turns[0].result
    )
    assert "79 % of its accesses to shared memory are lost to bank conflicts" in profiled
    less = {tool.name for tool in forms(AgentSettings(notes=False, profile=False))}
    assert less == {"build", "check", "time", "read_attempt"}
