"""Anchors: from a plan's marker comments to lines of the user's document.

The entry point for everything about anchors but edits (`tracking`): `parse`, `strip` and `annotate` come from
`markers`, `check` and `realign` from `alignment`, and here the spans of a slice become spans of its document.
"""

from __future__ import annotations

from collections.abc import Sequence

from stark_lsp.agents.grounding.alignment import check, realign
from stark_lsp.agents.grounding.markers import BEGIN, END, ParsedAnchors, annotate, parse, strip
from stark_lsp.core.plan import Anchor
from stark_lsp.core.problem import SourceSlice, Span
from stark_lsp.discovery.syntax import split_lines

__all__ = [
    "BEGIN",
    "END",
    "ParsedAnchors",
    "annotate",
    "check",
    "document_anchors",
    "parse",
    "realign",
    "strip",
    "to_document",
]


def to_document(spans: Sequence[Span], source_slice: SourceSlice) -> tuple[Span, ...]:
    """Return spans of a slice as spans of its document.

    A span that covers lines which do not follow each other in the document becomes several; lines
    without a counterpart are left out.
    """
    return tuple(part for span in spans for part in _runs(span, source_slice))


def document_anchors(annotated: str, source_slice: SourceSlice, document: str) -> tuple[Anchor, ...]:
    """Return the anchors that an annotated slice puts on its document.

    Spans are realigned first if the text changed in more than its markers.

    Parameters
    ----------
    annotated
        The slice with markers, as the plan agent returned it.
    source_slice
        The slice it was made from.
    document
        The document the slice was made from.
    """
    lines = split_lines(document)
    notes = parse(annotated).notes
    anchors: list[Anchor] = []
    for span, note in zip(realign(source_slice.text, annotated), notes, strict=True):
        if span is None:
            continue
        for part in _runs(span, source_slice):
            anchors.append(Anchor(part, "\n".join(lines[part.start : part.end + 1]), note))
    return tuple(anchors)


def _runs(span: Span, source_slice: SourceSlice) -> list[Span]:
    runs: list[Span] = []
    for line in range(span.start, span.end + 1):
        number = source_slice.to_document(line)
        if number is None:
            continue
        if runs and runs[-1].end + 1 == number:
            runs[-1] = Span(runs[-1].start, number)
        else:
            runs.append(Span(number, number))
    return runs
