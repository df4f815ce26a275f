"""Grounded instructions: marker comments around the lines a plan is about (paper, section 4.3).

The plan agent returns the source with `# # <<<IMPROVE BEGIN>>>` and `# # <<<IMPROVE END>>>` around its targets.
Models write this in many ways, and all of these are read: BEGIN, BEGINS, START, STARTS, END, ENDS, STOP, STOPS,
in any case, before or after IMPROVE, with any number of angle brackets and any spacing, in `#`, `# #`, `//`,
`/* */` and `<!-- -->` comments or bare, on a line of their own or after code, with or without a note behind them.

What does not pair up has a meaning too: an opening marker without its end reaches to the end of its block, and an
end without its beginning is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stark_lsp.core.problem import Span
from stark_lsp.discovery.syntax import keep_ends

BEGIN = "<<<IMPROVE BEGIN>>>"
"""The opening marker as we write it."""
END = "<<<IMPROVE END>>>"
"""The closing marker as we write it."""

_BEGIN_WORDS = r"BEGIN(?:S|NING)?|STARTS?"
_END_WORDS = r"ENDS?|STOPS?"
_SPACE = r"[ \t_:\-]*"
_WORDS = (
    rf"(?:IMPROVE(?:MENT)?{_SPACE}(?:(?P<b1>{_BEGIN_WORDS})|(?P<e1>{_END_WORDS}))"
    rf"|(?:(?P<b2>{_BEGIN_WORDS})|(?P<e2>{_END_WORDS})){_SPACE}IMPROVE(?:MENT)?)"
)
_CORE = re.compile(
    rf"(?<!<)<+[ \t]*{_WORDS}\b[ \t]*>*|(?<![<\w]){_WORDS.replace('?P<', '?P<n')}\b[ \t]*>+", re.IGNORECASE
)
"""A marker with angle brackets on at least one side."""
_PLAIN = re.compile(rf"[ \t]*(?:#+|//+)[ \t#]*{_WORDS}[ \t]*(?:[:\-](?P<note>.*))?$")
"""A comment that is a marker in capitals without any angle bracket."""
_OPENER = re.compile(r"(?:(?P<block>/\*+)[ \t]*|(?P<html><!--+)[ \t]*|(?P<line>(?<!#)#[# \t]*|(?<!/)//+[ \t]*))$")


@dataclass(frozen=True)
class ParsedAnchors:
    """What marker comments say."""

    source: str
    """The text without them."""
    spans: tuple[Span, ...]
    """Lines of `source`, in the order of the opening markers."""
    notes: tuple[str, ...]
    """For each span, the text behind its opening marker; may be empty."""


@dataclass(frozen=True)
class _Marker:
    opens: bool
    start: int
    """Column of the comment's first character."""
    end: int
    """Column after its last."""
    note: str


@dataclass
class _Open:
    order: int
    start: int
    note: str


def parse(annotated: str) -> ParsedAnchors:
    """Read the markers of a text and return the text without them."""
    kept: list[str] = []
    done: list[tuple[int, Span, str]] = []
    stack: list[_Open] = []
    order = 0
    lines = keep_ends(annotated)
    for raw in lines:
        body = raw.rstrip("\r\n")
        markers = _markers(body)
        if not markers:
            kept.append(raw)
            continue
        rest = _without(body, markers)
        code_at = -1  # the markers left of the code open before it, those right of it close after it
        if rest is not None:
            kept.append(rest + raw[len(body) :])
            code_at = len(kept) - 1
        elif raw is lines[-1] and body == raw and kept:
            kept[-1] = kept[-1].rstrip("\r\n")  # the text ended without a line end before it was annotated, too
        for marker in markers:
            if marker.opens:
                stack.append(_Open(order, code_at if code_at >= 0 else len(kept), marker.note))
                order += 1
            elif stack:
                opened = stack.pop()
                done.append((opened.order, Span(opened.start, max(opened.start, len(kept) - 1)), opened.note))
    for opened in stack:
        done.append((opened.order, Span(opened.start, _block_end(kept, opened.start)), opened.note))
    done.sort(key=lambda entry: entry[0])
    inside = [(span, note) for _, span, note in done if span.start < len(kept)]
    return ParsedAnchors(
        "".join(kept),
        tuple(Span(span.start, min(span.end, len(kept) - 1)) for span, _ in inside),
        tuple(note for _, note in inside),
    )


def strip(text: str) -> str:
    """Return the text without marker comments; everything else is exactly as it was."""
    return parse(text).source


