"""The editor's own model, which the editor asks on the user's behalf.

The server sends the request `stark/model/complete` with these parameters:

    messages        [{role: "user", content: TEXT}], the system message first: editors' models know no such role
    tool            {name, description, inputSchema}, or nothing
    model           the name the user chose; nothing for the editor's choice
    maxTokens       most tokens of the answer
    temperature     0 to 1, or nothing
    effort          `low`, `medium`, `high` ..., or nothing
    justification   why it is asked, for the editor's question of consent

and the editor answers with

    text            what the model wrote; may be empty
    toolInput       what it handed in by the tool, or nothing
    model           who answered, or nothing
    usage           {inputTokens, outputTokens}, or nothing
    stop            `complete`, `max_tokens`, `refusal` or nothing

or with `{error: TEXT, kind: KIND}`, where KIND is one of `EditorProblem`. Whatever comes is checked.

An editor ends an answer that grows longer than `maxTokens` and says so by `stop`; text that is longer and came without
a `stop` is taken for cut off. What was handed in by the tool came in one piece, so it is whole, however long it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

from stark_lsp.agents.models.failures import said
from stark_lsp.agents.models.reading import clean_object, clean_text
from stark_lsp.agents.models.sizes import LONGEST_ANSWER, likely_tokens
from stark_lsp.core.conversation import Answer, Question, Usage
from stark_lsp.core.errors import BadInput, Fault, StarkError
from stark_lsp.core.status import ModelRole, StopReason

DEFAULT_NAME = "the editor's model"
_OTHER = "playbook or anthropic"


class EditorProblem(str, Enum):
    """Why the editor's model did not answer."""

    NO_MODEL = "no_model"
    """The editor has none, or none of that name."""
    NO_CONSENT = "no_consent"
    """The user said no, or was not asked yet."""
    BLOCKED = "blocked"
    """The service does not serve the user for now, for instance as a quota is used up."""
    OFF_TOPIC = "off_topic"
    """The service declined the question."""
    CANCELLED = "cancelled"
    """The user stopped it in the editor."""
    OTHER = "other"
    """Anything else."""


class EditorChannel(Protocol):
    """The way to the editor; the server implements it."""

    async def complete(self, params: dict[str, Any]) -> dict[str, Any]:
        """Send `stark/model/complete` and return its result.

        Raises
        ------
        Fault
            The editor is gone, or answered with a protocol error.
        asyncio.CancelledError
            The run was stopped; the editor is told to stop too.
        """
        ...


_PURPOSE = {
    ModelRole.PLAN: "plan an optimization",
    ModelRole.CODE: "write a kernel",
    ModelRole.DEBUG: "repair a kernel",
    ModelRole.SAMPLING: "write a kernel",
    ModelRole.REFLEXION: "improve a kernel",
}
_STOPS = {
    "complete": StopReason.COMPLETE,
    "max_tokens": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
}


class EditorModel:
    """Asks the model that the editor lends.

    Parameters
    ----------
    channel
        The way to the editor.
    """

    def __init__(self, channel: EditorChannel) -> None:
        self._channel = channel
        self._answered = ""

    @property
    def name(self) -> str:
        """Who answered last, as the editor calls it."""
        return self._answered or DEFAULT_NAME

    def takes_temperature(self, name: str = "") -> bool | None:
        """Return False: an editor may pass a temperature on or not, and does not say."""
        return False

    async def ask(self, question: Question) -> Answer:
        """Return the answer of the editor's model.

        Raises
        ------
        BadInput
            There is no model, or the user does not allow it.
        Fault
            The editor's model failed.
        asyncio.CancelledError
            The run was stopped.
        """
        began = time.monotonic()
        result = await self._channel.complete(parameters(question))
        answer = read_result(question, result, latency_s=time.monotonic() - began)
        self._answered = answer.model or self._answered
        return answer

    async def close(self) -> None:
        """Do nothing: the connection is the editor's."""


