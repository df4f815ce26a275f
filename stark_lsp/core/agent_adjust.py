"""What a user may set of `AgentSettings` by name: `plan.temperature`, `code.model`, `debug.effort` …

Names are `ROLE.FIELD` and those of `AgentSettings` itself. The command line takes `NAME=VALUE`, an editor the object
`stark.agents`. Fields that have options of their own (dialect, grounding, profile, playbook, notes) are not among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stark_lsp.core import setting
from stark_lsp.core.agent_settings import AgentSettings, RoleSettings
from stark_lsp.core.setting import Setting
from stark_lsp.core.status import ModelRole

_DEFAULTS = AgentSettings()
_ELSEWHERE = {
    "dialect": "the dialect is a setting of its own.",
    "grounding": "grounding is a setting of its own.",
    "profile": "whether prompts show profiles is a setting of its own.",
    "playbook": "whether prompts show the playbook's advice is a setting of its own.",
    "notes": "whether earlier runs are taken into account is a setting of its own.",
}
_NOTHING = frozenset({"", "none", "null", "default"})
"""Texts on a command line that stand for `None`."""
_MODEL = re.compile(r"[\w.:/@+-]{0,200}")
"""Names of models as services write them, such as `claude-sonnet-5` or `org/name:tag`; empty for the run's default."""
_EFFORT = re.compile("minimal|low|medium|high|xhigh|max")
"""Those that services know: another word is taken as refused by the model, and left away."""
_TEMPLATE = re.compile(r"[\w-]{1,64}")
"""A name of a template, never a path."""
_FORMS = {
    "model": (_MODEL, "a name of a model, or empty for the run's default"),
    "correction_model": (_MODEL, "a name of a model, or empty"),
    "stagnation_model": (_MODEL, "a name of a model, or empty"),
    "effort": (_EFFORT, "one of minimal, low, medium, high, xhigh and max"),
    "system_message": (_TEMPLATE, "the name of a template, without its ending"),
}


_OF_ROLES = tuple(
    replace(
        one,
        name=f"{role.value}.{one.name}",
        default=getattr(_DEFAULTS.of(role), one.name),
        description=one.description.format(role=role.value),
    )
    for role in ModelRole
    for one in setting.declared(RoleSettings).values()
)
ADJUSTABLE: tuple[Setting, ...] = (*_OF_ROLES, *setting.declared(AgentSettings).values())
"""Everything that can be set by name, with its range."""

_BY_NAME = {one.name: one for one in ADJUSTABLE}


def problem(name: str, value: Any) -> str:
    """Return what is wrong with a name and its value, as the rest of a sentence; empty if nothing.

    Parameters
    ----------
    name
        One of `ADJUSTABLE`.
    value
        A JSON value.
    """
    if name in _ELSEWHERE:
        return f"cannot be set here: {_ELSEWHERE[name]}"
    one = _BY_NAME.get(name)
    if one is None:
        return setting.unknown(name, _BY_NAME)
    if value is None and nullable(name):
        return ""
    form = _FORMS.get(_field(name))
    if form is None:
        return "" if one.accepts(value) else f"must be {one.allowed}, not {setting.shown(value)}."
    pattern, allowed = form
    fits = isinstance(value, str) and pattern.fullmatch(value) is not None
    return "" if fits else f"must be {allowed}, not {setting.shown(value)}."


def parsed(name: str, text: str) -> Any:
    """Return the JSON value that a text on a command line stands for; the text itself if it stands for none."""
    if nullable(name) and text.strip().lower() in _NOTHING:
        return None
    return setting.parsed(_BY_NAME.get(name), text)


def adjusted(settings: AgentSettings, values: Mapping[str, Any]) -> AgentSettings:
    """Return `settings` with these values instead.

    Parameters
    ----------
    values
        JSON values by name, each without a `problem`.
    """
    for name, value in values.items():
        if _BY_NAME[name].kind == "integer":
            value = int(value)
        elif _BY_NAME[name].kind == "number" and value is not None:
            value = float(value)
        role, dot, field = name.partition(".")
        if dot:
            changes: dict[str, Any] = {role: replace(settings.of(ModelRole(role)), **{field: value})}
        else:
            changes = {name: value}
        settings = replace(settings, **changes)
    return settings


def nullable(name: str) -> bool:
    """Whether None is allowed: it leaves the matter to the model."""
    return name in _BY_NAME and _field(name) in ("temperature", "effort")


def schema() -> dict[str, Any]:
    """Return the names as JSON Schema properties of one object."""
    properties = {}
    for one in ADJUSTABLE:
        entry = one.schema
        entry["type"] = [one.kind, "null"] if nullable(one.name) else one.kind
        properties[one.name] = entry
    return properties


def _field(name: str) -> str:
    return name.rpartition(".")[2]
