"""A service with the Messages API, through the official SDK.

A question becomes a request: system message, the two parts of the user message with marks of what may be cached, the
tools, their calls so far, and what the model is known to take of temperature, effort and a forced tool. The rest is
`service`.

The API's version of 2026-10-21 has no temperature at all, so a request with one is sent in the version before it
(https://platform.claude.com/docs/en/api/versioning).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stark_lsp.agents.models import names
from stark_lsp.agents.models.failures import ANTHROPIC
from stark_lsp.agents.models.features import Feature
from stark_lsp.agents.models.reading import AnswerReader, clean_text
from stark_lsp.agents.models.secret import ANTHROPIC_TOKEN, Secret, from_environment
from stark_lsp.agents.models.service import ServiceModel, check_address, http_client, in_words
from stark_lsp.core.conversation import Question, Turn
from stark_lsp.core.errors import BadInput

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

BASE_URL_VARIABLE = "ANTHROPIC_BASE_URL"
DEFAULT_BASE_URL = "https://api.anthropic.com"
VERSION_WITH_TEMPERATURE = "2023-06-01"

_EPHEMERAL = {"type": "ephemeral"}


class AnthropicModel(ServiceModel):
    """Asks a service with the Messages API.

    Parameters
    ----------
    key
        The API key. None: the bearer token in `ANTHROPIC_AUTH_TOKEN`, which servers of others use.
    name
        The model that is asked where a question names none; empty for the newest Sonnet that the SDK lists.
    base_url
        Where the service is; None for `ANTHROPIC_BASE_URL`, else Anthropic's.
    options
        As `ServiceModel` has them.
    """

    def __init__(
        self, key: Secret | None = None, *, name: str = "", base_url: str | None = None, **options: Any
    ) -> None:
        super().__init__(ANTHROPIC, base_url or _usual(), name=name, **options)
        self._key = key
        self._token: Secret | None = None

    @property
    def name(self) -> str:
        """The model that is asked where a question names none; imports the SDK if it has to be looked up."""
        if not self._name:
            self._name = names.default_model()
        return self._name

    @property
    def _credential(self) -> Secret | None:
        """What must not be shown: the key, or the token in its place."""
        return self._key or self._token

    def _import(self) -> None:
        names.import_anthropic()

    def _errors(self) -> tuple[type[Exception], ...]:
        from anthropic import AnthropicError

        return (AnthropicError,)

    def _reader(self, question: Question) -> AnswerReader:
        return AnswerReader(question)

    async def _open(self, client: AsyncAnthropic, request: dict[str, Any]) -> Any:
        return await client.messages.create(**request)

    def _connect(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient, Timeout

        if self._key is None:
            self._token = _token()
        headers = {}
        if self._key is not None and self._base_url != DEFAULT_BASE_URL:
            # The SDK sends `Authorization: Bearer`; older gateways look here.
            headers["X-Api-Key"] = self._key.reveal()
        patience = self._patience
        return AsyncAnthropic(
            api_key=None if self._key is None else self._key.reveal(),
            auth_token=None if self._token is None else self._token.reveal(),
            base_url=self._base_url,
            timeout=Timeout(patience.silence, connect=patience.connect),
            max_retries=0,
            http_client=http_client(DefaultAsyncHttpxClient),
            default_headers=headers,
            # Otherwise prompts could leave by what the environment sets up for tracing.
            open_telemetry=False,
        )

    def _request(self, question: Question, model: str) -> tuple[dict[str, Any], frozenset[Feature]]:
        """Return the request, and which features it uses."""
        takes = {feature: self._features.takes(self._base_url, model, feature) is not False for feature in Feature}
        sent: set[Feature] = set()
        mark: dict[str, Any] = {}
        if takes[Feature.CACHE]:
            mark = {"cache_control": _EPHEMERAL}
            sent.add(Feature.CACHE)
        request: dict[str, Any] = {"model": model, "max_tokens": question.max_tokens, "stream": True}
        # Tools come before the system message in what is cached, so its mark is theirs too. Empty texts are refused.
        if question.system.strip():
            request["system"] = [{"type": "text", "text": clean_text(question.system), **mark}]
        parts: list[dict[str, Any]] = []
        if question.shared.strip():
            parts.append({"type": "text", "text": clean_text(question.shared), **mark})
        if question.body.strip() or not parts:
            parts.append({"type": "text", "text": clean_text(question.body) if question.body.strip() else "Answer."})
        request["messages"] = [{"role": "user", "content": parts}]
        if question.tool is not None and takes[Feature.TOOL]:
            sent.add(Feature.TOOL)
            request["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in question.offered
            ]
            if question.tools:
                # What was said so far is read from the cache by the next question of the conversation.
                request["messages"] += _said(question.turns)
                request["messages"][-1]["content"][-1].update(mark)
            if takes[Feature.FORCED_TOOL]:
                sent.add(Feature.FORCED_TOOL)
                which = {"type": "any"} if question.tools else {"type": "tool", "name": question.tool.name}
                request["tool_choice"] = {**which, "disable_parallel_tool_use": True}
            else:
                request["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
        else:
            parts[-1]["text"] += in_words(question)
        if question.effort and takes[Feature.EFFORT]:
            sent.add(Feature.EFFORT)
            request["output_config"] = {"effort": question.effort}
        if question.temperature is not None and takes[Feature.TEMPERATURE]:
            sent.add(Feature.TEMPERATURE)
            request["extra_body"] = {"temperature": question.temperature}
            request["extra_headers"] = {"anthropic-version": VERSION_WITH_TEMPERATURE}
        return request, frozenset(sent)


def _said(turns: tuple[Turn, ...]) -> list[dict[str, Any]]:
    """Return calls of tools as messages; which id a call has is for its result alone to know."""
    messages: list[dict[str, Any]] = []
    for number, turn in enumerate(turns, 1):
        called: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text.strip() else []
        called.append({"type": "tool_use", "id": f"call_{number}", "name": turn.tool, "input": turn.input})
        result = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": clean_text(turn.result)}
        messages += [{"role": "assistant", "content": called}, {"role": "user", "content": [result]}]
    return messages


def check() -> None:
    """Refuse an address that could not be asked.

    Raises
    ------
    BadInput
        The environment names no server.
    """
    check_address(_usual(), BASE_URL_VARIABLE, DEFAULT_BASE_URL)


def _usual() -> str:
    return os.environ.get(BASE_URL_VARIABLE, "").strip() or DEFAULT_BASE_URL


def _token() -> Secret:
    """Return the bearer token of the environment.

    Raises
    ------
    BadInput
        There is none, or it cannot be sent.
    """
    token = from_environment(ANTHROPIC_TOKEN)
    if token is None:
        raise BadInput(
            "There is no API key for the model.",
            cure="Set ANTHROPIC_API_KEY, or run `STARK: Set API Key` in VS Code; or choose the model playbook.",
        )
    return token
