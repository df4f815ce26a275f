"""Steering: what the user tells a run while it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from stark_lsp.core.run import Budget, Node
from stark_lsp.core.status import SteeringKind, VerdictStatus

__all__ = ["Course", "Hint", "Steering", "SteeringKind", "course", "objection"]


@dataclass(frozen=True)
class Steering:
    """One thing the user told a run."""

    kind: SteeringKind
    node: int | None = None
    """The node it is about; None is the whole run."""
    text: str = ""
    """The hint."""
    budget: Budget | None = None
    """The new budget, whole."""
    attempt: int = 0
    """Attempts begun when it took effect, for the record."""
    when: str = ""
    """ISO 8601, UTC."""


@dataclass(frozen=True)
class Hint:
    """Something the user wants the agents to know."""

    text: str
    node: int | None = None
    """Said on this node; None is the whole run."""


@dataclass(frozen=True)
class Course:
    """What all steering so far adds up to."""

    pinned: int | None = None
    pruned: frozenset[int] = frozenset()
    hints: tuple[Hint, ...] = ()
    budget: Budget | None = None
    """None as long as the user changed nothing."""
    paused: bool = False


def course(steerings: Iterable[Steering], start: Course | None = None) -> Course:
    """Return what steerings, in their order, add up to."""
    now = start or Course()
    for steering in steerings:
        now = _after(now, steering)
    return now


def objection(steering: Steering, nodes: Mapping[int, Node], now: Course) -> str:
    """Return why what is said makes no sense for these attempts, in a sentence; empty if it does."""
    kind, node = steering.kind, steering.node
    if node is None:
        return ""
    if node not in nodes:
        return f"There is no attempt {node}."
    if kind is SteeringKind.PIN:
        verdict = nodes[node].verdict
        if verdict is not None and verdict.status is VerdictStatus.NO_CANDIDATE:
            return f"Attempt {node} has no candidate to go on from."
        above: int | None = node
        while above is not None:
            if above in now.pruned:
                return f"Attempt {above} was given up" + ("." if above == node else f", and attempt {node} with it.")
            above = nodes[above].parent if above in nodes else None
    if kind is SteeringKind.RESTORE and node not in now.pruned:
        return f"Attempt {node} was not given up."
    return ""


def _after(now: Course, steering: Steering) -> Course:
    kind, node = steering.kind, steering.node
    if kind is SteeringKind.PIN:
        return replace(now, pinned=node)
    if kind is SteeringKind.UNPIN:
        return replace(now, pinned=None)
    if kind is SteeringKind.PRUNE and node is not None:
        return replace(now, pruned=now.pruned | {node})
    if kind is SteeringKind.RESTORE and node is not None:
        return replace(now, pruned=now.pruned - {node})
    if kind is SteeringKind.HINT:
        return replace(now, hints=(*now.hints, Hint(steering.text, node)))
    if kind is SteeringKind.BUDGET:
        return replace(now, budget=steering.budget)
    if kind in (SteeringKind.PAUSE, SteeringKind.RESUME):
        return replace(now, paused=kind is SteeringKind.PAUSE)
    return now
