"""Each plan's anchors as diagnostics: one for each place, with the best that came of the plans about it.

Published, or pulled by the client, as negotiated at `initialize`; never both.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from stark_lsp.core.problem import Span
from stark_lsp.server import wording
from stark_lsp.server.inputs import MARK, unfinished
from stark_lsp.server.markup import plain
from stark_lsp.server.text import Units, key_of, trimmed_range

if TYPE_CHECKING:
    from stark_lsp.server.desk import Desk
    from stark_lsp.server.documents import Document
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.views import AnchoredPlan, RunView

SOURCE = "STARK"
LIMIT = 30
"""Places shown in one document at most."""
PAUSE_S = 0.15
"""Changes within this time are told to the client together."""


def places(view: RunView) -> list[tuple[Span, list[AnchoredPlan]]]:
    """Return the places of a run's plans in source order, each with its plans, oldest first."""
    found: dict[tuple[int, int], list[AnchoredPlan]] = {}
    for item in view.anchored():
        here = found.setdefault((item.span.start, item.span.end), [])
        if not here or here[-1].node != item.node:
            here.append(item)
    return [(Span(*key), found[key]) for key in sorted(found)]


def message(view: RunView, plans: list[AnchoredPlan]) -> tuple[str, AnchoredPlan]:
    """Return what to say at one place, and the plan it is about: the best verified one, else the newest."""
    best = wording.best_of(node for item in plans if (node := view.nodes.get(item.node)) is not None)
    chosen = next((item for item in plans if best is not None and item.node == best.id), plans[-1])
    text = plain(chosen.plan.title, 160) or "A plan without a title"
    result = view.nodes.get(chosen.node)
    interval = wording.gain(result.verdict if result is not None else None)
    if interval is not None:
        text += f": {wording.times(interval)} vs eager"
    elif result is not None and result.verdict is not None:
        text += f": {wording.outcome(result)}"
    if len(plans) > 1:
        judged = sum(1 for item in plans if (node := view.nodes.get(item.node)) and node.verdict is not None)
        text += f" ({'best of ' if best is not None else ''}{wording.count(max(judged, 1), 'attempt')})"
    return text, chosen


def build(views: Iterable[RunView], lines: list[str], units: Units) -> list[types.Diagnostic]:
    """Return the diagnostics of a document."""
    diagnostics: list[types.Diagnostic] = []
    for view in views:
        for span, plans in places(view):
            text, chosen = message(view, plans)
            diagnostics.append(
                types.Diagnostic(
                    range=trimmed_range(lines, span, units),
                    message=text,
                    severity=types.DiagnosticSeverity.Information,
                    code=plain(chosen.plan.strategy, 60) or "plan",
                    source=SOURCE,
                    data={"run": view.id, "node": chosen.node, "nodes": [item.node for item in plans][:50]},
                )
            )
    return diagnostics[:LIMIT]


class Diagnostics:
    """Tells the client what is new, a little later and all at once."""

    def __init__(self, server: StarkServer, desk: Desk) -> None:
        self._server = server
        self._desk = desk
        self._pending: dict[str, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._told: dict[str, str] = {}
        """Fingerprint of what the client was told of last, by document."""
        self.more: Callable[[str], list[types.Diagnostic]] = lambda uri: []
        """Diagnostics of a document that are of no run."""

    def touch(self, uri: str) -> None:
        """Note that a document's diagnostics may have changed."""
        self._pending[key_of(uri)] = uri
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self._flush)

    def of(self, uri: str) -> list[types.Diagnostic]:
        """Return the diagnostics of a document as they are now."""
        document, units = self._server.documents.get(uri), self._server.documents.units
        views, more = self._desk.at(uri), self.more(uri)
        if document is not None:
            more = [*more, *unfinished(document.text, document.lines, units)]
        text = self._desk.lines(uri) if views else None
        return more + (build(views, text, units) if text is not None else [])

    def report(self, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        """Answer a pull."""
        items = self.of(params.text_document.uri)
        result = _fingerprint(items)
        if params.previous_result_id == result:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id=result)
        return types.RelatedFullDocumentDiagnosticReport(items=items, result_id=result)

    def _flush(self) -> None:
        self._timer = None
        pending, self._pending = self._pending, {}
        news = False
        for key, uri in pending.items():
            items = self.of(uri)
            fingerprint = _fingerprint(items)
            if self._told.get(key, NOTHING) == fingerprint:
                continue
            news = True
            self._told[key] = fingerprint
            if fingerprint == NOTHING:
                del self._told[key]
            if not self._server.facts.pull_diagnostics:
                document = self._server.documents.get(uri)
                version = document.version if document is not None else None
                self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, items, version))
        if news and self._server.facts.pull_diagnostics:
            refresh = self._server.ask_or(None, types.WORKSPACE_DIAGNOSTIC_REFRESH, None)
            self._server.spawn(refresh, "diagnostics refresh")


def _fingerprint(items: list[types.Diagnostic]) -> str:
    facts: list[Any] = [
        (
            i.range.start.line,
            i.range.start.character,
            i.range.end.line,
            i.range.end.character,
            i.message,
            i.code,
            i.data,
        )
        for i in items
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


NOTHING = _fingerprint([])


def register(server: StarkServer, diagnostics: Diagnostics) -> None:
    """Keep the client told; called once the client's abilities are known."""

    def touched(document: Document) -> None:
        known = key_of(document.uri) in diagnostics._told
        if diagnostics._desk.at(document.uri) or known or MARK in document.text:
            diagnostics.touch(document.uri)

    server.on_open.append(touched)
    server.on_changed.append(touched)
    if server.facts.pull_diagnostics:
        options = types.DiagnosticOptions(inter_file_dependencies=False, workspace_diagnostics=False, identifier=SOURCE)

        @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)
        def pull(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
            return diagnostics.report(params)
