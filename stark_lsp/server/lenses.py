"""Code lenses on each class line. Their number and place stay the same while a run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from stark_lsp.core.status import InputSource
from stark_lsp.server.views import Phase, RunView

if TYPE_CHECKING:
    from stark_lsp.discovery.classes import ModuleClass
    from stark_lsp.server.desk import Desk
    from stark_lsp.server.language_server import StarkServer

OPTIMIZE = "stark.optimize"
ADD_INPUTS = "stark.addInputs"
CANCEL = "stark.cancel"
REVIEW = "stark.review"
ACCEPT = "stark.accept"
REJECT = "stark.reject"
DISMISS = "stark.dismiss"


def start_command(uri: str, cls: ModuleClass) -> types.Command:
    """Return the command that starts with a class: optimize it, or give it inputs first."""
    if cls.inputs.source is InputSource.NONE:
        return types.Command("Add get_inputs for STARK", ADD_INPUTS, arguments=[uri, cls.qualname])
    return types.Command("Optimize with STARK", OPTIMIZE, arguments=[uri, cls.qualname])


def decision_commands(view: RunView) -> list[types.Command]:
    """Return the commands for a proposal that waits for a decision."""
    if view.phase is not Phase.OFFERED:
        return []
    arguments = [{"run": view.id}]
    return [
        types.Command("Review", REVIEW, arguments=arguments),
        types.Command("Accept", ACCEPT, arguments=arguments),
        types.Command("Reject", REJECT, arguments=arguments),
    ]


def register(server: StarkServer, desk: Desk) -> None:
    """Answer `textDocument/codeLens`."""

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    def lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        document = server.documents.get(uri)
        if document is None or document.path is None:
            return []
        views = {view.problem.qualname: view for view in desk.at(uri)}
        found: list[types.CodeLens] = []
        for cls in document.offered:
            place = server.documents.units.range(
                document.lines, (cls.name_line, cls.name_start), (cls.name_line, cls.name_end)
            )
            commands = [start_command(document.uri, cls)]
            if (view := views.get(cls.qualname)) is not None:
                commands += decision_commands(view)
            found += [types.CodeLens(place, command) for command in commands]
        return found
