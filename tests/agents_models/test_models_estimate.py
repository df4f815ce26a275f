"""What a run will take, told before it starts."""

import pytest
from model_cases import NEW, OLD, question

from stark_lsp.agents.models import prices
from stark_lsp.agents.models.estimate import Estimate, PromptSize, estimate, measure
from stark_lsp.core.agent_settings import AgentSettings, RoleSettings
from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import ModelRole

SIZES = {role: PromptSize(shared=14_000, body=7_000, node=5_000) for role in ModelRole}
SYSTEMS = ("stark", "ma-only", "sampling", "reflexion", "search-agent", "stark-tools")


def _estimate(system: str = "stark", attempts: int = 30, **changes: object) -> Estimate:
    return estimate(system, attempts, SIZES, AgentSettings(**changes), prices.load(), NEW)  # type: ignore[arg-type]


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_least_is_never_above_the_most(system: str) -> None:
    for attempts in (0, 1, 2, 7, 30):
        found = _estimate(system, attempts)
        assert found.dollars is not None
        for low, high in (found.calls, found.tokens, found.dollars):
            assert 0 <= low <= high


@pytest.mark.parametrize(
    ("system", "calls"),
    [("stark", (45, 60)), ("ma-only", (60, 60)), ("sampling", (30, 30)), ("reflexion", (30, 30))],
)
def test_questions_are_counted_by_the_system(system: str, calls: tuple[int, int]) -> None:
    assert _estimate(system).calls == calls


def test_a_single_attempt_is_a_plan_and_its_code() -> None:
    found = _estimate(attempts=1)
    assert found.calls == (2, 2)
    assert found.text.startswith(f"1 attempt with stark on {NEW}: about 2 questions")


def test_more_attempts_and_larger_prompts_take_more() -> None:
    small, large = _estimate(attempts=10), _estimate(attempts=20)
    assert large.tokens[0] > small.tokens[0]
    wide = {role: PromptSize(50_000, 50_000, 9_000) for role in ModelRole}
    assert estimate("stark", 10, wide, AgentSettings(), prices.load(), NEW).tokens[0] > small.tokens[0]


def test_a_run_of_thirty_attempts_costs_dollars_not_cents_or_hundreds() -> None:
    found = _estimate()
    assert found.dollars is not None
    assert 1.0 < found.dollars[0] < found.dollars[1] < 30.0


def test_answers_are_not_taken_to_be_longer_than_allowed() -> None:
    short = {role.value: RoleSettings(max_tokens=100) for role in ModelRole}
    assert _estimate(**short).tokens[1] < _estimate().tokens[1]


def test_an_unknown_price_says_unknown() -> None:
    found = _estimate(code=RoleSettings(model="mystery"))
    assert found.dollars is None
    assert found.unpriced == ("mystery",)
    assert found.text.endswith("The price of mystery is unknown.")
    assert "$" not in found.text


def test_the_text_is_for_a_person() -> None:
    found = _estimate(plan=RoleSettings(model=OLD))
    assert found.text.startswith(f"30 attempts with stark on {OLD}, {NEW}: about 45 to 60 questions and ")
    assert f"by prices of {prices.load().date}" in found.text
    assert found.text.count("$") == 2


def test_models_that_no_role_of_the_system_uses_do_not_matter() -> None:
    found = estimate("sampling", 5, SIZES, AgentSettings(plan=RoleSettings(model="mystery")), prices.load(), NEW)
    assert found.dollars is not None
    assert found.models == (NEW,)


def test_a_role_whose_prompt_was_not_measured_has_the_largest_of_the_others() -> None:
    only = {ModelRole.PLAN: PromptSize(14_000, 7_000, 5_000)}
    assert estimate("stark", 30, only, AgentSettings(), prices.load(), NEW) == _estimate()
    assert estimate("stark", 3, {}, AgentSettings(), prices.load(), NEW).calls[1] == 6


def test_a_question_is_measured_with_its_tool() -> None:
    asked = question()
    size = measure(asked, node=70)
    assert size.body == len(asked.body)
    assert size.node == 70
    assert size.shared > len(asked.system) + len(asked.shared)
    assert measure(question(tool=None)).shared == len(asked.system) + len(asked.shared)


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(BadInput, match="no system"):
        _estimate("strak")
