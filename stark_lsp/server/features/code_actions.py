"""The same commands as code actions, for editors without lenses and for the keyboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from stark_lsp.core.status import InputSource
from stark_lsp.server.client.abilities import LENT_INPUT
from stark_lsp.server.features import steering
from stark_lsp.server.features.capturing import CAPTURE
from stark_lsp.server.features.capturing import TITLE as CAPTURE_TITLE
from stark_lsp.server.features.diagnostics import SOURCE
from stark_lsp.server.features.inputs import MARK
from stark_lsp.server.features.lenses import ACCEPT, CANCEL, DISMISS, OPTIMIZE, decision_commands, start_command
from stark_lsp.server.proposals import afterwards
from stark_lsp.server.runs.views import Phase, RunView

if TYPE_CHECKING:
    from stark_lsp.discovery.classes import ModuleClass
    from stark_lsp.server.language_server import StarkServer
    from stark_lsp.server.proposals.offering import Proposals
    from stark_lsp.server.runs.desk import Desk
    from stark_lsp.server.runs.kept import Kept

REWRITE = types.CodeActionKind.RefactorRewrite
QUICK_FIX = types.CodeActionKind.QuickFix


def wanted(kind: str, only: Sequence[str] | None) -> bool:
    """Whether a kind is among those asked for; `refactor` asks for `refactor.rewrite` too (LSP 3.17, "Code Action")."""
    return only is None or any(asked == "" or kind == asked or kind.startswith(f"{asked}.") for asked in only)


def class_at(classes: Sequence[ModuleClass], start: int, end: int) -> ModuleClass | None:
    """Return the innermost class that shares a line with the selection."""
    touched = [cls for cls in classes if cls.span.start <= end and start <= cls.span.end]
    return min(touched, key=lambda cls: cls.span.end - cls.span.start, default=None)


def run_commands(view: RunView) -> list[types.Command]:
    """Return what can be done about a run, with titles that stand without the class's line before them."""
    name = view.problem.class_name
    arguments = [{"run": view.id}]
    if view.active:
        cancel = types.Command(f"Cancel optimizing {name}", CANCEL, arguments=arguments)
        if view.phase is Phase.QUEUED:
            return [cancel]
        title, command = ("Go on", steering.RESUME) if view.paused else ("Pause", steering.PAUSE)
        return [cancel, types.Command(f"{title} optimizing {name}", command, arguments=arguments)]
    return [types.Command(f"Dismiss the STARK plans for {name}", DISMISS, arguments=arguments)]


def proposal_commands(view: RunView) -> list[types.Command]:
    """Return what can be decided on a proposal, accepting it first: editors without lenses offer the first one."""
    name = view.problem.class_name
    return [
        types.Command(f"{command.title} the STARK proposal for {name}", command.command, arguments=command.arguments)
        for command in sorted(decision_commands(view), key=lambda command: command.command != ACCEPT)
    ]


def start_commands(uri: str, cls: ModuleClass, view: RunView | None, kept: Kept) -> list[types.Command]:
    """Return how a run on a class begins: one that was interrupted goes on, one with a proposal open is asked for."""
    if view is not None and view.active:
        return []
    if view is not None and view.offer is not None:
        again = [{"uri": uri, "class": cls.qualname, "again": True}]
        title = f"Search for a better one than the STARK proposal for {view.problem.class_name}"
        return [types.Command(title, OPTIMIZE, arguments=again)]
    command = start_command(uri, cls)
    commands = [types.Command(f"{command.title}: {cls.qualname}", command.command, arguments=command.arguments)]
    left = kept.interrupted(uri, cls.qualname)
    if left is not None:
        go_on = [{"uri": uri, "class": cls.qualname, "run": left.id}]
        commands.insert(0, types.Command(f"Go on with the STARK run on {cls.qualname}", OPTIMIZE, arguments=go_on))
    return commands


def action(
    command: types.Command, kind: types.CodeActionKind, diagnostics: list[types.Diagnostic] | None = None
) -> types.CodeAction:
    """Return a command as a code action; accepting is what most users want of a proposal."""
    preferred = True if command.command == ACCEPT else None
    return types.CodeAction(command.title, kind=kind, diagnostics=diagnostics, is_preferred=preferred, command=command)


def resolvable(action: types.CodeAction) -> types.CodeAction:
    """Return the action with its edit left to `codeAction/resolve`, if it accepts a proposal.

    The client then shows the edit where it can and makes it; the command comes after that, and takes note of it.
    """
    command = action.command
    if command is None or command.command != ACCEPT or not command.arguments:
        return action
    argument: Any = command.arguments[0]
    action.data = argument
    action.command = types.Command(command.title, ACCEPT, arguments=[{**argument, "made": True}])
    return action


