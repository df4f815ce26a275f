"""How a run is gone on with: its settings and what the user changed since, its tree on today's document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from stark_lsp.agents.grounding.tracking import moved
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Budget, Node

T = TypeVar("T")


def settings_now(stored: T, given: T, default: T, *, complete: bool) -> T:
    """Return the settings of a run that is taken up.

    Parameters
    ----------
    stored
        Those it has.
    given
        Those of this start.
    default
        Those that hold where nothing is said.
    complete
        Whether `given` is all the user wants, as in an editor, whose settings always hold. Else, as on a command
        line, what stands at its default was not said.
    """
    if complete:
        return given
    changed: dict[str, Any] = {}
    for field in fields(stored):  # type: ignore[arg-type]
        before, now, plain = (getattr(each, field.name) for each in (stored, given, default))
        if is_dataclass(now) and not isinstance(now, type):
            changed[field.name] = settings_now(before, now, plain, complete=False)
        elif now != plain:
            changed[field.name] = now
    return replace(stored, **changed)  # type: ignore[type-var]


def differences(before: Any, now: Any, prefix: str = "") -> tuple[str, ...]:
    """Return what changed between two settings of a kind, each as `name old -> new`."""
    found: list[str] = []
    for field in fields(before):
        old, new = getattr(before, field.name), getattr(now, field.name)
        if is_dataclass(old) and not isinstance(old, type):
            found.extend(differences(old, new, f"{prefix}{field.name}."))
        elif old != new:
            found.append(f"{prefix}{field.name} {_said(old)} -> {_said(new)}")
    return tuple(found)


def on_today(nodes: Mapping[int, Node], then: Problem, now: Problem) -> dict[int, Node]:
    """Return the tree of a run on today's document: anchors on today's lines, its root as the class is written now."""
    if then.text == now.text:
        return dict(nodes)
    found: dict[int, Node] = {}
    for number, node in nodes.items():
        if node.plan is not None:
            node = replace(node, plan=replace(node.plan, anchors=moved(node.plan.anchors, then.text, now.text)))
        if node.parent is None:
            node = replace(node, candidate=replace(node.candidate, source=now.slice.text))
        found[number] = node
    return found


def with_default(budget: Budget, default_dollars: float | None) -> Budget:
    """Return the budget with the limit of money that holds where the user set no limit on tokens or money."""
    if budget.tokens is not None or budget.dollars is not None:
        return budget
    return replace(budget, dollars=default_dollars)


def _said(value: Any) -> str:
    if value is None or value == "":
        return "(none)"
    return str(value.value if isinstance(value, Enum) else value)
