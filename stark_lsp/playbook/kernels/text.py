"""Lines of C: indented, in fewer statements, without what nothing refers to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

WIDTH = 110
"""Longest line of C++ that several things share."""
SIGNATURE = 118
MAX_INSIDE = 4
"""At most so many values are written inside one statement."""


def plus(*terms: str) -> str:
    """Write a sum; terms that are empty are 0."""
    return " + ".join(filter(None, terms)) or "0"


def indent(lines: Iterable[str], depth: int = 1) -> list[str]:
    """Indent lines of C; preprocessor lines too, they read better so."""
    return ["    " * depth + line if line else line for line in lines]


def signature(head: str, parameters: list[str]) -> list[str]:
    """The head of a function up to its opening brace, on one line where it fits."""
    whole = f"{head}({', '.join(parameters)}) {{"
    if len(whole) <= SIGNATURE:
        return [whole]
    return [f"{head}(", *indent([f"{p}," for p in parameters[:-1]] + [f"{parameters[-1]}) {{"])]


_NUMBERED = re.compile(r"(?P<indent>\s*)const (?:float|double) (?P<name>t\d+) = (?P<value>[^;{]*);")
_WHOLE = re.compile(r"\w+(\.\d+f?)?|\w+\([^()]*\)")


def folded(lines: list[str]) -> list[str]:
    """Write a value that has no name of the user's and is used once, by one of the next statements, where it is used.

    Only floating-point values: there a declaration converts nothing. Nothing moves into or out of a loop.
    """
    result: list[str] = []
    words = Counter(word for line in lines for word in re.findall(r"\w+", line))
    waiting: dict[str, tuple[int, str, int]] = {}
    for line in lines:
        if not line.endswith(";") or line.lstrip().startswith(("#", "for", "if")):
            waiting.clear()
        weight = 0
        for name in [name for name in waiting if re.search(rf"\b{name}\b", line)]:
            at, value, held = waiting.pop(name)
            only = re.search(rf"= {name};$", line) is not None
            put = value if only or _WHOLE.fullmatch(value) else f"({value})"
            new = re.sub(rf"\b{name}\b", lambda _, put=put: put, line)  # type: ignore[misc]
            if len(new) > WIDTH or weight + held + 1 > MAX_INSIDE:
                continue
            line, weight = new, weight + held + 1
            result[at] = ""
        found = _NUMBERED.fullmatch(line)
        if found is not None and words[found["name"]] == 2:
            waiting[found["name"]] = (len(result), found["value"], weight)
        result.append(line)
    return [line for line in result if line]


_DECLARED = re.compile(r"\s*const [\w*:<> ]+?[ *](\w+) = [^;{]*;(  //.*)?$")


def without_unused(lines: list[str]) -> list[str]:
    """Leave out declarations that nothing refers to."""
    while True:
        words = Counter(word for line in lines for word in re.findall(r"\w+", line.split("//")[0]))
        kept = [line for line in lines if not ((found := _DECLARED.match(line)) and words[found.group(1)] == 1)]
        if len(kept) == len(lines):
            return lines
        lines = kept
