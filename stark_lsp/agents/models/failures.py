"""Failures: what a refused or broken request means, and what a person can do about it.

Kinds of errors and their words are those of https://platform.claude.com/docs/en/api/errors and of
https://platform.openai.com/docs/guides/error-codes; servers of others are read with the same rules. Whatever a server
writes is cut, cleaned and searched for the key before anybody sees it.
"""

from __future__ import annotations

import email.utils
import os
import re
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from stark_lsp.agents.models.reading import clean_text
from stark_lsp.agents.models.secret import Secret
from stark_lsp.core.errors import BadInput, Fault, NotNow, StarkError, TooLong


@dataclass(frozen=True)
class Service:
    """What errors say of a kind of service."""

    key: str
    """How its key is set."""
    address: str
    """Where its address is named."""
    billing: str
    """Where it is paid."""
    another: str
    """How another model is chosen."""


ANTHROPIC = Service(
    key="`STARK: Set API Key` in VS Code, or ANTHROPIC_API_KEY",
    address="in ANTHROPIC_BASE_URL",
    billing="Billing at https://platform.claude.com",
    another="for instance anthropic for the default",
)
"""The Messages API."""
OPENAI = Service(
    key="OPENAI_API_KEY; it is sent to the address in OPENAI_BASE_URL alone",
    address="behind @ or in OPENAI_BASE_URL",
    billing="the account of the service",
    another="by the name that the server lists",
)
"""The chat completions API."""


class TroubleKind(str, Enum):
    """What to do about a failed try."""

    AGAIN = "again"
    """It may go better in a while."""
    REFUSED = "refused"
    """The request is not taken as it is; it may be without a parameter."""
    KEY = "key"
    """The key is not accepted."""
    CREDIT = "credit"
    """There is nothing to pay with, or a limit on spending is reached."""
    PERMISSION = "permission"
    """The key may not do this."""
    MODEL = "model"
    """There is no such model, or no such address."""
    ELSEWHERE = "elsewhere"
    """The service sends us to another address, where neither the key nor the prompts go unasked."""
    CERTIFICATE = "certificate"
    """The server's certificate is not trusted."""
    HOST = "host"
    """Nobody knows the host's name; it is looked up once more, since a network may just be coming up."""
    TOO_LONG = "too_long"
    """The question does not fit into the model's context."""
    DECLINED = "declined"
    """What the model wrote, or was to write, is not given out."""


@dataclass(frozen=True)
class Trouble:
    """Why a try failed."""

    kind: TroubleKind
    words: str
    """What the service said, cleaned; empty if it said nothing."""
    status: int | None = None
    """The HTTP status, None if no answer came."""
    retry_after: float | None = None
    """Seconds that the service asks to wait."""
    request_id: str = ""

    @property
    def text(self) -> str:
        """What happened, for the record: `529 Overloaded`."""
        return " ".join(part for part in (str(self.status or ""), self.words) if part)[:300]


