"""Edits in place of a file, as agents take them: what they are made to, what is told of those that do not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest
from agent_cases import FIRST_PLAN, PROBLEM, ROOT, SECOND, ScriptedModel, answered, context, reference

from stark_lsp.agents.answers import TOOLS, tool_of
from stark_lsp.agents.team import ModelSolo, ModelTeam
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.conversation import Answer, Question
from stark_lsp.core.errors import TooLong
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import NoCandidate
from stark_lsp.core.run import Node
from stark_lsp.core.status import AgentRole, Dialect, Grounding, ModelRole, StopReason, VerdictStatus
from stark_lsp.core.verdict import Verdict

MOVED, SQUASHED = "        moved = x * self.scale + self.shift\n", "        squashed = torch.sigmoid(moved)\n"
ONE_LINE = {"search": MOVED + SQUASHED, "replace": "        squashed = torch.sigmoid(x * self.scale + self.shift)\n"}
MADE = PROBLEM.slice.text.replace(ONE_LINE["search"], ONE_LINE["replace"]).replace("class Gate(", "class ModelNew(")
REPAIR = {"search": "sigm(x)", "replace": "sigmoid(x)"}
REPAIRED = SECOND.candidate.source.replace("sigm(x)", "sigmoid(x)")


def written(edit: dict[str, str]) -> str:
    return f"<<<<<<< SEARCH\n{edit['search']}=======\n{edit['replace']}>>>>>>> REPLACE"


def team(answer: Answer, settings: AgentSettings | None = None) -> tuple[ModelTeam, ScriptedModel]:
    model = ScriptedModel(lambda question: answer)
    return ModelTeam(model, PROBLEM, reference(), settings), model


async def coded(answer: Answer, settings: AgentSettings | None = None) -> Candidate:
    return await team(answer, settings)[0].code(context(), FIRST_PLAN, Random(0))


@pytest.mark.parametrize(
    "answer",
    [
        answered(edits=[ONE_LINE], summary="One line."),
        answered(edits=[ONE_LINE], source="", summary="One line."),
        answered(edits=[ONE_LINE], source="See edits.", summary="One line."),
        answered(source=written(ONE_LINE), summary="One line."),
        answered(source=f"```python\n{written(ONE_LINE)}\n```", edits=[], summary="One line."),
        answered(edits=ONE_LINE, summary="One line."),
        answered(edits=json.dumps([ONE_LINE]), summary="One line."),
        answered(json.dumps({"edits": [ONE_LINE], "summary": "One line."})),
        answered(f"```json\n{json.dumps({'edits': [ONE_LINE], 'summary': 'One line.'})}\n```"),
        answered(f"One line.\n```python\n{written(ONE_LINE)}\n```\n"),
        answered(f"<think>{written(REPAIR)}</think>\n```\n{written(ONE_LINE)}\n```\nOne line."),
        answered(source=MADE, edits=[ONE_LINE, ONE_LINE], summary="One line."),
        answered(
            edits=[
                {
                    "search": f"        # <<<IMPROVE BEGIN>>> one kernel\n{MOVED}{SQUASHED}",
                    "replace": f"        # <<<IMPROVE BEGIN>>>\n{ONE_LINE['replace']}",
                }
            ],
            summary="One line.",
        ),
        answered(edits=[{key: text.replace("\n", "\r\n") for key, text in ONE_LINE.items()}], summary="One line."),
        answered(edits=[ONE_LINE, {"search": "class Gate(", "replace": "class ModelNew("}], summary="One line."),
    ],
)
async def test_edits_to_the_reference_make_a_whole_file_with_the_class_renamed(answer: Answer) -> None:
    made = await coded(answer)
    assert made == Candidate(MADE, Dialect.TORCH, "ModelNew", "", "One line.", "scripted")


async def test_of_an_answer_that_was_cut_off_the_edits_that_are_whole_are_made_which_is_said() -> None:
    made = await coded(answered(f"```\n{written(ONE_LINE)}\n<<<<<<< SEARCH\nclass Ga", StopReason.MAX_TOKENS))
    assert made.source == MADE
    assert "cut off" in made.remark


async def test_edits_outside_the_marks_are_found_as_in_a_whole_file() -> None:
    answer = answered(edits=[{"search": "torch.zeros(features)", "replace": "torch.zeros(features) + 0"}])
    assert "outside the marked lines" in (await coded(answer)).remark
    with pytest.raises(NoCandidate, match="outside the marked lines"):
        await coded(answer, AgentSettings(grounding=Grounding.REFUSE))


async def test_a_repair_and_a_single_agent_edit_what_they_were_shown() -> None:
    agents, model = team(answered(cause="A typo.", edits=[REPAIR]))
    assert (await agents.debug(context(SECOND, (ROOT, SECOND)), Random(0))).source == REPAIRED
    assert "as `edits` to the source of the attempt you start from" in model.questions[0].body
    for role, selected, edit, wanted in (
        (ModelRole.SAMPLING, ROOT, ONE_LINE, MADE),
        (ModelRole.REFLEXION, ROOT, ONE_LINE, MADE),
        (ModelRole.REFLEXION, SECOND, REPAIR, REPAIRED),
    ):
        answer = answered(summary="Less.", edits=[edit])
        agent = ModelSolo(ScriptedModel(lambda question, answer=answer: answer), PROBLEM, reference(), role)
        draft = await agent.propose(context(selected), Random(0))
        assert (draft.candidate.source, draft.plan) == (wanted, Plan("Less", "Less."))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answered(edits=[{"search": "moved = y", "replace": ""}]), r"do not fit\. Edit 1: .*\n.*moved = x"),
        (answered("I change it.", edits=[{"search": "torch", "replace": ""}]), "begins at lines 1, 2 and"),
        (answered(edits=[{"replace": "x"}]), "searches for nothing"),
        (answered(written({"search": "moved = y\n", "replace": ""})), r"do not fit\. Edit 1: "),
        (answered(edits=[]), "empty"),
        (answered('{"edits": [{"search": "moved', StopReason.MAX_TOKENS), "cut off"),
    ],
)
async def test_edits_that_do_not_fit_are_no_candidate_and_are_kept(answer: Answer, said: str) -> None:
    with pytest.raises(NoCandidate, match=said) as caught:
        await coded(answer)
    assert not caught.value.final
    if answer.tool_input and answer.tool_input["edits"]:
        assert json.loads(caught.value.text) == answer.tool_input


async def test_without_edits_whole_files_are_asked_for_and_taken() -> None:
    settings = AgentSettings(edits=False)
    agents, model = team(answered(edits=[ONE_LINE]), settings)
    with pytest.raises(NoCandidate, match="no Python"):
        await agents.code(context(), FIRST_PLAN, Random(0))
    assert model.questions[0].tool == TOOLS[ModelRole.CODE]
    assert "edits" not in model.questions[0].body
    assert (await coded(answered(source=MADE), settings)).source == MADE


def test_a_plan_quotes_and_nobody_must_give_a_source_with_edits() -> None:
    fields = [tool_of(ModelRole.PLAN, edits=edits).schema["properties"] for edits in (True, False)]
    assert ["alone" in field["annotated_source"]["description"] for field in fields] == [True, False]
    assert "edits" not in fields[0]
    assert tool_of(ModelRole.CODE, edits=True).schema["required"] == ["summary"]
    assert tool_of(ModelRole.DEBUG, edits=True).schema["required"] == ["cause"]
    assert tool_of(ModelRole.DEBUG, edits=False) == TOOLS[ModelRole.DEBUG]


# --- corrections -----------------------------------------------------------------------------------


def made(verdict: Verdict, candidate: Candidate, role: AgentRole = AgentRole.CODE, corrections: int = 0) -> Node:
    return Node(3, 0, role, candidate, FIRST_PLAN, verdict, corrections)


BROKEN = made(Verdict(VerdictStatus.LOAD_ERROR, "The candidate does not parse.", line=9), replace(
    SECOND.candidate, summary="One kernel.", remark="The answer was cut off."
))  # fmt: skip
NOTHING = made(Verdict(VerdictStatus.NO_CANDIDATE, "The answer was empty."), Candidate("Well, now"))


async def test_a_correction_is_asked_with_what_was_handed_in_and_found_and_edits_are_to_that() -> None:
    agents, model = team(answered(edits=[REPAIR], summary="Fixed."))
    draft = await agents.correct(context(), replace(BROKEN, corrections=1))
    assert draft.candidate.source == REPAIRED
    assert draft.candidate.summary == "One kernel.", "what was said of the idea stays"
    assert draft.plan is FIRST_PLAN
    [question] = model.questions
    assert (question.attempt, question.role, question.ordinal) == (3, ModelRole.CODE, 2)
    assert all(
        text in question.body for text in ("sigm(x)", "does not parse", FIRST_PLAN.advice, "The answer was cut off.")
    )
    assert "IMPROVE" not in question.body


async def test_an_answer_that_held_nothing_is_asked_for_once_more_with_the_source_it_was_to_change() -> None:
    agents, model = team(answered(edits=[ONE_LINE], summary="One line."))
    draft = await agents.correct(context(), NOTHING)
    assert draft.candidate == Candidate(MADE, Dialect.TORCH, summary="One line.", model="scripted")
    body = model.questions[0].body
    assert all(text in body for text in ("IMPROVE BEGIN", "The answer was empty.", "Well, now", "Answer once more"))


async def test_a_correction_of_the_code_agent_is_held_to_the_marks_and_one_of_a_repair_is_not() -> None:
    outside = answered(source=MADE.replace("torch.zeros(features)", "torch.zeros(features) + 0"))
    agents, _ = team(outside, AgentSettings(grounding=Grounding.REFUSE))
    with pytest.raises(NoCandidate, match="outside the marked lines"):
        await agents.correct(context(), BROKEN)
    repair = replace(BROKEN, parent=SECOND.id, role=AgentRole.DEBUG)
    assert (await agents.correct(context(SECOND), repair)).candidate.remark == ""


async def test_a_single_agent_corrects_in_its_own_role() -> None:
    model = ScriptedModel(lambda question: answered(edits=[REPAIR], summary="Fixed."))
    agent = ModelSolo(model, PROBLEM, reference(), ModelRole.SAMPLING)
    draft = await agent.correct(context(), replace(BROKEN, role=AgentRole.SAMPLING))
    assert draft.candidate.source == REPAIRED
    assert model.questions[0].role is ModelRole.SAMPLING
    assert "sigm(x)" in model.questions[0].body


async def test_a_correction_that_is_too_long_costs_the_attempt_and_not_the_run() -> None:
    def long(question: Question) -> Answer:
        raise TooLong("The question is longer than the model can read.", cure="Choose another one.")

    agent = ModelSolo(ScriptedModel(long), PROBLEM, reference(), ModelRole.SAMPLING)
    for failed in (BROKEN, NOTHING):
        with pytest.raises(NoCandidate, match="longer than the model can read") as caught:
            await agent.correct(context(), replace(failed, role=AgentRole.SAMPLING))
        assert caught.value.final
