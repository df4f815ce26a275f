"""The chat completions API beside the Messages API: the form of a stream, and what such servers refuse.

Sources: https://platform.openai.com/docs/api-reference/chat-streaming; the words of refusals are OpenAI's for models
that think (`o…`, `gpt-5…`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from messages_api import replies, wire
from messages_api.replies import Reply

if TYPE_CHECKING:
    from messages_api.server import Request

PATH = "/v1/chat/completions"
DONE = "[DONE]"
_STOPS = {"tool_use": "tool_calls", "end_turn": "stop", "max_tokens": "length", "refusal": "content_filter"}


def refuse(body: Mapping[str, Any]) -> Reply | None:
    """Return the refusal that a model which thinks would get, None if it would be asked."""
    asked: set[str] = set()
    for message in body.get("messages") or []:
        if message.get("role") == "tool" and message.get("tool_call_id") not in asked:
            words = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
            return replies.fault(400, "invalid_request_error", words)
        asked = {call["id"] for call in message.get("tool_calls") or []}
    if not str(body.get("model", "")).startswith(("o", "gpt-5")):
        return None
    if "max_tokens" in body:
        return unsupported("'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
    if "temperature" in body:
        return replies.fault(
            400,
            "invalid_request_error",
            "Unsupported value: 'temperature' does not support 0.8 with this model. Only the default (1) is supported.",
        )
    return None


def unsupported(what: str) -> Reply:
    """400 for a parameter."""
    return replies.fault(400, "invalid_request_error", f"Unsupported parameter: {what}")


def events(request: Request, reply: Reply, usage: Mapping[str, int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The chunks of a stream; the last is not one."""

    def chunk(delta: dict[str, Any] | None = None, stop: str | None = None, **more: Any) -> tuple[str, dict[str, Any]]:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}]
        model = reply.model or request.model
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
        return "", {**head, "choices": choices, **more}

    yield chunk({"role": "assistant", "content": ""})
    for piece in wire.cut_up(reply.thinking, reply.pieces):
        yield chunk({"reasoning_content": piece})
    for piece in wire.cut_up(reply.text, reply.pieces):
        yield chunk({"content": piece})
    called_with = wire.tool_json(reply)
    if called_with is not None:
        function = {"name": reply.tool_name or request.tool, "arguments": ""}
        yield chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
        for piece in wire.cut_up(called_with, reply.pieces):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    if reply.stream_error is not None:
        kind, text = reply.stream_error
        yield "", {"error": {"type": kind, "message": text}}
        return
    stop = reply.stop or ("end_turn" if called_with is None else "tool_use")
    yield chunk({}, _STOPS.get(stop, stop))
    if usage and (request.body.get("stream_options") or {}).get("include_usage"):
        cached, written = usage.get("cache_read_input_tokens", 0), usage.get("cache_creation_input_tokens", 0)
        read = usage["input_tokens"] + cached + written
        told = {"prompt_tokens": read, "completion_tokens": usage["output_tokens"]}
        details = {"prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written}}
        yield chunk(usage={**told, "total_tokens": sum(told.values()), **details})
    yield DONE, {}
