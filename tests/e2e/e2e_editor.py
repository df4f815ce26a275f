"""A test editor: a pytest-lsp client with documents that it edits, and an answer to `workspace/applyEdit`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Union

import attrs
import psutil
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities, make_test_lsp_client

from stark_lsp.core.editing import Replacement, apply_edits, keep_ends
from stark_lsp.server.text.positions import Units, uri_of

PATIENCE_S = 60.0
"""How long anything may take before a test gives up; nothing that is measured depends on it."""

MODULE = '''"""A module for the tests of the server."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = 0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


def get_inputs():
    return [torch.randn(256, 1024)]


def get_init_inputs():
    return []
'''
"""The tanh form of GELU on 256x1024; small, with one anchor and plenty to gain."""

SMALL = {
    "model": "playbook",
    "playbookFirst": False,
    "attempts": 2,
    "timingRounds": 3,
    "finalTimingRounds": 5,
    "compileBaseline": False,
    "device": "cpu",
    "evaluation": {
        "seeds": 2,
        "warmup": 1,
        "round_ms": 5.0,
        "profile": False,
        "gradients": False,
        "special_inputs": False,
    },
}
"""Settings of a short run."""


@attrs.define
class OwnAnswer:
    """The server's answer to a request of its own, its result as the JSON it is: pygls would make objects of it."""

    id: Any
    jsonrpc: str
    result: Any


def everything() -> types.ClientCapabilities:
    """Return the capabilities of a client that can do all the server makes use of, pulled diagnostics included."""
    rich = client_capabilities("visual-studio-code")
    assert rich.text_document is not None
    assert rich.workspace is not None
    rich.text_document.diagnostic = types.DiagnosticClientCapabilities(dynamic_registration=False)
    rich.workspace.diagnostics = types.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
    return rich


def published() -> types.ClientCapabilities:
    """Return VS Code's capabilities, with diagnostics that are published."""
    return client_capabilities("visual-studio-code")


def neovim() -> types.ClientCapabilities:
    """Return the capabilities of Neovim."""
    return client_capabilities("neovim")


class Editor:
    """One client with one server.

    Parameters
    ----------
    client
        The client, connected.
    """

    def __init__(self, client: LanguageClient) -> None:
        self.client = client
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.edits: list[types.ApplyWorkspaceEditParams] = []
        """What the server asked to apply."""
        self.questions: list[types.ShowMessageRequestParams] = []
        self.lens_refreshes = 0
        self.executed: list[Any] = []
        self.answer: str | None = None
        """The button that is pressed on the next question; None closes it."""
        self.policy: str | Callable[[], None] = "accept"
        """What happens to an edit: `accept`, `refuse`, `stale` (the version does not fit), `garble` (something else
        is written and success reported) or `silent` (the edit is made, but `tell` must be called to say so)."""
        self.held: asyncio.Event | None = None
        """If there is one, a question stays open until it is set."""
        self.withdrawn = 0
        """Questions that the server took back."""
        # lsprotocol takes any object with a `command` for a bare command, code actions with one included.
        union = Union[types.Command, types.CodeAction]  # noqa: UP007 - the hook is found by this spelling
        client.protocol._converter.register_structure_hook(union, self._action)
        # pygls marks what it registers, which a bound method does not allow.
        client.feature(types.WORKSPACE_APPLY_EDIT)(lambda params: self._apply(params))

        @client.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)
        async def question(params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
            return await self._question(params)

        client.feature(types.WORKSPACE_CODE_LENS_REFRESH)(lambda params: self._refresh())
        client.feature(types.CLIENT_REGISTER_CAPABILITY)(lambda params: None)
        client.feature("stark/execute")(lambda params: self.executed.append(params))
        self.runs_changed = 0
        """How often the server said that runs have changed."""
        client.feature("stark/runs/changed")(lambda params: self._runs_changed())
        # pygls would make objects with attributes of JSON, which may have no attribute `class`.
        answered = client.protocol.get_result_type
        client.protocol.get_result_type = lambda method: OwnAnswer if method.startswith("stark/") else answered(method)

    # --- what a person does --------------------------------------------------------------------------

    def open(self, path: Path, text: str | None = None) -> str:
        """Open a file; return its URI."""
        uri = uri_of(path)
        self.texts[uri] = path.read_text() if text is None else text
        self.versions[uri] = 1
        item = types.TextDocumentItem(uri, "python", 1, self.texts[uri])
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def type(self, uri: str, line: int, column: int, text: str, *, until: tuple[int, int] | None = None) -> None:
        """Replace the range from (line, column) to `until`, by default nothing, with `text`."""
        end = until or (line, column)
        place = types.Range(types.Position(line, column), types.Position(*end))
        self.texts[uri] = apply_edits(self.texts[uri], [Replacement(line, column, *end, text)])
        self._changed(uri, [types.TextDocumentContentChangePartial(place, text)])

    def tell(self, uri: str) -> None:
        """Tell the server of the whole text."""
        self._changed(uri, [types.TextDocumentContentChangeWholeDocument(self.texts[uri])])

    def close(self, uri: str) -> None:
        """Close a document."""
        del self.texts[uri]
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    async def lenses(self, uri: str) -> list[types.CodeLens]:
        params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
        return list(await self.client.text_document_code_lens_async(params) or ())

    async def titles(self, uri: str) -> list[str]:
        """Return the titles of the lenses."""
        return [lens.command.title for lens in await self.lenses(uri) if lens.command is not None]

    async def actions(
        self, uri: str, line: int, only: list[str] | None = None, diagnostics: list[types.Diagnostic] | None = None
    ) -> list[types.CodeAction]:
        place = types.Range(types.Position(line, 0), types.Position(line, 0))
        context = types.CodeActionContext(diagnostics or [], only=only)
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), place, context)
        found = await self.client.text_document_code_action_async(params) or ()
        return [action for action in found if isinstance(action, types.CodeAction)]

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        """Ask for what an action leaves out, as a preview does."""
        return await self.client.code_action_resolve_async(action)

    async def choose(self, action: types.CodeAction) -> None:
        """Do what a client does when an action is chosen: its edit, then its command."""
        resolved = await self.resolve(action)
        if resolved.edit is not None and not self._apply(types.ApplyWorkspaceEditParams(resolved.edit)).applied:
            return
        await self.run(action.command)

    async def hover(self, uri: str, line: int, column: int = 10) -> str | None:
        params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, column))
        answer = await self.client.text_document_hover_async(params)
        if answer is None:
            return None
        assert isinstance(answer.contents, types.MarkupContent)
        return answer.contents.value

    async def pull(self, uri: str) -> list[types.Diagnostic]:
        params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri))
        report = await self.client.text_document_diagnostic_async(params)
        assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
        return list(report.items)

    async def execute(self, command: str, *arguments: Any) -> dict[str, Any]:
        """Run a command and return its answer."""
        params = types.ExecuteCommandParams(command, list(arguments))
        answer = await self.client.workspace_execute_command_async(params)
        if answer is None:
            return {}
        return dict(answer._asdict()) if hasattr(answer, "_asdict") else dict(answer)

    async def own(self, method: str, **params: Any) -> Any:
        """Send a request of our own and return its result as the JSON it is."""
        return await self.client.protocol.send_request_async(method, params)

    async def run(self, command: types.Command | None) -> dict[str, Any]:
        """Run what a lens or an action carries."""
        assert command is not None
        return await self.execute(command.command, *(command.arguments or ()))

    # --- what a person sees --------------------------------------------------------------------------

    @property
    def messages(self) -> list[str]:
        return [params.message for params in self.client.messages]

    def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        """Return what was published for a document."""
        return list(self.client.diagnostics.get(uri, ()))

    def reports(self) -> list[Any]:
        """Return all progress values, of all tokens."""
        return [value for values in self.client.progress_reports.values() for value in values]

    def progress_ended(self) -> bool:
        return any(isinstance(value, types.WorkDoneProgressEnd) for value in self.reports())

    async def until(self, seen: Callable[[], object], what: str, limit_s: float = PATIENCE_S) -> None:
        """Wait until `seen` is true."""
        deadline = time.monotonic() + limit_s
        while not seen():
            if time.monotonic() > deadline:
                raise AssertionError(f"never seen: {what}; messages: {self.messages}")
            await asyncio.sleep(0.02)

    async def until_message(self, part: str) -> str:
        """Wait for a message with `part` in it."""
        await self.until(lambda: any(part in text for text in self.messages), f"a message with {part!r}")
        return next(text for text in self.messages if part in text)

    async def until_question(self) -> types.ShowMessageRequestParams:
        """Wait for a message with buttons."""
        await self.until(lambda: self.questions, "a message with buttons")
        return self.questions[-1]

    # --- processes -----------------------------------------------------------------------------------

    @property
    def server(self) -> psutil.Process:
        process = self.client._server
        assert process is not None
        return psutil.Process(process.pid)

    def workers(self) -> list[psutil.Process]:
        """Return all processes below the server."""
        return self.server.children(recursive=True)

    # --- answers to the server -----------------------------------------------------------------------

    def _changed(self, uri: str, events: list[types.TextDocumentContentChangeEvent]) -> None:
        self.versions[uri] += 1
        identifier = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, events))

    def _apply(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        self.edits.append(params)
        if self.policy == "refuse":
            return types.ApplyWorkspaceEditResult(applied=False, failure_reason="the user said no")
        changes = _document_edits(params.edit)
        for uri, version, _ in changes:
            if self.policy == "stale" or (version is not None and version != self.versions.get(uri)):
                return types.ApplyWorkspaceEditResult(applied=False, failure_reason="the document changed")
        for operation in params.edit.document_changes or ():
            if isinstance(operation, types.CreateFile):
                path = Path(operation.uri.removeprefix("file://"))
                if path.exists():
                    return types.ApplyWorkspaceEditResult(applied=False, failure_reason="the file exists")
                path.write_text("")
                self.texts[operation.uri], self.versions[operation.uri] = "", 0
        for uri, _, edits in changes:
            text = self.texts.get(uri)
            known = text is not None and self.versions[uri] > 0
            path = Path(uri.removeprefix("file://"))
            text = path.read_text() if text is None else text
            lines, units = keep_ends(text), Units("utf-16")
            places = [
                Replacement(*units.place(lines, e.range.start), *units.place(lines, e.range.end), _new_text(e))
                for e in edits
            ]
            after = apply_edits(text, places)
            if self.policy == "garble":
                after = after.replace("torch", "troch", 1)
            if known:
                self.texts[uri] = after
                if self.policy != "silent":
                    self.tell(uri)
            else:
                path.write_text(after)
        return types.ApplyWorkspaceEditResult(applied=True)

    def _action(self, data: dict[str, Any], _: type) -> types.Command | types.CodeAction:
        kind = types.Command if isinstance(data.get("command"), str) else types.CodeAction
        return self.client.protocol._converter.structure(data, kind)

    async def _question(self, params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
        self.questions.append(params)
        if self.held is not None:
            try:
                await self.held.wait()
            except asyncio.CancelledError:
                self.withdrawn += 1
                raise
        return types.MessageActionItem(self.answer) if self.answer is not None else None

    def _runs_changed(self) -> None:
        self.runs_changed += 1

    def _refresh(self) -> None:
        self.lens_refreshes += 1


def _new_text(edit: Any) -> str:
    assert isinstance(edit.new_text, str)
    return edit.new_text


def _document_edits(edit: types.WorkspaceEdit) -> list[tuple[str, int | None, list[Any]]]:
    if edit.document_changes is not None:
        return [
            (change.text_document.uri, change.text_document.version, list(change.edits))
            for change in edit.document_changes
            if isinstance(change, types.TextDocumentEdit)
        ]
    return [(uri, None, list(edits)) for uri, edits in (edit.changes or {}).items()]


def environment(state: Path) -> dict[str, str]:
    """Return the environment of a server that keeps its state in `state`."""
    return {**os.environ, "STARK_STATE_DIR": str(state), "PYTHONUNBUFFERED": "1"}


_kept: dict[str, bytes] = {}
"""What the first server compiled of the protocol's types, by file; the others find it in their state directories."""


async def connect(
    capabilities: types.ClientCapabilities,
    state: Path,
    settings: dict[str, Any],
    folders: dict[Path, dict[str, Any]] | None = None,
    command: Sequence[str] = (sys.executable, "-m", "stark_lsp", "serve"),
) -> Editor:
    """Start a server and initialize it; `folders` are open, each with settings of its own."""
    for name, content in _kept.items():
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        (state / name).write_bytes(content)
    config = ClientServerConfig(
        server_command=list(command),
        client_factory=make_test_lsp_client,
        server_env=environment(state),
    )
    client = await config.start()
    assert isinstance(client, LanguageClient)
    editor = Editor(client)
    client.set_configuration(settings, section="stark")
    for folder, its in (folders or {}).items():
        client.set_configuration({**settings, **its}, section="stark", scope_uri=uri_of(folder))
    await client.initialize_session(
        types.InitializeParams(
            capabilities=capabilities,
            root_uri=None,
            initialization_options={"stark": settings},
            process_id=os.getpid(),
            workspace_folders=[types.WorkspaceFolder(uri_of(folder), folder.name) for folder in folders]
            if folders
            else None,
        )
    )
    if not _kept:
        _kept.update((path.name, path.read_bytes()) for path in state.glob("protocol-*.bin"))
    return editor


@contextlib.asynccontextmanager
async def session(
    capabilities: types.ClientCapabilities,
    state: Path,
    settings: dict[str, Any] | None = None,
    folders: dict[Path, dict[str, Any]] | None = None,
    **options: Any,
) -> AsyncIterator[Editor]:
    """A server from start to orderly exit; options as of `connect`."""
    editor = await connect(capabilities, state, {**SMALL, **(settings or {})}, folders, **options)
    try:
        yield editor
    finally:
        client = editor.client
        with contextlib.suppress(Exception):
            await asyncio.wait_for(client.shutdown_session(), 10)
        process = client._server
        if process is not None and process.returncode is None:
            process.kill()
        await client.stop()


def heard(editor: Editor, method: str) -> list[Any]:
    """Collect what a request of the server brings."""
    got: list[Any] = []
    editor.client.protocol.fm.features.pop(method, None)
    editor.client.feature(method)(lambda params=None: got.append(params))
    return got


def gone(processes: list[psutil.Process], limit_s: float = 60.0) -> bool:
    """Whether all processes end within the limit."""
    _, alive = psutil.wait_procs(processes, timeout=limit_s)
    return not [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
