"""From the body of a message to its handler, and back: pygls' protocol where LSP 3.17 asks for more.

1. Every request gets exactly one answer, also one that is no JSON, has invalid parameters or comes out of its turn
   (before `initialize`, after `shutdown`).
2. A cancelled request stops what it has begun.
3. Documents are kept by `Documents`, and the process is left in an orderly way.
4. What may hold a key is never logged.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import re
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from cattrs import transform_error
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.protocol.json_rpc import JsonRPCResponseMessage

if TYPE_CHECKING:
    from stark_lsp.server.language_server import StarkServer

logger = logging.getLogger(__name__)

KEY_CHANGED = "stark/key/changed"
"""Notification of the client: see `keys`."""
REASON = 400
"""Most characters of the reason why a message is refused."""


class Unshown:
    """An answer that may hold a key; asyncio's debug mode prints what a future holds."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class StarkProtocol(LanguageServerProtocol):
    """See the module."""

    _server: StarkServer

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._begun: dict[Any, Future[Any]] = {}
        """What a request that is being handled waits for, by the request's id: see `_cancel`."""

    # --- messages that come in ------------------------------------------------------------------------

    def receive(self, body: bytes) -> None:
        """Handle the body of one message."""
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            self._refuse(None, JsonRpcParseError(f"This is not JSON: {error}"))
            return
        if not isinstance(message, dict):
            self._refuse(None, JsonRpcInvalidRequest("A message is a JSON object."))
        elif "method" not in message and ("result" in message or "error" in message):
            self._take_answer(message)
        elif isinstance(message.get("method"), str) and "id" not in message:
            contextvars.copy_context().run(self._take_notification, message)
        else:
            # Each handler has a context of its own: it knows the request by it.
            contextvars.copy_context().run(self._take_request, message)

    def _take_request(self, message: dict[str, Any]) -> None:
        number: Any = message.get("id")
        method = message.get("method")
        try:
            if not _is_number(number):
                number = None
                raise JsonRpcInvalidRequest("The id of a request is a number or a text.")
            if not isinstance(method, str) or message.get("jsonrpc") != self.VERSION:
                raise JsonRpcInvalidRequest("A request has a method, and jsonrpc 2.0.")
            self._check_turn(method)
            self._get_handler(method)  # raises MethodNotFound
            # What is our own has its parameters as the JSON they are.
            kind = self.get_message_type(method)
            request = self._read(message, kind) if kind is not None else None
            if method == KEY_CHANGED or (request is not None and not hasattr(request, "id")):
                raise JsonRpcInvalidRequest(f"{method} is a notification.")
        except JsonRpcException as error:
            self._refuse(number, error, method)
        else:
            # Noted here and not in the handler: some clients send `exit` without waiting for the answer.
            self._server.shutdown_asked |= method == types.SHUTDOWN
            self._handle_request(number, method, message.get("params") if request is None else request.params)

    def _take_notification(self, message: dict[str, Any]) -> None:
        method = message["method"]
        try:
            if message.get("jsonrpc") != self.VERSION:
                raise JsonRpcInvalidRequest("A notification has jsonrpc 2.0.")
            if method not in (types.EXIT, types.CANCEL_REQUEST):
                self._check_turn(method)
            if method != types.CANCEL_REQUEST:
                self._get_handler(method)
            kind, params = self.get_message_type(method), message.get("params")
            if kind is not None:
                params = self._read({"params": None, **message}, kind).params
        except JsonRpcMethodNotFound:
            logger.info("a notification that nobody here knows: %r", method)
        except JsonRpcException as error:
            logger.warning("the notification %r is dropped: %s", method, error)
        else:
            self._handle_notification(method, params)

    def _check_turn(self, method: str) -> None:
        """Raise if a message comes out of its turn (LSP 3.17, "Server lifecycle")."""
        if self._server.shutdown_asked:
            raise JsonRpcInvalidRequest("The server was asked to shut down.")
        if self._server.begun == (method == types.INITIALIZE):
            if self._server.begun:
                raise JsonRpcInvalidRequest("The server was initialized before.")
            raise JsonRpcServerNotInitialized("The server was not initialized yet.")

    def _read(self, message: dict[str, Any], kind: type[Any]) -> Any:
        try:
            return self._converter.structure(message, kind)
        except Exception as error:  # whatever a converter of lsprotocol trips over, it is the message's fault
            reason = "; ".join(transform_error(error, path="message")).replace("message.", "")
            reason = re.sub(r"_([a-z])", lambda found: found.group(1).upper(), reason)[:REASON]
            raise JsonRpcInvalidParams(f"Invalid parameters: {reason}") from error

    def _refuse(self, number: Any, error: JsonRpcException, method: object = None) -> None:
        logger.warning("request %r (%r) is refused: %s", number, method, error)
        self._send_response(number, error=error.to_response_error())

    def ask_own(self, number: str, method: str, params: Any) -> None:
        """Send a request of our own, whose answer `StarkServer.awaited` gets as the JSON it is, and no log."""
        self._send_data({"jsonrpc": self.VERSION, "id": number, "method": method, "params": params})

    def _send_response(self, msg_id: Any, result: Any = None, error: types.ResponseError | None = None) -> None:
        # JSON goes out as it is: pygls would look at each part of it for objects of the protocol.
        answer = {"result": result} if error is None else {"error": error}
        self._send_data({"jsonrpc": self.VERSION, "id": msg_id, **answer})

    def _take_answer(self, message: dict[str, Any]) -> None:
        number: Any = message.get("id")
        own = self._server.awaited.pop(number, None) if isinstance(number, str) else None
        if own is None and (not _is_number(number) or number not in self._result_types):
            logger.warning("an answer to a request that is not open: %r", number)
            return
        kind = self._result_types.pop(number, None) or JsonRPCResponseMessage
        result, error = None, None
        try:
            if "error" in message:
                error = self._read(message, types.ResponseErrorMessage).error
            else:
                result = message["result"] if own is not None else self._read(message, kind).result
        except JsonRpcInvalidParams as invalid:
            error = invalid.to_response_error()
        if own is None:
            self._handle_response(number, result, error)
        elif own.done():
            return  # it was withdrawn
        elif error is not None:
            own.set_exception(JsonRpcException.from_error(error))
        else:
            own.set_result(Unshown(result))

    # --- handlers at work -----------------------------------------------------------------------------

    def _execute_handler(
        self,
        msg_id: Any,
        handler: Any,
        callback: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        super()._execute_handler(msg_id, handler, callback, args, kwargs)
        future = self._request_futures.get(msg_id)
        if future is None:
            return
        request = self._ctx_msg_id.get()
        if request is not None and request != msg_id and not future.done():
            self._begun[request] = future
            future.add_done_callback(lambda _: self._begun.pop(request, None))
        # pygls 2.1 keeps the future of every notification for good: a leak with each keystroke.
        if future.done():
            self._request_futures.pop(msg_id, None)
        elif isinstance(future, asyncio.Future):
            future.add_done_callback(lambda _: self._request_futures.pop(msg_id, None))

    def _handle_cancel_notification(self, msg_id: Any) -> None:
        future = self._request_futures.get(msg_id)
        if future is not None and msg_id not in self._result_types:
            self._cancel(msg_id, future)

    def _cancel(self, number: Any, future: Future[Any]) -> None:
        """Cancel a request of the client: it is answered so, and then what its handler is doing ends.

        A command is a coroutine behind a generator of pygls, which ends the generator's future alone.
        """
        begun = self._begun.get(number)
        if begun is not None and begun.done():
            return  # its result is on the way
        future.cancel()
        if begun is not None:
            begun.cancel()

    @lsp_method(types.SHUTDOWN)
    async def lsp_shutdown(self, params: object) -> None:  # type: ignore[override]
        """End what runs, requests first: what they begin would outlive it."""
        for number, future in list(self._request_futures.items()):
            if number != self.msg_id and number not in self._result_types:
                self._cancel(number, future)
        await self._server.close()

    @lsp_method(types.EXIT)
    def lsp_exit(self, *args: object) -> None:  # type: ignore[override]
        """Leave; the code says whether `shutdown` came first (LSP 3.17, "Exit Notification")."""
        self._server.leave(0 if self._server.shutdown_asked else 1)

    @lsp_method(types.WINDOW_WORK_DONE_PROGRESS_CANCEL)
    def lsp_work_done_progress_cancel(self, params: types.WorkDoneProgressCancelParams) -> None:
        """Cancel what a progress is about; a progress that has ended meanwhile needs nothing."""
        cancel = self._server.cancels.get(params.token)
        if cancel is not None:
            cancel()

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        """Take a document in."""
        document = self._server.documents.open(params.text_document)
        for hook in self._server.on_open:
            hook(document)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        """Apply changes to a document."""
        document = self._server.documents.change(params)
        if document is None:
            logger.warning("a change of a document that is not open: %s", params.text_document.uri)
            return
        for hook in self._server.on_changed:
            hook(document)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        """Forget a document."""
        document = self._server.documents.close(params.text_document.uri)
        if document is not None:
            for hook in self._server.on_close:
                hook(document)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def lsp_notebook_document__did_open(self, params: types.DidOpenNotebookDocumentParams) -> None:
        """Take a notebook in."""
        self._server.notebooks.opened(params)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(self, params: types.DidChangeNotebookDocumentParams) -> None:
        """Follow the cells of a notebook."""
        self._server.notebooks.changed(params)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def lsp_notebook_document__did_close(self, params: types.DidCloseNotebookDocumentParams) -> None:
        """Forget a notebook."""
        self._server.notebooks.closed(params)


def _is_number(value: object) -> bool:
    """Whether a value can be the id of a request."""
    return isinstance(value, (int, str)) and not isinstance(value, bool)
