"""What is alike in asking services by their SDKs: streams, pauses, parameters that are refused, what broken tries cost.

1. `ask` has the request made by the kind of service, with what the model is known to take (`features`).
2. The answer is streamed and added up by a reader (`reading`).
3. A request that is refused because of one parameter is asked again without it, at once; a passing failure or a broken
   stream after a pause (`patience`); anything else ends as an error that names the cure (`failures`).

SDKs are imported when the first question is asked. Their own retries are off: these tell the user what is waited for,
and the purse what broken tries cost. So are redirects, which would take prompts and the key to whoever they name.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, TypeVar
from urllib.parse import urlsplit

from stark_lsp.agents.models.failures import (
    Service,
    Trouble,
    TroubleKind,
    as_error,
    broken,
    describe,
    header_map,
    read_refusal,
    request_id,
)
from stark_lsp.agents.models.features import LEARNED, Feature, Features, refused
from stark_lsp.agents.models.metering import Meter, Tally
from stark_lsp.agents.models.patience import Patience, pause
from stark_lsp.agents.models.reading import AnswerReader, clean_text
from stark_lsp.agents.models.secret import Secret
from stark_lsp.core.conversation import Answer, Question, Usage
from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import StopReason

Client = TypeVar("Client")


class ServiceModel(ABC):
    """Asks a service; each kind says how a request looks and how an answer is read.

    Parameters
    ----------
    service
        What errors say of the kind of service.
    base_url
        Where the service is.
    name
        The model that is asked where a question names none.
    patience
        How often and how long to ask again.
    on_wait
        Told, for a person, when and why something is waited for, and where tokens are guessed.
    features
        What is known of models; shared in the process unless a test has its own.
    rng
        Scatters pauses.
    """

    def __init__(
        self,
        service: Service,
        base_url: str,
        *,
        name: str = "",
        patience: Patience | None = None,
        on_wait: Callable[[str], None] | None = None,
        features: Features = LEARNED,
        rng: Random | None = None,
    ) -> None:
        self._service = service
        self._base_url = base_url.rstrip("/")
        self._name = name.strip()
        self._patience = patience or Patience()
        self._on_wait = on_wait or (lambda _: None)
        self._features = features
        self._rng = rng or Random()
        self._client: Any = None
        self._connecting = asyncio.Lock()
        self._prepared = False
        self._told_guess = False

    @property
    def name(self) -> str:
        """The model that is asked where a question names none."""
        return self._name

    @property
    def server(self) -> str:
        """The host that is asked."""
        return urlsplit(self._base_url).netloc.rsplit("@", 1)[-1]  # without a user's name

    def takes_temperature(self, name: str = "") -> bool | None:
        """Return whether a model (empty: the default one) takes a temperature; None if that is not known yet."""
        return self._features.takes(self._base_url, name or self.name, Feature.TEMPERATURE)

    async def prepare(self) -> None:
        """Import the SDK in a thread, since that takes a second or two; called by the first question otherwise."""
        if not self._prepared:
            await asyncio.to_thread(self._import)
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
        return replace(answer, usage=answer.usage + tally.usage)

    async def ask_metered(self, question: Question, meter: Meter) -> Answer:
        """Return the answer as `ask` does, and tell `meter` of broken tries."""
        await self.prepare()
        model = question.model or self.name
        began = time.monotonic()
        waited = 0.0
        troubles: list[str] = []
        asked = question
        while True:
            request, sent = self._request(asked, model)
            reader = self._reader(question)
            outcome = await self._try(request, reader, meter)
            if isinstance(outcome, str):
                self._remember(model, sent, reader)
                answer = reader.answer(latency_s=time.monotonic() - began, request_id=outcome)
                return replace(answer, troubles=tuple(troubles))
            cost = reader.usage if reader.started else Usage()
            # OpenRouter has no model where none of its own takes all that was asked for; llama.cpp refuses with 500.
            kinds = (TroubleKind.REFUSED, TroubleKind.MODEL, TroubleKind.TOO_LONG)
            told = outcome.kind in kinds or outcome.status == 500
            feature = refused(outcome.words, sent) if told else None
            if feature is Feature.LIMIT:
                # What has no room for so long an answer gives no longer one. Of other questions that is not known.
                asked = replace(asked, max_tokens=0)
                continue
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
            tries = {TroubleKind.AGAIN: self._patience.tries, TroubleKind.HOST: 2}.get(outcome.kind, 1)
            if failed >= tries or not patient:
                meter.gone(cost)
                raise as_error(
                    outcome, model=model, server=self.server, tries=failed, waited=patient, service=self._service
                )
            await meter.lost(cost)
            waited += seconds
            self._tell_wait(outcome, seconds)
            await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name or 'default'!r} at {self.server!r})"

    @property
    @abstractmethod
    def _credential(self) -> Secret | None:
        """What must not be shown."""

    @abstractmethod
    def _import(self) -> None:
        """Import the SDK."""

    @abstractmethod
    def _errors(self) -> tuple[type[Exception], ...]:
        """Return what the SDK raises."""

    @abstractmethod
    def _connect(self) -> Any:
        """Return the SDK's client; called in a thread, since all certificates of the machine are read."""

    @abstractmethod
    def _request(self, question: Question, model: str) -> tuple[dict[str, Any], frozenset[Feature]]:
        """Return the request, and which features it uses."""

    @abstractmethod
    def _reader(self, question: Question) -> AnswerReader:
        """Return what adds the answer's events up."""

    @abstractmethod
    async def _open(self, client: Any, request: dict[str, Any]) -> Any:
        """Send a request; return the stream of its events."""

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
        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(self._connect)
        client, name = self._client, ""
        trouble = None
        try:
            with warnings.catch_warnings():
                # The SDK warns of models that are to be retired, on every request.
                warnings.simplefilter("ignore", DeprecationWarning)
                stream = await self._open(client, request)
            try:
                headers = header_map(stream.response.headers)
                name = request_id(headers)
                trouble = await self._read(stream.response, headers, reader)
            finally:
                await stream.close()
        except asyncio.CancelledError:
            # Either an answer is whole and nothing followed, or `_try` knows of the cancel.
            if not reader.finished:
                raise
        except self._breaks() as error:
            trouble = self._refusal(error) or broken(error, self._credential)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            # Events that are no JSON, or nothing like the API's.
            words = f"the answer could not be read: {describe(error, self._credential)}"
            trouble = Trouble(TroubleKind.AGAIN, words)
        if reader.finished or reader.too_long:
            return clean_text(name)[:200]
        return trouble or Trouble(TroubleKind.AGAIN, "the answer broke off" if reader.started else "an empty answer")

    async def _read(self, response: Any, headers: Mapping[str, str], reader: AnswerReader) -> Trouble | None:
        """Read an answer; return what it says is wrong. The SDKs' own reading hides the end, and takes UTF-8 alone."""
        if re.search("json|html", headers.get("content-type", "")):
            whole = (await response.aread()).decode("utf-8", "replace").lstrip()
            if whole.startswith("<"):
                return Trouble(TroubleKind.ELSEWHERE, "it answers with a web page")
            if whole.startswith("{"):
                body = json.loads(whole)
                if body.get("error"):
                    return read_refusal(None, body, headers, "an error", self._credential)
                known = reader.take(body)
                return None if known else Trouble(TroubleKind.ELSEWHERE, "it answers in another form")
        ending = None
        try:
            async for data in events(response.aiter_bytes()):
                if data.startswith("[DONE]"):
                    reader.done()
                    return None
                event = json.loads(data)
                if event is None:  # some keep the connection up so
                    continue
                if event.get("error"):
                    return read_refusal(None, event, headers, "an error", self._credential)
                reader.feed(event)
                if reader.over or reader.too_long:
                    return None
                if reader.finished and ending is None:
                    reading = asyncio.current_task()
                    assert reading is not None
                    ending = asyncio.get_running_loop().call_later(self._patience.ending, reading.cancel)
        finally:
            if ending is not None:
                ending.cancel()
        return None

    def _breaks(self) -> tuple[type[Exception], ...]:
        """Return what a broken connection raises."""
        import httpx2  # the SDKs' own transport: what breaks within a stream is raised as its errors

        return (*self._errors(), httpx2.HTTPError, OSError)

    def _refusal(self, error: Exception) -> Trouble | None:
        """Return what the service said by an error, None where it said nothing."""
        response, body = getattr(error, "response", None), getattr(error, "body", None)
        if response is None and body is None:
            return None
        status = None if response is None else int(response.status_code)
        headers = {} if response is None else header_map(response.headers)
        fallback = str(error) if response is None else f"status {response.status_code}"
        return read_refusal(status, self._body(body), headers, fallback, self._credential)

    def _body(self, body: Any) -> Any:
        """Return the body of an error as the service sent it."""
        return body

    def _remember(self, model: str, sent: frozenset[Feature], reader: AnswerReader) -> None:
        if not reader.finished:
            return
        for feature in sent:
            self._features.learn(self._base_url, model, feature, takes=True)
        if reader.guessed and not self._told_guess:
            self._told_guess = True
            self._on_wait(f"{self.server} does not say how many tokens it takes; they are guessed from characters")

    def _tell_wait(self, trouble: Trouble, seconds: float) -> None:
        why = f" ({trouble.words[:100].rstrip('.')})" if trouble.words else ""
        reason = {429: "asks for a pause", 529: "is overloaded"}.get(trouble.status or 0, f"could not answer{why}")
        self._on_wait(f"{self.server} {reason}; asking again in {seconds:.0f} s")