def parameters(question: Question) -> dict[str, Any]:
    """Return the parameters of `stark/model/complete`."""
    texts = [clean_text(text) for text in (question.system, question.shared, question.body) if text.strip()]
    params: dict[str, Any] = {
        "messages": [{"role": "user", "content": text} for text in texts],
        "maxTokens": question.max_tokens,
        "justification": f"STARK wants to {_PURPOSE[question.role]} for the class you chose.",
    }
    if question.tool is not None:
        tool = question.tool
        params["tool"] = {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
    if question.model:
        params["model"] = question.model
    if question.temperature is not None:
        params["temperature"] = question.temperature
    if question.effort is not None:
        params["effort"] = question.effort
    return params


def read_result(question: Question, result: Any, *, latency_s: float = 0.0) -> Answer:
    """Return the answer that a result of `stark/model/complete` holds; of one without usage, tokens are guessed.

    Raises
    ------
    BadInput, Fault
        The result is an error, or nothing that can be read.
    """
    if not isinstance(result, Mapping):
        raise Fault("The editor's model gave an answer that cannot be read.", cure="Try again, or another model.")
    if result.get("error") is not None:
        kind = result.get("kind")
        if kind == EditorProblem.OFF_TOPIC.value:
            words = said(result["error"])
            return Answer(StopReason.REFUSAL, latency_s=latency_s, message=f"The editor's model declined: {words}")
        raise _error(str(kind), said(result["error"]))
    written = result.get("text")
    text = clean_text(written) if isinstance(written, str) else ""
    message = ""
    stop = _STOPS.get(str(result.get("stop") or "complete"), StopReason.OTHER)
    if len(text) > LONGEST_ANSWER:
        text, stop = text[:LONGEST_ANSWER], StopReason.OTHER
        message = f"The answer was longer than {LONGEST_ANSWER} characters and was cut off."
    elif stop is StopReason.REFUSAL:
        message = "The editor's model declined to answer."
    handed_in: dict[str, Any] | None = None
    given = result.get("toolInput")
    if isinstance(given, Mapping):
        try:
            handed_in = clean_object(given)
        except ValueError as error:
            message = message or f"What was handed in could not be read: {error}."
    elif given is not None:
        message = message or "What was handed in could not be read: it is not an object."
    usage = _usage(question, result.get("usage"), len(text) + (len(str(handed_in)) if handed_in else 0))
    if not result.get("stop") and handed_in is None and not message and usage.output_tokens > question.max_tokens:
        stop = StopReason.MAX_TOKENS
    if stop is StopReason.MAX_TOKENS:
        message = f"The answer was cut off at {question.max_tokens} tokens."
    elif handed_in is None and not text.strip() and not message:
        message = "The model answered nothing."
    answered = result.get("model")
    model = clean_text(answered)[:200] if isinstance(answered, str) else ""
    return Answer(stop, text, handed_in, usage, model, latency_s, message=message)


def _usage(question: Question, usage: Any, answered: int) -> Usage:
    told = usage if isinstance(usage, Mapping) else {}
    asked = len(question.system) + len(question.shared) + len(question.body)
    if question.tool is not None:
        asked += len(question.tool.description) + len(json.dumps(question.tool.schema))
    return Usage(
        input_tokens=_count(told.get("inputTokens"), asked), output_tokens=_count(told.get("outputTokens"), answered)
    )


def _count(value: Any, characters: int) -> int:
    """Return the tokens that the editor told, else a guess; a nought for a text is no count."""
    if isinstance(value, int) and not isinstance(value, bool) and min(characters, 1) <= value <= 100_000_000:
        return value
    return likely_tokens(characters)


def _error(kind: str, words: str) -> StarkError:
    if kind == EditorProblem.NO_MODEL.value:
        return BadInput(f"The editor has no model to lend ({words}).", cure=f"Choose {_OTHER} in stark.model.")
    if kind == EditorProblem.NO_CONSENT.value:
        return BadInput(
            f"The editor's model may not be used ({words}).",
            cure=f"Allow it when the editor asks, or choose {_OTHER} in stark.model.",
        )
    if kind == EditorProblem.BLOCKED.value:
        return BadInput(f"The editor's model is blocked ({words}).", cure=f"Try later, or choose {_OTHER}.")
    if kind == EditorProblem.CANCELLED.value:
        return Fault(f"The editor's model was stopped ({words}).", cure="Resume the run to go on.")
    return Fault(f"The editor's model failed ({words}).", cure=f"Try again, or choose {_OTHER} in stark.model.")