def annotate(source: str, spans: Sequence[Span], notes: Sequence[str] = (), comment: str = "#") -> str:
    """Return `source` with marker comments around spans.

    Parameters
    ----------
    source
        Text without markers.
    spans
        Lines of `source`. They may nest; two that cross are marked as one.
    notes
        A note for each span, written behind its opening marker in one line; missing ones are empty.
    comment
        `#`, `# #` (as the paper has it), `//`, `/*` or `<!--`.
    """
    lines = keep_ends(source)
    ending = next((line[len(line.rstrip("\r\n")) :] for line in lines if line.endswith(("\n", "\r"))), "\n")
    before: dict[int, list[str]] = {}
    after: dict[int, list[str]] = {}
    for span, note in _nested(lines, spans, notes):
        indent = next((_indent(line) for line in lines[span.start : span.end + 1] if line.strip()), "")
        before.setdefault(span.start, []).append(indent + _comment(comment, BEGIN, note))
        after.setdefault(span.end, []).insert(0, indent + _comment(comment, END, ""))
    out: list[str] = []
    for number, line in enumerate(lines):
        out.extend(text + ending for text in before.get(number, ()))
        closing = after.get(number, ())
        if closing and not line.endswith(("\n", "\r")):
            out.append(line + ending)
            out.extend(text + ending for text in closing)
            out[-1] = out[-1].rstrip("\r\n")
            continue
        out.append(line)
        out.extend(text + ending for text in closing)
    return "".join(out)


def _markers(line: str) -> list[_Marker]:
    """Return the marker comments of one line, left to right."""
    if "IMPROVE" not in line and "improve" not in line.lower():
        return []
    cores = [(core.start(), core.end(), _opens(core)) for core in _CORE.finditer(line)]
    if not cores:
        plain = _PLAIN.match(line)
        if plain is None:
            return []
        return [_Marker(_opens(plain), len(_indent(line)), len(line), (plain["note"] or "").strip(" \t:-"))]
    markers: list[_Marker] = []
    floor = 0
    for index, (start, end, opens) in enumerate(cores):
        limit = cores[index + 1][0] if index + 1 < len(cores) else len(line)
        opener = _OPENER.search(line, floor, start)
        bare = opener is None
        if bare and (line[floor:start].strip() or not re.search("<<|>>", line[start:end])):
            continue  # code: a comparison, or a string
        kind = opener.lastgroup if opener else None
        comment_start = opener.start() if opener else (start if floor else len(line) - len(line.lstrip()))
        comment_end, note_end = _comment_end(line, end, limit, kind)
        note = line[end:note_end].strip().strip("#/").strip(" \t:-")
        markers.append(_Marker(opens, comment_start, comment_end, note))
        floor = comment_end
    return markers


def _comment_end(line: str, end: int, limit: int, kind: str | None) -> tuple[int, int]:
    """Return where a marker's comment ends and where its note does."""
    closing = {"block": "*/", "html": "-->"}.get(kind or "")
    if closing:
        found = line.find(closing, end)
        return (found + len(closing), found) if found >= 0 else (len(line), len(line))
    if limit < len(line):  # another marker follows: its opener is not part of this note
        opener = _OPENER.search(line, end, limit)
        place = opener.start() if opener else limit
        return place, place
    return len(line), len(line)


def _opens(found: re.Match[str]) -> bool:
    groups = found.groupdict()
    return any(groups.get(name) for name in ("b1", "b2", "nb1", "nb2"))


def _without(line: str, markers: list[_Marker]) -> str | None:
    """Return a line without its markers, None if nothing else is left."""
    rest = line[: markers[0].start]
    for marker, following in zip(markers, [*markers[1:], None], strict=True):
        piece = line[marker.end : following.start if following else len(line)]
        rest += piece.lstrip() if not rest.strip() or rest[-1].isspace() else piece
    return rest.rstrip() if rest.strip() else None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _block_end(lines: list[str], start: int) -> int:
    """Return the last line of the block that begins at `start`."""
    first = next((number for number in range(start, len(lines)) if lines[number].strip()), None)
    if first is None:
        return max(start, len(lines) - 1)
    width = len(_indent(lines[first].expandtabs()))
    last = first
    for number in range(first, len(lines)):
        if not lines[number].strip():
            continue
        if len(_indent(lines[number].expandtabs())) < width:
            break
        last = number
    return last


def _nested(lines: list[str], spans: Sequence[Span], notes: Sequence[str]) -> list[tuple[Span, str]]:
    """Return spans that lie within the text and nest, outer ones first; crossing ones become one."""
    pending = [
        (Span(span.start, min(span.end, len(lines) - 1)), notes[index] if index < len(notes) else "")
        for index, span in enumerate(spans)
        if span.start < len(lines)
    ]
    nested: list[tuple[Span, str]] = []
    while pending:
        span, note = pending.pop(0)
        crossing = next((entry for entry in nested if _cross(entry[0], span)), None)
        if crossing is None:
            nested.append((span, note))
            continue
        nested.remove(crossing)
        other, other_note = crossing
        union = Span(min(span.start, other.start), max(span.end, other.end))
        pending.append((union, "; ".join(text for text in (other_note, note) if text)))
    return sorted(nested, key=lambda entry: (entry[0].start, -entry[0].end))


def _cross(a: Span, b: Span) -> bool:
    if a.start > b.start:
        a, b = b, a
    return a.start < b.start <= a.end < b.end


def _comment(style: str, marker: str, note: str) -> str:
    note = _CORE.sub("", " ".join(note.split())).replace("*/", "").replace("-->", "").strip(" \t:-#/")
    text = f"{marker} {note}" if note else marker
    if style == "/*":
        return f"/* {text} */"
    if style == "<!--":
        return f"<!-- {text} -->"
    return f"{style} {text}"
