"""Estimate: what a run on a language model will take, told before it starts.

From what is measured, the size of the first prompts, and what can only be assumed: how long answers are, how much the
context windows add, and how often a failed node is chosen for repair. So it is a range, and its text says so. The
limits of a run do not rest on it but on the purse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stark_lsp.agents.models.prices import Prices
from stark_lsp.agents.models.sizes import likely_tokens
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.conversation import Question, Usage
from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import ModelRole

WINDOW_NODES = 5
"""Attempts that a context window holds at most (paper, Appendix B)."""

TYPICAL_ANSWER: Mapping[ModelRole, tuple[int, int]] = {
    ModelRole.PLAN: (2_000, 10_000),
    ModelRole.CODE: (3_000, 16_000),
    ModelRole.DEBUG: (3_000, 14_000),
    ModelRole.SAMPLING: (3_000, 16_000),
    ModelRole.REFLEXION: (3_000, 16_000),
}
"""Tokens of a short and of a long answer, thinking included: assumptions, not measurements."""

REPAIRS = 0.5
"""Share of attempts that are repairs in a run with as many as are likely: by the paper's Table 2 about half of all
candidates are correct, so about half of the nodes chosen have failed."""

LEAST_CALLS = 2
"""Tools that a code agent which has some is likely to call at least."""
TYPICAL_RESULT = 500
"""Tokens of what a tool says."""

_TEAM = (ModelRole.PLAN, ModelRole.CODE)


@dataclass(frozen=True)
class PromptSize:
    """Characters of one role's prompt."""

    shared: int
    """Alike in all questions of the role: system message, tool, example, reference."""
    body: int
    """The rest of the first question."""
    node: int = 0
    """What one more attempt in the context window adds."""


@dataclass(frozen=True)
class Estimate:
    """What a run will take: the least and the most that is likely."""

    calls: tuple[int, int]
    tokens: tuple[int, int]
    dollars: tuple[float, float] | None
    """US dollars; None if a price is unknown."""
    attempts: int
    system: str
    models: tuple[str, ...]
    unpriced: tuple[str, ...] = ()
    """Models whose price is unknown."""
    prices_date: str = ""

    @property
    def text(self) -> str:
        """The estimate in a sentence or two, for a person."""
        attempts = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        taken = taking(self.calls, self.tokens, self.dollars, self.prices_date)
        text = f"{attempts} with {self.system} on {', '.join(self.models)}: {taken}."
        if self.dollars is not None:
            return f"{text} An estimate."
        return f"{text} The price of {', '.join(self.unpriced)} is unknown."


def taking(
    calls: tuple[int, int], tokens: tuple[int, int], dollars: tuple[float, float] | None, prices_date: str
) -> str:
    """Return the least and the most that is likely as words: `about 45 to 60 questions and 1.2 million tokens, ...`."""
    text = f"about {_span(*(f'{count:,}' for count in calls))} questions and {_span(*map(_rounded, tokens))} tokens"
    if dollars is None:
        return text
    dated = f", by prices of {prices_date}" if prices_date else ""
    return f"{text}, {_span(*(f'${amount:,.2f}' for amount in dollars))}{dated}"


def measure(question: Question, node: int = 0) -> PromptSize:
    """Return the size of a role's first question; `node` is the characters of one attempt as the window shows it."""
    tool = question.tool
    handed = 0 if tool is None else len(tool.description) + len(str(tool.schema))
    return PromptSize(len(question.system) + len(question.shared) + handed, len(question.body), node)


