"""The API key: asked of the client's secret storage when a run first needs it, and held in memory only.

    stark/key           request to the client     {service, ask} -> {key} or null
    stark/key/changed   notification from it      forget the key; the next run asks again

Neither is ever logged (`protocol.StarkProtocol`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pygls.exceptions import JsonRpcException

from stark_lsp.server.connection.protocol import KEY_CHANGED
from stark_lsp.server.text.markup import plain

if TYPE_CHECKING:
    from stark_lsp.agents.models.secret import Secret
    from stark_lsp.server.language_server import StarkServer

KEY = "stark/key"
SERVICE = "anthropic"
LIMIT = 1000
"""Characters that a key may have."""
LOOK_S = 30.0
"""Seconds for a look into the client's storage; it may have to be unlocked."""
ASK_S = 600.0
"""Seconds in which the user may type the key."""


class KeyHolder:
    """Gets the key from the client, and keeps it until it is told to forget it."""

    def __init__(self, server: StarkServer) -> None:
        self._server = server
        self._held: Secret | None = None
        self._age = 0
        """Counts how often the key was forgotten: an answer that was under way then is old."""

    def forget(self) -> None:
        """Hold no key any more; a run that goes on has its own copy until it ends."""
        self._held = None
        self._age += 1

    async def get(self, ask: bool) -> Secret | None:
        """Return the key, None if the client has none.

        Parameters
        ----------
        ask
            The client may ask the user for it: it was the user's wish to use the service.
        """
        if self._held is not None:
            return self._held
        age = self._age
        params = {"service": SERVICE, "ask": ask}
        try:
            answer = await self._server.ask_own(KEY, params, ASK_S if ask else LOOK_S)
        except JsonRpcException as error:
            self._server.log(f"the client gave no key: {plain(str(error), 200)}")
            return None
        except asyncio.TimeoutError:
            self._server.log("the client did not answer when it was asked for the key")
            return None
        secret = self._read(answer)
        if age == self._age:
            self._held = secret
        return secret

    def _read(self, answer: Any) -> Secret | None:
        value = answer.get("key") if isinstance(answer, dict) else None
        if value is None or value == "":
            return None
        from stark_lsp.agents.models.secret import Secret

        if isinstance(value, str) and len(value) <= LIMIT:
            try:
                return Secret(value)
            except ValueError as error:
                self._server.say(f"STARK: the stored API key cannot be used: {error}. Set it again.", warning=True)
                return None
        self._server.say("STARK: the stored API key cannot be used. Set it again.", warning=True)
        return None


def register(server: StarkServer, keys: KeyHolder) -> None:
    """Handle `stark/key/changed`."""

    @server.feature(KEY_CHANGED)
    def changed(params: Any) -> None:
        keys.forget()
