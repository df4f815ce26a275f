"""Inlay hints: what one call of a class takes, as its newest run measured it, at the end of the class's line.

They are off unless `stark.inlayHints` is on. Where the client takes registrations, it is told of the hints only then,
so that it does not ask for them before; else it is answered nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lsprotocol import types

from stark_lsp.cli.terminal import figures
from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.server.text import wording
from stark_lsp.server.text.folders import configuration_of

if TYPE_CHECKING:
    from stark_lsp.core.run import Run
    from stark_lsp.discovery.classes import ModuleClass
    from stark_lsp.server.client.configuration import Configuration
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.runs.desk import Desk

SETTING = "inlayHints"
REGISTRATION = "stark-inlay-hints"


def hint(run: Run, position: types.Position) -> types.InlayHint:
    """Return what a run measured of its class."""
    assert run.reference is not None  # else `measured` leaves it out
    eager, compiled = run.reference.baselines.eager, run.reference.baselines.compile
    lines = [f"One call takes {figures.milliseconds(eager.median_ms)}"]
    lines[0] += f", {figures.milliseconds(compiled.median_ms)} by torch.compile." if compiled is not None else "."
    lines.append(f"Measured on {wording.device(run.reference.environment)}.")
    lines.append(f"Run {run.id} of {run.created[:10]}, {run.problem.mode.value} mode.")
    return types.InlayHint(position, figures.milliseconds(eager.median_ms), tooltip="\n".join(lines), padding_left=True)


def measured(
    desk: Desk, path: str, text: str, classes: list[ModuleClass], configuration: Configuration
) -> list[tuple[ModuleClass, Run]]:
    """Return the classes that were measured as they stand now, each with its newest run; for a thread of its own."""
    from stark_lsp.store.paths import default_store_path

    if not default_store_path().exists():
        return []  # without having read or imported anything
    from stark_lsp.discovery.problems import make_problem

    found = []
    store = desk.store()
    known = store.classes_at(path)
    for cls in classes:
        if cls.qualname in known:
            try:
                problem = make_problem(path, text, cls.qualname, mode=configuration.mode, device=configuration.device)
                run = store.measured(problem)
            except (BadInput, Fault):
                continue  # whoever starts a run is told
            if run is not None:
                found.append((cls, run))
    return found


class Hints:
    """Gives hints, and has the client ask for them while the setting is on."""

    def __init__(self, server: StarkServer, desk: Desk) -> None:
        self._server = server
        self._desk = desk
        self._on = False
        self._registered = False

    async def of(self, params: types.InlayHintParams) -> list[types.InlayHint]:
        """Return the hints of a part of a document."""
        place = self._server.notebooks.place(params.text_document.uri)
        if place is None or (path := place.document.path) is None:
            return []
        document = place.document
        configuration = configuration_of(self._server, path)
        if not configuration[SETTING]:
            return []
        first, last = params.range.start.line + place.first, params.range.end.line + place.first
        classes = [cls for cls in document.offered if first <= cls.name_line <= last]
        text, lines = document.text, document.lines
        found = await asyncio.to_thread(measured, self._desk, path, text, classes, configuration)
        units = self._server.documents.units
        hints = []
        for cls, run in found:
            line = lines[cls.name_line]
            at = units.position(lines, (cls.name_line, len(line.rstrip())))
            hints.append(hint(run, types.Position(at.line - place.first, at.character)))
        return hints

    def configured(self) -> None:
        """Follow the setting."""
        on = self._server.configuration[SETTING] is True
        if on == self._on:
            return
        self._on = on
        if self._server.facts.register_hints:
            self._server.spawn(self._register(), "registering the inlay hints")
        else:
            self._server.refresh_hints()

    async def _register(self) -> None:
        if self._on and not self._registered:
            self._registered = True
            options = types.InlayHintRegistrationOptions(document_selector=PYTHON)
            await self._server.register_later(REGISTRATION, types.TEXT_DOCUMENT_INLAY_HINT, options)
        elif self._registered and not self._on:
            self._registered = False
            gone = types.Unregistration(REGISTRATION, types.TEXT_DOCUMENT_INLAY_HINT)
            await self._server.ask_or_none(types.CLIENT_UNREGISTER_CAPABILITY, types.UnregistrationParams([gone]))


PYTHON: types.DocumentSelector = [
    types.TextDocumentFilterLanguage(language="python", scheme="file"),
    types.NotebookCellTextDocumentFilter("jupyter-notebook", "python"),
]


def register(server: StarkServer, desk: Desk) -> None:
    """Answer `textDocument/inlayHint`; called once the client's abilities are known."""
    if not server.facts.hints:
        return
    hints = Hints(server, desk)

    def offer() -> None:
        @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
        async def inlay_hints(params: types.InlayHintParams) -> list[types.InlayHint]:
            return await hints.of(params)

    if server.facts.register_hints:
        # What is registered with pygls by now is told in the answer to `initialize`.
        server.on_initialized.append(offer)
    else:
        offer()
    server.on_configured.append(hints.configured)
