"""Replies: what the server answers to one request, faults included.

The words of errors are those of the service where public reports show them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reply:
    """One answer."""

    text: str = ""
    tool_input: dict[str, Any] | None = None
    """Handed in by the request's first tool, or by `tool_name`."""
    tool_name: str = ""
    """A further tool that is called; empty for the first one."""
    tool_json: str | None = None
    """Instead of `tool_input`: its JSON as it is, which may be broken."""
    thinking: str = ""
    stop: str | None = None
    """None: `tool_use` with a tool, else `end_turn`."""
    stop_details: dict[str, Any] | None = None
    model: str = ""
    """Who answers; empty for who was asked."""
    usage: dict[str, int] | None = None
    """None: counted as the service would, with a cache. Given: said at the end as it is; `{}` says nothing at all."""
    delay_s: float = 0.0
    """Before anything is sent."""
    pause_s: float = 0.0
    """In the stream; pings are sent meanwhile."""
    pause_before: int | None = None
    """Pause only before the event of this number; None pauses after each."""
    ping_s: float = 0.05
    """Between two pings in a pause."""
    pieces: int = 4
    """Events that the content is cut into."""
    cut_after: int | None = None
    """The connection breaks after so many events."""
    stream_error: tuple[str, str] | None = None
    """Type and message of an error event in the place of the stream's end."""
    garbage: str = ""
    """A line of `data:` that is no JSON, sent in the middle."""
    status: int = 200
    error_type: str = ""
    error: str = ""
    body: str | None = None
    """Instead of an error in the service's form, or of a stream."""
    raw: bytes | None = None
    """A stream as it is; `pause_s` holds it open, and `cut_after` breaks it off."""
    headers: dict[str, str] = field(default_factory=dict)


def text(words: str) -> Reply:
    """Text alone, though a tool was offered."""
    return Reply(text=words)


def tool(given: dict[str, Any], **more: Any) -> Reply:
    """An answer handed in by the request's tool."""
    return Reply(tool_input=given, **more)


def call(name: str, **given: Any) -> Reply:
    """A call of a further tool of the request."""
    return Reply(tool_input=given, tool_name=name)


def fault(status: int, kind: str, message: str, **headers: str) -> Reply:
    """An error in the service's form; `retry_after="1"` becomes the header `retry-after`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, error_type=kind, error=message, headers=named)


def rate_limited(retry_after: str | None = None) -> Reply:
    """429."""
    message = "This request would exceed your organization's rate limit."
    return fault(429, "rate_limit_error", message, **({} if retry_after is None else {"retry_after": retry_after}))


def overloaded() -> Reply:
    """529."""
    return fault(529, "overloaded_error", "Overloaded")


def server_error() -> Reply:
    """500."""
    return fault(500, "api_error", "Internal server error")


def unauthorized() -> Reply:
    """401."""
    return fault(401, "authentication_error", "invalid x-api-key")


def forbidden() -> Reply:
    """403."""
    return fault(403, "permission_error", "Your API key does not have permission to use the specified resource.")


def no_such_model(name: str) -> Reply:
    """404."""
    return fault(404, "not_found_error", f"model: {name}")


def no_credit() -> Reply:
    """400 for want of credit."""
    return fault(
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. "
        "Please go to Plans & Billing to upgrade or purchase credits.",
    )


def too_long() -> Reply:
    """400 for a question that does not fit."""
    return fault(400, "invalid_request_error", "prompt is too long: 1204321 tokens > 1000000 maximum")


def temperature_refused() -> Reply:
    """400 as newer models give it for a temperature."""
    return fault(400, "invalid_request_error", "`temperature` is deprecated for this model.")


def forced_tool_refused() -> Reply:
    """400 as newer models give it for a forced tool."""
    message = 'tool_choice: type "tool" and "any" are not supported for this model.'
    return fault(400, "invalid_request_error", message)


def thinking_with_forced_tool() -> Reply:
    """400 as a model gives it that thinks."""
    return fault(400, "invalid_request_error", "Thinking may not be enabled when tool_choice forces tool use.")


def effort_refused() -> Reply:
    """400 as older models give it for effort."""
    return fault(400, "invalid_request_error", "This model does not support the effort parameter.")


def tools_refused() -> Reply:
    """400 as Ollama gives it for a model without tools."""
    return fault(400, "api_error", "registry.ollama.ai/library/tiny:1b does not support tools")


def cut(given: dict[str, Any], after: int = 4) -> Reply:
    """A stream that breaks off in the middle of what is handed in."""
    return Reply(tool_input=given, cut_after=after, pieces=6)


def malformed(json_text: str) -> Reply:
    """A tool's input that is no JSON."""
    return Reply(tool_json=json_text)


def refusal(category: str | None = None, explanation: str | None = None) -> Reply:
    """The model declines."""
    details = {"type": "refusal", "category": category, "explanation": explanation}
    return Reply(stop="refusal", stop_details=details)


def cut_off(json_text: str) -> Reply:
    """The answer reaches the limit of tokens in the middle of what is handed in."""
    return Reply(tool_json=json_text, stop="max_tokens")


def empty() -> Reply:
    """An answer without content."""
    return Reply()


def overloaded_midway(given: dict[str, Any]) -> Reply:
    """An error event in a stream that had begun."""
    return Reply(tool_input=given, stream_error=("overloaded_error", "Overloaded"))
