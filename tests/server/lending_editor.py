"""A test editor that lends a model and a key: the e2e editor, with answers to the server's own requests."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

for room in ("e2e", ""):
    folder = str(Path(__file__).resolve().parent.parent / room)
    if folder not in sys.path:
        sys.path.append(folder)

from e2e_editor import MODULE, SMALL, Editor, environment, published, session
from messages_api.kernels import Expert
from messages_api.server import Request

__all__ = ("MODULE", "Editor", "Lender", "environment", "lending")

NAME = "test/lent-model"


class Lender:
    """What the editor lends, and what it was asked."""

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.expert = Expert()
        self.consent = "given"
        self.key: str | None = None
        self.questions: list[dict[str, Any]] = []
        self.keys_asked: list[dict[str, Any]] = []
        self.withdrawn = 0
        """Questions that the server took back before they were answered."""
        self.gate = asyncio.Event()
        """Answers wait until it is set."""
        self.gate.set()
        self.refusal: dict[str, Any] | None = None
        """Answered instead of the expert's answer."""
        client = editor.client

        @client.feature("stark/model/describe")
        def describe(params: Any) -> dict[str, Any]:
            return {"models": [{"id": NAME, "name": "Lent"}], "consent": self.consent}

        @client.feature("stark/model/complete")
        async def complete(params: Any) -> dict[str, Any]:
            question = _json(params)
            self.questions.append(question)
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.withdrawn += 1
                raise
            return self.refusal or self._answer(question)

        @client.feature("stark/key")
        def key(params: Any) -> dict[str, Any] | None:
            self.keys_asked.append(_json(params))
            return {"key": self.key} if self.key is not None else None

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        body = {"messages": question["messages"], "tools": [question["tool"]] if question.get("tool") else []}
        reply = self.expert(Request(len(self.questions), "POST", "/v1/messages", {}, body))
        usage = {"inputTokens": 1000, "outputTokens": 100}
        return {"text": reply.text, "toolInput": reply.tool_input, "model": NAME, "usage": usage}


@contextlib.asynccontextmanager
async def lending(state: Path, settings: dict[str, Any], provides: list[str]) -> AsyncIterator[Lender]:
    """A server with an editor that lends something, from start to orderly exit."""
    quick = {"evaluation": {"special_inputs": False, "profile": False, "rounds": 3, "final_rounds": 3, "seeds": 1}}
    async with session(published(), state, {**SMALL, **quick, **settings, "provides": provides}) as editor:
        yield Lender(editor)


def texts(editor: Editor) -> list[str]:
    """Return what the progress said, in order."""
    return [str(value.message) for value in editor.reports() if value.message]


def _json(params: Any) -> Any:
    """Return parameters as JSON; pygls makes objects with attributes of them."""
    if hasattr(params, "_asdict"):
        return {name: _json(value) for name, value in params._asdict().items()}
    if isinstance(params, dict):
        return {name: _json(value) for name, value in params.items()}
    return [_json(value) for value in params] if isinstance(params, (list, tuple)) else params
