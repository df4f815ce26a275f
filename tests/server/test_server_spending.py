"""Who answers and what it costs, in words."""

from __future__ import annotations

import pytest
from server_views import hovered, node, plan, verified, view

from stark_lsp.core.conversation import Answer, Exchange, Question, Spend, Usage
from stark_lsp.core.run import Budget
from stark_lsp.core.status import ModelRole, StopReason
from stark_lsp.server.runs.run_events import attempts_so_far, closing
from stark_lsp.server.text.spending import answered, answerer, asked, begins, money, spent, tokens, who


def exchange(model: str, dollars: float | None, used: int = 1000) -> Exchange:
    question = Question(1, ModelRole.PLAN, "", "", "", None, model="wanted")
    return Exchange(question, Answer(StopReason.COMPLETE, model=model, usage=Usage(output_tokens=used)), dollars)


@pytest.mark.parametrize(
    ("model", "called"),
    [
        ("playbook", "playbook"),
        ("anthropic", "Claude"),
        ("anthropic:claude-sonnet-5", "claude-sonnet-5"),
        ("openai:qwen3:8b@http://localhost:11434/v1", "qwen3:8b"),
        ("editor", "the editor's model"),
        ("replay:run.json", "transcript run.json"),
        (f"replay:/home/{'long/' * 40}run.json", "transcript run.json"),
    ],
)
def test_who_answers_has_a_name(model: str, called: str) -> None:
    assert answerer(model) == called
    assert begins(model) == f"with {called}"


def test_a_run_goes_by_the_names_that_services_told() -> None:
    one, other = asked([exchange("claude-a", 0)]), asked([exchange("claude-b", 0), exchange("claude-c", 0)])
    assert one is not None
    assert other is not None
    assert who("anthropic", {1: one}) == "claude-a"
    assert who("editor", {2: other, 1: one}) == "claude-a and 2 more"
    assert who("editor", {2: other}) == "claude-b and claude-c"
    assert who("anthropic:x", {}) == "x"
    assert who("replay:f.json", {1: one}) == "transcript f.json"


def test_a_run_that_has_not_decided_says_so() -> None:
    assert begins("auto") == "stark.model is auto"


def test_amounts_are_short() -> None:
    assert [money(d) for d in (0, 0.0031, 0.42, 2, 1234.5)] == ["$0", "$0.0031", "$0.42", "$2", "$1,234.50"]
    assert [tokens(n) for n in (950, 12_345, 999_600, 1_200_000)] == [
        "950 tokens",
        "12.3k tokens",
        "1M tokens",
        "1.2M tokens",
    ]


@pytest.mark.parametrize(
    ("spend", "budget", "words"),
    [
        (Spend(), Budget(dollars=2), ""),
        (Spend(3, Usage(48_000), 0.42), Budget(dollars=2), "$0.42 of $2"),
        (Spend(3, Usage(48_000), 0.42), Budget(), "$0.42"),
        (Spend(3, Usage(48_000), 0.42), Budget(tokens=100_000), "$0.42, 48k of 100k tokens"),
        (Spend(3, Usage(48_000), 0.0, 3), Budget(), "48k tokens, price unknown"),
        (Spend(3, Usage(48_000), 0.1, 1), Budget(), "$0.10, 48k tokens, some at an unknown price"),
    ],
)
def test_spend_stands_next_to_its_limits_and_unknown_prices_say_so(spend: Spend, budget: Budget, words: str) -> None:
    assert spent(spend, budget) == words


def test_an_attempts_exchanges_are_added_up() -> None:
    both = asked([exchange("a", 0.01), exchange("b", 0.02, 500)])
    assert both is not None
    assert answered(both) == "a, b · 1.5k tokens · $0.03"
    unknown = asked([exchange("", 0.01), exchange("", None)])
    assert unknown is not None
    assert answered(unknown) == "wanted · 2k tokens · price unknown"
    assert asked([]) is None


def test_progress_tells_attempt_best_and_spend() -> None:
    shown = view(node(1, 0, plan("Fuse"), verified(1.31)))
    shown.attempts = 4
    assert attempts_so_far(shown) == "attempt 4 of 30, best 1.31x (1.24 to 1.38) vs eager"
    shown.spend = Spend(2, Usage(10), 0.42)
    assert attempts_so_far(shown).endswith("vs eager, $0.42")
    assert closing(shown) == " (playbook, $0.42)"


def test_hover_tells_who_answered_and_what_it_cost() -> None:
    shown = view(node(1, 0, plan("Fuse"), verified(2.0)))
    one = asked([exchange("evil](command:x)", 0.04, 12_000)])
    assert one is not None
    shown.asked[1] = one
    markdown, text = hovered(shown)
    assert "Answered by evil](command:x) · 12k tokens · $0.04" in text
    assert "](command:" not in markdown.replace("\\](", "").replace("\\]\\(", "")
