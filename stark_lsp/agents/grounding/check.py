"""Grounded instructions: the anchors of a plan, checked before the code agent sees them (paper, section 4.3).

A plan agent quotes the lines it is about, or, as in the paper, the whole source of the selected node, with marker
comments around them. What comes back is read like this:

1. The marked lines are looked up in the selected source. Where they do not stand there as quoted, the markers are
   carried over by what the lines say (`alignment`), so that the code agent only ever sees the code that is really
   there; `GroundedPlan.remark` tells.
2. The spans become anchors on the user's document. The reference is a slice of it, line by line. Any other node is a
   candidate file: its lines are matched with the reference's by what they say, and lines that took the place of others
   stand for those. What has no counterpart at all (a kernel of its own, say) belongs to where the reference's work is
   done: the header of `forward`.

What the code agent then edits is `edits`' business.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import pairwise

from stark_lsp.agents.grounding.alignment import check, located, meaning, realign
from stark_lsp.agents.grounding.edits import MARKED_LINE, comparable, described, readable, spans_of
from stark_lsp.agents.grounding.markers import annotate, parse
from stark_lsp.agents.texts import one_line
from stark_lsp.core.plan import Anchor
from stark_lsp.core.problem import Problem, SourceSlice, Span
from stark_lsp.core.run import Node
from stark_lsp.discovery.syntax import find_class, first_line, last_line, split_lines
from stark_lsp.discovery.syntax import parse as parse_python

NOTE = 600
"""Characters of an anchor's note."""
MOST_SPANS = 40
"""Marked places of one plan; a plan that marks more has marked nothing in particular."""

NO_MARKS = "The plan marked no lines."
NOT_READABLE = "The plan's marks could not be read."


@dataclass(frozen=True)
class GroundedPlan:
    """A plan's marks, on the selected source as it is."""

    annotated_source: str
    """The selected source with markers and no other change; without markers where there are none."""
    spans: tuple[Span, ...] = ()
    """Lines of the selected source."""
    notes: tuple[str, ...] = ()
    """What the plan says about each of them; may be empty."""
    remark: str = ""
    """What the plan did not do as it was told; empty if it did."""


def ground(selected: str, annotated: str) -> GroundedPlan:
    """Return the marks of `annotated` on `selected`, which it was to repeat, or to quote at the marked places."""
    if not annotated.strip():
        return GroundedPlan(selected, remark=NO_MARKS)
    if not readable(annotated) or not readable(selected):
        return GroundedPlan(selected, remark=NOT_READABLE)
    annotated = _folded(selected, annotated)
    parsed = parse(annotated)
    if not parsed.spans:
        return GroundedPlan(selected, remark=NO_MARKS)
    if len(parsed.spans) > MOST_SPANS:
        return GroundedPlan(selected, remark=f"The plan marked {len(parsed.spans)} places; they were left out.")
    notes = tuple(one_line(note, NOTE) for note in parsed.notes)
    if parsed.source == selected:
        return GroundedPlan(annotated, parsed.spans, notes)
    if not _comparable(selected, parsed.source):
        return GroundedPlan(selected, remark=NOT_READABLE)
    places, changed = located(selected, annotated), list[int]()
    if None in places and 2 * parsed.source.count("\n") < selected.count("\n"):
        # In a quotation a line that stands otherwise is a slip, in a whole source a change.
        places = located(selected, annotated, closely=True)
    elif None in places:
        places, changed = realign(selected, annotated), [*check(selected, annotated)]
    found = [(span, note) for span, note in zip(places, notes, strict=True) if span is not None]
    remark = ""
    if changed:
        # Quoted: their numbers in a slice of a file or in an attempt would tell nobody anything.
        lines = described([Span(line, line) for line in changed], selected)
        remark = f"The plan changed more than marks ({lines}); its marks were carried over."
    lost = len(parsed.spans) - len(found)
    if not found:
        return GroundedPlan(selected, remark="The plan marked lines that are not in the source.")
    if lost:
        remark = f"{remark} {lost} of its marks stand at no line of the source.".strip()
    spans, noted = tuple(span for span, _ in found), tuple(note for _, note in found)
    return GroundedPlan(mark(selected, spans, noted), spans, noted, remark)


def _folded(selected: str, annotated: str) -> str:
    """Return an annotated source with advice that stands in comments below an opening marker on the marker's line."""
    there = {line.strip() for line in split_lines(selected)}
    lines: list[str] = []
    opened = False
    for line in split_lines(annotated):
        bare = line.strip()
        comment = bare.startswith(("#", "//")) and "improve" not in bare.lower()
        if opened and comment and bare not in there:
            if len(lines[-1]) + len(bare) < MARKED_LINE:
                lines[-1] += f" {bare.lstrip('#/ ')}"
            continue
        opened = bare.startswith(("#", "//")) and "IMPROVE BEGIN" in bare
        lines.append(line)
    return "\n".join(lines) + ("\n" if annotated.endswith("\n") else "")


