"""Where things go in a file: whole-line edits, indentation, line ends."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass

from stark_lsp.discovery.syntax import BOM, keep_ends, parse, split_lines

_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Replacement:
    """A piece of text that takes the place of another. Lines and columns are 0-based, columns in code points."""

    start_line: int
    start_column: int
    end_line: int
    end_column: int
    """The end is exclusive."""
    new_text: str


@dataclass(frozen=True)
class LineEdit:
    """Lines that take the place of lines `start` to `end` (exclusive) of a document."""

    start: int
    end: int
    lines: tuple[str, ...]
    """Without line ends."""


def newline_of(text: str) -> str:
    """Return the line end that most lines of a text have."""
    seen = Counter(_LINE_END.findall(text))
    return seen.most_common(1)[0][0] if seen else "\n"


def merged(edits: list[LineEdit]) -> list[LineEdit]:
    """Return the edits in order, those that touch put together."""
    out: list[LineEdit] = []
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start == edit.end and not edit.lines:
            continue
        if out and edit.start <= out[-1].end:
            last = out.pop()
            out.append(LineEdit(last.start, max(last.end, edit.end), (*last.lines, *edit.lines)))
        else:
            out.append(edit)
    return out


def replacements(text: str, edits: list[LineEdit]) -> tuple[Replacement, ...]:
    """Return line edits as replacements with the document's line ends; a missing last line end stays missing."""
    lines = keep_ends(text)
    newline = newline_of(text)
    complete = not lines or lines[-1].endswith(("\n", "\r"))
    mark = 1 if text.startswith(BOM) else 0  # nothing goes before a byte order mark
    out: list[Replacement] = []
    for edit in merged(edits):
        new = "".join(line + newline for line in edit.lines)
        if edit.end < len(lines) or complete:
            start_column = 0 if edit.start else mark
            out.append(Replacement(edit.start, start_column, edit.end, 0 if edit.end else mark, new))
            continue
        last = (len(lines) - 1, len(lines[-1]))
        if edit.start == len(lines):  # behind a last line without line end
            new = newline + new.removesuffix(newline)
            out.append(Replacement(*last, *last, new))
        elif new:
            out.append(Replacement(edit.start, 0 if edit.start else mark, *last, new.removesuffix(newline)))
        else:
            before = lines[edit.start - 1].rstrip("\r\n") if edit.start else ""
            start = (edit.start - 1, len(before)) if edit.start else (0, mark)
            out.append(Replacement(*start, *last, ""))
    return tuple(out)


def apply(text: str, edits: tuple[Replacement, ...]) -> str:
    """Return the text with replacements carried out."""
    starts = [0]
    for line in keep_ends(text):
        starts.append(starts[-1] + len(line))

    def offset(line: int, column: int) -> int:
        return min(starts[line] + column, len(text)) if line < len(starts) else len(text)

    for edit in sorted(edits, key=lambda e: (e.start_line, e.start_column), reverse=True):
        begin, end = offset(edit.start_line, edit.start_column), offset(edit.end_line, edit.end_column)
        text = text[:begin] + edit.new_text + text[end:]
    return text


def indented(text: str, indent: str) -> list[str]:
    """Return the lines of complete statements one level in; the inside of multi-line strings stays as it is."""
    lines = split_lines(text)
    if not indent:
        return lines
    inside: set[int] = set()
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))):
            inside.update(range(node.lineno, node.end_lineno or node.lineno))
    return [line if number in inside or not line else indent + line for number, line in enumerate(lines)]


def indent_of(line: str) -> str:
    """Return the white space a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t\f"))]
