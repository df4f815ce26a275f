"""Failures of a service: asked again, given up, or told with the cure."""

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from messages_api import replies
from messages_api.replies import Reply
from messages_api.server import TEST_KEY, Request
from model_cases import HURRIED, NEW, PLAN, question, waits

from stark_lsp.agents.models import registry
from stark_lsp.agents.models.patience import Patience, pause
from stark_lsp.agents.models.secret import Secret
from stark_lsp.core.agent_adjust import adjusted
from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.core.status import StopReason
from stark_lsp.search.faults import in_full

WELL = replies.tool(PLAN)

PASSING = {
    "429": replies.rate_limited(),
    "529": replies.overloaded(),
    "500": replies.server_error(),
    "503 as HTML": Reply(status=503, body="<html>upstream is gone</html>"),
    "cut in the middle of the tool's JSON": replies.cut(PLAN, after=5),
    "cut before the answer": replies.cut(PLAN, after=0),
    "overloaded in the stream": replies.overloaded_midway(PLAN),
    "an unknown error in the stream": Reply(tool_input=PLAN, stream_error=("strange_error", "?")),
    "events that are no JSON": replace(WELL, garbage="{not json"),
}


@pytest.mark.parametrize("name", PASSING)
async def test_a_passing_failure_is_asked_again(serve: Any, connect: Any, name: str) -> None:
    server = serve([PASSING[name], PASSING[name], WELL])
    said, say = waits()
    answer = await connect(server, on_wait=say).ask(question())
    assert answer.tool_input == PLAN
    assert len(server.requests) == 3
    assert len(said) == 2
    assert all("asking again in" in line for line in said)


@pytest.mark.parametrize("name", PASSING)
async def test_a_failure_that_does_not_pass_is_a_fault_with_a_cure(serve: Any, connect: Any, name: str) -> None:
    server = serve([PASSING[name]])
    with pytest.raises(Fault, match="asked 5 times") as caught:
        await connect(server).ask(question())
    assert caught.value.cure
    assert len(server.requests) == HURRIED.tries


async def test_the_wait_that_the_service_asks_for_is_kept(serve: Any, connect: Any) -> None:
    server = serve([replies.rate_limited("0.3"), WELL])
    said, say = waits()
    began = time.monotonic()
    await connect(server, on_wait=say).ask(question())
    first, second = server.requests
    assert second.arrived_at - first.arrived_at >= 0.3
    assert time.monotonic() - began >= 0.3
    assert "asks for a pause" in said[0]


async def test_a_wait_longer_than_allowed_is_not_begun(serve: Any, connect: Any) -> None:
    server = serve([replies.rate_limited("3600"), WELL])
    with pytest.raises(Fault, match="asks to wait 60 min"):
        await connect(server).ask(question())
    assert len(server.requests) == 1


SMALL = "the request exceeds the available context size, try increasing it"
"""As llama.cpp says it."""


@pytest.mark.parametrize(
    ("reply", "told", "cure"),
    [
        (replies.unauthorized(), "did not accept the API key", "ANTHROPIC_API_KEY"),
        (replies.forbidden(), "may not use claude-sonnet-5-5", "another model"),
        (replies.no_such_model("claude-sonnet-5-5"), "has no model claude-sonnet-5-5", "ANTHROPIC_BASE_URL"),
        (replies.no_credit(), "credit balance is too low", "playbook"),
        (replies.fault(402, "billing_error", "Payment required"), "wants to be paid", "Billing"),
        (replies.too_long(), "longer than claude-sonnet-5-5 can read", "larger context"),
        (replies.fault(413, "request_too_large", "too many bytes"), "longer than", "larger context"),
        (replies.fault(500, "exceed_context_size_error", SMALL), "longer than", "larger context"),
        (replies.fault(400, "invalid_request_error", "tools.0: strange"), "refused the question", "settings"),
        (Reply(status=404, body="<html>nothing here</html>"), "answers with a web page", "ANTHROPIC_BASE_URL"),
        (Reply(status=403, body="<html>blocked</html>"), "a web page, perhaps a proxy's", "HTTPS_PROXY"),
        (Reply(status=407, body="who are you?"), "a web page, perhaps a proxy's", "HTTPS_PROXY"),
        (Reply(status=413, body="<html>too large</html>"), "longer than", "larger context"),
    ],
)
async def test_what_the_user_must_mend_is_told_at_once(
    serve: Any, connect: Any, reply: Reply, told: str, cure: str
) -> None:
    server = serve([reply], manners=False)
    with pytest.raises(BadInput) as caught:
        await connect(server).ask(question())
    assert told in caught.value.message
    assert cure in caught.value.cure
    assert len(server.requests) == 1


async def test_a_wrong_key_is_told_as_such(serve: Any, connect: Any) -> None:
    server = serve([WELL], key="another key")
    with pytest.raises(BadInput, match="did not accept the API key"):
        await connect(server).ask(question())


