"""The key is sent to the service, and seen nowhere else."""

import asyncio
import copy
import json
import logging
import os
import pickle
import threading
import traceback
from typing import Any

import pytest
from messages_api import replies
from messages_api.replies import Reply
from messages_api.server import TEST_KEY
from model_cases import PLAN, question

from stark_lsp.agents.models.anthropic import AnthropicModel
from stark_lsp.agents.models.secret import Secret
from stark_lsp.core.errors import BadInput, StarkError
from stark_lsp.evaluation.environment import worker_environment


def test_a_secret_shows_itself_to_nobody() -> None:
    secret = Secret(f"  {TEST_KEY} ")
    assert secret.reveal() == TEST_KEY
    for shown in (repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", f"{secret:>40}", repr([secret])):
        assert TEST_KEY not in shown
    assert secret.masked(f"say {TEST_KEY} twice: {TEST_KEY}") == "say …key… twice: …key…"
    assert copy.deepcopy(secret) is secret
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps(secret)


@pytest.mark.parametrize("value", ["", "   ", "a\nb", "a b", "schlüssel", "\x00"])
def test_what_cannot_be_a_key_is_refused_without_being_told(value: str) -> None:
    with pytest.raises(ValueError, match="key") as caught:
        Secret(value)
    assert value.strip() not in str(caught.value) or not value.strip()


@pytest.mark.parametrize(
    "reply",
    [
        replies.tool(PLAN),
        replies.unauthorized(),
        replies.fault(403, "permission_error", f"the key {TEST_KEY} is not allowed"),
        replies.fault(400, "invalid_request_error", f"Authorization: Bearer {TEST_KEY}"),
        Reply(status=500, body=f"<html>{TEST_KEY}</html>"),
        replies.cut(PLAN),
        Reply(tool_input=PLAN, stream_error=("api_error", f"oops {TEST_KEY}")),
        Reply(tool_input=PLAN, garbage=f"{{{TEST_KEY}"),
    ],
)
async def test_the_key_is_in_no_log_and_no_error(
    serve: Any, connect: Any, caplog: pytest.LogCaptureFixture, reply: Reply
) -> None:
    caplog.set_level(logging.DEBUG)
    model = connect(serve([reply], manners=False))
    shown = [repr(model), str(model)]
    behind: BaseException | None = None
    try:
        shown.append(repr(await model.ask(question())))
    except StarkError as error:
        shown += [str(error), repr(error), error.details, "".join(traceback.format_exception(error))]
        shown.append(repr((error.__cause__, error.__context__)))
        behind = error.__cause__ or error.__context__
    for record in caplog.records:
        shown += [record.getMessage(), repr(record.args), str(record.exc_info)]
    shown.append(caplog.text)
    assert [text for text in shown if TEST_KEY in text] == []
    assert behind is None, "the SDK's own error, with the request's headers, hangs on ours"


async def test_the_key_is_not_in_the_environment_of_this_process_or_a_child(serve: Any, connect: Any) -> None:
    await connect(serve([replies.tool(PLAN)])).ask(question())
    assert TEST_KEY not in os.environ.values()
    environment = {"PATH": "/bin", "ANTHROPIC_API_KEY": TEST_KEY, "ANTHROPIC_AUTH_TOKEN": TEST_KEY}
    assert worker_environment(environment) == {"PATH": "/bin"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_neither_key_nor_prompt_follows_a_redirect(serve: Any, connect: Any, status: int) -> None:
    other = serve([replies.tool(PLAN)], key=None)
    server = serve([Reply(status=status, body="", headers={"location": f"{other.url}/v1/messages"})])
    with pytest.raises(BadInput, match=f"redirects to {other.url}"):
        await connect(server).ask(question())
    assert other.everything == []
    assert len(server.requests) == 1


async def test_a_cancelled_question_tells_no_key(serve: Any, connect: Any) -> None:
    server = serve([Reply(delay_s=30.0)])
    asking = asyncio.create_task(connect(server).ask(question()))
    while not server.requests:
        await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await asking
    assert TEST_KEY not in "".join(traceback.format_exception(caught.value))


async def test_prompts_do_not_leave_by_tracing(serve: Any, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    server = serve([replies.tool(PLAN)])
    await connect(server).ask(question())
    assert "traceparent" not in server.requests[0].headers


@pytest.mark.parametrize(
    "reply",
    [
        replies.fault(401, "authentication_error", f"the token {TEST_KEY} is not known"),
        Reply(status=500, body=f"<html>{TEST_KEY}</html>"),
        Reply(tool_input=PLAN, stream_error=("api_error", f"oops {TEST_KEY}")),
    ],
)
async def test_a_token_in_the_place_of_the_key_is_shown_as_little(
    serve: Any, connect: Any, monkeypatch: pytest.MonkeyPatch, reply: Reply
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", TEST_KEY)
    with pytest.raises(StarkError) as caught:
        await connect(serve([reply], manners=False, key=None), key=None).ask(question())
    assert TEST_KEY not in f"{caught.value} {caught.value.details}"


async def test_a_token_that_cannot_be_sent_is_told_without_its_value(
    connect: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "half\tanother")
    with pytest.raises(BadInput, match="ANTHROPIC_AUTH_TOKEN") as caught:
        await connect(serve([replies.tool(PLAN)]), key=None).ask(question())
    assert "another" not in str(caught.value)


async def test_certificates_are_read_outside_the_event_loop_and_once(
    serve: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting = AnthropicModel._connect
    threads: list[threading.Thread] = []

    def noted(model: AnthropicModel) -> Any:
        threads.append(threading.current_thread())
        return connecting(model)

    monkeypatch.setattr(AnthropicModel, "_connect", noted)
    model = connect(serve([replies.tool(PLAN), replies.tool(PLAN)]))
    await asyncio.gather(model.ask(question()), model.ask(question()))
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