def mark(source: str, spans: tuple[Span, ...], notes: tuple[str, ...]) -> str:
    """Return `source` with markers, in comments of the language they stand in: `//` inside a Python string.

    Spans that overlap are marked in Python's comments throughout.
    """
    ordered = sorted(zip(spans, notes, strict=True), key=lambda entry: entry[0].start, reverse=True)
    if any(later.start <= earlier.end for (later, _), (earlier, _) in pairwise(ordered)):
        return annotate(source, spans, notes)
    inside = _string_lines(source)
    for span, note in ordered:
        comment = "//" if span.start in inside and span.end in inside else "#"
        source = annotate(source, [span], [note], comment)
    return source


def document_anchors(problem: Problem, selected: Node, grounded: GroundedPlan) -> tuple[Anchor, ...]:
    """Return the anchors of a plan on the document its problem was made from."""
    slice_text = problem.slice.text
    source = selected.candidate.source
    places: tuple[Span | None, ...]
    if source == slice_text:
        places = grounded.spans
    elif not _comparable(slice_text, source):
        places = (None,) * len(grounded.spans)
    else:
        places = _in_slice(slice_text, source, grounded, problem)
    lines = split_lines(problem.text)
    anchors: dict[Span, str] = {}
    fallback = _header(problem)
    for place, note in zip(places, grounded.notes, strict=True):
        for part in (to_document(place, problem.slice) if place is not None else []) or [fallback]:
            anchors[part] = "; ".join(text for text in dict.fromkeys((anchors.get(part, ""), note)) if text)
    return tuple(
        Anchor(part, "\n".join(lines[part.start : part.end + 1]), one_line(note, NOTE))
        for part, note in anchors.items()
        if part.end < len(lines)
    )


def to_document(span: Span, source_slice: SourceSlice) -> list[Span]:
    """Return lines of a slice as lines of its document: several spans where it has others between them, maybe none."""
    numbers = (source_slice.to_document(line) for line in range(span.start, span.end + 1))
    return spans_of(number for number in numbers if number is not None)


def _in_slice(slice_text: str, source: str, grounded: GroundedPlan, problem: Problem) -> tuple[Span | None, ...]:
    """Return where in the reference's slice the spans of a candidate belong; None where nowhere.

    A place counts if it lies inside the class, or if it says the same as the span does: what took the place of other
    lines elsewhere has nothing to do with them. One that takes in the whole forward method says no more than its
    header.
    """
    found = _class(slice_text, problem.qualname)
    body, own = _lines(_forward(found)), _lines(found)
    spans = realign(slice_text, annotate(source, grounded.spans))
    if len(spans) != len(grounded.spans):  # spans that cross were joined
        return (None,) * len(grounded.spans)
    there, here = split_lines(slice_text), split_lines(source)

    def counts(place: Span, span: Span) -> bool:
        if body is not None and place.start <= body.start and place.end >= body.end:
            return False
        if own is not None and place.start in own and place.end in own:
            # What was put before a candidate's class takes the place of the class's header; it is not about that.
            headed = any(line.lstrip().startswith("class ") for line in here[span.start : span.end + 1])
            return headed or not any(line.lstrip().startswith("class ") for line in there[place.start : place.end + 1])
        said = {line.strip() for line in there[place.start : place.end + 1]}
        return any(line.strip() in said for line in here[span.start : span.end + 1] if line.strip())

    return tuple(
        place if place is not None and counts(place, span) else None
        for place, span in zip(spans, grounded.spans, strict=True)
    )


def _class(text: str, qualname: str) -> ast.ClassDef | None:
    try:
        return next(iter(find_class(parse_python(text), qualname)), None)
    except SyntaxError:
        return None


def _forward(found: ast.ClassDef | None) -> ast.FunctionDef | None:
    methods = (each for each in (found.body if found is not None else ()) if isinstance(each, ast.FunctionDef))
    return next((method for method in methods if method.name == "forward"), None)


def _lines(node: ast.stmt | None) -> Span | None:
    return None if node is None else Span(first_line(node), last_line(node))


def _header(problem: Problem) -> Span:
    """Return the header of `forward` in the document, or that of the class if it inherits its forward."""
    node = _forward(_class(problem.text, problem.qualname))
    if node is None:
        return Span(problem.class_span.start, problem.class_span.start)
    return Span(node.lineno - 1, max(node.lineno - 1, min(first_line(node.body[0]), node.lineno + 20) - 1))


def _string_lines(source: str) -> set[int]:
    """Return the 0-based lines that lie wholly inside a string of several lines."""
    try:
        tree = parse_python(source)
    except SyntaxError:
        return set()
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and isinstance(getattr(node, "value", ""), str):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) - 1))
    return found


def _comparable(before: str, after: str) -> bool:
    return comparable([text for _, text in meaning(before)], [text for _, text in meaning(after)])
