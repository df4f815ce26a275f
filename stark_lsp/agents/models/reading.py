"""Reading an answer as it streams in: from events of the Messages API to an `Answer`.

Everything in the events is taken as hostile: sizes are limited, fields may be missing or of another kind, JSON may be
cut off, nested without end or hold what JSON does not have, and texts may hold halves of surrogate pairs.
See https://platform.claude.com/docs/en/build-with-claude/streaming for the events.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from stark_lsp.agents.models.sizes import LONGEST_ANSWER, likely_tokens
from stark_lsp.core.conversation import Answer, Question, Usage
from stark_lsp.core.status import StopReason

_STOPS = {
    "end_turn": StopReason.COMPLETE,
    "tool_use": StopReason.COMPLETE,
    "stop_sequence": StopReason.COMPLETE,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
}
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_DEEPEST = 40
"""Levels of nesting in a tool's input; ours have two."""
_MOST_TOKENS = 100_000_000
"""No single call has more; a service that says so is not believed."""


def clean_text(text: str) -> str:
    """Return `text` with halves of surrogate pairs, which cannot be stored or sent, replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")


def read_object(text: str) -> dict[str, Any]:
    """Read a JSON object that a model wrote.

    Raises
    ------
    ValueError
        It is no JSON, no object, too deep, or has numbers that JSON does not have; `str()` says which, for a person.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant)
        if isinstance(value, str) and value.lstrip().startswith("{"):  # some servers write it as a text within a text
            value = json.loads(value, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error.msg}, line {error.lineno})") from None
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return clean_object(value)


