"""A plan that combines two attempts: what is offered, what is taken, and what the code agent is shown."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from agent_cases import (
    FIRST,
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
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.agents.answers import read_plan, tool_of
from stark_lsp.agents.frame import combinable
from stark_lsp.agents.observations import PAST_SOURCE
from stark_lsp.agents.team import ModelTeam
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.conversation import Answer
from stark_lsp.core.paper import as_in_paper
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import Context
from stark_lsp.core.run import Node
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole, ModelRole, VerdictStatus
from stark_lsp.core.verdict import Verdict

LEADER = Node(7, 0, AgentRole.CODE, candidate("return leader(x)"), Plan("Lead", "Lead."), verified(0.009, 1.7))
CHILD = replace(LEADER, id=8, parent=1)
SLOW = replace(LEADER, id=10, verdict=verified(0.02, 0.8))
ABOVE = replace(LEADER, id=6)
LONG = replace(LEADER, id=9, candidate=replace(LEADER.candidate, source="x = 1\n" * PAST_SOURCE))
GIVEN = replace(
    context(FIRST, (ROOT, FIRST, SECOND, LEADER, CHILD, LONG, SLOW, ABOVE), siblings=(CHILD,)),
    attempt=12,
    ancestors=(6, 0),
)
BY_NAME = "combine_with"


def planning(
    combine_with: object = None, settings: AgentSettings | None = None, *, tried: bool = True
) -> tuple[ModelTeam, ScriptedModel]:
    fields = {"title": "Both", "advice": "Take its norm.", "annotated_source": FIRST.candidate.source}
    model = ScriptedModel(lambda question: answered(**fields, combine_with=combine_with))
    return ModelTeam(model, PROBLEM, reference(), settings, tried=tried), model


def test_leaders_of_other_branches_that_can_be_shown_whole_are_offered() -> None:
    assert combinable(GIVEN) == (LEADER,)


def test_what_was_combined_already_is_not_offered_again() -> None:
    into_this = replace(CHILD, id=13, plan=replace(FIRST_PLAN, combines=7))
    assert combinable(replace(GIVEN, siblings=(CHILD, into_this))) == ()
    into_that = replace(SLOW, id=14, parent=7, plan=replace(FIRST_PLAN, combines=FIRST.id))
    assert combinable(replace(GIVEN, window=(*GIVEN.window, into_that))) == ()


async def test_what_was_offered_becomes_the_second_parent() -> None:
    agents, model = planning(7)
    plan = await agents.plan(GIVEN, Random(0))
    assert plan.combines == 7
    assert "offered" not in plan.remark
    question = model.questions[0]
    assert "where attempt 7, made elsewhere and among the fastest," in question.body
    assert question.tool is not None
    assert BY_NAME in question.tool.schema["properties"]
    assert BY_NAME not in question.tool.schema["required"]


@pytest.mark.parametrize("number", [0, 1, 2, 6, 8, 9, 10, 99, -1])
async def test_what_was_not_offered_is_no_second_parent_and_is_said(number: int) -> None:
    plan = await planning(number)[0].plan(GIVEN, Random(0))
    assert plan.combines is None
    assert f"combined with attempt {number}, which was not offered" in plan.remark


@given(st.none() | st.booleans() | st.floats() | st.text() | st.lists(st.integers()))
def test_what_is_no_number_is_nothing(value: object) -> None:
    answer: Answer = answered(title="A", advice="B", combine_with=value)
    agents, _ = planning()
    question = agents.rehearse(ModelRole.PLAN)[0]
    assert read_plan(answer, question).combines is None


@pytest.mark.parametrize(
    ("settings", "tried"),
    [
        (AgentSettings(merging=False), True),
        (as_in_paper(SearchSettings(), AgentSettings())[1], True),
        (AgentSettings(), False),
    ],
)
async def test_nothing_is_offered_where_it_is_switched_off_and_to_systems_without_memory(
    settings: AgentSettings, tried: bool
) -> None:
    agents, model = planning(7, settings, tried=tried)
    assert (await agents.plan(GIVEN, Random(0))).combines is None
    question = model.questions[0]
    assert question.tool == tool_of(ModelRole.PLAN, edits=settings.edits)
    assert BY_NAME not in question.body


async def test_the_form_of_a_plan_is_alike_in_all_questions_of_a_run() -> None:
    agents, model = planning()
    await agents.plan(GIVEN, Random(0))
    await agents.plan(context(attempt=1), Random(0))
    first, second = model.questions
    assert (first.tool, first.system, first.shared) == (second.tool, second.system, second.shared)
    assert BY_NAME not in second.body, "there is nobody to combine with"


async def test_the_code_agent_is_shown_the_other_source_and_told_what_for() -> None:
    def told(given_context: Context, failed: Node | None = None) -> str:
        plan = replace(FIRST_PLAN, combines=7)
        question = agents.frame.question(
            ModelRole.CODE, given_context, tool_of(ModelRole.CODE, edits=True), plan=plan, failed=failed
        )
        return question.body

    agents, _ = planning()
    body = told(GIVEN)
    assert "The plan combines it with attempt 7" in body
    assert "return leader(x)" in body
    broken = replace(SECOND, id=12, parent=1, plan=replace(FIRST_PLAN, combines=7))
    assert "combines it with" not in told(GIVEN, broken), "what was handed in is corrected"
    nothing = replace(broken, verdict=Verdict(VerdictStatus.NO_CANDIDATE, "The answer was empty."))
    again = told(replace(GIVEN, window=(LEADER,)), nothing)
    assert "The plan combines it with attempt 7" in again
    assert "return leader(x)" in again


async def test_a_node_with_two_parents_is_said_to_have_both_and_its_repair_is_not() -> None:
    both = replace(FIRST, id=11, parent=1, plan=replace(FIRST_PLAN, combines=7))
    repair = replace(both, id=12, parent=11, role=AgentRole.DEBUG)
    assert (both.second_parent, repair.second_parent, FIRST.second_parent) == (7, None, None)
    agents, model = planning()
    await agents.plan(context(both, (ROOT, both, repair)), Random(0))
    body = model.questions[0].body
    assert "Attempt 11, made from attempt 1 and attempt 7:" in body
    assert "attempt 12, made from attempt 11 as a repair" in body
