"""Work-done progress of a run, with a cancel button; plain messages where the client has none."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from stark_lsp.server.language_server import StarkServer

T = TypeVar("T")


class RunProgress:
    """Shows how far one run is, under a title such as `STARK: optimizing Model`; its button calls `cancel`."""

    def __init__(self, server: StarkServer, title: str, cancel: Callable[[], None]) -> None:
        self._server = server
        self._title = title
        self._cancel = cancel
        self._token: str | None = None
        self._percentage = 0
        self._message = ""

    async def begin(self, message: str) -> None:
        """Create and begin the progress."""
        self._message = message
        if not self._server.facts.progress:
            self._server.say(f"{self._title}. {message}")
            return
        token = f"stark-{secrets.token_hex(6)}"
        try:
            await self._server.ask(
                types.WINDOW_WORK_DONE_PROGRESS_CREATE, types.WorkDoneProgressCreateParams(token=token)
            )
        except JsonRpcException as error:
            self._server.log(f"the client has no progress to show: {error}")
            self._server.say(f"{self._title}. {message}")
            return
        self._token = token
        self._server.cancels[token] = self._cancel
        # A client that is given a percentage at the beginning ignores reports without one: always one.
        self._notify(
            types.WorkDoneProgressBegin(
                self._title, cancellable=True, message=self._message, percentage=self._percentage
            )
        )

    def report(self, message: str, fraction: float) -> None:
        """Tell what goes on now; the bar never goes back."""
        percentage = max(self._percentage, min(99, int(fraction * 100)))
        if (message, percentage) == (self._message, self._percentage):
            return
        self._message, self._percentage = message, percentage
        if self._token is not None:
            self._notify(types.WorkDoneProgressReport(cancellable=True, message=message, percentage=percentage))

    def end(self, message: str) -> None:
        """End the progress; further calls do nothing."""
        if self._token is not None:
            self._notify(types.WorkDoneProgressEnd(message=message))
            self._server.cancels.pop(self._token, None)
            self._token = None

    def _notify(
        self, value: types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd
    ) -> None:
        assert self._token is not None
        self._server.protocol.notify(types.PROGRESS, types.ProgressParams(token=self._token, value=value))


async def followed(
    server: StarkServer, title: str, message: str, work: Callable[[RunProgress], Coroutine[Any, Any, T]]
) -> T | None:
    """Return what some work comes to, which a progress shows; None if the user cancelled it."""

    def stop() -> None:
        task.cancel()

    progress = RunProgress(server, title, stop)
    task = asyncio.create_task(work(progress))
    try:
        await progress.begin(message)
        return await task
    except asyncio.CancelledError:
        if not task.cancelled():
            stop()
            raise
        return None
    finally:
        progress.end("")
