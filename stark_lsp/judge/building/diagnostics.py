"""Find a compiler's diagnostics in what a failed build printed."""

from __future__ import annotations

import re
from typing import Any

# g++ and clang:  /tmp/x/main.cpp:12:5: error: expected ';' before '}' token
_GNU = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: (?P<text>.*)$", re.M)
# nvcc:  /tmp/x/cuda.cu(14): error: identifier "y" is undefined
_NVCC = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$", re.M
)
# ld, ptxas and others that name no place
_OTHER = re.compile(
    r"^(?:.*(?:ld(?:\.\w+)?|collect2|ptxas|nvlink|nvcc)\b.*?(?:error|fatal)\s*:?|.*undefined reference to).*$", re.M
)
LIMIT = 20


def errors(text: str) -> list[re.Match[str]]:
    """Return the errors that name a place in order of appearance: `file`, `line` and `text` of each."""
    return sorted([*_GNU.finditer(text), *_NVCC.finditer(text)], key=lambda error: error.start())


def compiler_messages(text: str) -> list[dict[str, Any]]:
    """Return the errors in order of appearance as `core.CompilerMessage` in wire form, none twice."""
    found = [(int(one["line"]), int(one.groupdict().get("column") or 0), one["text"].strip()) for one in errors(text)]
    messages: list[dict[str, Any]] = []
    for line, column, message in found or [(0, 0, one[0].strip()[:300]) for one in _OTHER.finditer(text)]:
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
