"""Find a compiler's diagnostics in what a failed build printed."""

from __future__ import annotations

import re
from typing import Any

# g++ and clang:  /tmp/x/main.cpp:12:5: error: expected ';' before '}' token
_GNU = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<fatal>fatal )?error: (?P<text>.*)$", re.M
)
# nvcc:  /tmp/x/cuda.cu(14): error: identifier "y" is undefined
_NVCC = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$", re.M
)
# ld, ptxas and others that name no place
_OTHER = re.compile(
    r"^(?:.*(?:ld(?:\.\w+)?|collect2|ptxas|nvlink|nvcc)\b.*?(?:error|fatal)\s*:?|.*undefined reference to).*$", re.M
)
LIMIT = 20


def compiler_messages(text: str) -> list[dict[str, Any]]:
    """Return the errors in order of appearance as `core.CompilerMessage` in wire form, none twice."""
    found = []
    for match in _GNU.finditer(text):
        column = int(match.group("column") or 0)
        found.append((match.start(), int(match.group("line")), column, match.group("text").strip()))
    for match in _NVCC.finditer(text):
        found.append((match.start(), int(match.group("line")), 0, match.group("text").strip()))
    if not found:
        for match in _OTHER.finditer(text):
            found.append((match.start(), 0, 0, match.group(0).strip()[:300]))
    messages: list[dict[str, Any]] = []
    for _, line, column, message in sorted(found):
        entry = {"line": line, "column": column, "text": message}
        if entry not in messages:
            messages.append(entry)
    return messages[:LIMIT]


def summary(messages: list[dict[str, Any]], text: str) -> str:
    """Return one sentence for a failed build."""
    if messages:
        first = messages[0]
        place = f"line {first['line']}: " if first["line"] else ""
        more = f" (and {len(messages) - 1} more)" if len(messages) > 1 else ""
        return f"The kernel does not compile: {place}{first['text']}{more}."
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"The kernel does not compile: {lines[-1][:300] if lines else 'the compiler said nothing'}."
