"""From operations to the user's lines: what an anchor covers and what a comment quotes."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from functools import cached_property

from stark_lsp.core.editing import split_lines
from stark_lsp.core.plan import Anchor
from stark_lsp.core.problem import Problem, Span
from stark_lsp.playbook.graph import GraphNode

MAX_QUOTES = 8


class UserLines:
    """The lines of one problem's document."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.lines = split_lines(problem.text)
        self._path = os.path.realpath(problem.path)

    def spans(self, nodes: Iterable[GraphNode]) -> tuple[Span, ...]:
        """Return the statements that operations come from, in order, neighbours joined; else the class's line."""
        found = sorted(
            {span for node in nodes if (span := self.span(node)) is not None}, key=lambda s: (s.start, s.end)
        )
        joined: list[Span] = []
        for span in found:
            if joined and span.start <= joined[-1].end + 1:
                joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
            else:
                joined.append(span)
        line = self.problem.class_span.start
        return tuple(joined) or (Span(line, line),)

    def span(self, node: GraphNode) -> Span | None:
        """Return the statement of the innermost frame that lies in the document."""
        for frame in node.frames:
            if os.path.realpath(frame.path) == self._path:
                row = frame.line - 1
                return self._statements.get(row, Span(row, row)) if 0 <= row < len(self.lines) else None
        return None

    def quote(self, spans: Iterable[Span]) -> tuple[str, ...]:
        """Return the text of spans, a line each, without indentation."""
        rows = (" ".join(line.split()) for span in spans for line in self.lines[span.start : span.end + 1])
        return tuple(dict.fromkeys(filter(None, rows)))[:MAX_QUOTES]

    def anchors(self, noted: Iterable[tuple[Span, str]]) -> tuple[Anchor, ...]:
        """Return an anchor for each span, in order of the document, each span once."""
        anchors: dict[Span, str] = {}
        for span, note in noted:
            anchors.setdefault(span, note)
        return tuple(
            Anchor(span, "\n".join(self.lines[span.start : span.end + 1]), note)
            for span, note in sorted(anchors.items(), key=lambda item: (item[0].start, item[0].end))
        )

    @cached_property
    def _statements(self) -> dict[int, Span]:
        """For each row, the innermost statement that covers it; a block's header covers its own rows only."""
        covering: dict[int, Span] = {}
        try:
            tree = ast.parse(self.problem.text)
        except SyntaxError:
            return covering
        for node in ast.walk(tree):
            if not isinstance(node, ast.stmt):
                continue
            body = getattr(node, "body", None)
            end = (body[0].lineno - 1) if isinstance(body, list) and body else (node.end_lineno or node.lineno)
            span = Span(node.lineno - 1, max(node.lineno - 1, end - 1))
            for row in range(span.start, span.end + 1):
                known = covering.get(row)
                if known is None or known.end - known.start >= span.end - span.start:
                    covering[row] = span
        return covering
