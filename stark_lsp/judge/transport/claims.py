"""What a child claims, brought into the form it should have: a hostile one may send anything."""

from __future__ import annotations

import math
from typing import Any

TEXT = 20000
"""Characters of a text that are kept."""
MOST = 100
"""Items of a list that are kept."""
LINES = 1 << 24
"""No file has so many lines."""
LARGEST = 1 << 62
"""A whole number beyond this is nonsense."""


def text(value: object) -> str:
    """Return a text, empty if it is none."""
    return value[:TEXT] if isinstance(value, str) else ""


def texts(value: object) -> list[str]:
    """Return a list of texts, empty if it is none."""
    return [text(item) for item in value[:MOST]] if isinstance(value, list) else []


def report(value: dict[str, Any]) -> dict[str, Any]:
    """Return an exception as `serving.report` gives it."""
    syntax = value.get("syntax")
    return {
        "types": texts(value.get("types")),
        "text": text(value.get("text")),
        "causes": [
            {"type": text(item.get("type")), "text": text(item.get("text"))} for item in _dicts(value, "causes")
        ],
        "frames": [{**_place(item), "name": text(item.get("name"))} for item in _dicts(value, "frames")],
        "syntax": _place(syntax) if isinstance(syntax, dict) else None,
        "traceback": text(value.get("traceback")),
    }


def _place(value: dict[str, Any]) -> dict[str, Any]:
    return {"path": text(value.get("path")), "line": _line(value.get("line"))}


def _dicts(value: dict[str, Any], name: str) -> list[dict[str, Any]]:
    items = value.get(name)
    return [item for item in items[:MOST] if isinstance(item, dict)] if isinstance(items, list) else []


def _line(value: object) -> int:
    return value if type(value) is int and 0 < value < LINES else 0


def number(value: object) -> float | None:
    """Return a finite number that is not negative, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if isinstance(value, int) and not 0 <= value <= LARGEST:
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def whole(value: object) -> int | None:
    """Return a whole number that is not negative, None for anything else."""
    return value if isinstance(value, int) and number(value) is not None else None
