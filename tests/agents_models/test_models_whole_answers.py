"""Answers that are whole in another form, or whose end is told otherwise: taken, counted and not paid for again."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from messages_api.replies import Reply
from model_cases import HURRIED, PLAN, question, waits

from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.core.status import StopReason

CALL = {"index": 0, "id": "a", "type": "function", "function": {"name": "submit_plan", "arguments": json.dumps(PLAN)}}
USED = {"prompt_tokens": 20000, "completion_tokens": 9000}


def chunk(delta: Any = None, stop: str | None = None, **more: Any) -> bytes:
    """Return a chunk of the chat completions API."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": stop}]
    return b"data: " + json.dumps({"model": "m", "choices": choices, **more}).encode() + b"\n\n"


def event(kind: str, **more: Any) -> bytes:
    """Return an event of the Messages API."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()


CALLED = chunk({"tool_calls": [CALL]})
ENDED = chunk({}, "tool_calls")
DONE = b"data: [DONE]\n\n"
BEGUN = event("message_start", message={"model": "m", "usage": {"input_tokens": 1000, "output_tokens": 1}})
BLOCK = event("content_block_start", index=0, content_block={"type": "tool_use", "name": "submit_plan", "input": PLAN})
STOPPED = event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 500})


@pytest.mark.parametrize(
    "first",
    [
        chunk({"role": "assistant"}, usage={"prompt_tokens": 0, "completion_tokens": 0}),
        chunk({"role": "assistant"}, usage={"prompt_tokens": 20000, "completion_tokens": 1}),
    ],
)
async def test_tokens_are_counted_from_the_end_also_where_some_are_told_early(
    serve: Any, chat: Any, first: bytes
) -> None:
    raw = first + CALLED + ENDED + chunk(usage=USED) + DONE
    answer = await chat(serve([Reply(raw=raw)])).ask(question())
    assert (answer.tool_input, answer.usage.input_tokens, answer.usage.output_tokens) == (PLAN, 20000, 9000)


async def test_early_tokens_are_no_total_where_the_end_tells_none(serve: Any, chat: Any, connect: Any) -> None:
    said, say = waits()
    early = chunk({"content": "x" * 700}, usage={"prompt_tokens": 0, "completion_tokens": 0})
    answer = await chat(serve([Reply(raw=early + ENDED + DONE)]), on_wait=say).ask(question())
    assert answer.usage.input_tokens > 100
    assert answer.usage.output_tokens == 200
    raw = BEGUN + BLOCK + event("message_delta", delta={"stop_reason": "tool_use"}, usage={}) + event("message_stop")
    answer = await connect(serve([Reply(raw=raw)]), on_wait=say).ask(question())
    assert answer.usage.input_tokens == 1000
    assert answer.usage.output_tokens > 10
    assert ["guessed" in line for line in said] == [True, True]


async def test_a_server_that_neither_tells_tokens_nor_hangs_up_is_not_waited_for(serve: Any, chat: Any) -> None:
    server = serve([Reply(raw=CALLED + ENDED, pause_s=300.0)])
    began = time.monotonic()
    answer = await chat(server, patience=replace(HURRIED, silence=60.0, ending=0.1)).ask(question())
    assert answer.tool_input == PLAN
    assert answer.usage.output_tokens > 10
    assert (len(server.requests), answer.troubles) == (1, ())
    assert time.monotonic() - began < 30.0


async def test_an_answer_as_json_in_place_of_a_stream_is_taken_and_counted(serve: Any, chat: Any, connect: Any) -> None:
    choices = [{"message": {"role": "assistant", "content": None, "tool_calls": [CALL]}, "finish_reason": "tool_calls"}]
    server = serve([Reply(body=json.dumps({"model": "m", "choices": choices, "usage": USED}))])
    answer = await chat(server).ask(question())
    assert (answer.tool_input, answer.usage.output_tokens, len(server.requests)) == (PLAN, 9000, 1)
    content = [{"type": "text", "text": "Here."}, {"type": "tool_use", "name": "submit_plan", "input": PLAN}]
    used = {"input_tokens": 5000, "output_tokens": 400}
    body = {"type": "message", "model": "m", "content": content, "stop_reason": "tool_use", "usage": used}
    server = serve([Reply(body=json.dumps(body))])
    answer = await connect(server).ask(question())
    assert (answer.tool_input, answer.text, answer.model) == (PLAN, "Here.", "m")
    assert (answer.usage.input_tokens, answer.usage.output_tokens, len(server.requests)) == (5000, 400, 1)


async def test_a_stream_that_is_called_json_is_read(serve: Any, chat: Any) -> None:
    server = serve([Reply(body=(CALLED + ENDED + DONE).decode())])
    assert (await chat(server).ask(question())).tool_input == PLAN


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('{"type": "error", "error": {"type": "authentication_error", "message": "expired"}}', "the API key .expired"),
        ('{"error": {"code": 400, "message": "no such thing"}}', "refused the question .no such thing"),
        ("<html>Log in</html>", "answers with a web page"),
        ('{"status": "ok"}', "answers in another form"),
    ],
)
async def test_what_is_no_answer_is_told_at_once(serve: Any, chat: Any, connect: Any, body: str, told: str) -> None:
    for ask in (chat, connect):
        server = serve([Reply(body=body)])
        with pytest.raises(BadInput, match=told):
            await ask(server).ask(question())
        assert len(server.requests) == 1


async def test_an_error_in_place_of_a_stream_that_may_pass_is_told_in_the_servers_words(serve: Any, chat: Any) -> None:
    with pytest.raises(Fault, match="Provider disconnected"):
        await chat(serve([Reply(body='{"error": {"code": 502, "message": "Provider disconnected"}}')])).ask(question())


async def test_text_in_parts_is_read_without_what_was_thought(serve: Any, chat: Any) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Let me see."}]}
    parts = [thought, {"type": "text", "text": "Fuse"}, " it", {"type": "reference", "reference_ids": [1]}, 7, None]
    raw = chunk({"content": parts}) + chunk({"content": "."}) + chunk({}, "stop") + chunk(usage=USED) + DONE
    assert (await chat(serve([Reply(raw=raw)])).ask(question())).text == "Fuse it."


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("other", [{"title": "Fuse"}, {"advice": "One", "annotated_source": "x", "more": 1}, {}])
async def test_of_two_calls_the_one_that_holds_more_of_what_is_asked_for_counts(
    serve: Any, chat: Any, connect: Any, other: dict[str, Any], turned: bool
) -> None:
    both = [PLAN, other] if turned else [other, PLAN]
    calls = [
        {**CALL, "index": index, "id": str(index), "function": {"name": "submit_plan", "arguments": json.dumps(given)}}
        for index, given in enumerate(both)
    ]
    raw = chunk({"tool_calls": calls}) + ENDED + DONE
    assert (await chat(serve([Reply(raw=raw)])).ask(question())).tool_input == PLAN
    blocks = [
        event(
            "content_block_start", index=index, content_block={"type": "tool_use", "name": "submit_plan", "input": each}
        )
        for index, each in enumerate(both)
    ]
    answer = await connect(serve([Reply(raw=BEGUN + b"".join(blocks) + STOPPED)])).ask(question())
    assert answer.tool_input == PLAN


@pytest.mark.parametrize("end", [DONE, chunk(usage=USED) + DONE, b"data: [DONE]\n"])
async def test_the_mark_of_the_end_is_the_end(serve: Any, chat: Any, end: bytes) -> None:
    server = serve([Reply(raw=CALLED + end)])
    answer = await chat(server).ask(question())
    assert (answer.tool_input, answer.stop, len(server.requests)) == (PLAN, StopReason.COMPLETE, 1)


async def test_an_answer_of_nothing_that_was_paid_for_is_one(serve: Any, chat: Any) -> None:
    server = serve([Reply(raw=chunk(usage=USED) + DONE)])
    answer = await chat(server).ask(question())
    assert (answer.message, answer.usage.output_tokens) == ("The model answered nothing.", 9000)
    assert len(server.requests) == 1


async def test_an_answer_without_that_mark_or_a_reason_broke_off(serve: Any, chat: Any) -> None:
    server = serve([Reply(raw=CALLED), Reply(raw=CALLED + ENDED + DONE)])
    assert (await chat(server).ask(question())).troubles == ("the answer broke off",)


async def test_a_message_that_gave_its_reason_to_stop_is_whole(serve: Any, connect: Any) -> None:
    server = serve([Reply(raw=BEGUN + BLOCK + STOPPED, cut_after=0)])
    answer = await connect(server).ask(question())
    assert (answer.tool_input, answer.usage.output_tokens, len(server.requests)) == (PLAN, 500, 1)


async def test_a_question_that_is_refused_within_the_stream_is_not_asked_again(serve: Any, connect: Any) -> None:
    error = event("error", error={"type": "invalid_request_error", "message": "bad thing"})
    server = serve([Reply(raw=BEGUN + error)])
    with pytest.raises(BadInput, match="bad thing"):
        await connect(server).ask(question())
    assert len(server.requests) == 1


async def test_bytes_that_are_no_text_cost_themselves_alone(serve: Any, chat: Any, connect: Any) -> None:
    said = chunk({"content": "a?b\u2028c"}).replace(b"?", b"\xff").replace(b"\\u2028", "\u2028".encode())
    answer = await chat(serve([Reply(raw=said + ENDED.replace(b"\n", b"\r\n") + DONE)])).ask(question())
    assert answer.text == "a\ufffdb\u2028c"
    block = event("content_block_start", index=0, content_block={"type": "text", "text": "a?"}).replace(b"?", b"\xff")
    answer = await connect(serve([Reply(raw=BEGUN + block + STOPPED)])).ask(question())
    assert answer.text == "a\ufffd"
