"""Each plan's anchors as diagnostics: one for each place, with the best that came of the plans about it.

Published, or pulled by the client, as negotiated at `initialize`; never both. A client that pulls them for the whole
workspace is answered when there is something new: it asks again at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from lsprotocol import types

from stark_lsp.cli.terminal import figures
from stark_lsp.core.problem import Span
from stark_lsp.server.client.abilities import ClientFacts
from stark_lsp.server.features.inputs import MARK, unfinished
from stark_lsp.server.language_server import StarkServer
from stark_lsp.server.runs.desk import Desk
from stark_lsp.server.runs.views import AnchoredPlan, RunView
from stark_lsp.server.text import wording
from stark_lsp.server.text.documents import Document
from stark_lsp.server.text.markup import plain
from stark_lsp.server.text.positions import Units, key_of, trimmed_range, uri_of

SOURCE = "STARK"
LIMIT = 30
"""Places shown in one document at most."""
RELATED = 8
"""Places told with another one at most."""
PAUSE_S = 0.15
"""Changes within this time are told to the client together."""
_FUSED = ("fuse-best", "keep-library", "fuse-pointwise", "tune", "leave")
"""Strategies and moves that share the page of `fuse-all`."""
_PACKAGE = Path(__file__).resolve().parents[2]


def places(anchored: Iterable[AnchoredPlan]) -> list[tuple[Span, list[AnchoredPlan]]]:
    """Return the places of a run's anchored plans in source order, each with its plans, oldest first."""
    found: dict[tuple[int, int], list[AnchoredPlan]] = {}
    for item in anchored:
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
        text += f" ({'best of ' if best is not None else ''}{figures.count(max(judged, 1), 'attempt')})"
    return text, chosen


@cache
def page_of(strategy: str) -> Path | None:
    """Return the page of the docs about a strategy of the playbook, None if there is none."""
    if not strategy.replace("-", "").isalnum():
        return None  # a model may have made it up
    if strategy in _FUSED:
        strategy = "fuse-all"
    folders = (_PACKAGE / "_docs", _PACKAGE.parent / "docs" / "playbook")
    return next((page for folder in folders if (page := folder / f"{strategy}.md").is_file()), None)


def build(views: Iterable[RunView], lines: list[str], units: Units, facts: ClientFacts) -> list[types.Diagnostic]:
    """Return the diagnostics of a document."""
    diagnostics: list[types.Diagnostic] = []
    for view in views:
        anchored = view.anchored()
        for span, plans in places(anchored):
            text, chosen = message(view, plans)
            code = plain(chosen.plan.strategy, 60)
            page = page_of(code) if facts.code_description else None
            diagnostics.append(
                types.Diagnostic(
                    range=trimmed_range(lines, span, units),
                    message=text,
                    severity=types.DiagnosticSeverity.Information,
                    code=code or "plan",
                    code_description=types.CodeDescription(uri_of(page)) if page is not None else None,
                    source=SOURCE,
                    related_information=_related(view, chosen, anchored, lines, units)
                    if facts.related_information
                    else None,
                    data={"run": view.id, "node": chosen.node, "nodes": [item.node for item in plans][:50]},
                )
            )
    return diagnostics[:LIMIT]


def _related(
    view: RunView, chosen: AnchoredPlan, anchored: list[AnchoredPlan], lines: list[str], units: Units
) -> list[types.DiagnosticRelatedInformation] | None:
    """Return the other places that a plan is about, then those of the attempt that it goes on from."""
    node = view.nodes.get(chosen.node)
    parent = node.parent if node is not None else None
    own = [item for item in anchored if item.node == chosen.node and item.span != chosen.span]
    before = [item for item in anchored if item.node == parent and item.span != chosen.span]
    told = [(item, plain(item.anchor.note, 160) or "The plan is about this too") for item in own]
    told += [
        (item, f"Goes on from attempt {item.node}: {plain(item.plan.title, 120) or 'a plan without a title'}")
        for item in before
    ]
    return [
        types.DiagnosticRelatedInformation(types.Location(view.uri, trimmed_range(lines, item.span, units)), text)
        for item, text in told[:RELATED]
    ] or None


