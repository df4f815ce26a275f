"""Lines of a text, as editors and Python both count them, and edits of it.

Lines break at LF, CRLF and CR only. `str.splitlines` also breaks at form feeds and Unicode separators, which are
ordinary characters to an editor (LSP 3.17, "Text Documents") and to Python's parser.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

LINE_END = re.compile(r"\r\n|\r|\n")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


@dataclass(frozen=True)
class Replacement:
    """A piece of text that takes the place of another. Lines and columns are 0-based, columns in code points."""

    start_line: int
    start_column: int
    end_line: int
    end_column: int
    """The end is exclusive."""
    new_text: str


def split_lines(text: str) -> list[str]:
    """Return the lines without their ends; a text that ends with a line end has no empty last line here."""
    lines = LINE_END.split(text)
    if lines[-1] == "":
        lines.pop()
    return lines


def keep_ends(text: str) -> list[str]:
    """Return the lines with their ends; joined they give `text`."""
    return _LINE.findall(text)


def newline_of(text: str) -> str:
    """Return the line end that most lines of a text have."""
    seen = Counter(LINE_END.findall(text))
    return seen.most_common(1)[0][0] if seen else "\n"


def apply_edits(text: str, edits: Iterable[Replacement]) -> str:
    """Return the text with edits carried out, all in terms of `text`.

    They do not overlap; of several insertions at one place the first comes first.
    """
    starts = [0, *accumulate(map(len, keep_ends(text)))]

    def offset(line: int, column: int) -> int:
        return min(starts[line] + column, len(text)) if line < len(starts) else len(text)

    parts, done = [], 0
    for edit in sorted(edits, key=lambda e: (e.start_line, e.start_column, e.end_line, e.end_column)):
        start = offset(edit.start_line, edit.start_column)
        parts += [text[done:start], edit.new_text]
        done = max(start, offset(edit.end_line, edit.end_column))
    return "".join([*parts, text[done:]])
