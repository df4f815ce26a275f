"""Texts from elsewhere, made fit to be sent or kept: sources, logs, titles. Pure functions.

What models write and candidates print may hold anything: escape sequences of terminals, lone surrogates that no
encoding takes, a hundred thousand characters in one line.
"""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""Sequences of terminals, ECMA-48 sections 5.3 to 5.6."""
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and line feed, and those that turn the direction of writing."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_OMISSION = re.compile(r"[ \t]*(?:#|//)?[ \t]*(?:\.\.\.|…)[ \t]*$")
_FENCE = re.compile(r"`{3,}")


def encodable(text: str) -> str:
    """Return the text with what UTF-8 cannot encode replaced; all else stays."""
    return _SURROGATES.sub(_REPLACEMENT, text)


def clean(text: str) -> str:
    """Return the text with uniform line ends, without escape sequences and control characters."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return encodable(_CONTROLS.sub("", text))


def one_line(text: str, limit: int) -> str:
    """Return a clean text in one line of at most `limit` characters."""
    line = " ".join(clean(text[: 20 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def listed(*parts: str) -> str:
    """Return texts as `a, b and c`, empty ones left out."""
    given = [part for part in parts if part]
    return given[0] if len(given) == 1 else f"{', '.join(given[:-1])} and {given[-1]}" if given else ""


def omits(line: str) -> bool:
    """Whether a line of code stands for lines that a model left out."""
    return _OMISSION.match(line) is not None


def capped(text: str, limit: int) -> str:
    """Return the text with its middle left out if it is longer than `limit`; what is missing is said in its place.

    Whole lines are left out where lines are short. The result may be longer than `limit` by the words that say so.
    """
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 2 // 3], text[len(text) - limit // 3 :]
    line_end, line_start = head.rfind("\n"), tail.find("\n")
    if line_end > len(head) // 2:
        head = head[:line_end]
    if 0 <= line_start < len(tail) // 2:
        tail = tail[line_start + 1 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail):,} characters left out here …]\n{tail}"


def fenced(text: str, language: str = "") -> str:
    """Return the text as a Markdown code block that nothing in it can end."""
    ticks = "`" * max([3, *(len(run) + 1 for run in _FENCE.findall(text))])
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


def quoted(text: str) -> str:
    """Return the text as a Markdown quotation."""
    return "\n".join(f"> {line}".rstrip() for line in text.rstrip().split("\n"))
