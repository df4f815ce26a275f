"""Who answers a run and what that costs, in a few words for progress, hovers and messages. Pure functions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stark_lsp.server.text.markup import plain

if TYPE_CHECKING:
    from stark_lsp.core.conversation import Exchange, Spend
    from stark_lsp.core.run import Budget

UNSETTLED = "auto"
"""The model of a run that has not decided yet who answers."""


@dataclass(frozen=True)
class Asked:
    """What one attempt asked of models."""

    models: tuple[str, ...]
    """Who answered, as the services name it."""
    tokens: int
    dollars: float | None
    """None where the price of a call is unknown."""


def answerer(model: str) -> str:
    """Return what a person calls who answers, from a run's record (`anthropic:NAME`, `playbook` …)."""
    kind, _, name = plain(model, 4096).partition(":")
    name = name if kind == "replay" else name[:120]
    if kind == "replay":
        return f"transcript {os.path.basename(name)}".rstrip()
    if kind == "editor":
        return f"the editor's {name}" if name else "the editor's model"
    if kind in ("anthropic", "openai"):
        return name.partition("@http")[0] or "Claude"
    return kind


def who(model: str, attempts: Mapping[int, Asked]) -> str:
    """Return who answers a run: the names that services told with their answers, else as `answerer` has it.

    Parameters
    ----------
    model
        From the run's record, which has no name where the service's default answers.
    attempts
        What attempts asked, as far as it is known.
    """
    names = list(dict.fromkeys(name for number in sorted(attempts) for name in attempts[number].models))
    if model.partition(":")[0] not in ("anthropic", "openai", "editor") or not names:
        return answerer(model)
    return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1} more"


def begins(model: str) -> str:
    """Return who will answer, for the beginning of a run's progress; `model` is the setting."""
    if model.strip().lower() == UNSETTLED:
        return "stark.model is auto"
    return f"with {answerer(model)}"


def money(dollars: float) -> str:
    """Return an amount: `$0.42`, `$2`, `$0.0031`."""
    if dollars == 0:
        return "$0"
    if abs(dollars) < 0.01:
        return f"${dollars:.2g}"
    text = f"${dollars:,.2f}"
    return text.removesuffix(".00")


def tokens(number: int) -> str:
    """Return a number of tokens: `950 tokens`, `12k tokens`, `1.2M tokens`."""
    if number < 1000:
        return f"{number} tokens"
    if number < 999_500:
        return f"{number / 1000:.3g}k tokens"
    return f"{number / 1e6:.3g}M tokens"


def spent(spend: Spend | None, budget: Budget) -> str:
    """Return what a run spent, next to its limits: `$0.42 of $2, 48k of 100k tokens`; empty if nothing was asked."""
    if spend is None or spend.calls == 0:
        return ""
    parts: list[str] = []
    if spend.unpriced < spend.calls or budget.dollars is not None:
        limit = f" of {money(budget.dollars)}" if budget.dollars is not None else ""
        parts.append(f"{money(spend.dollars)}{limit}")
    if budget.tokens is not None:
        used = tokens(spend.usage.total).removesuffix(" tokens")
        parts.append(f"{used} of {tokens(budget.tokens)}")
    elif spend.unpriced:
        parts.append(tokens(spend.usage.total))
    if spend.unpriced:
        parts.append("price unknown" if spend.unpriced == spend.calls else "some at an unknown price")
    return ", ".join(parts)


def asked(exchanges: Iterable[Exchange]) -> Asked | None:
    """Add the exchanges of one attempt up; None if there are none."""
    found = list(exchanges)
    if not found:
        return None
    models = dict.fromkeys(plain(e.answer.model or e.question.model, 80) for e in found)
    prices = [exchange.dollars for exchange in found]
    known = [price for price in prices if price is not None]
    return Asked(
        tuple(model for model in models if model),
        sum(exchange.answer.usage.total for exchange in found),
        sum(known) if len(known) == len(prices) else None,
    )


def answered(one: Asked) -> str:
    """Return who answered in an attempt, and what it cost: `claude-sonnet-5 · 12k tokens · $0.04`."""
    price = money(one.dollars) if one.dollars is not None else "price unknown"
    return " · ".join(part for part in (", ".join(one.models), tokens(one.tokens), price) if part)
