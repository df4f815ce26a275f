"""A service with the chat completions API, as OpenAI, vLLM, Ollama, LM Studio and OpenRouter have it, through the SDK.

A question becomes a request: system message, one user message, the tool, and what the model is known to take of
temperature, effort and the name of the longest answer. The rest is `service`, and `chunks` for the answer.

What a server does not know it may pass over in silence, so the parameter that most know is tried first: `max_tokens`,
and where it is refused `max_completion_tokens`; `required` for the tools that are offered, and where that is refused
`auto`.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stark_lsp.agents.models import names
from stark_lsp.agents.models.chunks import ChunkReader
from stark_lsp.agents.models.failures import OPENAI
from stark_lsp.agents.models.features import Feature
from stark_lsp.agents.models.reading import AnswerReader, clean_text
from stark_lsp.agents.models.sdk import installable, missing
from stark_lsp.agents.models.secret import OPENAI_KEY, Secret, from_environment
from stark_lsp.agents.models.service import ServiceModel, check_address, http_client, in_words
from stark_lsp.core.conversation import Question, Turn
from stark_lsp.core.errors import BadInput

if TYPE_CHECKING:
    from openai import AsyncOpenAI

BASE_URL_VARIABLE = "OPENAI_BASE_URL"
DEFAULT_BASE_URL = "https://api.openai.com/v1"

_NO_KEY = "none"
"""The SDK wants one; servers without keys pass it over."""


class OpenAIModel(ServiceModel):
    """Asks a service with the chat completions API.

    Parameters
    ----------
    name
        The model that is asked where a question names none.
    base_url
        Where the service is; empty for `OPENAI_BASE_URL`, else OpenAI's.
    options
        As `ServiceModel` has them.
    """

    def __init__(self, name: str, base_url: str = "", **options: Any) -> None:
        super().__init__(OPENAI, base_url or _usual(), name=name, **options)
        self._key: Secret | None = None

    @property
    def _credential(self) -> Secret | None:
        return self._key

    def _import(self) -> None:
        names.import_sdk("openai", "openai.resources.chat.completions")

    def _errors(self) -> tuple[type[Exception], ...]:
        from openai import OpenAIError

        return (OpenAIError,)

    def _body(self, body: Any) -> Any:
        # The SDK takes the error out of the body where there is one; others write it without.
        told = body.lstrip()[:1] != "<" if isinstance(body, str) else isinstance(body, dict) and "message" in body
        return {"error": body} if told else body

    def _reader(self, question: Question) -> AnswerReader:
        return ChunkReader(question)

    async def _open(self, client: AsyncOpenAI, request: dict[str, Any]) -> Any:
        return await client.chat.completions.create(**request)

    def _connect(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

        self._key = find_key(self._base_url)
        patience = self._patience
        client = AsyncOpenAI(
            api_key=_NO_KEY if self._key is None else self._key.reveal(),
            base_url=self._base_url,
            timeout=Timeout(patience.silence, connect=patience.connect),
            max_retries=0,
            http_client=http_client(DefaultAsyncHttpxClient),
        )
        if _origin(self._base_url) != _origin(_usual()):
            # The SDK takes these from the environment; they are for the same server as the key.
            client.organization = client.project = None
            client._custom_headers = {}
        return client

    def _request(self, question: Question, model: str) -> tuple[dict[str, Any], frozenset[Feature]]:
        sent: set[Feature] = set()

        def takes(feature: Feature) -> bool:
            if self._features.takes(self._base_url, model, feature) is False:
                return False
            sent.add(feature)
            return True

        user = "\n\n".join(part for part in (question.shared, question.body) if part.strip())
        messages = [("system", question.system), ("user", user or "Answer.")]
        request: dict[str, Any] = {
            "model": model,
            "messages": [{"role": role, "content": clean_text(text)} for role, text in messages if text.strip()],
            "stream": True,
        }
        if question.max_tokens and takes(Feature.LIMIT):
            request["max_tokens" if takes(Feature.MAX_TOKENS) else "max_completion_tokens"] = question.max_tokens
        if takes(Feature.USAGE):
            request["stream_options"] = {"include_usage": True}
        if question.tool is not None and takes(Feature.TOOL):
            forms = [(tool.name, tool.description, tool.schema) for tool in question.offered]
            request["tools"] = [
                {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
                for name, description, schema in forms
            ]
            request["messages"] += _said(question.turns)
            request["tool_choice"] = "required" if takes(Feature.FORCED_TOOL) else "auto"
        else:
            request["messages"][-1]["content"] += in_words(question)
        if question.effort and takes(Feature.EFFORT):
            request["reasoning_effort"] = question.effort
        if question.temperature is not None and takes(Feature.TEMPERATURE):
            request["temperature"] = question.temperature
        return request, frozenset(sent)


def _said(turns: tuple[Turn, ...]) -> list[dict[str, Any]]:
    """Return calls of tools as messages."""
    messages: list[dict[str, Any]] = []
    for number, turn in enumerate(turns, 1):
        function = {"name": turn.tool, "arguments": json.dumps(turn.input)}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": turn.text or None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": clean_text(turn.result)})
    return messages


def find_key(base_url: str = "") -> Secret | None:
    """Return the key for an address (empty: the usual one), None where it needs none.

    The key goes to the address that the environment names, OpenAI's where it names none: a setting that brings an
    address along must not send the key there.

    Raises
    ------
    BadInput
        There is none, and OpenAI's own service is to be asked; or what the environment holds cannot be a key.
    """
    address = base_url or _usual()
    if _origin(address) == _origin(_usual()):
        key = from_environment(OPENAI_KEY)
        if key is not None:
            return key
    if _origin(address) == _origin(DEFAULT_BASE_URL):
        raise BadInput(
            "There is no API key for OpenAI.",
            cure=f"Set {OPENAI_KEY}; or name your own server, as in openai:NAME@http://localhost:11434/v1.",
        )
    return None


def check(base_url: str) -> None:
    """Refuse what could not be asked, without importing the SDK.

    Raises
    ------
    BadInput
        There is no SDK, no server, or no key where one is needed.
    """
    if missing("openai") and not installable():
        raise BadInput(
            "The package openai, by which the model is asked, is not installed.",
            cure="Install it: pip install 'stark-lsp[openai]'. Ollama and vLLM can be asked without it, as "
            "docs/models.md says.",
        )
    check_address(base_url or _usual(), BASE_URL_VARIABLE, "http://localhost:11434/v1")
    find_key(base_url)


def _usual() -> str:
    return os.environ.get(BASE_URL_VARIABLE, "").strip() or DEFAULT_BASE_URL


def _origin(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc.lower()
