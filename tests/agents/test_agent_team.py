"""The agents that a model answers for: what they ask, what they make of answers, and what they refuse."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from agent_cases import (
    FIRST,
    FIRST_PLAN,
    PROBLEM,
    PROFILE,
    ROOT,
    SECOND,
    ScriptedModel,
    answered,
    candidate,
    context,
    reference,
)

from stark_lsp.agents.answers import TOOLS
from stark_lsp.agents.diagnosis import Bottleneck
from stark_lsp.agents.grounding.edits import report
from stark_lsp.agents.lenses import choose, read_lenses
from stark_lsp.agents.prompts import PromptLibrary
from stark_lsp.agents.team import ModelSolo, ModelTeam
from stark_lsp.core.agent_settings import AgentSettings, RoleSettings
from stark_lsp.core.conversation import Answer, Question
from stark_lsp.core.errors import BadInput, Fault, TooLong
from stark_lsp.core.plan import Plan
from stark_lsp.core.roles import BudgetSpent, CodeAgent, DebugAgent, NoCandidate, PlanAgent, SoloAgent
from stark_lsp.core.run import Node
from stark_lsp.core.status import AgentRole, Dialect, Grounding, Limit, ModelRole, StopReason, VerdictStatus
from stark_lsp.core.verdict import Launch, Verdict

SOURCE = candidate().source
OUTSIDE = SOURCE.replace("torch.zeros(features)", "torch.zeros(features) + 0")


def answers(question: Question) -> Answer:
    """Answer each role as a good model would."""
    if question.role is ModelRole.PLAN:
        return answered(
            title="Fuse it all",
            advice="Read once, write once.",
            annotated_source=FIRST_PLAN.annotated_source,
            expected_saving_ms=0.005,
        )
    if question.role is ModelRole.DEBUG:
        return answered(cause="A typo.", source=SOURCE)
    return answered(source=SOURCE, summary="Everything in one expression. Nothing else.")


def team(answer: Any = answers, settings: AgentSettings | None = None, **more: Any) -> tuple[ModelTeam, ScriptedModel]:
    model = ScriptedModel(answer)
    return ModelTeam(model, PROBLEM, reference(), settings, **more), model


async def test_an_attempt_goes_from_plan_to_candidate() -> None:
    agents, model = team()
    plan = await agents.plan(context(attempt=7), Random(0))
    made = await agents.code(context(attempt=7), plan, Random(0))
    assert plan.title == "Fuse it all"
    assert plan.expected_saving_ms == 0.005
    assert plan.parameters == ()
    assert [PROBLEM.text.splitlines()[a.span.start].strip() for a in plan.anchors] == [
        "moved = x * self.scale + self.shift"
    ]
    assert made.source == SOURCE
    assert (made.class_name, made.dialect) == ("ModelNew", Dialect.TORCH)
    assert [(question.role, question.attempt, question.ordinal) for question in model.questions] == [
        (ModelRole.PLAN, 7, 0),
        (ModelRole.CODE, 7, 0),
    ]
    assert "<<<IMPROVE BEGIN>>> one kernel" in model.questions[1].body
    assert [question.temperature for question in model.questions] == [0.8, 0.1]
    assert [question.tool.name for question in model.questions if question.tool] == ["submit_plan", "submit_kernel"]


async def test_a_repair_is_asked_with_the_failure_and_the_plan() -> None:
    agents, model = team()
    made = await agents.debug(context(SECOND, (ROOT, SECOND)), Random(0))
    assert made.source == SOURCE
    assert 'identifier "sigm" is undefined' in model.questions[0].body
    assert "One thread for each element." in model.questions[0].body


async def test_the_same_seed_asks_the_same() -> None:
    async def questions() -> list[str]:
        agents, model = team(settings=AgentSettings(plan=RoleSettings(), profile=False), seed=5)
        for attempt in range(4):
            await agents.plan(context(attempt=attempt), Random(attempt))
        return [question.digest for question in model.questions]

    first = await questions()
    assert first == await questions()
    assert len(set(first)) == 4


async def test_a_single_agent_gives_a_candidate_with_its_summary() -> None:
    model = ScriptedModel(answers)
    agent = ModelSolo(model, PROBLEM, reference(), ModelRole.REFLEXION)
    draft = await agent.propose(context(FIRST, (ROOT, FIRST, SECOND)), Random(0))
    assert draft.candidate.source == SOURCE
    assert draft.plan == Plan("Everything in one expression", "Everything in one expression. Nothing else.")
    assert model.questions[0].temperature == 0.7
    assert "The attempt you start from is correct" in model.questions[0].body


async def test_a_single_agent_without_words_has_no_plan() -> None:
    agent = ModelSolo(ScriptedModel(lambda _: answered(source=SOURCE)), PROBLEM, reference(), ModelRole.SAMPLING)
    assert (await agent.propose(context(), Random(0))).plan is None


def test_a_single_agent_has_one_of_two_roles() -> None:
    with pytest.raises(ValueError, match="plan"):
        ModelSolo(ScriptedModel(answers), PROBLEM, reference(), ModelRole.PLAN)


def test_the_agents_fill_the_roles_of_the_search() -> None:
    agents, model = team()
    roles: tuple[PlanAgent, CodeAgent, DebugAgent] = (agents, agents, agents)
    solo: SoloAgent = ModelSolo(model, PROBLEM, reference(), ModelRole.SAMPLING)
    assert all(callable(getattr(each, name)) for each, name in zip(roles, ("plan", "code", "debug"), strict=True))
    assert callable(solo.propose)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answered(stop=StopReason.REFUSAL), "declined"),
        (answered(stop=StopReason.MAX_TOKENS), "cut off at 32000 tokens"),
        (answered(), "empty"),
        (answered(source="It is done.", title=" "), "no Python source"),
    ],
)
async def test_what_a_model_does_not_give_is_a_failed_attempt(answer: Answer, said: str) -> None:
    agents, _ = team(lambda _: answer)
    with pytest.raises(NoCandidate, match=said) as caught:
        await agents.code(context(), FIRST_PLAN, Random(0))
    assert caught.value.final is (said in ("declined", "cut off at 32000 tokens"))
    with pytest.raises(NoCandidate, match=said):
        await agents.debug(context(FIRST), Random(0))
    with pytest.raises(NoCandidate):
        await agents.plan(context(), Random(0))


async def test_a_typo_is_judged_and_repaired_and_who_repairs_is_told_of_a_cut() -> None:
    notes: list[tuple[int, str]] = []
    cut = answered(f"```python\n{SOURCE[:-9]}", stop=StopReason.MAX_TOKENS)
    agents, model = team(
        lambda question: answers(question) if question.role is ModelRole.DEBUG else cut,
        on_note=lambda *note: notes.append(note),
    )
    made = await agents.code(context(), FIRST_PLAN, Random(0))
    assert "cut off at 32000 tokens" in made.remark
    shorter = "it has to be shorter, or code.max_tokens larger, or code.effort lower."
    assert (3, f"The answer was cut off at 32000 tokens: {shorter}") in notes
    broken = Verdict(VerdictStatus.LOAD_ERROR, "The candidate does not parse: '(' was never closed.", line=9)
    node = Node(2, 0, AgentRole.CODE, made, FIRST_PLAN, broken)
    assert (await agents.debug(context(node, (ROOT, node)), Random(0))).source == SOURCE
    assert "does not parse" in model.questions[1].body
    assert "**Note.** The answer was cut off" in model.questions[1].body


@pytest.mark.parametrize(
    "error", [Fault("down"), BadInput("no key"), BudgetSpent("spent", Limit.TOKENS), asyncio.CancelledError()]
)
async def test_what_is_wrong_with_the_model_passes_through(error: BaseException) -> None:
    def fail(question: Question) -> Answer:
        raise error

    agents, _ = team(fail)
    for call in (
        agents.plan(context(), Random(0)),
        agents.code(context(), FIRST_PLAN, Random(0)),
        agents.debug(context(SECOND), Random(0)),
    ):
        with pytest.raises(type(error)):
            await call


async def test_edits_outside_the_marks_are_noted_and_told_to_later_agents() -> None:
    notes: list[tuple[int, str]] = []
    agents, _ = team(lambda _: answered(source=OUTSIDE), on_note=lambda *note: notes.append(note))
    made = await agents.code(context(attempt=4), FIRST_PLAN, Random(0))
    assert made.source == OUTSIDE
    (note,) = notes
    assert note[0] == 4
    assert note[1].startswith("Edits outside the marked lines: `")
    node = Node(4, 0, AgentRole.CODE, made, FIRST_PLAN, FIRST.verdict)
    assert report(ROOT.candidate, FIRST_PLAN, made) != ""
    question = agents.frame.question(ModelRole.PLAN, context(ROOT, (ROOT, node)), TOOLS[ModelRole.PLAN])
    assert "also edited outside the marked lines" in question.body


async def test_edits_outside_the_marks_are_refused_where_the_settings_say_so() -> None:
    agents, _ = team(lambda _: answered(source=OUTSIDE), AgentSettings(grounding=Grounding.REFUSE))
    with pytest.raises(NoCandidate, match="outside the marked lines") as caught:
        await agents.code(context(), FIRST_PLAN, Random(0))
    assert caught.value.text == OUTSIDE
    allowed, _ = team(answers, AgentSettings(grounding=Grounding.REFUSE))
    assert (await allowed.code(context(), FIRST_PLAN, Random(0))).source == SOURCE


async def test_without_grounding_the_coder_sees_no_marks_and_nothing_is_noted() -> None:
    notes: list[tuple[int, str]] = []
    agents, model = team(
        lambda question: answered(source=OUTSIDE) if question.role is ModelRole.CODE else answers(question),
        AgentSettings(grounding=Grounding.OFF),
        on_note=lambda *note: notes.append(note),
    )
    plan = await agents.plan(context(), Random(0))
    assert plan.anchors
    await agents.code(context(), plan, Random(0))
    assert "IMPROVE" not in model.questions[1].body
    assert notes == []


async def test_a_plan_that_marks_nothing_is_used_and_noted() -> None:
    notes: list[tuple[int, str]] = []
    agents, _ = team(lambda _: answered(title="Fuse", advice="All of it."), on_note=lambda *note: notes.append(note))
    plan = await agents.plan(context(attempt=2), Random(0))
    assert plan.anchors == ()
    assert plan.remark == "The plan marked no lines."
    assert notes == [(2, "The plan marked no lines.")]


async def test_instructions_and_explanations_are_kept_and_shown_later() -> None:
    agents, _ = team()
    plan = await agents.plan(context(attempt=1), Random(0))
    made = await agents.code(context(attempt=1), plan, Random(0))
    mended = await agents.debug(context(SECOND, (ROOT, SECOND), attempt=3), Random(0))
    assert made.summary == "Everything in one expression. Nothing else."
    assert mended.summary == "A typo."
    one = Node(4, 0, AgentRole.CODE, made, plan, FIRST.verdict)
    two = Node(5, 2, AgentRole.DEBUG, mended, SECOND.plan, FIRST.verdict)
    for selected in (ROOT, one):
        body = agents.frame.question(ModelRole.PLAN, context(selected, (ROOT, one, two)), TOOLS[ModelRole.PLAN]).body
        assert body.count("> Read once, write once.") == 1, "the instruction, not its title alone"
        assert body.count("> One thread for each element.") == 1
        assert "its author says.**\n\n> Everything in one expression." in body
        assert "What had been wrong, its author says.**\n\n> A typo." in body


async def test_advice_at_the_marks_reaches_the_code_agent() -> None:
    marked = FIRST_PLAN.annotated_source.replace(
        "one kernel\n", "one kernel\n        # four elements a thread,\n        # 16-byte loads\n"
    )
    agents, model = team(
        lambda question: (
            answered(title="A", advice="B", annotated_source=marked)
            if question.role is ModelRole.PLAN
            else answers(question)
        )
    )
    plan = await agents.plan(context(), Random(0))
    assert plan.remark == ""
    assert plan.anchors[0].note == "one kernel four elements a thread, 16-byte loads"
    await agents.code(context(), plan, Random(0))
    assert "<<<IMPROVE BEGIN>>> one kernel four elements a thread, 16-byte loads" in model.questions[1].body


class Knowing(ScriptedModel):
    """A model that knows whether it takes a temperature."""

    def __init__(self, takes: bool | None) -> None:
        super().__init__(answers)
        self.takes = takes

    def takes_temperature(self, name: str) -> bool | None:
        return self.takes


@pytest.mark.parametrize(("takes", "temperature", "lens"), [
    (None, 0.8, False), (True, 0.8, False), (False, 0.8, True), (True, None, True), (None, None, True),
])  # fmt: skip
async def test_lenses_are_used_where_temperature_cannot_make_plans_differ(
    takes: bool | None, temperature: float | None, lens: bool
) -> None:
    model = Knowing(takes)
    settings = AgentSettings(plan=RoleSettings(temperature=temperature))
    plan = await ModelTeam(model, PROBLEM, reference(), settings).plan(context(), Random(0))
    assert bool(plan.lens) is lens
    assert ("look at it from this side first" in model.questions[0].body) is lens


async def test_a_lens_is_not_used_twice_on_a_node_before_all_were() -> None:
    agents, _ = team(settings=AgentSettings(plan=RoleSettings()), seed=3)
    count = len(read_lenses(PromptLibrary().text("lenses.md")))
    children: tuple[Node, ...] = ()
    names = []
    for number in range(count):
        plan = await agents.plan(context(siblings=children, attempt=2 * number), Random(0))
        names.append(plan.lens)
        children += (Node(2 * number, 0, AgentRole.CODE, candidate(), plan, FIRST.verdict),)
    assert len(set(names)) == count >= 9


async def test_a_team_without_memory_takes_lenses_whatever_its_other_samples_took() -> None:
    async def lens(tried: bool, children: tuple[Node, ...]) -> str:
        agents, _ = team(settings=AgentSettings(plan=RoleSettings()), seed=3, tried=tried)
        return (await agents.plan(context(siblings=children, attempt=5), Random(0))).lens

    first = await lens(True, ())
    child = Node(2, 0, AgentRole.CODE, candidate(), Plan("A", "B", lens=first), FIRST.verdict)
    assert await lens(True, (child,)) != first
    assert await lens(False, (child,)) == first


def test_lenses_take_turns_in_an_order_that_the_seed_decides() -> None:
    lenses = read_lenses(PromptLibrary().text("lenses.md"))
    assert all(lens.name and len(lens.text) > 100 for lens in lenses)

    def turns(seed: int) -> list[str]:
        return [lens.name for attempt in range(len(lenses)) if (lens := choose(lenses, seed, attempt))]

    assert turns(1) == turns(1)
    assert sorted(turns(1)) == sorted(lens.name for lens in lenses)
    assert len({tuple(turns(seed)) for seed in range(10)}) > 5
    assert choose((), 1, 1) is None
    assert choose(lenses, 1, 4, [lens.name for lens in lenses]) == choose(lenses, 1, 4)


@pytest.mark.parametrize("bottleneck", list(Bottleneck))
def test_the_bottleneck_chooses_lenses_and_the_lot_among_those_that_suit_it(bottleneck: Bottleneck) -> None:
    lenses = read_lenses(PromptLibrary().text("lenses.md"))
    words = {one.value for one in Bottleneck}
    assert all(lens.bottlenecks and lens.bottlenecks <= words for lens in lenses)
    suit = {lens.name for lens in lenses if bottleneck.value in lens.bottlenecks}
    assert 2 < len(suit) < len(lenses)
    used: list[str] = []
    for number in range(len(lenses)):
        lens = choose(lenses, 7, number, used, bottleneck)
        assert lens is not None
        assert (lens.name in suit) is (number < len(suit)), "those that suit come first, then the others"
        used.append(lens.name)
    assert len(set(used)) == len(lenses)
    first = {lens.name for seed in range(30) if (lens := choose(lenses, seed, 0, (), bottleneck))}
    assert first == suit, "the lot decides among them"
    whole = choose(lenses, 7, 3, used, bottleneck)
    assert whole is not None
    assert whole.name in suit, "all were used"


async def test_the_selected_nodes_profile_chooses_the_lens() -> None:
    agents, model = team(settings=AgentSettings(plan=RoleSettings()), seed=3)
    lenses = {lens.name: lens for lens in read_lenses(PromptLibrary().text("lenses.md"))}
    assert FIRST.verdict is not None
    product = replace(PROFILE, launched=(Launch("gemm", 1, 9.9),), flops=10**8, compute_share=0.6, bound="compute")
    node = replace(FIRST, verdict=replace(FIRST.verdict, profile=product))
    assert "compute" in lenses[(await agents.plan(context(node), Random(0))).lens].bottlenecks
    assert "60 % of the 16.3 TFLOP/s" in model.questions[0].body
    assert "overhead" in lenses[(await agents.plan(context(), Random(0))).lens].bottlenecks


def test_a_lens_that_names_no_bottleneck_suits_all() -> None:
    free, other = read_lenses("# Mine\n\nLook here.\n# Other\nFor: memory\n\nLook there.\n")
    assert (free.text, other.text) == ("Look here.", "Look there.")
    assert choose((free, other), 0, 0, (), Bottleneck.COMPUTE) == free
    assert choose((other,), 0, 0, (), Bottleneck.COMPUTE) == other, "rather that than none"


async def test_lenses_of_the_user_win(tmp_path: Path) -> None:
    (tmp_path / "lenses.md").write_text("Ignored.\n\n# My side\n\nLook here.\n", encoding="utf-8")
    model = ScriptedModel(answers)
    agents = ModelTeam(
        model, PROBLEM, reference(), AgentSettings(plan=RoleSettings()), prompts=PromptLibrary([tmp_path])
    )
    plan = await agents.plan(context(), Random(0))
    assert plan.lens == "My side"
    assert "Look here." in model.questions[0].body
    (tmp_path / "lenses.md").write_text("nothing\n", encoding="utf-8")
    assert not (await agents.plan(context(), Random(0))).lens


def test_a_rehearsal_shows_broken_templates_before_anything_is_asked(tmp_path: Path) -> None:
    model = ScriptedModel(answers)
    agents = ModelTeam(model, PROBLEM, reference(), prompts=PromptLibrary([tmp_path]))
    assert [question.role for question in agents.rehearse()] == list(ModelRole)
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles" / "debug.md").write_text("{{ nothing_there }}", encoding="utf-8")
    with pytest.raises(BadInput, match="nothing_there"):
        agents.rehearse()
    assert [question.role for question in agents.rehearse(ModelRole.PLAN, ModelRole.CODE)] == [
        ModelRole.PLAN,
        ModelRole.CODE,
    ]
    assert model.questions == []


def too_long(question: Question) -> Answer:
    raise TooLong("The question is longer than the model can read.", cure="Choose another one.")


async def test_a_question_that_grew_too_long_costs_its_attempt_and_not_the_run() -> None:
    agents, _ = team(too_long)
    for asking in (
        agents.plan(context(FIRST), Random(0)),
        agents.code(context(FIRST), FIRST_PLAN, Random(0)),
        agents.debug(context(SECOND), Random(0)),
    ):
        with pytest.raises(NoCandidate, match="longer than the model can read"):
            await asking


async def test_a_reference_that_is_too_long_by_itself_is_for_the_user_to_mend() -> None:
    agents, _ = team(too_long)
    with pytest.raises(TooLong):
        await agents.plan(context(ROOT, window=(ROOT,)), Random(0))
