"""Spend, steering and exchanges in a few words. Pure functions."""

from __future__ import annotations

import math

from stark_lsp.cli.terminal import figures
from stark_lsp.cli.terminal.console import clean
from stark_lsp.core.conversation import Exchange, Spend, Usage
from stark_lsp.core.run import Budget
from stark_lsp.core.status import StopReason
from stark_lsp.core.steering import Steering, SteeringKind

STOP = {
    StopReason.COMPLETE: "complete",
    StopReason.MAX_TOKENS: "cut off at the limit of tokens",
    StopReason.REFUSAL: "declined",
    StopReason.OTHER: "ended early",
}
"""How an answer ended."""


def dollars(amount: float) -> str:
    """Return an amount of US dollars: `$0.42`, `$0.0031` where cents would hide it."""
    return f"${amount:.2f}" if amount >= 0.095 or amount == 0 else f"${amount:.4f}"


def usage(tokens: Usage) -> str:
    """Return tokens: `12,345 tokens read (8,000 from the cache), 800 written`."""
    read = tokens.input_tokens + tokens.cache_write_tokens + tokens.cache_read_tokens
    cached = f" ({tokens.cache_read_tokens:,} from the cache)" if tokens.cache_read_tokens else ""
    return f"{read:,} tokens read{cached}, {tokens.output_tokens:,} written"


def spend(total: Spend) -> str:
    """Return what calls of a model cost: `12 calls of a model: … $0.42`; empty if there were none."""
    if not total.calls:
        return ""
    text = f"{figures.count(total.calls, 'call')} of a model: {usage(total.usage)}"
    if total.unpriced == total.calls:
        return f"{text}, price unknown"
    text = f"{text}, {dollars(total.dollars)}"
    if not total.unpriced:
        return text
    return f"{text} and {figures.count(total.unpriced, 'call')} whose price is unknown"


def exchange(one: Exchange) -> str:
    """Return what an exchange was: who asked whom, tokens, price, time, and how the answer ended."""
    answer = one.answer
    parts = [
        f"{one.question.role.value} agent",
        clean(answer.model or one.question.model or "a model"),
        usage(answer.usage),
        "price unknown" if one.dollars is None else dollars(one.dollars),
        _seconds(answer.latency_s),
        STOP[answer.stop],
    ]
    return ", ".join(parts)


def _seconds(latency: float) -> str:
    if not math.isfinite(latency):  # a transcript may claim anything
        return "time unknown"
    return figures.duration(latency) if latency >= 1 else f"{latency:.2f} s"


def budget(limits: Budget) -> str:
    """Return a budget: `30 attempts, 600 s, 200,000 tokens, $2.00`."""
    parts = [figures.count(limits.attempts, "attempt")]
    if limits.seconds is not None:
        parts.append(f"{limits.seconds:g} s")
    if limits.tokens is not None:
        parts.append(f"{limits.tokens:,} tokens")
    if limits.dollars is not None:
        parts.append(dollars(limits.dollars))
    return ", ".join(parts)


def steering(said: Steering) -> str:
    """Return what a user told a run: `go on from attempt 4`."""
    kind, node = said.kind, said.node
    if kind is SteeringKind.PIN:
        return f"go on from attempt {node}"
    if kind is SteeringKind.UNPIN:
        return "choose freely again"
    if kind is SteeringKind.PRUNE:
        return f"give up attempt {node} and all below it"
    if kind is SteeringKind.RESTORE:
        return f"take attempt {node} up again"
    if kind is SteeringKind.HINT:
        about = "" if node is None else f" for attempt {node}"
        return f"hint{about}: {clean(said.text)}"
    if kind is SteeringKind.BUDGET:
        return f"spend at most {budget(said.budget)}" if said.budget is not None else "spend as at the start"
    return "pause" if kind is SteeringKind.PAUSE else "go on after the pause"
