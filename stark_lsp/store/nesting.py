"""How deep a JSON value from outside may be nested, so that nothing that walks through it runs out of stack."""

from __future__ import annotations

from typing import Any

DEEPEST = 64
"""Levels of lists and objects; what programs write on purpose has fewer."""


def too_deep(value: Any, deepest: int = DEEPEST) -> bool:
    """Whether lists and objects stand in each other on more than `deepest` levels."""
    level = [value]
    for _ in range(deepest + 1):
        level = [one for one in level if isinstance(one, (dict, list))]
        if not level:
            return False
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return True
