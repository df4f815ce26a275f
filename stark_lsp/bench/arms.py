"""Arms: what is compared. Runs of one arm were asked for in the same way, and on the same kind of machine.

Every setting of a run makes an arm, those of later versions too: only what is known to make no difference is left out
here. So unlike runs are never added up. A label names what tells an arm from the others of one report, no more.
"""

from __future__ import annotations

import json
import string
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any

from stark_lsp.bench.rows import Outcome, Row
from stark_lsp.core.agent_settings import AgentSettings, RoleSettings
from stark_lsp.core.errors import BadInput
from stark_lsp.core.run import Budget
from stark_lsp.core.settings import PRESETS, EvaluationSettings, SearchSettings
from stark_lsp.core.status import ModelRole
from stark_lsp.search.systems import find_system

SHORT = 40
"""Characters of changed settings that stand in a label; more get a letter and a legend."""

_NAMED = ("policy", "model", "attempts", "parallel", "dialect", "changed", "settings", "device", "torch", "threads")
"""Fields of an arm in the order in which a label names them; the version comes last."""
_UNITS = {
    "attempts": "{} attempts",
    "parallel": "{} at a time",
    "dialect": "dialect {}",
    "torch": "torch {}",
    "threads": "threads={}",
    "version": "stark-lsp {}",
}
_TEAM = (ModelRole.PLAN, ModelRole.CODE, ModelRole.DEBUG)
_ROLES = frozenset(role.value for role in ModelRole)
_SEARCH = frozenset({"system", "policy", "seed", "attempts", "in_flight"})
"""Search settings that are fields of an arm, and the seed; its attempts are those of the budget."""


@dataclass(frozen=True, order=True)
class Arm:
    """What is compared: who searched, how, with which budget, and on what."""

    system: str
    policy: str
    model: str
    attempts: int
    settings: str
    device: str
    version: str
    dialect: str = "auto"
    parallel: int = 1
    """Attempts under way at the same time."""
    torch: str = ""
    threads: int = 0
    """CPU threads of torch where the device is a CPU, else 0."""
    changed: tuple[str, ...] = ()
    """Limits, and settings that are not as usual, such as `seeds=3`; those of the evaluation against their preset."""


def arm_of(row: Row) -> Arm:
    """Return the arm of a row."""
    machine = row.environment
    return Arm(
        row.search.system,
        row.search.policy,
        row.answered_by or row.model,
        row.budget.attempts,
        row.settings,
        machine.device if machine is not None else "",
        row.version,
        row.agents.dialect,
        row.search.in_flight,
        machine.torch if machine is not None else "",
        machine.threads if machine is not None and machine.device_type == "cpu" else 0,
        changed(row),
    )


def by_arm(rows: Iterable[Row]) -> dict[Arm, tuple[Row, ...]]:
    """Return the measured rows by arm, in the order in which arms first come."""
    found: dict[Arm, list[Row]] = defaultdict(list)
    for row in rows:
        if row.outcome is Outcome.MEASURED:
            found[arm_of(row)].append(row)
    return {arm: tuple(own) for arm, own in found.items()}


def same_machine(one: Arm, other: Arm) -> bool:
    """Whether times of two arms were taken on machines that are alike."""
    return (one.device, one.torch, one.threads) == (other.device, other.torch, other.threads)


def unlikeness(one: Arm, other: Arm) -> int:
    """Return in how many things two arms differ, their system apart."""
    first, second = asdict(one), asdict(other)
    named: int = sum(first[name] != second[name] for name in first if name not in ("system", "changed"))
    return named + len(set(one.changed) ^ set(other.changed))


def changed(row: Row) -> tuple[str, ...]:
    """Return the limits of a run, and which of its settings are not as usual, each as a user would write it."""
    usual = PRESETS.get(row.settings, EvaluationSettings())
    return (
        *_limits(row.budget),
        *_roles(row),
        *([f"prompts={row.prompts}"] if row.prompts else []),
        *_differing(AgentSettings(), row.agents, _ROLES | {"dialect"}, apart=_names(EvaluationSettings)),
        *_differing(SearchSettings(), row.search, _SEARCH),
        *_differing(usual, row.evaluation),
    )


