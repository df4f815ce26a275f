"""Manners: what the real service refuses before a model is asked, and the tokens it counts.

By https://platform.claude.com/docs/en/api/errors, …/api/versioning and …/models/sonnet-5-5/whats-new-sonnet-5-5.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from messages_api import replies
from messages_api.replies import Reply

MODELS = (
    "claude-opus-5-5",
    "claude-haiku-5-5",
    "claude-sonnet-5-5",
    "claude-sonnet-5",
    "claude-sonnet-4-6",
    "claude-haiku-4-5-20251001",
)
"""Those there are, newest first."""

_VERSION = re.compile(r"^claude-[a-z]+-(\d+)(?:-(\d{1,2}))?(?:-\d{8})?$")


def refuse(body: Mapping[str, Any], headers: Mapping[str, str], models: tuple[str, ...]) -> Reply | None:
    """Return the refusal that the real service would give, None if it would ask the model."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        return replies.fault(400, "invalid_request_error", "model: Field required")
    if models and model not in models:
        return replies.no_such_model(model)
    if not isinstance(body.get("max_tokens"), int):
        return replies.fault(400, "invalid_request_error", "max_tokens: Field required")
    for part in _parts(body):
        if part.get("type", "text") == "text" and not str(part.get("text", "")).strip():
            return replies.fault(400, "invalid_request_error", "messages: text content blocks must be non-empty")
    if trouble := _calls(body):
        return replies.fault(400, "invalid_request_error", f"messages: {trouble}")
    if sum("cache_control" in part for part in _parts(body)) > 4:
        return replies.fault(400, "invalid_request_error", "A maximum of 4 blocks with cache_control may be provided.")
    version = version_of(model)
    if "temperature" in body:
        if headers.get("anthropic-version", "") >= "2026-10-21":
            return replies.fault(400, "invalid_request_error", "temperature: Extra inputs are not permitted")
        if version > (4, 6):
            return replies.temperature_refused()
    choice = body.get("tool_choice") or {}
    if choice.get("type") in ("tool", "any") and version > (5, 0):
        return replies.forced_tool_refused()
    if (body.get("output_config") or {}).get("effort") and (0, 0) < version < (4, 6):
        return replies.effort_refused()
    return None


def _calls(body: Mapping[str, Any]) -> str:
    """Return what is wrong with the calls of tools in a conversation."""
    open_ids: list[str] = []
    expected = "user"
    for message in body.get("messages") or []:
        content = message.get("content")
        parts = list(content) if isinstance(content, list) else []
        results = [part["tool_use_id"] for part in parts if part.get("type") == "tool_result"]
        if message.get("role") != expected:
            return "roles must alternate between user and assistant"
        if results != open_ids:
            return "each `tool_use` block must have a corresponding `tool_result` block in the next message"
        open_ids = [part["id"] for part in parts if part.get("type") == "tool_use"]
        if open_ids and not body.get("tools"):
            return "Requests which include `tool_use` or `tool_result` blocks must define tools"
        expected = "assistant" if expected == "user" else "user"
    return ""


def version_of(model: str) -> tuple[int, int]:
    """Return a model's version, zeros for a name that is none of Claude's."""
    match = _VERSION.match(model)
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)


class Counter:
    """Counts tokens as the service does: four characters a token; the longest prefix that was marked is cached."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def count(self, body: Mapping[str, Any], written: int) -> dict[str, int]:
        """Return the usage of an answer of so many characters."""
        length, marked, read = 0, 0, 0
        digest = hashlib.sha256(str(body.get("model")).encode("utf-8", "replace"))
        kept: set[str] = set()
        for text, mark in _sequence(body):
            length += len(text)
            digest.update(text.encode("utf-8", "replace"))
            if digest.hexdigest() in self._seen:
                read = length
            if mark:
                marked = length
                kept.add(digest.hexdigest())
        self._seen |= kept
        return {
            "input_tokens": _tokens(length - marked),
            "output_tokens": _tokens(written),
            "cache_read_input_tokens": _tokens(read),
            "cache_creation_input_tokens": _tokens(marked - read),
        }


def _tokens(characters: int) -> int:
    return -(-characters // 4)


def _sequence(body: Mapping[str, Any]) -> list[tuple[str, bool]]:
    tools = json.dumps(body.get("tools") or [], sort_keys=True)
    return [(tools, False), *((_text(part), "cache_control" in part) for part in _parts(body))]


def _text(part: Mapping[str, Any]) -> str:
    called = json.dumps(part["input"]) if part.get("type") == "tool_use" else ""
    return f"{part.get('text', '')}{called}{part.get('content', '')}"


def _parts(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    system = body.get("system")
    parts: list[Any] = [{"text": system}] if isinstance(system, str) else list(system or [])
    for message in body.get("messages") or []:
        content = message.get("content")
        parts += [{"text": content}] if isinstance(content, str) else list(content or [])
    return parts