def clean_object(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object from elsewhere with its texts cleaned.

    Raises
    ------
    ValueError
        It holds what JSON does not have, or is too deep.
    """
    return {clean_text(str(name)): _clean(entry, 1) for name, entry in value.items()}


class AnswerReader:
    """Adds events up to an answer.

    Parameters
    ----------
    question
        What was asked.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self._texts: list[str] = []
        self._tools: dict[int, ToolUse] = {}
        self._size = 0
        self._hidden = 0
        self._usage: dict[str, int] = {}
        self._stop: str | None = None
        self._details: Mapping[str, Any] = {}
        self._model = ""
        self._counted = False
        self.started = False
        """Whether the answer has begun."""
        self.finished = False
        """Whether it is whole."""
        self.over = False
        """Whether nothing more is waited for, such as how many tokens it took."""

    @property
    def too_long(self) -> bool:
        """Whether more came than any answer may have."""
        return self._size + self._hidden > LONGEST_ANSWER

    @property
    def guessed(self) -> bool:
        """Whether the service did not say how many tokens it took."""
        return not self._counted or not self._read

    def feed(self, event: Mapping[str, Any]) -> None:
        """Take one event; those of an unknown kind are passed over."""
        kind = event.get("type")
        if kind == "message_start":
            self._start(mapping(event.get("message")))
        elif kind == "content_block_start":
            self._open(index_of(event), mapping(event.get("content_block")))
        elif kind == "content_block_delta":
            self._add(index_of(event), mapping(event.get("delta")))
        elif kind == "message_delta":
            delta = mapping(event.get("delta"))
            stop = delta.get("stop_reason")
            if isinstance(stop, str):
                self._stop, self.finished = stop, True
            self._details = mapping(delta.get("stop_details")) or self._details
            self._count(mapping(event.get("usage")))
        elif kind == "message_stop":
            self.finished = self.over = True

    def take(self, message: Mapping[str, Any]) -> bool:
        """Take a whole answer, which some servers send in place of a stream; return whether it is one."""
        content = message.get("content")
        if not isinstance(content, list):
            return False
        self._start(message)
        for index, block in enumerate(content):
            self._open(index, mapping(block))
        self.finished = self.over = True
        self.feed({"type": "message_delta", "delta": message, "usage": message.get("usage")})
        return True

    def done(self) -> None:
        """Take the mark at the end of a stream; it ends what has come, though nothing said why."""
        self.finished = self.finished or self.started

    @property
    def _read(self) -> int:
        """Tokens of the question by the service; none where it did not say, as no question has none."""
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        return sum(self._usage.get(name, 0) for name in names)

    @property
    def usage(self) -> Usage:
        """Tokens so far: what the service said, and where it said nothing, what the characters come to."""
        said = self._usage
        output = said.get("output_tokens", 0)
        if not self._counted:
            # Before its end the service tells only the first few tokens of the answer.
            output = max(output, likely_tokens(self._size + self._hidden))
        return Usage(
            input_tokens=said.get("input_tokens", 0) if self._read else self._asked(),
            cache_write_tokens=said.get("cache_creation_input_tokens", 0),
            cache_read_tokens=said.get("cache_read_input_tokens", 0),
            output_tokens=output,
        )

    def answer(self, *, latency_s: float = 0.0, request_id: str = "") -> Answer:
        """Return what has come, with a message where it is not what was asked for."""
        text = clean_text("".join(self._texts))
        tool = self._handed_in()
        tool_input: dict[str, Any] | None = None
        message = self._why_stopped()
        stop = _STOPS.get(self._stop or "end_turn", StopReason.OTHER)
        if self.too_long:
            stop = StopReason.OTHER
        if tool is not None:
            raw = tool.text
            try:
                tool_input = read_object(raw)
            except ValueError as error:
                text = f"{text}\n{clean_text(raw)}" if text else clean_text(raw)
                message = message or f"What was handed in could not be read: {error}."
        elif not text.strip() and not message:
            message = "The model answered nothing."
        return Answer(
            stop=stop,
            text=text,
            tool_input=tool_input,
            called=self._called(tool),
            usage=self.usage,
            model=self._model,
            latency_s=latency_s,
            request_id=request_id,
            message=message,
        )

    def _start(self, message: Mapping[str, Any]) -> None:
        self.started = True
        model = message.get("model")
        self._model = clean_text(model)[:200] if isinstance(model, str) else ""
        self._count(mapping(message.get("usage")))

    def _open(self, index: int, block: Mapping[str, Any]) -> None:
        kind = block.get("type")
        if kind == "text":
            self._say(block.get("text"))
        elif kind == "tool_use":
            name = block.get("name")
            tool = ToolUse(name if isinstance(name, str) else "")
            self._tools[index] = tool
            given = block.get("input")
            if isinstance(given, Mapping) and given:
                # Some servers hand the whole input in at once.
                tool.parts.append(dumped(given))
                self._size += len(tool.parts[0])
        elif kind in ("thinking", "redacted_thinking"):
            self._hide(block.get("thinking"))

    def _add(self, index: int, delta: Mapping[str, Any]) -> None:
        kind = delta.get("type")
        if kind == "text_delta":
            self._say(delta.get("text"))
        elif kind == "input_json_delta":
            part = delta.get("partial_json")
            if isinstance(part, str) and index in self._tools:
                self._tools[index].parts.append(part)
                self._size += len(part)
        elif kind == "thinking_delta":
            self._hide(delta.get("thinking"))

    def _say(self, text: Any) -> None:
        if isinstance(text, str) and text:
            self._texts.append(text)
            self._size += len(text)

    def _hide(self, text: Any) -> None:
        self._hidden += len(text) if isinstance(text, str) else 0

    def _count(self, usage: Mapping[str, Any]) -> None:
        # The counts of a later event are totals and take the place of earlier ones.
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"):
            value = usage.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
                self._usage[name] = value
                self._counted = self._counted or (name == "output_tokens" and self.finished)

    def _asked(self) -> int:
        question = self._question
        forms = sum(len(json.dumps(tool.schema)) for tool in question.offered)
        turns = sum(turn.characters for turn in question.turns)
        return likely_tokens(len(question.system) + len(question.shared) + len(question.body) + forms + turns)

    def _handed_in(self) -> ToolUse | None:
        wanted = "" if self._question.tool is None else self._question.tool.name
        uses = list(self._tools.values())
        ours = [use for use in uses if use.name == wanted]
        # Some call it twice, first with less than it takes.
        return max(ours, key=self._usable, default=uses[0] if uses else None)

    def _usable(self, use: ToolUse) -> int:
        """Return how many fields a handing-in has; none if it is not what was asked for."""
        tool = self._question.tool
        try:
            given = read_object(use.text)
        except ValueError:
            return 0
        required = tool.schema.get("required", ()) if tool is not None else ()
        return len(given) if all(name in given for name in required) else 0

    def _called(self, tool: ToolUse | None) -> str:
        """Return the name of the further tool that was called, as a name can be sent again."""
        question = self._question
        if tool is None or question.tool is None or not question.tools or tool.name == question.tool.name:
            return ""
        return _NO_NAME.sub("_", tool.name)[:64] or "_"

    def _why_stopped(self) -> str:
        if self.too_long:
            return f"The answer was longer than {LONGEST_ANSWER} characters and was cut off."
        if self._stop == "model_context_window_exceeded":
            return "The model's context was full before the answer ended."
        if self._stop == "max_tokens":
            wrote, limit = self._usage.get("output_tokens"), self._question.max_tokens
            # Nearly, since services may count a little otherwise.
            if wrote is None or wrote > 0.95 * limit:
                return f"The answer was cut off at {limit} tokens."
            # llama.cpp and vLLM say so of a full context too.
            return f"The server cut the answer off after {wrote:,} of {limit:,} tokens; its context may be full."
        if self._stop == "refusal":
            return self._refusal()
        if self._stop is not None and self._stop not in _STOPS:
            return f"The model stopped for a reason we do not know: {clean_text(self._stop)[:60]}."
        return ""

    def _refusal(self) -> str:
        category = self._details.get("category")
        explanation = self._details.get("explanation")
        message = "The model declined to answer"
        if isinstance(category, str) and category:
            message += f" ({clean_text(category)[:60]})"
        if isinstance(explanation, str) and explanation.strip():
            return f"{message}: {clean_text(explanation.strip())[:300]}"
        return f"{message}."


class ToolUse:
    """One handing-in by a tool."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.called: object = None
        """Its id, whatever that is; None where it has none."""
        self.parts: list[str] = []

    @property
    def text(self) -> str:
        """Its JSON as far as it has come."""
        return "".join(self.parts) or "{}"


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def index_of(event: Mapping[str, Any]) -> int:
    """Return the place of what an event is a part of."""
    index = event.get("index")
    return index if isinstance(index, int) else 0


def dumped(value: Mapping[str, Any]) -> str:
    """Return an object as JSON, nothing where it cannot be."""
    try:
        return json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        return ""


def _no_constant(name: str) -> Any:
    raise ValueError(f"it holds {name}, which JSON does not have")


def _clean(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(str(name)): _clean(entry, depth + 1) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(entry, depth + 1) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("it holds a number that is too large")
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise ValueError("it holds what JSON does not have")
