"""Reads what `cuobjdump --dump-resource-usage` prints: the figures of each kernel that decide its occupancy."""

from __future__ import annotations

import re

_FUNCTION = re.compile(r"^\s*Function (\S+?):\s*$", re.M)
_FIGURE = re.compile(r"(\w+)(?:\[\d+\])?:(\d+)")
_NAMES = {"REG": "registers", "STACK": "stack_bytes", "SHARED": "shared_bytes", "LOCAL": "local_bytes"}


def read(text: str) -> dict[str, dict[str, int]]:
    """Return the figures of each kernel, by its mangled name.

    They are `registers` for each thread, static `shared_bytes` for each block, and `stack_bytes` and `local_bytes`
    for each thread, where spilled registers go.
    """
    found = {}
    matches = list(_FUNCTION.finditer(text))
    for match, after in zip(matches, [*matches[1:], None]):
        part = text[match.end() : after.start() if after else len(text)]
        line = part.strip().split("\n")[0]
        figures = {_NAMES[key]: int(value) for key, value in _FIGURE.findall(line) if key in _NAMES}
        if figures:
            found[match.group(1)] = figures
    return found