def _limits(budget: Budget) -> list[str]:
    found = []
    if budget.seconds is not None:
        found.append(f"at most {budget.seconds:.10g} s")
    if budget.tokens is not None:
        found.append(f"at most {budget.tokens:,} tokens")
    if budget.dollars is not None:
        found.append(f"at most ${budget.dollars:.10g}")
    return found


def _roles(row: Row) -> list[str]:
    """Return how the models of those roles are asked that the system has."""
    usual, found = AgentSettings(), []
    asked = _asked(row.search.system)
    for name in sorted(_names(RoleSettings)):
        values = {role.value: getattr(row.agents.of(role), name) for role in asked}
        odd = [role.value for role in asked if values[role.value] != getattr(usual.of(role), name)]
        if odd and len(set(values.values())) == 1:
            found.append(f"{name}={_shown(values[odd[0]])}")
        else:
            found += [f"{role}.{name}={_shown(values[role])}" for role in odd]
    return found


def _asked(system: str) -> tuple[ModelRole, ...]:
    try:
        solo = find_system(system).solo
    except BadInput:  # somebody registered it where it ran
        return tuple(ModelRole)
    return _TEAM if solo is None else (solo,)


def _differing(
    usual: Any, found: Any, besides: frozenset[str] = frozenset(), apart: frozenset[str] = frozenset()
) -> list[str]:
    """Return the fields of settings that differ from the usual ones.

    Parameters
    ----------
    besides
        Fields that are told otherwise.
    apart
        Names that mean something else elsewhere.
    """
    return [
        f"{'agents: ' if field.name in apart else ''}{field.name}={_shown(getattr(found, field.name))}"
        for field in fields(found)
        if field.name not in besides and getattr(found, field.name) != getattr(usual, field.name)
    ]


def _names(kind: Any) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind))


def _shown(value: Any) -> str:
    if isinstance(value, Enum):
        value = value.value
    return value if isinstance(value, str) else json.dumps(value)


# --- labels --------------------------------------------------------------------------------------------


def labels(arms: Sequence[Arm]) -> dict[Arm, str]:
    """Return a name for each arm: its system, and whatever else tells it from the others."""
    facts = [asdict(arm) for arm in arms]
    differing = [name for name in (*_NAMED, "version") if len({str(fact[name]) for fact in facts}) > 1]
    setups = _setups(arms)
    found = {}
    for arm, fact in zip(arms, facts, strict=True):
        fact["changed"] = setups[arm]
        fact["threads"] = arm.threads or ""
        more = [_UNITS.get(name, "{}").format(fact[name]) for name in differing if fact[name] != ""]
        found[arm] = f"{arm.system} ({', '.join(more)})" if more else arm.system
    return found


def explained(arms: Sequence[Arm]) -> dict[str, str]:
    """Return what the letters in labels stand for; empty where there are none."""
    setups = _setups(arms)
    own = {setups[arm]: text for arm, text in _own(arms).items()}
    return {name: text for name, text in own.items() if name != text}


def _setups(arms: Sequence[Arm]) -> dict[Arm, str]:
    """Return for each arm the changed settings that not all have, or a letter for them where any are too long."""
    texts = _own(arms)
    if all(len(text) <= SHORT for text in texts.values()):
        return texts
    different = list(dict.fromkeys(text for text in texts.values() if text))
    named = zip(different, [*string.ascii_uppercase, *map(str, range(27, len(different) + 1))], strict=False)
    letters = {text: f"setup {letter}" for text, letter in named}
    return {arm: letters[text] if text else "" for arm, text in texts.items()}


def _own(arms: Sequence[Arm]) -> dict[Arm, str]:
    in_all = set.intersection(*(set(arm.changed) for arm in arms)) if arms else set()
    return {arm: ", ".join(one for one in arm.changed if one not in in_all) for arm in arms}
