"""The same commands as code actions, for editors without lenses and for the keyboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lsprotocol import types

from stark_lsp.server.diagnostics import SOURCE
from stark_lsp.server.lenses import CANCEL, DISMISS, decision_commands, start_command
from stark_lsp.server.text import overlaps
from stark_lsp.server.views import RunView

if TYPE_CHECKING:
    from stark_lsp.discovery.classes import ModuleClass
    from stark_lsp.server.desk import Desk
    from stark_lsp.server.language_server import StarkServer

REWRITE = types.CodeActionKind.RefactorRewrite
QUICK_FIX = types.CodeActionKind.QuickFix


def wanted(kind: str, only: Sequence[str] | None) -> bool:
    """Whether a kind is among those asked for; `refactor` asks for `refactor.rewrite` too (LSP 3.17, "Code Action")."""
    return only is None or any(asked == "" or kind == asked or kind.startswith(f"{asked}.") for asked in only)


def class_at(classes: Sequence[ModuleClass], start: int, end: int) -> ModuleClass | None:
    """Return the innermost class that shares a line with the selection."""
    touched = [cls for cls in classes if overlaps(cls.span, start, end)]
    return min(touched, key=lambda cls: cls.span.end - cls.span.start, default=None)


def run_commands(view: RunView) -> list[types.Command]:
    """Return what can be done about a run, with titles that stand without the class's line before them."""
    name = view.problem.class_name
    arguments = [{"run": view.id}]
    if view.active:
        return [types.Command(f"Cancel optimizing {name}", CANCEL, arguments=arguments)]
    named = [
        types.Command(f"{command.title} the STARK proposal for {name}", command.command, arguments=command.arguments)
        for command in decision_commands(view)
    ]
    return [*named, types.Command(f"Dismiss the STARK plans for {name}", DISMISS, arguments=arguments)]


def register(server: StarkServer, desk: Desk) -> None:
    """Answer `textDocument/codeAction`."""

    options = types.CodeActionOptions(code_action_kinds=[REWRITE, QUICK_FIX], resolve_provider=False)

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)
    def code_actions(params: types.CodeActionParams) -> list[types.CodeAction | types.Command]:
        uri = params.text_document.uri
        document = server.documents.get(uri)
        if document is None or document.path is None:
            return []
        only = params.context.only
        start, end = params.range.start.line, params.range.end.line
        actions: list[types.CodeAction] = []
        cls = class_at(document.offered, start, end)
        views = desk.at(uri)
        if wanted(REWRITE, only):
            if cls is not None:
                command = start_command(document.uri, cls)
                title = f"{command.title}: {cls.qualname}"
                actions.append(types.CodeAction(title, kind=REWRITE, command=command))
            for view in views:
                if cls is not None and view.problem.qualname == cls.qualname:
                    actions += [types.CodeAction(c.title, kind=REWRITE, command=c) for c in run_commands(view)]
        if wanted(QUICK_FIX, only):
            shown: dict[str, list[types.Diagnostic]] = {}
            for diagnostic in params.context.diagnostics:
                shown.setdefault(_run_of(diagnostic), []).append(diagnostic)
            for view in views:
                if view.id in shown:
                    actions += [
                        types.CodeAction(c.title, kind=QUICK_FIX, diagnostics=shown[view.id], command=c)
                        for c in run_commands(view)
                    ]
        if server.facts.action_literals:
            return list(actions)
        return [types.Command(a.title, a.command.command, arguments=a.command.arguments) for a in actions if a.command]


def _run_of(diagnostic: types.Diagnostic) -> str:
    data = diagnostic.data
    if diagnostic.source != SOURCE or data is None:
        return ""
    run = data.get("run") if isinstance(data, dict) else getattr(data, "run", "")
    return run if isinstance(run, str) else ""
