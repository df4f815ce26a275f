"""The form of answers of the Messages API: a message as a whole, and as the events of a stream.

Source: https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from messages_api.replies import Reply

if TYPE_CHECKING:
    from messages_api.server import Request


def tool_json(reply: Reply) -> str | None:
    """What a tool is called with."""
    if reply.tool_json is not None:
        return reply.tool_json
    return None if reply.tool_input is None else json.dumps(reply.tool_input)


def _stop_of(reply: Reply) -> str:
    return reply.stop or ("end_turn" if tool_json(reply) is None else "tool_use")


def start_of(request: Request, reply: Reply, usage: Mapping[str, int]) -> dict[str, Any]:
    """The event that a stream begins with."""
    message: dict[str, Any] = {
        "id": f"msg_{request.number:04d}",
        "type": "message",
        "role": "assistant",
        "model": reply.model or request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    if usage:
        message["usage"] = {**usage, "output_tokens": 1}
    return {"type": "message_start", "message": message}


def message(request: Request, reply: Reply, usage: Mapping[str, int]) -> dict[str, Any]:
    """A whole message, for a client that wants no stream."""
    content: list[dict[str, Any]] = []
    if reply.thinking:
        content.append({"type": "thinking", "thinking": reply.thinking, "signature": "signed"})
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    if reply.tool_input is not None:
        content.append(
            {"type": "tool_use", "id": "toolu_1", "name": reply.tool_name or request.tool, "input": reply.tool_input}
        )
    begun = start_of(request, reply, usage)["message"]
    return {**begun, "content": content, "stop_reason": _stop_of(reply), "usage": usage}


def events(request: Request, reply: Reply, usage: Mapping[str, int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events of a stream, each with its name."""
    yield "message_start", start_of(request, reply, usage)
    yield "ping", {"type": "ping"}
    called_with = tool_json(reply)
    blocks: list[tuple[dict[str, Any], str, str, str]] = []
    if reply.thinking:
        begin = {"type": "thinking", "thinking": "", "signature": ""}
        blocks.append((begin, "thinking_delta", "thinking", reply.thinking))
    if reply.text:
        blocks.append(({"type": "text", "text": ""}, "text_delta", "text", reply.text))
    if called_with is not None:
        begin = {"type": "tool_use", "id": "toolu_1", "name": reply.tool_name or request.tool, "input": {}}
        blocks.append((begin, "input_json_delta", "partial_json", called_with))
    for index, (begin, kind, key, content) in enumerate(blocks):
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": begin}
        for piece in cut_up(content, reply.pieces):
            delta = {"type": kind, key: piece}
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    if reply.stream_error is not None:
        kind, text = reply.stream_error
        yield "error", {"type": "error", "error": {"type": kind, "message": text}}
        return
    delta = {"stop_reason": _stop_of(reply), "stop_sequence": None, "stop_details": reply.stop_details}
    ended: dict[str, Any] = {"type": "message_delta", "delta": delta}
    if usage:
        ended["usage"] = dict(usage)
    yield "message_delta", ended
    yield "message_stop", {"type": "message_stop"}


def cut_up(content: str, pieces: int) -> list[str]:
    """Return a text in so many parts."""
    size = max(1, -(-len(content) // max(1, pieces)))
    return [content[begin : begin + size] for begin in range(0, len(content), size)]