class Diagnostics:
    """Tells the client what is new, a little later and all at once."""

    def __init__(self, server: StarkServer, desk: Desk) -> None:
        self._server = server
        self._desk = desk
        self._pending: dict[str, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._told: dict[str, str] = {}
        """Fingerprint of what the client was told of last, by document."""
        self._news = asyncio.Event()
        """Set, and made anew, when there is something new."""
        self.more: Callable[[str], list[types.Diagnostic]] = lambda uri: []
        """Diagnostics of a document that are of no run."""

    def touch(self, uri: str) -> None:
        """Note that a document's diagnostics may have changed."""
        self._pending |= {key_of(shown): shown for shown in self._server.notebooks.shown_at(uri)}
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self._flush)

    def of(self, uri: str) -> list[types.Diagnostic]:
        """Return the diagnostics of a document, or of a cell, as they are now."""
        place = self._server.notebooks.place(uri)
        if place is None or place.last is None:
            return self._of(uri)
        found = [each for each in self._of(place.document.uri) if place.holds(each.range.start.line)]
        for each in found:
            each.range = place.out(each.range)
            for other in each.related_information or ():
                other.location = self._server.notebooks.location(other.location.uri, other.location.range)
        return found

    def _of(self, uri: str) -> list[types.Diagnostic]:
        document, units = self._server.documents.get(uri), self._server.documents.units
        views, more = self._desk.at(uri), self.more(uri)
        if document is not None:
            more = [*more, *unfinished(document.text, document.lines, units)]
        text = self._desk.lines(uri) if views else None
        return more + (build(views, text, units, self._server.facts) if text is not None else [])

    def report(self, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        """Answer a pull."""
        items = self.of(params.text_document.uri)
        result = _fingerprint(items)
        if params.previous_result_id == result:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id=result)
        return types.RelatedFullDocumentDiagnosticReport(items=items, result_id=result)

    async def workspace(self, params: types.WorkspaceDiagnosticParams) -> types.WorkspaceDiagnosticReport:
        """Answer a pull for all documents, once there is something that the client does not know."""
        known = {key_of(each.uri): (each.uri, each.value) for each in params.previous_result_ids}
        while not (reports := self._unknown(known)):
            await self._news.wait()
        return types.WorkspaceDiagnosticReport(reports)

    def _unknown(self, known: dict[str, tuple[str, str]]) -> list[types.WorkspaceDocumentDiagnosticReport]:
        uris = {key: uri for key, (uri, _) in known.items()}
        open_ones = [document.uri for document in self._server.documents.all()]
        for uri in (*(view.uri for view in self._desk.views), *open_ones):
            uris |= {key_of(shown): shown for shown in self._server.notebooks.shown_at(uri)}
        reports: list[types.WorkspaceDocumentDiagnosticReport] = []
        for key, uri in uris.items():
            items, document = self.of(uri), self._server.documents.get(uri)
            result = _fingerprint(items)
            if known.get(key, ("", NOTHING))[1] != result:
                version = document.version if document is not None else None
                reports.append(types.WorkspaceFullDocumentDiagnosticReport(uri, items, version, result_id=result))
        return reports

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
            self._news.set()
            self._news = asyncio.Event()
            refresh = self._server.ask_or_none(types.WORKSPACE_DIAGNOSTIC_REFRESH, None)
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
            [(r.location.range.start.line, r.message) for r in i.related_information or ()],
        )
        for i in items
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


NOTHING = _fingerprint([])


def register(server: StarkServer, diagnostics: Diagnostics) -> None:
    """Keep the client told; called once the client's abilities are known."""

    def touched(document: Document) -> None:
        known = any(key_of(shown) in diagnostics._told for shown in server.notebooks.shown_at(document.uri))
        if diagnostics._desk.at(document.uri) or known or MARK in document.text:
            diagnostics.touch(document.uri)

    def opened(document: Document) -> None:
        # Some clients forget what they were told of a document once it is closed: it is told again in any case.
        for shown in map(key_of, server.notebooks.shown_at(document.uri)):
            if shown in diagnostics._told:
                diagnostics._told[shown] = ""
        touched(document)

    server.on_open.append(opened)
    server.on_changed.append(touched)
    if server.facts.pull_diagnostics:
        everything = server.facts.pull_workspace
        options = types.DiagnosticOptions(
            inter_file_dependencies=False, workspace_diagnostics=everything, identifier=SOURCE
        )

        @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)
        def pull(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
            return diagnostics.report(params)

        if everything:

            @server.feature(types.WORKSPACE_DIAGNOSTIC)
            async def pull_all(params: types.WorkspaceDiagnosticParams) -> types.WorkspaceDiagnosticReport:
                return await diagnostics.workspace(params)
