"""What a user may set of `AgentSettings` by name: `plan.temperature`, `code.model`, `debug.effort` …

Names are `ROLE.FIELD` and those of `AgentSettings` itself. The command line takes `NAME=VALUE`, an editor the object
`stark.agents`. Fields that have options of their own (dialect, grounding, profile, playbook, notes) are not among them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.setting import WORDS, Setting, shown
from stark_lsp.core.status import ModelRole

MOST_TOKENS = 500_000
"""Upper end of `max_tokens`; a service has its own, lower one."""

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
_EFFORT = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TEMPLATE = re.compile(r"[\w-]{1,64}")
"""A name of a template, never a path."""
_FORMS = {
    "model": (_MODEL, "a name of a model, or empty for the run's default"),
    "correction_model": (_MODEL, "a name of a model, or empty"),
    "stagnation_model": (_MODEL, "a name of a model, or empty"),
    "effort": (_EFFORT, "a word such as low, medium or high"),
    "system_message": (_TEMPLATE, "the name of a template, without its ending"),
}


def _settings_of(role: ModelRole) -> tuple[Setting, ...]:
    name, defaults = role.value, _DEFAULTS.of(role)
    return (
        Setting(f"{name}.model", "string", defaults.model, f"Model of the {name} role; empty for the run's default."),
        Setting(
            f"{name}.temperature",
            "number",
            defaults.temperature,
            f"Temperature of the {name} role; null leaves it to the model.",
            low=0,
            high=1,
        ),
        Setting(
            f"{name}.effort",
            "string",
            defaults.effort,
            f"Effort of the {name} role, such as low, medium or high; null leaves it to the model.",
        ),
        Setting(
            f"{name}.max_tokens",
            "integer",
            defaults.max_tokens,
            f"Most tokens of an answer in the {name} role, thinking included.",
            low=1000,
            high=MOST_TOKENS,
        ),
    )


ADJUSTABLE: tuple[Setting, ...] = (
    *(setting for role in ModelRole for setting in _settings_of(role)),
    Setting(
        "correction_model",
        "string",
        _DEFAULTS.correction_model,
        "Model of corrections within an attempt, for instance a cheaper one; empty for the model of the role.",
    ),
    Setting(
        "stagnation_model",
        "string",
        _DEFAULTS.stagnation_model,
        "Model that plans and writes once a search stagnates, for instance a stronger one; empty for no other model.",
    ),
    Setting(
        "stagnation_attempts",
        "integer",
        _DEFAULTS.stagnation_attempts,
        "Attempts without a new best after which a search stagnates.",
        low=1,
        high=1000,
    ),
    Setting(
        "system_message",
        "string",
        _DEFAULTS.system_message,
        "Name of the system message's template in prompts/.",
    ),
    Setting(
        "edits",
        "boolean",
        _DEFAULTS.edits,
        "Take edits to the source that is shown in place of a whole file.",
    ),
    Setting(
        "merging",
        "boolean",
        _DEFAULTS.merging,
        "Let a plan combine two attempts: the one it goes on from, and one of the best of another branch.",
    ),
    Setting(
        "machine",
        "boolean",
        _DEFAULTS.machine,
        "Tell the agents what the device can do: its units, caches, measured rates, and the software there is for it.",
    ),
    Setting(
        "tool_calls",
        "integer",
        _DEFAULTS.tool_calls,
        "Tools that the code agent may call in one attempt, with the system stark-tools.",
        low=1,
        high=100,
    ),
    Setting(
        "silence_s",
        "number",
        _DEFAULTS.silence_s,
        "Seconds without a sign of an answer, a ping included, after which it is asked for again.",
        low=1,
        high=24 * 3600,
    ),
)
"""Everything that can be set by name, with its range."""

_BY_NAME = {setting.name: setting for setting in ADJUSTABLE}


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
    setting = _BY_NAME.get(name)
    if setting is None:
        return _unknown(name)
    if value is None and nullable(name):
        return ""
    form = _FORMS.get(_field(name))
    if form is None:
        return "" if setting.accepts(value) else f"must be {setting.allowed}, not {shown(value)}."
    pattern, allowed = form
    fits = isinstance(value, str) and pattern.fullmatch(value) is not None
    return "" if fits else f"must be {allowed}, not {shown(value)}."


def parsed(name: str, text: str) -> Any:
    """Return the JSON value that a text on a command line stands for; the text itself if it stands for none."""
    setting = _BY_NAME.get(name)
    if nullable(name) and text.strip().lower() in _NOTHING:
        return None
    if setting is None or setting.kind == "string":
        return text
    if setting.kind == "boolean":
        return WORDS.get(text.strip().lower(), text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


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
    for setting in ADJUSTABLE:
        entry = setting.schema
        entry["type"] = [setting.kind, "null"] if nullable(setting.name) else setting.kind
        properties[setting.name] = entry
    return properties


def _field(name: str) -> str:
    return name.rpartition(".")[2]


def _unknown(name: str) -> str:
    for cutoff in (0.8, 0.6):
        near = difflib.get_close_matches(name[:80], _BY_NAME, n=3, cutoff=cutoff)
        if near:
            return f"is not known. Did you mean {' or '.join(near)}?"
    return f"is not known. There are {', '.join(_BY_NAME)}."