def steering_commands(view: RunView, node: int, asks: bool) -> list[types.Command]:
    """Return what can be told to a run about one of its attempts; nothing once it has ended.

    A hint is among it where the client `asks` for its text.
    """
    if view.phase is not Phase.RUNNING or (node not in view.nodes and node not in view.plans):
        return []
    pinned, pruned = view.course.pinned == node, node in view.course.pruned
    offers = [
        ("choose freely again", steering.UNPIN) if pinned else (f"go on from attempt {node}", steering.PIN),
        (f"take attempt {node} up again", steering.RESTORE) if pruned else (f"give attempt {node} up", steering.PRUNE),
    ]
    if asks:
        offers.append((f"tell the agents about attempt {node}…", steering.HINT))
    arguments = [{"run": view.id, "node": node}]
    return [types.Command(f"STARK: {title}", command, arguments=arguments) for title, command in offers]


def register(server: StarkServer, desk: Desk, proposals: Proposals, kept: Kept) -> None:
    """Answer `textDocument/codeAction` and `codeAction/resolve`."""

    options = types.CodeActionOptions(code_action_kinds=[REWRITE, QUICK_FIX], resolve_provider=True)

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)
    def code_actions(params: types.CodeActionParams) -> list[types.CodeAction | types.Command]:
        place = server.notebooks.place(params.text_document.uri)
        if place is None or place.document.path is None:
            return []
        document, uri = place.document, place.document.uri
        only = params.context.only
        start, end = params.range.start.line + place.first, params.range.end.line + place.first
        actions: list[types.CodeAction] = []
        cls = class_at(document.offered, start, end)
        views = desk.at(uri)
        own = next((view for view in views if cls is not None and view.problem.qualname == cls.qualname), None)
        if wanted(REWRITE, only):
            if cls is not None:
                starts = start_commands(document.uri, cls, own, kept)
                told = [*proposal_commands(own), *run_commands(own)] if own is not None else []
                ordered = [*told, *starts] if own is not None and own.offer is not None else [*starts, *told]
                actions += [action(command, REWRITE) for command in ordered]
            brought = class_at(document.classes, start, end)
            if brought is not None:
                actions += [action(command, REWRITE) for command in afterwards.commands_for(document, brought)]
            functions = cls is not None and cls.inputs.source is InputSource.FUNCTIONS and MARK not in document.text
            if cls is not None and not functions and place.last is None:
                captured = types.Command(CAPTURE_TITLE, CAPTURE, arguments=[document.uri, cls.qualname])
                actions.append(types.CodeAction(f"{CAPTURE_TITLE}: {cls.qualname}", kind=REWRITE, command=captured))
        if wanted(QUICK_FIX, only):
            shown: dict[str, list[types.Diagnostic]] = {}
            for diagnostic in params.context.diagnostics:
                shown.setdefault(_run_of(diagnostic), []).append(diagnostic)
            for view in views:
                if view.id in shown:
                    actions += [action(command, QUICK_FIX, shown[view.id]) for command in proposal_commands(view)]
                    asks = LENT_INPUT in server.provides and steering.is_read(view)
                    for diagnostic in shown[view.id]:
                        told = steering_commands(view, _node_of(diagnostic), asks)
                        actions += [action(command, QUICK_FIX, [diagnostic]) for command in told]
                    actions += [action(command, QUICK_FIX, shown[view.id]) for command in run_commands(view)]
            refused = [one for one in shown.get("", ()) if one.source == SOURCE]
            if cls is not None and refused:
                # What stood in the way at the last click: give it inputs, or try again when it is mended.
                actions += [action(one, QUICK_FIX, refused) for one in start_commands(document.uri, cls, own, kept)[:1]]
        if server.facts.action_literals:
            return [resolvable(one) for one in actions] if server.facts.resolves_edit else list(actions)
        return [types.Command(a.title, a.command.command, arguments=a.command.arguments) for a in actions if a.command]

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(params: types.CodeAction) -> types.CodeAction:
        run = member(params.data, "run")
        params.edit = await proposals.edit_for(run) if isinstance(run, str) else None
        return params


def _run_of(diagnostic: types.Diagnostic) -> str:
    run = _datum(diagnostic, "run")
    return run if isinstance(run, str) else ""


def _node_of(diagnostic: types.Diagnostic) -> int:
    node = _datum(diagnostic, "node")
    # A number may have become another kind of number on its way through the client.
    return int(node) if isinstance(node, (int, float)) and node == int(node) else -1


def _datum(diagnostic: types.Diagnostic, name: str) -> Any:
    return member(diagnostic.data, name) if diagnostic.source == SOURCE else None


def member(data: Any, name: str) -> Any:
    """Return a member of JSON that came back from the client."""
    return data.get(name) if isinstance(data, dict) else getattr(data, name, None)
