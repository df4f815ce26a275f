"""Code lenses on each class line. Their number and place stay the same while a run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from stark_lsp.core.status import InputSource
from stark_lsp.server.features.steering import RESUME
from stark_lsp.server.runs.views import Phase, RunView

if TYPE_CHECKING:
    from stark_lsp.discovery.classes import ModuleClass
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.runs.desk import Desk
    from stark_lsp.server.text.documents import Document
    from stark_lsp.server.text.notebooks import Place

OPTIMIZE = "stark.optimize"
ADD_INPUTS = "stark.addInputs"
CANCEL = "stark.cancel"
REVIEW = "stark.review"
ACCEPT = "stark.accept"
REJECT = "stark.reject"
DISMISS = "stark.dismiss"
STATUS = "stark.status"


def start_command(uri: str, cls: ModuleClass) -> types.Command:
    """Return the command that starts with a class: optimize it, or give it inputs first."""
    if cls.inputs.source is InputSource.NONE:
        return types.Command("Add get_inputs for STARK", ADD_INPUTS, arguments=[uri, cls.qualname])
    return types.Command("Optimize with STARK", OPTIMIZE, arguments=[uri, cls.qualname])


def under_way_command(view: RunView) -> types.Command:
    """Return the command that takes the place of starting while a run is queued or under way."""
    arguments = [{"run": view.id}]
    if view.paused:
        return types.Command("STARK is paused: go on", RESUME, arguments=arguments)
    doing = "waits for its turn" if view.phase is Phase.QUEUED else "is optimizing…"
    if view.edited and view.phase is Phase.RUNNING:
        doing = "is optimizing it as it was before your edit…"
    return types.Command(f"STARK {doing} (stop)", CANCEL, arguments=arguments)


def decision_commands(view: RunView) -> list[types.Command]:
    """Return the commands for a proposal that waits for a decision: the run's, or the one that is kept meanwhile."""
    if view.offer is None:
        return []
    arguments = [{"run": view.offer.id}]
    return [
        types.Command("Review", REVIEW, arguments=arguments),
        types.Command("Accept", ACCEPT, arguments=arguments),
        types.Command("Reject", REJECT, arguments=arguments),
    ]


def _lens(line: int, columns: tuple[int, int], command: types.Command) -> dict[str, Any]:
    """Return a lens as the JSON it becomes: a long file has hundreds, after each edit anew."""
    start, end = ({"line": line, "character": column} for column in columns)
    shown = {"title": command.title, "command": command.command, "arguments": command.arguments}
    return {"range": {"start": start, "end": end}, "command": shown}


class Lenses:
    """The lenses of the open documents; made again only when the text or a decision changed."""

    def __init__(self, server: StarkServer, desk: Desk) -> None:
        self._server = server
        self._desk = desk
        self._made: dict[
            str, tuple[tuple[ModuleClass, ...], tuple[tuple[str, Phase, bool, bool, str], ...], list[dict[str, Any]]]
        ] = {}
        server.on_close.append(self._forget)

    def of(self, document: Document) -> list[dict[str, Any]]:
        """Return the lenses of an open document as JSON; none if it is no file."""
        if document.path is None:
            return []
        classes = document.offered
        views = {view.problem.qualname: view for view in self._desk.at(document.uri)}
        state = tuple(
            (view.id, view.phase, view.paused, view.edited, view.offer.id if view.offer else "")
            for view in views.values()
        )
        known = self._made.get(document.uri)
        if known is not None and known[0] is classes and known[1] == state:
            return known[2]
        units, lines = self._server.documents.units, document.lines
        made: list[dict[str, Any]] = []
        for cls in classes:
            columns = units.columns(lines[cls.name_line], cls.name_start, cls.name_end)
            view = views.get(cls.qualname)
            # One lens stays one lens: their number and place are the same while a run goes on.
            commands = [under_way_command(view) if view and view.active else start_command(document.uri, cls)]
            commands += decision_commands(view) if view else []
            made += [_lens(cls.name_line, columns, command) for command in commands]
        self._made[document.uri] = classes, state, made
        return made

    def _forget(self, document: Document) -> None:
        self._made.pop(document.uri, None)


def register(server: StarkServer, desk: Desk) -> None:
    """Answer `textDocument/codeLens`."""
    made = Lenses(server, desk)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    def lenses(params: types.CodeLensParams) -> list[dict[str, Any]]:
        place = server.notebooks.place(params.text_document.uri)
        if place is None:
            return []
        found = made.of(place.document)
        return found if place.last is None else list(_within(found, place))


def _within(lenses: list[dict[str, Any]], place: Place) -> Iterator[dict[str, Any]]:
    """Yield the lenses of a cell, with its own lines."""
    for lens in lenses:
        ends = {end: dict(at) for end, at in lens["range"].items()}
        if place.holds(ends["start"]["line"]):
            for at in ends.values():
                at["line"] -= place.first
            yield {**lens, "range": ends}
