"""A service with the Messages API, through the official SDK.

1. `ask` turns a question into a request: system message, the two parts of the user message with marks of what may be
   cached, the tool, and what the model is known to take of temperature, effort and a forced tool (`features`).
2. The answer is streamed and added up by `reading`.
3. A request that is refused because of one parameter is asked again without it, at once; a passing failure or a broken
   stream after a pause (`patience`); anything else ends as an error that names the cure (`failures`).

The SDK is imported when the first question is asked. Its own retries are off: these tell the user what is waited for,
and the purse what broken tries cost. The API's version of 2026-10-21 has no temperature at all, so a request with one
is sent in the version before it (https://platform.claude.com/docs/en/api/versioning).
"""

from __future__ import annotations

import asyncio
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from stark_lsp.agents.models import names
from stark_lsp.agents.models.failures import Trouble, TroubleKind, as_error, describe, header_map, read_refusal
from stark_lsp.agents.models.features import LEARNED, Feature, Features, refused
from stark_lsp.agents.models.metering import Meter, Tally
from stark_lsp.agents.models.patience import Patience, pause
from stark_lsp.agents.models.reading import AnswerReader, clean_text
from stark_lsp.agents.models.secret import Secret
from stark_lsp.core.conversation import Answer, Question, Usage
from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import StopReason

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

BASE_URL_VARIABLE = "ANTHROPIC_BASE_URL"
TOKEN_VARIABLE = "ANTHROPIC_AUTH_TOKEN"
DEFAULT_BASE_URL = "https://api.anthropic.com"
VERSION_WITH_TEMPERATURE = "2023-06-01"

_EPHEMERAL = {"type": "ephemeral"}


