"""Setting: one thing that a user can set, and what is allowed for it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One thing that a user can set."""

    name: str
    """For instance `search.epsilon`."""
    kind: str
    """JSON type: `string`, `boolean`, `integer`, `number` or `object`."""
    default: Any
    """None if it is unset by default."""
    description: str
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None

    @property
    def allowed(self) -> str:
        """What is allowed, for a message."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind == "object":
            return "an object of names and values"
        if self.kind == "string":
            return "a text"
        if self.kind == "boolean":
            return "true or false"
        noun = "a whole number" if self.kind == "integer" else "a number"
        if self.low is not None and self.high is not None:
            return f"{noun} from {self.low:g} to {self.high:g}"
        return noun if self.low is None else f"{noun} of at least {self.low:g}"

    def accepts(self, value: Any) -> bool:
        """Whether a JSON value is allowed."""
        if self.kind == "object":
            return isinstance(value, dict)
        if self.kind == "boolean":
            return isinstance(value, bool)
        if self.kind == "string":
            return isinstance(value, str) and (not self.choices or value in self.choices)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return False
        if self.kind == "integer" and value != int(value):
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    @property
    def schema(self) -> dict[str, Any]:
        """The setting as a JSON Schema."""
        entry: dict[str, Any] = {
            "type": self.kind if self.default is not None else [self.kind, "null"],
            "default": self.default,
            "description": self.description,
        }
        if self.choices:
            entry["enum"] = list(self.choices)
        if self.low is not None:
            entry["minimum"] = self.low
        if self.high is not None:
            entry["maximum"] = self.high
        return entry


WORDS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
"""What a command line may say for a boolean."""
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string"}


def setting(default: Any, description: str, low: float | None = None, high: float | None = None, kind: str = "") -> Any:
    """Declare a field of a dataclass that a user can set; `kind` is named where the default is None."""
    kind = kind or ("string" if isinstance(default, Enum) else _KINDS[type(default)])
    return field(default=default, metadata={"kind": kind, "description": description, "low": low, "high": high})


def declared(kind: type) -> dict[str, Setting]:
    """Return what a user can set of a dataclass, by name."""
    return {f.name: _declared(f.name, f.default, f.metadata) for f in fields(kind) if f.metadata}


def _declared(name: str, default: Any, metadata: Mapping[str, Any]) -> Setting:
    if isinstance(default, Enum):
        return Setting(name, default=default.value, choices=tuple(one.value for one in type(default)), **metadata)
    return Setting(name, default=default, **metadata)


def parsed(one: Setting | None, text: str) -> Any:
    """Return the JSON value that a text on a command line stands for; the text itself if it stands for none."""
    if one is None or one.kind == "string":
        return text
    if one.kind == "boolean":
        return WORDS.get(text.strip().lower(), text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def unknown(name: str, known: Collection[str]) -> str:
    """Return that a name is not among those known, as the rest of a sentence."""
    # Half of the names are alike: where one is very near, those that are less so are no help.
    for cutoff in (0.8, 0.6):
        near = difflib.get_close_matches(name[:80], known, n=3, cutoff=cutoff)
        if near:
            return f"is not known. Did you mean {' or '.join(near)}?"
    return f"is not known. There are {', '.join(known)}."


def shown(value: Any) -> str:
    """Return a value as a user writes it, shortened."""
    text = value if isinstance(value, str) else repr(value)
    if isinstance(value, bool):
        text = "true" if value else "false"
    return text if len(text) <= 60 else text[:59] + "…"
