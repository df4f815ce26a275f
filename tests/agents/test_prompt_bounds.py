"""Nothing that is sent to a model grows without a bound, and sections say how long each part of it is."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from agent_cases import FIRST, FIRST_PLAN, PROBLEM, ROOT, SECOND, context, reference
from hypothesis import given, settings
from hypothesis import strategies as st

from stark_lsp.agents.answers import tool_of
from stark_lsp.agents.frame import Frame
from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.agents.sections import sections, weighed
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.conversation import Answer, Exchange, Question, Usage
from stark_lsp.core.roles import Context
from stark_lsp.core.run import Node, Note, Rejection
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import ModelRole, StopReason, VerdictStatus
from stark_lsp.core.steering import Hint
from stark_lsp.core.verdict import CompilerMessage, Launch, Reference

MOST = 700_000
"""Characters of a question with windows of the paper's size, the templates' own words counted in."""
LONG = 300_000
WINDOW = SearchSettings().window_size + 1
"""One more for the attempt that a plan combines with."""


def text(length: int) -> str:
    """Return a text that no shortening of lines or blanks makes short."""
    return ("x = 'word `````' # IMPROVE\n" * (length // 25 + 1))[:length] + "\n"


def long_node(number: int, length: int, many: int, *, failed: bool) -> Node:
    """Return an attempt of which each text has `length` characters, and each list `many` items."""
    base = SECOND if failed else FIRST
    assert base.verdict is not None
    assert base.plan is not None
    words = text(length)
    verdict = replace(
        base.verdict,
        message=words,
        log=words,
        line=1,
        compiler=tuple(CompilerMessage(number, 1, words) for number in range(many)),
        notes=(words,) * many,
        profile=None if failed else replace(reference().profile, launched=(Launch(words, 3, 1.0),) * many),  # type: ignore[type-var]
    )
    plan = replace(base.plan, title=words, advice=words, annotated_source=FIRST_PLAN.annotated_source + words)
    candidate = replace(base.candidate, source=f"class ModelNew:\n    pass\n{words}", remark=words, summary=words)
    return Node(number, 0, base.role, candidate, plan, verdict)


def asked(role: ModelRole, length: int, many: int, *, failed: bool = False, corrected: bool = False) -> Question:
    """Return a question in which whatever the run or the user brings is so long."""
    words = text(length)
    known: Reference = reference()
    environment = replace(
        known.environment, shapes=(words,) * many, dtypes=("float32",) * many, device=words, compiler=words
    )
    measured = replace(
        known, environment=environment, outputs=(words,) * many, notes=(words,) * many, profile=known.profile
    )
    problem = replace(PROBLEM, slice=replace(PROBLEM.slice, text=f"class Gate:\n    pass\n{words}"))
    selected = long_node(1, length, many, failed=failed)
    past = tuple(long_node(number, length, many, failed=number % 2 == 0) for number in range(2, 2 + min(many, WINDOW)))
    given_context = Context(
        problem,
        measured,
        selected,
        ROOT,
        past,
        siblings=tuple(replace(FIRST, id=number, plan=selected.plan) for number in range(2, 2 + many)),
        rejections=(Rejection("run", 4, words, words),) * many,
        hints=(Hint(words),) * many,
        made=tuple(replace(FIRST, id=number, plan=selected.plan) for number in range(2 + many, 2 + 2 * many)),
        under_way=tuple((number, selected.plan) for number in range(many)) if selected.plan is not None else (),
        attempt=many + 2,
        first_failure=selected if failed else None,
        last_correct=FIRST if failed else None,
    )
    notes = (Note("r", 1, words, (words,), words, "", "", words, VerdictStatus.OK, text=words),) * min(many, 5)
    frame = Frame(problem, measured, AgentSettings(), PromptLibrary(), notes=notes)
    plan = selected.plan if role is ModelRole.CODE else None
    made = replace(selected, id=many + 2) if corrected else None
    return frame.question(role, given_context, tool_of(role, edits=True), plan=plan, failed=made)


def size(question: Question) -> int:
    return sum(section.characters for section in sections(question))


@settings(max_examples=12, deadline=None)
@given(
    role=st.sampled_from(list(ModelRole)),
    length=st.sampled_from([0, 3_000, LONG]),
    many=st.sampled_from([0, 6, 400]),
    failed=st.booleans(),
    corrected=st.booleans(),
)
def test_a_question_has_a_bound_whatever_a_run_and_its_user_bring(
    role: ModelRole, length: int, many: int, failed: bool, corrected: bool
) -> None:
    assert size(asked(role, length, many, failed=failed, corrected=corrected)) <= MOST


def test_the_bound_is_told() -> None:
    page = Path(__file__).parents[2] / "docs" / "agents.md"
    assert f"at most {MOST:,} characters" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("role", list(ModelRole))
def test_more_of_the_same_makes_a_question_no_longer(role: ModelRole) -> None:
    some, more = (size(asked(role, 9_000, many)) for many in (60, 600))
    assert abs(more - some) < 200, "numbers have more digits, and that is all"


def test_the_lists_that_are_tried_are_all_there_are() -> None:
    """A field that is added to what an agent is given must be tried above, or be known to have a bound."""
    bounded = {"problem", "reference", "selected", "root", "window", "attempt", "stagnant", "ancestors"}
    bounded |= {"first_failure", "last_correct"}
    assert {one.name for one in fields(Context)} - bounded == {"siblings", "rejections", "hints", "made", "under_way"}


@pytest.mark.parametrize("role", list(ModelRole))
def test_sections_hold_every_character_of_a_question(role: ModelRole) -> None:
    question = asked(role, 3_000, 6)
    tool: Any = question.tool
    form = sections(replace(question, system="", shared="", body=""))
    assert form[0].characters > len(tool.description)
    assert size(question) == sum(map(len, (question.system, question.shared, question.body))) + form[0].characters
    names = [section.name for section in sections(question)]
    assert names[:4] == [
        "Form of the answer",
        "System message",
        "An example of the form",
        "What a candidate must keep to",
    ]
    assert names[-1] == "Your task"
    assert ("Earlier attempts" in names) is (role is not ModelRole.SAMPLING)


def test_no_text_of_a_candidate_or_a_user_begins_a_section() -> None:
    source = 'class ModelNew:\n    """\n````\n# Mine\n```\n# Mine\n"""\n# Mine\n'
    node = replace(FIRST, candidate=replace(FIRST.candidate, source=source))
    given_context = replace(context(node), hints=(Hint("# Mine"),))
    frame = Frame(PROBLEM, reference(), AgentSettings(), PromptLibrary())
    question = frame.question(ModelRole.PLAN, given_context, tool_of(ModelRole.PLAN, edits=True))
    assert "\n# Mine\n" in question.body
    assert "Mine" not in {section.name for section in sections(question)}


@given(read=st.integers(0, 100_000), parts=st.lists(st.text(alphabet="ab#` \n", max_size=60), min_size=3, max_size=3))
def test_tokens_of_sections_add_up_to_what_was_read(read: int, parts: list[str]) -> None:
    system, shared, body = parts
    question = Question(1, ModelRole.PLAN, system, shared, body, None)
    found = weighed(Exchange(question, Answer(StopReason.COMPLETE, usage=Usage(input_tokens=read, output_tokens=7))))
    assert sum(part.characters for part in found) == sum(map(len, parts))
    if read and found:
        assert sum(part.tokens for part in found) == read
    assert all(part.tokens >= 0 for part in found)