_PASSING = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which to ask again."""
_PASSING_TYPES = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})
_CREDIT = re.compile(
    r"credit balance|billing|spend(?:ing)? limit|quota|insufficient (?:funds|credit|balance)", re.IGNORECASE
)
_TOO_LONG = re.compile(
    r"prompt is too long|exceeds? (?:the )?(?:model'?s? )?(?:maximum |available )?context|maximum context length"
    r"|context window|context length|too many (?:input )?tokens",
    re.IGNORECASE,
)
_DECLINED = re.compile(r"content (?:filter(?:ing)?|management) policy|\binput was flagged\b", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def said(text: object, key: Secret | None = None) -> str:
    """Return what a server said, fit to be shown: one line, without control characters, cut, the key masked."""
    line = _CONTROL.sub(" ", clean_text(str(text)[:5000])).strip()
    if key is not None:
        line = key.masked(line)
    return line if len(line) <= 300 else line[:299] + "…"


def read_refusal(
    status: int | None, body: object, headers: Mapping[str, str], fallback: str, key: Secret | None = None
) -> Trouble:
    """Return what an answer with an error says.

    Parameters
    ----------
    status
        The HTTP status; None for an error event within a stream that had begun.
    body
        The decoded body, whatever it is.
    headers
        Of the answer.
    fallback
        Words to use where the body has none.
    key
        What must not be shown.
    """
    error = body.get("error") if isinstance(body, Mapping) else None
    kind = error.get("type") if isinstance(error, Mapping) else None
    message = error.get("message") if isinstance(error, Mapping) else error
    code = error.get("code") if isinstance(error, Mapping) else None
    if status is None and isinstance(code, int) and 400 <= code < 600:
        # OpenRouter and vLLM tell so what the status would have been.
        status = code
    if message is None and isinstance(body, Mapping):
        # FastAPI's and others' ways of saying it.
        message = body.get("message") or body.get("detail")
    if status is not None and 300 <= status < 400:
        message = f"it redirects to {headers.get('location') or 'nowhere'}"
    page = status == 407 or ("text/html" in headers.get("content-type", "") and _lasting(status))
    if page:
        message = "it answers with a web page, perhaps a proxy's"
    words = said(message if message else fallback, key)
    return Trouble(
        kind=TroubleKind.ELSEWHERE if page else _kind(status, kind if isinstance(kind, str) else "", words),
        words=words,
        status=status,
        retry_after=wait_asked_for(headers),
        request_id=said(request_id(headers), key),
    )


def request_id(headers: Mapping[str, str]) -> str:
    """Return by which name the service knows a request, empty if it does not say."""
    return headers.get("request-id") or headers.get("x-request-id", "")


def wait_asked_for(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that `retry-after-ms` or `retry-after` (RFC 9110, section 10.2.3) ask for."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) / unit
        except ValueError:
            moment = email.utils.parsedate_tz(value) if value else None
            if moment is None:
                continue
            try:
                seconds = email.utils.mktime_tz(moment) - time.time()
            except (ValueError, OverflowError):
                continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def as_error(
    trouble: Trouble, *, model: str, server: str, tries: int, waited: bool = True, service: Service = ANTHROPIC
) -> StarkError:
    """Return the error to raise: what is wrong, and what mends it.

    Parameters
    ----------
    trouble
        Why the last try failed.
    model
        The model that was asked.
    server
        The host that was asked.
    tries
        How often it was asked.
    waited
        False if it was given up because the service asks for a longer wait than is allowed.
    service
        Which kind of service it is.
    """
    words = trouble.words.rstrip(".")
    details = f"status {trouble.status}, request {trouble.request_id or 'unknown'}, {server}: {trouble.words}"
    told = {
        TroubleKind.KEY: (f"{server} did not accept the API key ({words}).", f"Set another one: {service.key}."),
        TroubleKind.CREDIT: (
            f"{server} wants to be paid first ({words}).",
            f"See {service.billing}, or choose the model playbook, which costs nothing.",
        ),
        TroubleKind.PERMISSION: (
            f"The API key may not use {model} ({words}).",
            "Choose another model, or another key.",
        ),
        TroubleKind.MODEL: (
            f"{server} has no model {model} ({words}).",
            f"Choose another one, {service.another}, or where one role has a model of its own, that "
            f"(`code.model`, `correction_model`); or check the address {service.address}.",
        ),
        TroubleKind.ELSEWHERE: (
            f"{server} is not where questions are answered ({words}).",
            f"Name the right address {service.address}, if you trust it, or see to the proxy (HTTPS_PROXY, NO_PROXY).",
        ),
        TroubleKind.CERTIFICATE: (
            f"{server} is not trusted ({words}).",
            "Have SSL_CERT_FILE name your company's certificates, or check the address and this machine's clock.",
        ),
        TroubleKind.HOST: (
            f"{server} cannot be reached ({words}).",
            f"Check the address {service.address}, a proxy's if there is one, and the network.",
        ),
        TroubleKind.TOO_LONG: (
            f"The question is longer than {model} can read ({words}).",
            "Choose a model with a larger context, or give your own server one (vLLM: --max-model-len, llama.cpp: "
            "--ctx-size); or lower the role's max_tokens or the search's window size.",
        ),
        TroubleKind.REFUSED: (
            f"{server} refused the question ({words}).",
            "Check the model's name and the settings of its roles, such as max_tokens.",
        ),
    }
    if trouble.kind in told:
        message, cure = told[trouble.kind]
        return (TooLong if trouble.kind is TroubleKind.TOO_LONG else BadInput)(message, cure=cure, details=details)
    if not waited:
        minutes = max(1, round((trouble.retry_after or 0.0) / 60))
        return NotNow(
            f"{server} asks to wait {minutes} min ({words}).",
            cure="Resume the run later; what was answered is kept.",
            details=details,
        )
    times = "once" if tries == 1 else f"{tries} times"
    return Fault(
        f"{server} did not answer, asked {times} ({words}).",
        cure="Check the network and try again; what was answered is kept.",
        details=details,
    )


def _lasting(status: int | None) -> bool:
    """Whether a status refuses for good; 413 does, and says itself what is wrong."""
    return status is not None and 400 <= status < 500 and status not in _PASSING and status != 413


def _kind(status: int | None, kind: str, words: str) -> TroubleKind:
    if kind in ("billing_error", "insufficient_quota") or status == 402:
        return TroubleKind.CREDIT
    if _DECLINED.search(words) and (status is None or status in (400, 403)):
        return TroubleKind.DECLINED
    if status == 413 or (_TOO_LONG.search(words) and (status is None or status >= 500)):
        return TroubleKind.TOO_LONG  # llama.cpp says so by a 500
    # Where there is a status it is more certain than the type: Ollama calls every refusal an `api_error`.
    if kind in _PASSING_TYPES if status is None else status in _PASSING or status >= 500:
        return TroubleKind.AGAIN
    if status == 401 or kind == "authentication_error":
        return TroubleKind.KEY
    if status == 403 or kind == "permission_error":
        return TroubleKind.PERMISSION
    if status == 404 or kind == "not_found_error":
        return TroubleKind.MODEL
    if status is not None and 300 <= status < 400:
        return TroubleKind.ELSEWHERE
    if _TOO_LONG.search(words):
        return TroubleKind.TOO_LONG
    if _CREDIT.search(words):
        return TroubleKind.CREDIT
    if status is None and kind != "invalid_request_error":
        # A stream that had begun broke with an error we do not know: nothing says that it would break again.
        return TroubleKind.AGAIN
    return TroubleKind.REFUSED


def broken(error: BaseException, key: Secret | None = None) -> Trouble:
    """Return what is to be done about a broken connection."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Trouble(TroubleKind.CERTIFICATE, f"certificate verify failed: {cause.verify_message}")
        if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME:
            return Trouble(TroubleKind.HOST, said(cause.strerror))
        if type(cause).__name__ == "ProxyError" and str(cause).startswith("4"):  # the status of a tunnel
            return Trouble(TroubleKind.ELSEWHERE, f"a proxy says: {said(cause, key)}")
    return Trouble(TroubleKind.AGAIN, describe(error, key))


def describe(error: BaseException, key: Secret | None = None) -> str:
    """Return what broke a connection, for a person."""
    names = {"ConnectError": "no connection", "ConnectTimeout": "no connection in time", "ReadTimeout": "nothing came"}
    causes = _causes(error)
    named = next((names[name] for name in (type(cause).__name__ for cause in causes) if name in names), "")
    if named == "no connection":
        inner = causes[-1]
        # The text of a refused one repeats the address.
        plain = os.strerror(inner.errno) if isinstance(inner, ConnectionError) and inner.errno else ""
        return f"{named}: {plain or said(inner, key)}"
    return named or said(error, key) or type(error).__name__


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and what it comes of, the innermost last; of several that came together the first."""
    causes = [error]
    for cause in causes:  # it grows meanwhile
        deeper = cause.__cause__ or cause.__context__ or next(iter(getattr(cause, "exceptions", ())), None)
        if deeper is not None:
            causes.append(deeper)
    return causes


def header_map(headers: Any) -> Mapping[str, str]:
    """Return headers as a mapping with names in lower case."""
    try:
        return {str(name).lower(): str(value) for name, value in headers.items()}
    except (AttributeError, TypeError, ValueError):
        return {}
