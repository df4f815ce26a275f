"""The server object that all features share: documents, settings, the client's abilities, the runs."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from stark_lsp import __version__
from stark_lsp.core.errors import BadInput, Fault, StarkError
from stark_lsp.server.client.abilities import ClientFacts
from stark_lsp.server.client.configuration import Configuration
from stark_lsp.server.connection.protocol import StarkProtocol, Unshown
from stark_lsp.server.text import wording
from stark_lsp.server.text.documents import Document, Documents
from stark_lsp.server.text.notebooks import SYNC, Notebooks
from stark_lsp.server.text.positions import Units, uri_of

logger = logging.getLogger(__name__)

SETTINGS_S = 60.0
"""Seconds that a client is given to tell its settings."""

Handler = Callable[..., Any]
Closer = Callable[[], Coroutine[Any, Any, None]]


class StarkServer(LanguageServer):
    """The language server."""

    protocol: StarkProtocol

    def __init__(self) -> None:
        super().__init__(
            "stark-lsp",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            protocol_cls=StarkProtocol,
            converter_factory=default_converter,
            max_workers=1,
            notebook_document_sync=SYNC,
        )
        self.facts = ClientFacts()
        self.documents = Documents()
        self.notebooks = Notebooks(self)
        self.initial: dict[str, Any] = {}
        """The `stark` section of the initialization options."""
        self.configuration = Configuration()
        self.of_folders: dict[str, Configuration] = {}
        """The settings of each folder by its path, where several are open."""
        self.diff_view = False
        """Whether the client shows a diff itself when `stark.review` answers with both texts."""
        self.configured = asyncio.Event()
        """Set once the client's settings are known, or will not be."""
        self.leaving = asyncio.Event()
        """Set when the server is to leave."""
        self.begun = False
        """Whether the client has initialized the server."""
        self.shutdown_asked = False
        self.exit_code = 1
        """Exit code of the process; 0 after an orderly `shutdown` and `exit`."""
        self.on_open: list[Callable[[Document], None]] = []
        self.on_changed: list[Callable[[Document], None]] = []
        self.on_close: list[Callable[[Document], None]] = []
        self.on_configured: list[Callable[[], None]] = []
        self.on_initialized: list[Callable[[], None]] = []
        self.cancels: dict[types.ProgressToken, Callable[[], None]] = {}
        """What to do when the user cancels a progress, by its token."""
        self.awaited: dict[str, asyncio.Future[Unshown]] = {}
        """Requests of our own that the client has not answered, by their id."""
        self._withdrawn: set[str] = set()
        """Requests whose answers are not needed any more."""
        self.provides: frozenset[str] = frozenset()
        """What the client offers beyond the protocol, as it said in its initialization options: see `client`."""
        self.closers: list[Closer] = []
        """What must end before the process leaves."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed: asyncio.Task[None] | None = None

    # --- life ---------------------------------------------------------------------------------------

    def begin(self, facts: ClientFacts, encoding: str) -> None:
        """Take over what `initialize` brought."""
        self.begun = True
        self.facts = facts
        self.documents.units = Units(encoding)

    def leave(self, code: int) -> None:
        """Leave the process with this exit code, once what runs has ended."""
        self.exit_code = code
        self.leaving.set()

    async def close(self) -> None:
        """End what runs; may be called more than once, and waits for the first."""
        if self._closed is None:
            self._closed = asyncio.create_task(self._close())
        await asyncio.shield(self._closed)

    async def _close(self) -> None:
        for result in await asyncio.gather(*(closer() for closer in self.closers), return_exceptions=True):
            if isinstance(result, BaseException):
                logger.error("while closing: %r", result)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine in the background, keep it alive, and report it if it breaks."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, StarkError):
            if isinstance(error, Fault):
                logger.error("%s failed", task.get_name(), exc_info=error)
            self.refuse(error)
        elif error is not None:
            logger.error("%s failed", task.get_name(), exc_info=error)
            self.say(f"STARK: {task.get_name()} failed: {error!r}. The server's log has the details.", error=True)

    # --- speaking to the client -----------------------------------------------------------------------

    async def ask(self, method: str, params: Any, number: str | None = None) -> Any:
        """Send a request and return the client's answer; `number` is its id if it may be withdrawn.

        The request outlives a cancellation of the caller: pygls raises when the answer to a cancelled
        request arrives.

        Raises
        ------
        JsonRpcException
            The client answered with an error.
        BadInput
            An edit of a notebook is not one of its cells.
        """
        if isinstance(params, types.ApplyWorkspaceEditParams):
            params.edit = self.notebooks.placed(params.edit)
        future = asyncio.wrap_future(self.protocol.send_request(method, params, msg_id=number))
        # An error that nobody waits for any more is nobody's concern.
        future.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return await asyncio.shield(future)

    def withdraw(self, number: str) -> None:
        """Tell the client that the answer to a request is not needed any more; it may answer all the same."""
        self._withdrawn.add(number)
        self.protocol.notify(types.CANCEL_REQUEST, types.CancelParams(number))

    async def ask_own(self, method: str, params: Any, limit_s: float) -> Any:
        """Send a request of our own and return the JSON that the client answers.

        If the caller is cancelled or the time is over, the client is told that the answer is not needed any more.

        Raises
        ------
        JsonRpcException
            The client answered with an error.
        asyncio.TimeoutError
            It did not answer in time.
        """
        number = str(uuid.uuid4())
        future: asyncio.Future[Unshown] = asyncio.get_running_loop().create_future()
        self.awaited[number] = future
        self.protocol.ask_own(number, method, params)
        try:
            # Not `asyncio.wait_for`: before Python 3.12 it can swallow a cancel that comes together with the answer.
            done, _ = await asyncio.wait({future}, timeout=limit_s)
            if not done:
                raise asyncio.TimeoutError
            return future.result().value
        finally:
            # Still there means not answered. It stays, as an ended future, for an answer that comes all the same.
            if number in self.awaited:
                future.cancel()
                self.withdraw(number)

    async def ask_or_none(self, method: str, params: Any) -> Any:
        """Do as `ask`, but log an error answer and return None for it."""
        try:
            return await self.ask(method, params)
        except JsonRpcException as error:
            self.log(f"the client refused {method}: {error}")
            return None

    async def register_later(self, name: str, method: str, options: Any) -> None:
        """Register with the client what was not told in the answer to `initialize`; `name` is its id."""
        registration = types.Registration(name, method, options)
        await self.ask_or_none(types.CLIENT_REGISTER_CAPABILITY, types.RegistrationParams([registration]))

    async def choose(
        self, text: str, titles: Iterable[str], otherwise: str, *, warning: bool = False, number: str | None = None
    ) -> str | None:
        """Show a message with buttons; return the title of the one that was pressed, None if it was closed.

        Parameters
        ----------
        otherwise
            What is said in its place to a client that shows no such messages.
        number
            Id of the request, if the question may be withdrawn.
        """
        if self.facts.message_actions:
            kind = types.MessageType.Warning if warning else types.MessageType.Info
            params = types.ShowMessageRequestParams(kind, text, [types.MessageActionItem(title) for title in titles])
            try:
                return getattr(await self.ask(types.WINDOW_SHOW_MESSAGE_REQUEST, params, number), "title", None)
            except JsonRpcException as error:
                self.log(f"a question was not answered: {error}")
                if number in self._withdrawn:
                    return None  # the client took it away
        self.say(otherwise, warning=warning)
        return None

    async def apply(self, edit: types.WorkspaceEdit, label: str, limit_s: float | None = None) -> str | None:
        """Have the client apply an edit; return None if it did, else its reason, which may be empty.

        Parameters
        ----------
        limit_s
            How long its answer is waited for; None for as long as it takes, as where the user looks at it first.
        """
        params = types.ApplyWorkspaceEditParams(edit, label)
        asking = asyncio.ensure_future(self.ask(types.WORKSPACE_APPLY_EDIT, params))
        try:
            # Not `asyncio.wait_for`: see `ask_own`.
            if not (await asyncio.wait({asking}, timeout=limit_s))[0]:
                return "it does not answer"
            result = asking.result()
        except JsonRpcException as error:
            return str(error)
        finally:
            asking.cancel()
        return None if getattr(result, "applied", False) else getattr(result, "failure_reason", None) or ""

    async def show(self, place: str | Path, selection: types.Range | None = None, *, external: bool = False) -> bool:
        """Have the client open a URI or a file, in its browser if `external`; False if it did not."""
        if not self.facts.show_document:
            return False
        uri, focus = uri_of(place) if isinstance(place, Path) else place, None if external else True
        params = types.ShowDocumentParams(uri, external=external, take_focus=focus, selection=selection)
        return getattr(await self.ask_or_none(types.WINDOW_SHOW_DOCUMENT, params), "success", False)

    async def settled(self) -> None:
        """Return once the client's settings are known: by others a model could be asked that was not chosen.

        Raises
        ------
        BadInput
            It does not tell them.
        """
        if not self.configured.is_set():
            from stark_lsp.runs.time_limit import event_or

            await event_or(self.configured, SETTINGS_S)
        if not self.configured.is_set():
            raise BadInput(
                "The editor has not told the settings of STARK yet.",
                cure="Try again in a moment, or restart the editor.",
            )

    def own_command(self, name: str) -> Callable[[Handler], Handler]:
        """Register a command; a `StarkError` that its handler raises is told to the user, and is its answer."""

        def register(handler: Handler) -> Handler:
            @self.command(name)
            async def command(*arguments: Any) -> Any:
                try:
                    await self.settled()
                    answer = handler(*arguments)
                    return answer if isinstance(answer, dict) else await answer
                except StarkError as error:
                    return self.refuse(error)

            return handler

        return register

    def refuse(self, error: StarkError) -> dict[str, Any]:
        """Tell the user why something is not done, and return that as the answer of a command."""
        if error.details:
            self.log(error.details)
        self.say(wording.trouble(error), error=isinstance(error, Fault), warning=not isinstance(error, Fault))
        return {"status": "error", "message": str(error)}

    def say(self, message: str, *, error: bool = False, warning: bool = False) -> None:
        """Show a message to the user."""
        kind = types.MessageType.Error if error else types.MessageType.Warning if warning else types.MessageType.Info
        self.window_show_message(types.ShowMessageParams(kind, message))

    def log(self, message: str) -> None:
        """Write a line to the client's log."""
        self.window_log_message(types.LogMessageParams(types.MessageType.Log, message))

    def refresh_lenses(self) -> None:
        """Have the client ask for lenses again, if it can be told."""
        if self.facts.lens_refresh:
            self.spawn(self.ask_or_none(types.WORKSPACE_CODE_LENS_REFRESH, None), "lens refresh")

    def refresh_hints(self) -> None:
        """Have the client ask for inlay hints again, if it shows them and can be told."""
        if self.facts.hint_refresh and self.configuration["inlayHints"]:
            self.spawn(self.ask_or_none(types.WORKSPACE_INLAY_HINT_REFRESH, None), "inlay hint refresh")

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log errors of messages that no response can carry; a popup for each would help nobody."""
        logger.error("%s: %s", getattr(source, "__name__", source), error)