def estimate(
    system: str,
    attempts: int,
    sizes: Mapping[ModelRole, PromptSize],
    settings: AgentSettings,
    prices: Prices,
    default_model: str,
) -> Estimate:
    """Return what a run will take.

    Parameters
    ----------
    system
        `stark`, `ma-only`, `sampling`, `reflexion`, `search-agent` or `stark-tools`.
    attempts
        The budget of attempts.
    sizes
        Of the prompts, for each role that the system uses; a role that is missing has the largest of the others.
    settings
        Of the agents: models and longest answers.
    prices
        What tokens cost.
    default_model
        The model of roles that name none.

    Raises
    ------
    BadInput
        There is no such system.
    """
    least, most = _mixes(system)
    few, many = (LEAST_CALLS, settings.tool_calls) if system == "stark-tools" else (0, 0)
    low = _sum(least, attempts, sizes, settings, prices, default_model, min(few, many), long=False)
    high = _sum(most, attempts, sizes, settings, prices, default_model, many, long=True)
    roles = sorted({role for mix in (least, most) for role in mix}, key=list(ModelRole).index)
    models = tuple(dict.fromkeys(settings.of(role).model or default_model for role in roles))
    unpriced = tuple(model for model in models if prices.of(model) is None)
    return Estimate(
        calls=(low.calls, max(low.calls, high.calls)),
        tokens=(low.tokens, max(low.tokens, high.tokens)),
        dollars=None if unpriced else (low.dollars, max(low.dollars, high.dollars)),
        attempts=attempts,
        system=system,
        models=models,
        unpriced=unpriced,
        prices_date=prices.date,
    )


@dataclass(frozen=True)
class _Sum:
    calls: int
    tokens: int
    dollars: float


def _mixes(system: str) -> tuple[Mapping[ModelRole, float], Mapping[ModelRole, float]]:
    """Return how many calls of each role an attempt takes, at least and at most."""
    team = dict.fromkeys(_TEAM, 1.0)
    if system in ("stark", "stark-tools"):
        repairing = {**dict.fromkeys(_TEAM, 1.0 - REPAIRS), ModelRole.DEBUG: REPAIRS}
        return repairing, team
    if system == "ma-only":
        return team, team
    if system == "sampling":
        return {ModelRole.SAMPLING: 1.0}, {ModelRole.SAMPLING: 1.0}
    if system in ("reflexion", "search-agent"):
        return {ModelRole.REFLEXION: 1.0}, {ModelRole.REFLEXION: 1.0}
    raise BadInput(
        f"There is no system {system[:80]!r}.",
        cure="Choose stark, ma-only, sampling, reflexion, search-agent or stark-tools.",
    )


def _sum(
    mix: Mapping[ModelRole, float],
    attempts: int,
    sizes: Mapping[ModelRole, PromptSize],
    settings: AgentSettings,
    prices: Prices,
    default_model: str,
    steps: int,
    *,
    long: bool,
) -> _Sum:
    total = _Sum(0, 0, 0.0)
    for role, share in mix.items():
        # The first attempt is no repair.
        calls = int(attempts * share + (0.0 if role is ModelRole.DEBUG else 0.5))
        price = prices.of(settings.of(role).model or default_model)
        answer = min(TYPICAL_ANSWER[role][1 if long else 0], settings.of(role).max_tokens)
        size = sizes.get(role) or max(sizes.values(), key=lambda one: one.shared + one.body, default=PromptSize(0, 0))
        for index in range(calls):
            asked = [_call(role, size, index, answer, long=long)]
            for _ in range(steps if role is ModelRole.CODE else 0):
                asked.append(_step(asked[-1], min(TYPICAL_ANSWER[role][0], settings.of(role).max_tokens)))
            for usage in asked:
                dollars = 0.0 if price is None else price.cost(usage)
                total = _Sum(total.calls + 1, total.tokens + usage.total, total.dollars + dollars)
    return total


def _call(role: ModelRole, size: PromptSize, index: int, answer: int, *, long: bool) -> Usage:
    """Return what the `index`-th call of a role uses: windows fill up; the cache holds, or is lost between calls."""
    nodes = 0 if role is ModelRole.SAMPLING else min(index, WINDOW_NODES if long else WINDOW_NODES // 2)
    shared = likely_tokens(size.shared)
    body = likely_tokens(size.body + nodes * size.node)
    if long or index == 0:
        return Usage(input_tokens=body, cache_write_tokens=shared, output_tokens=answer)
    return Usage(input_tokens=body, cache_read_tokens=shared, output_tokens=answer)


def _step(before: Usage, answer: int) -> Usage:
    """Return what the next question of a conversation uses: all before it is in the cache."""
    read = before.total - before.output_tokens
    return Usage(0, before.output_tokens + TYPICAL_RESULT, read, answer)


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _rounded(count: int) -> str:
    if count >= 950_000:
        return f"{count / 1e6:.1f} million"
    if count >= 1000:
        return f"{round(count, -3):,}"
    return str(count)