def in_words(question: Question) -> str:
    """Return how to answer where no tool can be called, for the end of a question; empty where none is asked for."""
    if question.tool is None:
        return ""
    schema = question.tool.schema
    block = " The file of `source` may stand in a block of Python instead." if "source" in schema["properties"] else ""
    return (
        f"\n\nNo tool can be called here, whatever is said above. In place of calling `{question.tool.name}` write one "
        f"JSON object of this schema, and nothing else.{block}\n\n{json.dumps(schema)}"
    )


async def events(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield the data of each event of a stream, what is no UTF-8 replaced; comments and names are passed over."""
    begun: list[bytes] = []
    told: list[str] = []
    async for piece in pieces:
        first, *lines = piece.split(b"\n")
        begun.append(first)
        for following in lines:
            line = b"".join(begun).rstrip(b"\r").decode("utf-8", "replace")
            begun = [following]
            if line.startswith("data:"):
                told.append(line[5:].strip())
            elif not line and told:
                yield "\n".join(told)
                told = []
    if told:
        yield "\n".join(told)


def http_client(kind: Callable[..., Client]) -> Client:
    """Return an SDK's HTTP client, which the environment sets up.

    Raises
    ------
    BadInput
        The environment names a proxy or certificates that cannot be used.
    """
    try:
        # It would follow a redirect, and take prompts and the key to whoever it names.
        return kind(follow_redirects=False)
    except Exception as error:  # noqa: BLE001 - of many types, and their words may hold a part of a proxy's password
        raise BadInput(
            f"The settings of this machine's proxy or certificates cannot be used ({type(error).__name__}).",
            cure="Check HTTP(S)_PROXY, ALL_PROXY, NO_PROXY and SSL_CERT_FILE; "
            "a SOCKS proxy needs `pip install socksio`.",
        ) from None


def check_address(address: str, variable: str, example: str) -> None:
    """Refuse an address that names no server.

    Raises
    ------
    BadInput
        It names none; the environment's `variable` holds it.
    """
    if not re.match(r"https?://[^/\s]", address):
        raise BadInput(f"{variable} names no server.", cure=f"Write it as in {example}.")
