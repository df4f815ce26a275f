"""Fields of `EvaluationSettings` that a user may set by name: `--set NAME=VALUE`, and `stark.evaluation` in an editor.

`isolation` is not among them. It has an option of its own, so that nobody gives protection up in passing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stark_lsp.core import setting
from stark_lsp.core.settings import EvaluationSettings

_BY_NAME = setting.declared(EvaluationSettings)
ADJUSTABLE = tuple(_BY_NAME.values())
_DEFAULTS = EvaluationSettings()


def problem(name: str, value: Any) -> str:
    """Return what is wrong with a name and its value, as the rest of a sentence; empty if nothing."""
    if name == "isolation":
        return "cannot be set here: isolation is a setting of its own."
    one = _BY_NAME.get(name)
    if one is None:
        return setting.unknown(name, _BY_NAME)
    return "" if one.accepts(value) else f"must be {one.allowed}, not {setting.shown(value)}."


def parsed(name: str, text: str) -> Any:
    """Return the JSON value that a text on a command line stands for; the text itself if it stands for none."""
    return setting.parsed(_BY_NAME.get(name), text)


def adjusted(settings: EvaluationSettings, values: Mapping[str, Any]) -> EvaluationSettings:
    """Return `settings` with these fields instead.

    Parameters
    ----------
    values
        JSON values by name, each without a `problem`.
    """
    return replace(settings, **{name: type(getattr(_DEFAULTS, name))(value) for name, value in values.items()})


def how_to_set(name: str, value: object) -> str:
    """Return how a user sets a field, for the cure of an error."""
    return f"--set {name}={value}, or stark.evaluation in an editor"
