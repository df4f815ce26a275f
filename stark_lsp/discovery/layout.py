"""Where things go in a file: whole-line edits, indentation, line ends."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from stark_lsp.core.editing import Replacement, keep_ends, newline_of, split_lines
from stark_lsp.core.parsing import BOM, parse


@dataclass(frozen=True)
class LineEdit:
    """Lines that take the place of lines `start` to `end` (exclusive) of a document."""

    start: int
    end: int
    lines: tuple[str, ...]
    """Without line ends."""


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
    """Return the white space a line begins with; a form feed begins that anew, as for Python."""
    return line[: len(line) - len(line.lstrip(" \t\f"))].rpartition("\f")[2]