class AnthropicModel:
    """Asks a service with the Messages API.

    Parameters
    ----------
    key
        The API key. None: the bearer token in `ANTHROPIC_AUTH_TOKEN`, which servers of others use.
    name
        The model that is asked where a question names none; empty for the newest Sonnet that the SDK lists.
    base_url
        Where the service is; None for `ANTHROPIC_BASE_URL`, else Anthropic's.
    patience
        How often and how long to ask again.
    on_wait
        Told, for a person, when and why something is waited for.
    features
        What is known of models; shared in the process unless a test has its own.
    rng
        Scatters pauses.
    """

    def __init__(
        self,
        key: Secret | None = None,
        *,
        name: str = "",
        base_url: str | None = None,
        patience: Patience | None = None,
        on_wait: Callable[[str], None] | None = None,
        features: Features = LEARNED,
        rng: Random | None = None,
    ) -> None:
        self._key = key
        self._name = name.strip()
        self._base_url = (base_url or os.environ.get(BASE_URL_VARIABLE, "").strip() or DEFAULT_BASE_URL).rstrip("/")
        self._patience = patience or Patience()
        self._on_wait = on_wait or (lambda _: None)
        self._features = features
        self._rng = rng or Random()
        self._token: Secret | None = None
        self._client: AsyncAnthropic | None = None
        self._connecting = asyncio.Lock()
        self._prepared = False

    @property
    def name(self) -> str:
        """The model that is asked where a question names none; imports the SDK if it has to be looked up."""
        if not self._name:
            self._name = names.default_model()
        return self._name

    @property
    def server(self) -> str:
        """The host that is asked."""
        return self._base_url.split("://", 1)[-1].split("/", 1)[0].rsplit("@", 1)[-1]

    def takes_temperature(self, name: str = "") -> bool | None:
        """Return whether a model (empty: the default one) takes a temperature; None if that is not known yet."""
        return self._features.takes(self._base_url, name or self.name, Feature.TEMPERATURE)

    async def prepare(self) -> None:
        """Import the SDK in a thread, since that takes a second or two; called by the first question otherwise."""
        if not self._prepared:
            await asyncio.to_thread(names.import_sdk)
            self._prepared = True

    async def ask(self, question: Question) -> Answer:
        """Return the answer; its usage has what broken tries cost as well.

        Raises
        ------
        Fault
            The service cannot be reached, or failed again and again.
        BadInput
            The key, the model, the credit or a setting is at fault; the message names the cure.
        asyncio.CancelledError
            The run was stopped; the stream is closed.
        """
        tally = Tally()
        answer = await self.ask_metered(question, tally)
        return _with_usage(answer, answer.usage + tally.usage)

    async def ask_metered(self, question: Question, meter: Meter) -> Answer:
        """Return the answer as `ask` does, and tell `meter` of broken tries."""
        await self.prepare()
        model = question.model or self.name
        began = time.monotonic()
        waited = 0.0
        troubles: list[str] = []
        while True:
            request, sent = self._request(question, model)
            reader = AnswerReader(question)
            outcome = await self._try(request, reader, meter)
            if isinstance(outcome, str):
                self._remember(model, sent, reader)
                answer = reader.answer(latency_s=time.monotonic() - began, request_id=outcome)
                return replace(answer, troubles=tuple(troubles))
            cost = reader.usage if reader.started else Usage()
            feature = refused(outcome.words, sent) if outcome.kind is TroubleKind.REFUSED else None
            if feature is not None:
                self._features.learn(self._base_url, model, feature, takes=False)
                continue
            if outcome.kind is TroubleKind.DECLINED:
                return Answer(
                    StopReason.REFUSAL,
                    usage=cost,
                    latency_s=time.monotonic() - began,
                    request_id=outcome.request_id,
                    message=f"The model declined to answer: {outcome.words}",
                    troubles=tuple(troubles),
                )
            troubles.append(outcome.text)
            failed = len(troubles)
            seconds = pause(self._patience, failed, outcome.retry_after, self._rng)
            patient = waited + seconds <= self._patience.pauses
            if outcome.kind is not TroubleKind.AGAIN or failed >= self._patience.tries or not patient:
                meter.gone(cost)
                raise as_error(outcome, model=model, server=self.server, tries=failed, waited=patient)
            await meter.lost(cost)
            waited += seconds
            self._tell_wait(outcome, seconds)
            await asyncio.sleep(seconds)

    async def list_models(self) -> tuple[str, ...]:
        """Return the names of the models that the service offers.

        Raises
        ------
        Fault
            The service cannot be reached.
        BadInput
            The key is not accepted, or the service has no such list.
        """
        await self.prepare()
        from anthropic import AnthropicError, APIStatusError

        found: list[str] = []
        trouble: Trouble | None = None
        try:
            client = await self._connected()
            async for model in client.models.list(limit=100):
                found.append(clean_text(str(model.id))[:200])
                if len(found) >= 1000:
                    break
        except APIStatusError as error:
            trouble = self._refusal(error)
        except (AnthropicError, ValueError, AttributeError, OSError) as error:
            trouble = Trouble(TroubleKind.AGAIN, describe(error, self._credential))
        if trouble is not None:
            raise as_error(trouble, model="the list of models", server=self.server, tries=1)
        return tuple(found)

    async def close(self) -> None:
        """Close connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def __repr__(self) -> str:
        return f"AnthropicModel({self._name or 'default'!r} at {self.server!r})"

    async def _try(self, request: dict[str, Any], reader: AnswerReader, meter: Meter) -> str | Trouble:
        """Make one try; return the request's id if the answer came to its end."""
        # Not `asyncio.wait_for`: before Python 3.12 it can swallow a cancel that comes together with the answer.
        trying = asyncio.ensure_future(self._stream(request, reader))
        try:
            done, _ = await asyncio.wait({trying}, timeout=self._patience.one_try)
        except asyncio.CancelledError:
            meter.gone(reader.usage if reader.started else Usage())
            trying.cancel()
            await asyncio.wait({trying})
            raise
        if not done:
            trying.cancel()
            await asyncio.wait({trying})
            return Trouble(TroubleKind.AGAIN, f"no end within {self._patience.one_try:.0f} s")
        return trying.result()

    async def _stream(self, request: dict[str, Any], reader: AnswerReader) -> str | Trouble:
        import httpx2  # the SDK's own transport: what breaks within a stream is raised as its errors
        from anthropic import AnthropicError, APIStatusError

        client = await self._connected()
        try:
            with warnings.catch_warnings():
                # The SDK warns of models that are to be retired, on every request.
                warnings.simplefilter("ignore", DeprecationWarning)
                stream = await client.messages.create(**request)
            try:
                async for event in stream:
                    reader.feed(event.to_dict(warnings=False) if hasattr(event, "to_dict") else event)
                    if reader.finished or reader.too_long:
                        break
                request_id = header_map(stream.response.headers).get("request-id", "")
            finally:
                await stream.close()
        except APIStatusError as error:
            return self._refusal(error, within=reader.started)
        except (AnthropicError, httpx2.HTTPError, OSError) as error:
            return Trouble(TroubleKind.AGAIN, describe(error, self._credential))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            # Events that are no JSON, or nothing like the API's.
            return Trouble(TroubleKind.AGAIN, f"the answer could not be read: {describe(error, self._credential)}")
        if reader.finished or reader.too_long:
            return clean_text(request_id)[:200]
        return Trouble(TroubleKind.AGAIN, "the answer broke off" if reader.started else "an empty answer")

    def _refusal(self, error: Any, *, within: bool = False) -> Trouble:
        response = error.response
        # An error within a stream comes with the status of the stream's beginning, which is 200.
        status = None if within or response.status_code < 300 else int(response.status_code)
        fallback = f"status {response.status_code}"
        return read_refusal(status, error.body, header_map(response.headers), fallback, self._credential)

    @property
    def _credential(self) -> Secret | None:
        """What must not be shown: the key, or the token in its place."""
        return self._key or self._token

    async def _connected(self) -> AsyncAnthropic:
        async with self._connecting:
            if self._client is None:
                # In a thread: all certificates of the machine are read.
                self._client = await asyncio.to_thread(self._connect)
            return self._client

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
            # The SDK would follow a redirect, and take prompts (and the second header) to whoever it names.
            http_client=DefaultAsyncHttpxClient(follow_redirects=False),
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
            tool = question.tool
            request["tools"] = [{"name": tool.name, "description": tool.description, "input_schema": tool.schema}]
            if takes[Feature.FORCED_TOOL]:
                sent.add(Feature.FORCED_TOOL)
                request["tool_choice"] = {"type": "tool", "name": tool.name, "disable_parallel_tool_use": True}
            else:
                request["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
        if question.effort and takes[Feature.EFFORT]:
            sent.add(Feature.EFFORT)
            request["output_config"] = {"effort": question.effort}
        if question.temperature is not None and takes[Feature.TEMPERATURE]:
            sent.add(Feature.TEMPERATURE)
            request["extra_body"] = {"temperature": question.temperature}
            request["extra_headers"] = {"anthropic-version": VERSION_WITH_TEMPERATURE}
        return request, frozenset(sent)

    def _remember(self, model: str, sent: frozenset[Feature], reader: AnswerReader) -> None:
        if not reader.finished:
            return
        for feature in sent:
            self._features.learn(self._base_url, model, feature, takes=True)

    def _tell_wait(self, trouble: Trouble, seconds: float) -> None:
        reason = {429: "asks for a pause", 529: "is overloaded"}.get(trouble.status or 0, "could not answer")
        self._on_wait(f"{self.server} {reason}; asking again in {seconds:.0f} s")


def _token() -> Secret:
    """Return the bearer token of the environment.

    Raises
    ------
    BadInput
        There is none, or it cannot be sent.
    """
    value = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not value:
        raise BadInput(
            "There is no API key for the model.",
            cure="Set ANTHROPIC_API_KEY, or run `STARK: Set API Key` in VS Code; or choose the model playbook.",
        )
    try:
        return Secret(value)
    except ValueError as error:
        raise BadInput(f"{TOKEN_VARIABLE} cannot be used: {error}.", cure="Set it again.") from None


def _with_usage(answer: Answer, usage: Usage) -> Answer:
    return answer if usage == answer.usage else replace(answer, usage=usage)