async def test_a_server_that_is_not_there_is_a_fault(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    model = connect(server)
    server.close()
    with pytest.raises(Fault, match="no connection: Connection refused"):
        await model.ask(question())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate")
async def test_a_certificate_that_is_not_trusted_is_told_at_once(tmp_path: Path, connect: Any) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = f"openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=127.0.0.1 -keyout {key} -out {certificate}"
    subprocess.run(made.split(), check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    http = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    http.handle_error = lambda *_: None  # type: ignore[method-assign]
    http.socket = context.wrap_socket(http.socket, server_side=True)
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    said, say = waits()
    model = connect(SimpleNamespace(url=f"https://127.0.0.1:{http.server_port}"), on_wait=say)
    with pytest.raises(BadInput, match="certificate verify failed: self-signed certificate") as caught:
        await model.ask(question())
    http.shutdown()
    http.server_close()
    assert "SSL_CERT_FILE" in caught.value.cure
    assert said == []


async def test_a_host_that_nobody_knows_is_looked_up_twice(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    said, say = waits()
    model = connect(SimpleNamespace(url="https://api.anthropic.con"), on_wait=say)
    with pytest.raises(BadInput, match="Name or service not known") as caught:
        await model.ask(question())
    assert "ANTHROPIC_BASE_URL" in caught.value.cure
    assert len(said) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", "socks5://user:PASSWORD@127.0.0.1:9"),
        ("ALL_PROXY", "socks://user:PASSWORD@127.0.0.1:1080/"),
        ("HTTPS_PROXY", "http://user:PASSWORD/x@127.0.0.1:1"),
        ("SSL_CERT_FILE", "/nonexistent.pem"),
    ],
)
async def test_a_proxy_and_certificates_that_cannot_be_used_are_told_without_their_text(
    serve: Any, connect: Any, chat: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    server = serve([WELL])
    models = connect(server), chat(server)
    monkeypatch.setenv(name, value)
    for model in models:
        with pytest.raises(BadInput, match="proxy or certificates cannot be used") as caught:
            await model.ask(question())
        assert "SSL_CERT_FILE" in caught.value.cure
        assert "PASSWORD" not in str(caught.value) + in_full(caught.value)


async def test_what_a_proxy_says_before_a_server_is_reached_is_told(
    serve: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = serve([WELL])
    monkeypatch.setattr(proxy._http.RequestHandlerClass, "do_CONNECT", _refuse_tunnel, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    with pytest.raises(BadInput, match="a proxy says: 407") as caught:
        await connect(SimpleNamespace(url="https://nosuch.invalid")).ask(question())
    assert "HTTPS_PROXY" in caught.value.cure


def _refuse_tunnel(handler: BaseHTTPRequestHandler) -> None:
    handler.send_error(407)


async def test_words_of_a_server_are_shown_on_one_short_line(serve: Any, connect: Any) -> None:
    server = serve([replies.fault(403, "permission_error", "\x1b[31mred\x1b[0m\n" + "x" * 5000)], manners=False)
    with pytest.raises(BadInput) as caught:
        await connect(server).ask(question())
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


async def test_silence_is_given_up_and_asked_again(serve: Any, connect: Any) -> None:
    server = serve([replace(WELL, delay_s=300.0), WELL])
    patience = replace(HURRIED, silence=0.5)
    answer = await connect(server, patience=patience).ask(question())
    assert answer.tool_input == PLAN
    assert not server.requests[0].finished
    assert len(server.requests) > 1


async def test_pings_keep_a_slow_answer_alive(serve: Any, connect: Any) -> None:
    server = serve([replace(WELL, pause_s=3.0, pause_before=4, ping_s=0.05)])
    patience = replace(HURRIED, silence=2.5)
    answer = await connect(server, patience=patience).ask(question())
    assert answer.tool_input == PLAN
    assert len(server.requests) == 1


async def test_how_long_silence_is_borne_is_a_setting(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve([replace(WELL, delay_s=300.0), WELL])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    agents = adjusted(AgentSettings(), {"silence_s": 0.5})

    async def key() -> Secret:
        return Secret(TEST_KEY)

    model = await registry.BUILDERS["anthropic"](registry.Wanted(find_key=key, silence_s=agents.silence_s))
    try:
        assert (await model.ask(question())).tool_input == PLAN
    finally:
        await model.close()
    assert len(server.requests) == 2
    usual = Patience()
    assert (usual.silence, usual.one_try) == (600.0, 21600.0), "thinking without pings, and pings for long, are borne"


async def test_an_answer_that_never_ends_is_given_up(serve: Any, connect: Any) -> None:
    server = serve([replace(WELL, pause_s=300.0, ping_s=0.02), WELL])
    patience = replace(HURRIED, one_try=1.0)
    answer = await connect(server, patience=patience).ask(question())
    assert answer.tool_input == PLAN
    assert not server.requests[0].finished
    assert len(server.requests) > 1


async def _cancel(serve: Any, connect: Any, slow: Reply) -> float:
    """Cancel a question while it is answered; return the seconds until the server sees the connection's end."""
    server = serve([slow])
    asking = asyncio.create_task(connect(server).ask(question()))
    while not server.requests:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    cancelled_at = time.monotonic()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    while server.requests[0].disconnected_at is None:
        assert time.monotonic() - cancelled_at < 60.0, "the server never saw the end of the connection"
        await asyncio.sleep(0.01)
    return float(server.requests[0].disconnected_at - cancelled_at)


SLOW = {
    "before the answer": replace(WELL, delay_s=300.0),
    "within the answer": replace(WELL, pause_s=300.0, ping_s=0.02),
}


@pytest.mark.parametrize("when", SLOW)
async def test_a_cancel_closes_the_stream(serve: Any, connect: Any, when: str) -> None:
    assert await _cancel(serve, connect, SLOW[when]) > 0


@pytest.mark.timing
@pytest.mark.parametrize("when", SLOW)
async def test_a_cancel_closes_the_stream_within_a_second(serve: Any, connect: Any, when: str) -> None:
    assert await _cancel(serve, connect, SLOW[when]) < 1.0


async def test_a_cancel_ends_a_pause_at_once(serve: Any, connect: Any) -> None:
    server = serve([replies.overloaded()])
    patience = Patience(first_pause=60.0, longest_pause=60.0)
    asking = asyncio.create_task(connect(server, patience=patience).ask(question()))
    while not server.requests or not server.requests[0].finished:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asking, 5.0)


async def test_tokens_of_broken_answers_are_counted(serve: Any, connect: Any) -> None:
    long = {**PLAN, "advice": "word " * 400}
    whole = await connect(serve([replies.tool(long)])).ask(question())
    broken = await connect(serve([replies.cut(long, after=7), replies.tool(long)])).ask(question())
    assert broken.usage.output_tokens > whole.usage.output_tokens + 200
    assert broken.usage.total > 1.5 * whole.usage.total


async def test_thirty_calls_with_faults_in_a_third_all_end_and_none_is_lost(serve: Any, connect: Any) -> None:
    faults = [
        replies.rate_limited("0"),
        replies.overloaded(),
        replies.server_error(),
        replies.cut(PLAN, after=6),
        replies.overloaded_midway(PLAN),
        replies.malformed('{"title": '),
        replies.refusal(),
        replies.cut_off('{"title": "F'),
        replies.empty(),
        replies.text("no tool"),
    ]
    count = 0

    def answer(request: Request) -> Reply:
        nonlocal count
        count += 1
        return faults[(count // 3) % len(faults)] if count % 3 == 0 else WELL

    server = serve(answer)
    model = connect(server)
    answers = [await model.ask(question(attempt=attempt)) for attempt in range(30)]
    kinds = [(one.stop, one.tool_input is not None, one.message != "") for one in answers]
    assert kinds.count((StopReason.COMPLETE, True, False)) == sum(1 for one in answers if one.tool_input == PLAN)
    assert {stop for stop, _, _ in kinds} == {StopReason.COMPLETE, StopReason.REFUSAL, StopReason.MAX_TOKENS}
    for kind in faults:
        assert any(request.reply == kind for request in server.requests)
    passing = sum(1 for request in server.requests if request.reply in faults[:5])
    assert len(server.requests) == 30 + passing


def test_pauses_double_are_scattered_and_never_shorter_than_asked_for() -> None:
    from random import Random

    patience = Patience(first_pause=1.0, longest_pause=8.0)
    rng = Random(3)
    for failed, full in [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (9, 8.0), (10_000, 8.0)]:
        pauses = [pause(patience, failed, None, rng) for _ in range(50)]
        assert all(full / 2 <= one <= full for one in pauses)
        assert max(pauses) - min(pauses) > full / 10
    assert pause(patience, 1, 30.0, rng) == 30.0


async def test_the_wire_is_the_services_own(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    await connect(server, name=NEW).ask(question())
    request = server.requests[0]
    assert request.body["stream"] is True
    assert request.headers["anthropic-version"] == "2026-10-21"
    assert "x-stainless-retry-count" not in request.headers or request.headers["x-stainless-retry-count"] == "0"


@pytest.mark.parametrize(
    "reply",
    [
        replies.fault(400, "invalid_request_error", "Output blocked by content filtering policy"),
        Reply(tool_input=PLAN, stream_error=("invalid_request_error", "Output blocked by content filtering policy")),
    ],
)
async def test_an_answer_that_is_filtered_out_is_a_refusal_and_not_asked_for_again(
    serve: Any, connect: Any, reply: Reply
) -> None:
    server = serve([reply], manners=False)
    answer = await connect(server).ask(question())
    assert answer.stop is StopReason.REFUSAL
    assert "declined" in answer.message
    assert "content filtering policy" in answer.message
    assert len(server.requests) == 1
