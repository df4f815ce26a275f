"""Servers with the chat completions API: what is sent, what comes back, what goes wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages_api import replies
from messages_api.chat import unsupported
from messages_api.replies import Reply
from messages_api.server import TEST_KEY
from model_cases import HURRIED, PLAN, MemoryJournal, question, waits

from stark_lsp.agents.models import openai, reading, registry
from stark_lsp.agents.models.chunks import ChunkReader
from stark_lsp.agents.models.failures import read_refusal
from stark_lsp.agents.models.features import Feature, Features
from stark_lsp.agents.models.journaled import JournaledModel
from stark_lsp.agents.models.openai import OpenAIModel, find_key
from stark_lsp.agents.models.prices import Prices
from stark_lsp.agents.models.purse import Purse
from stark_lsp.agents.models.sizes import worst_case
from stark_lsp.core.errors import BadInput, Fault, StarkError, TooLong
from stark_lsp.core.roles import BudgetSpent
from stark_lsp.core.run import Budget
from stark_lsp.core.status import StopReason
from stark_lsp.evaluation.environment import worker_environment

WELL = replies.tool(PLAN, thinking="One pass.")


async def test_a_question_is_sent_as_the_api_has_it(serve: Any, chat: Any) -> None:
    server = serve([WELL])
    answer = await chat(server).ask(question(temperature=0.8, effort="high"))
    (request,) = server.requests
    body = request.body
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {TEST_KEY}"
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][1]["content"] == f"{question().shared}\n\n{question().body}"
    assert body["tools"][0]["function"]["parameters"] == question().tool.schema
    assert (body["tool_choice"], body["temperature"], body["reasoning_effort"]) == ("required", 0.8, "high")
    assert (body["max_tokens"], body["stream_options"]) == (1000, {"include_usage": True})
    assert answer.tool_input == PLAN, "handed in, in pieces"
    assert (answer.stop, answer.text, answer.model) == (StopReason.COMPLETE, "", "a-model")
    assert answer.request_id.startswith("req_")


async def test_tokens_are_those_of_the_stream_and_the_cache_is_no_part_of_the_input(serve: Any, chat: Any) -> None:
    said, say = waits()
    usage = {"input_tokens": 30, "cache_read_input_tokens": 70, "output_tokens": 9}
    answer = await chat(serve([replace(WELL, usage=usage)]), on_wait=say).ask(question())
    assert (answer.usage.input_tokens, answer.usage.cache_read_tokens, answer.usage.output_tokens) == (30, 70, 9)
    assert said == []


async def test_tokens_that_nobody_says_are_guessed_and_that_is_said_once(serve: Any, chat: Any) -> None:
    said, say = waits()
    model = chat(serve([replace(WELL, usage={})]), on_wait=say)
    answer = await model.ask(question())
    await model.ask(question(attempt=2))
    assert 200 < answer.usage.input_tokens < 1000
    assert 0 < answer.usage.output_tokens < 100
    assert len(said) == 1
    assert "guessed" in said[0]


async def test_chunks_that_say_nothing_are_passed_over(serve: Any, chat: Any) -> None:
    said, say = waits()
    call = {"index": 0, "function": {"name": "submit_plan", "arguments": json.dumps(PLAN)}}
    good = {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    lines = ["null", '{"choices": null}', json.dumps(good), "null", "[DONE]"]
    raw = "".join(f"data: {line}\n\n" for line in lines).encode()
    assert (await chat(serve([Reply(raw=raw)]), on_wait=say).ask(question())).tool_input == PLAN
    assert not any("asking again" in text for text in said)


async def test_what_a_model_refuses_is_left_away_and_remembered(serve: Any, chat: Any) -> None:
    server = serve([WELL])
    model = chat(server, "o9")
    for attempt in (1, 2):
        assert (await model.ask(question(attempt=attempt, temperature=0.8))).tool_input == PLAN
    named = {"max_tokens", "max_completion_tokens", "temperature"}
    assert [sorted(named & request.body.keys()) for request in server.requests] == [
        ["max_tokens", "temperature"],
        ["max_completion_tokens", "temperature"],
        ["max_completion_tokens"],
        ["max_completion_tokens"],
    ]
    assert model.takes_temperature() is False


@pytest.mark.parametrize(
    ("refusal", "left"),
    [
        (replies.tools_refused(), None),
        (replies.fault(500, "server_error", "tools param requires --jinja flag"), None),
        (replies.fault(404, "", "No endpoints found that support tool use. To learn more, visit: …"), None),
        (
            replies.fault(400, "BadRequestError", '"auto" tool choice requires --enable-auto-tool-choice to be set'),
            "auto",
        ),
        (replies.fault(400, "", "Invalid tool_choice type: 'required'. Supported string values: none, auto"), "auto"),
    ],
)
async def test_a_server_without_tools_is_asked_without_and_read_from_text(
    serve: Any, chat: Any, refusal: Reply, left: str | None
) -> None:
    server = serve([refusal, replies.text("```python\nclass ModelNew: ...\n```")])
    answer = await chat(server).ask(question())
    assert answer.tool_input is None
    assert "class ModelNew" in answer.text
    assert answer.message == ""
    assert server.requests[1].body.get("tool_choice") == left
    assert ("In place of calling `submit_plan`" in server.requests[1].text) == (left is None)


@pytest.mark.parametrize(
    ("reply", "feature"),
    [
        (unsupported("'stream_options' is not allowed."), Feature.USAGE),
        (unsupported("'reasoning_effort' is not supported with this model."), Feature.EFFORT),
        (replies.fault(422, "", "Extra inputs: temperature"), Feature.TEMPERATURE),
    ],
)
async def test_one_parameter_that_is_refused_costs_one_question(
    serve: Any, chat: Any, reply: Reply, feature: Feature
) -> None:
    features = Features()
    server = serve([reply, WELL])
    model = chat(server, features=features)
    assert (await model.ask(question(temperature=0.1, effort="low"))).tool_input == PLAN
    assert len(server.requests) == 2
    assert features.takes(f"{server.url}/v1", "a-model", feature) is False
    assert features.takes(f"{server.url}/v1", "a-model", Feature.TOOL) is True


NO_ROOM = {
    "vLLM 0.32": "max_tokens=32000 cannot be greater than max_model_len=16384. Please request fewer output tokens. "
    "(parameter=max_tokens, value=32000)",
    "vLLM 0.20": "This model's maximum context length is 32768 tokens. However, you requested 32000 output tokens and "
    "your prompt contains at least 769 input tokens, for a total of at least 32769 tokens. Please reduce the length of "
    "the input prompt or the number of requested output tokens. (parameter=input_tokens, value=769)",
    "vLLM 0.10": "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is "
    "32768 tokens and your request has 6790 input tokens (32000 > 32768 - 6790).",
    "vLLM 0.8, DeepSeek": "This model's maximum context length is 32768 tokens. However, you requested 38790 tokens "
    "(6790 in the messages, 32000 in the completion). Please reduce the length of the messages or completion.",
    "OpenAI": "max_tokens is too large: 32000. This model supports at most 16384 completion tokens.",
}


@pytest.mark.parametrize("words", NO_ROOM.values(), ids=NO_ROOM)
async def test_a_context_without_room_for_the_longest_answer_is_asked_without_a_limit(
    serve: Any, chat: Any, words: str
) -> None:
    refusal = replies.fault(400, "BadRequestError", words)
    full = Reply(text="so far", stop="max_tokens", usage={"input_tokens": 6790, "output_tokens": 9594})
    server = serve([refusal, full, WELL])
    model = chat(server)
    answer = await model.ask(question(max_tokens=32000))
    assert answer.message == "The server cut the answer off after 9,594 of 32,000 tokens; its context may be full."
    assert answer.troubles == ()
    assert (await model.ask(question(attempt=2))).tool_input == PLAN
    # A limit that fits is sent: without it the answer could be longer than what is set aside.
    assert [request.body.get("max_tokens") for request in server.requests] == [32000, None, 1000]


@pytest.mark.parametrize("first", NO_ROOM.values(), ids=NO_ROOM)
async def test_a_question_that_leaves_no_room_at_all_is_told_as_too_long(serve: Any, chat: Any, first: str) -> None:
    words = (
        "This model's maximum context length is 4096 tokens. However, your prompt contains at least 4097 input tokens, "
        "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "
        "(parameter=input_tokens, value=4097)"
    )
    server = serve([replies.fault(400, "BadRequestError", first), replies.fault(400, "BadRequestError", words)])
    with pytest.raises(TooLong, match="longer than a-model can read") as caught:
        await chat(server).ask(question(max_tokens=32000))
    assert "--max-model-len" in caught.value.cure
    assert len(server.requests) == 2
    alone = serve([replies.fault(400, "BadRequestError", words)])
    with pytest.raises(TooLong):
        await chat(alone).ask(question())
    assert len(alone.requests) == 1


PASSING = {
    "429": replies.rate_limited(),
    "500": replies.server_error(),
    "503 as HTML": Reply(status=503, body="<html>upstream is gone</html>"),
    "cut in the middle of the tool's JSON": replies.cut(PLAN, after=5),
    "cut before the answer": replies.cut(PLAN, after=0),
    "an error in the stream": replies.overloaded_midway(PLAN),
    "a chunk that is no JSON": replace(WELL, garbage="{not json"),
    "a chunk that is a list": replace(WELL, garbage="[1, [2]]"),
}


@pytest.mark.parametrize("name", PASSING)
async def test_a_failure_that_passes_is_asked_again_and_its_tokens_count(serve: Any, chat: Any, name: str) -> None:
    server = serve([PASSING[name], PASSING[name], WELL])
    said, say = waits()
    answer = await chat(server, on_wait=say).ask(question())
    assert answer.tool_input == PLAN
    assert len(server.requests) == 3
    assert len(answer.troubles) == len([line for line in said if "asking again in" in line]) == 2


async def test_a_failure_that_stays_is_a_fault(serve: Any, chat: Any) -> None:
    with pytest.raises(Fault, match="asked 5 times"):
        await chat(serve([replies.cut(PLAN)])).ask(question())


async def test_the_wait_that_a_server_asks_for_is_kept(serve: Any, chat: Any) -> None:
    server = serve([replies.rate_limited("0.2"), WELL])
    await chat(server).ask(question())
    first, second = server.requests
    assert second.arrived_at - first.arrived_at >= 0.2


async def test_silence_is_given_up_and_pings_are_none(serve: Any, chat: Any) -> None:
    patience = replace(HURRIED, silence=0.5)
    silent = serve([replace(WELL, delay_s=300.0), WELL])
    assert (await chat(silent, patience=patience).ask(question())).tool_input == PLAN
    assert len(silent.requests) == 2
    slow = serve([replace(WELL, pause_s=1.2, pause_before=4)])
    assert (await chat(slow, patience=patience).ask(question())).tool_input == PLAN
    assert len(slow.requests) == 1


async def test_an_answer_that_ended_is_taken_though_its_tokens_never_come(serve: Any, chat: Any) -> None:
    server = serve([replace(replies.text("done"), cut_after=6)])
    answer = await chat(server).ask(question())
    assert (answer.text, len(server.requests)) == ("done", 1)
    assert answer.usage.output_tokens > 0


@pytest.mark.parametrize(
    ("reply", "told", "cure"),
    [
        (replies.unauthorized(), "did not accept the API key", "OPENAI_API_KEY"),
        (replies.no_such_model("a-model"), "has no model a-model", "check the address behind @ or in OPENAI_BASE_URL"),
        (Reply(status=404, body='{"error": "model \'a-model\' not found"}'), "model 'a-model' not found", "OPENAI"),
        (replies.fault(404, "api_error", 'model "a-model" not found, try pulling it first'), "has no model", "@ or in"),
        (Reply(status=404, body='{"detail": "Not Found"}'), "Not Found", "OPENAI_BASE_URL"),
        (replies.fault(429, "insufficient_quota", "You exceeded your current quota."), "wants to be paid", "playbook"),
        (replies.fault(400, "", "max_tokens: Input should be at least 2000."), "refused", "max_tokens"),
    ],
)
async def test_what_the_user_must_mend_is_told_at_once(
    serve: Any, chat: Any, reply: Reply, told: str, cure: str
) -> None:
    server = serve([reply])
    with pytest.raises(BadInput) as caught:
        await chat(server).ask(question())
    assert told in caught.value.message
    assert cure in caught.value.cure
    assert len(server.requests) == 1


async def test_a_question_that_does_not_fit_is_told_as_such(serve: Any, chat: Any) -> None:
    words = "the request exceeds the available context size. try increasing the context size"
    with pytest.raises(TooLong):
        await chat(serve([replies.fault(400, "exceed_context_size_error", words)])).ask(question())


async def test_an_answer_cut_off_refused_filtered_or_empty_says_so(serve: Any, chat: Any) -> None:
    model = chat(serve([replies.cut_off('{"title": "Fu'), replies.refusal(), replies.empty()]))
    cut, filtered, empty = [await model.ask(question(attempt=attempt)) for attempt in range(3)]
    assert (cut.stop, cut.text, cut.tool_input) == (StopReason.MAX_TOKENS, '{"title": "Fu', None)
    assert filtered.stop is StopReason.REFUSAL
    assert empty.message == "The model answered nothing."


async def test_an_answer_that_a_full_context_cut_off_blames_no_limit_of_ours(serve: Any, chat: Any) -> None:
    # llama.cpp's and vLLM's way: "length", and fewer tokens than were allowed.
    reply = Reply(text="so far", stop="max_tokens", usage={"input_tokens": 6743, "output_tokens": 26025})
    answer = await chat(serve([reply])).ask(question(max_tokens=32000))
    assert answer.stop is StopReason.MAX_TOKENS
    assert answer.message == "The server cut the answer off after 26,025 of 32,000 tokens; its context may be full."


async def test_a_wait_says_what_is_waited_for(serve: Any, chat: Any) -> None:
    said, say = waits()
    await chat(serve([replies.fault(503, "unavailable_error", "Loading model"), WELL]), on_wait=say).ask(question())
    assert "could not answer (Loading model); asking again in" in said[0]


async def test_huge_lines_are_read_and_an_answer_without_end_is_cut_off(
    serve: Any, chat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve([Reply(text="x" * 3_000_000, pieces=2)])
    assert len((await chat(server).ask(question())).text) >= 1_500_000
    monkeypatch.setattr(reading, "LONGEST_ANSWER", 1000)
    answer = await chat(serve([Reply(text="x" * 100_000, pieces=200)])).ask(question())
    assert answer.stop is StopReason.OTHER
    assert len(answer.text) < 3000


async def test_a_cancel_closes_the_stream_and_counts_what_came(serve: Any, chat: Any) -> None:
    server = serve([replies.tool({**PLAN, "advice": "word " * 300}, pause_s=300.0, pause_before=4)])
    purse, journal = Purse(Budget(), Prices()), MemoryJournal()
    asking = asyncio.create_task(JournaledModel(chat(server), journal, purse).ask(question()))
    while not server.requests:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert purse.spend.usage.total > 200
    assert (purse.spend.unpriced, len(journal.losses)) == (1, 1)
    began = time.monotonic()
    while server.requests[0].disconnected_at is None:
        assert time.monotonic() - began < 30.0
        await asyncio.sleep(0.01)


async def test_a_limit_of_tokens_holds_where_the_price_is_unknown(serve: Any, chat: Any) -> None:
    server = serve([WELL])
    limit = Budget(tokens=worst_case(question()).total + 10)
    model = JournaledModel(chat(server), MemoryJournal(), Purse(limit, Prices()))
    await model.ask(question())
    with pytest.raises(BudgetSpent):
        await model.ask(question(attempt=2))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        replies.fault(401, "", f"Incorrect API key provided: {TEST_KEY}"),
        Reply(status=500, body=f'"{TEST_KEY}"'),
        Reply(tool_input=PLAN, stream_error=("api_error", f"oops {TEST_KEY}")),
        Reply(tool_input=PLAN, garbage=f"{{{TEST_KEY}"),
    ],
)
async def test_the_key_is_in_no_log_and_no_error(
    serve: Any, chat: Any, caplog: pytest.LogCaptureFixture, reply: Reply
) -> None:
    caplog.set_level(logging.DEBUG)
    model = chat(serve([reply]))
    with pytest.raises(StarkError) as caught:
        await model.ask(question())
    shown = [repr(model), str(caught.value), caught.value.details, caplog.text, *map(repr, caplog.records)]
    assert [text for text in shown if TEST_KEY in text] == []
    assert caught.value.__cause__ is None
    assert worker_environment({"OPENAI_API_KEY": TEST_KEY}) == {}


async def test_the_key_goes_to_the_address_of_the_environment_alone(
    serve: Any, chat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, other = serve([WELL]), serve([WELL], key=None)
    await chat(usual).ask(question())
    assert usual.requests[0].headers["authorization"].endswith(TEST_KEY)
    await chat(usual, base_url=f"{other.url}/v1").ask(question())
    assert TEST_KEY not in str(other.requests[0].headers)
    assert find_key(f"{usual.url}/another/v1") is not None
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert find_key("https://api.openai.com/v1") is not None
    assert find_key(f"{usual.url}/v1") is None
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(BadInput, match="no API key for OpenAI"):
        find_key()
    monkeypatch.setenv("OPENAI_API_KEY", "two words")
    with pytest.raises(BadInput, match="OPENAI_API_KEY") as caught:
        find_key()
    assert "words" not in str(caught.value)


async def test_headers_of_the_environment_go_where_the_key_goes(
    serve: Any, chat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Corp-Token: corp-secret")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-mine")
    usual, other = serve([WELL]), serve([WELL], key=None)
    await chat(usual).ask(question())
    await chat(usual, base_url=f"{other.url}/v1").ask(question())
    for secret in ("corp-secret", "org-of-mine", "project-of-mine"):
        assert secret in usual.requests[0].headers.values()
        assert secret not in other.requests[0].headers.values()


@pytest.mark.parametrize("status", [301, 307, 308])
async def test_neither_key_nor_prompt_follows_a_redirect(serve: Any, chat: Any, status: int) -> None:
    other = serve([WELL], key=None)
    server = serve([Reply(status=status, body="", headers={"location": f"{other.url}/v1/chat/completions"})])
    with pytest.raises(BadInput, match=f"redirects to {other.url}"):
        await chat(server).ask(question())
    assert other.everything == []


async def test_without_the_package_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(BadInput, match=r"stark-lsp\[openai\]"):
        openai.check("http://localhost:11434/v1")
    with pytest.raises(BadInput, match="The package openai"):
        await registry.BUILDERS["openai"](registry.Wanted("qwen3"))


async def test_the_registry_builds_it_with_its_address(serve: Any) -> None:
    server = serve([WELL], key=None)
    model = await registry.BUILDERS["openai"](registry.Wanted("qwen3:8b", address=f"{server.url}/v1"))
    assert isinstance(model, OpenAIModel)
    try:
        assert (await model.ask(question())).model == model.name == "qwen3:8b"
    finally:
        await model.close()


def test_words_of_servers_are_read_as_what_they_mean() -> None:
    for status, words, kind in [
        (400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens", "too_long"),
        (429, "Rate limit reached for requests", "again"),
        (402, "Insufficient credits", "credit"),
        (403, "Country not supported", "permission"),
        (403, 'Your chosen model requires moderation and your input was flagged for "violence".', "declined"),
    ]:
        assert read_refusal(status, {"error": {"message": words, "code": status}}, {}, "").kind.value == kind


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_delta = st.fixed_dictionaries(
    {}, optional={"content": _json, "reasoning": _json, "refusal": _json, "tool_calls": st.lists(_json) | _json}
)
_choice = st.fixed_dictionaries({}, optional={"delta": _delta | _json, "finish_reason": st.just("stop") | _json})
_usage = st.fixed_dictionaries(
    {}, optional={"prompt_tokens": _json, "completion_tokens": _json, "prompt_tokens_details": _json}
)
_chunk = st.fixed_dictionaries(
    {}, optional={"model": _json, "choices": st.lists(_choice, max_size=2) | _json, "usage": _usage | _json}
)


@settings(max_examples=80, deadline=None)
@given(st.lists(_chunk, max_size=8))
def test_no_chunk_breaks_the_reader(chunks: list[dict[str, Any]]) -> None:
    reader = ChunkReader(question())
    for chunk in chunks:
        reader.feed(chunk)
    answer = reader.answer()
    assert answer.stop in StopReason
    usage = answer.usage
    assert min(usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens) >= 0
    answer.text.encode()
    json.dumps(answer.tool_input, allow_nan=False)


def test_a_refusal_in_pieces_is_told_with_its_words() -> None:
    reader = ChunkReader(question())
    for delta, stop in (({"refusal": "I can"}, None), ({"refusal": "not."}, None), ({}, "stop")):
        reader.feed({"choices": [{"delta": delta, "finish_reason": stop}]})
    answer = reader.answer()
    assert answer.stop is StopReason.REFUSAL
    assert answer.message == "The model declined to answer: I cannot."


def test_calls_of_one_number_are_told_apart_by_their_ids() -> None:
    # Ollama and Gemini's compatible endpoint number all 0; the latter hands arguments in as an object at times.
    def called(name: str, given: Any, **more: Any) -> dict[str, Any]:
        return {"index": 0, "function": {"name": name, "arguments": given}, **more}

    for rest in ({}, {"id": "b"}):
        reader = ChunkReader(question())
        for calls in (
            [called("other", '{"a": 1}', id="a"), called("submit_plan", '{"title": ', id="b")],
            [called("", '"T"}', **rest), called("submit_plan", {"title": "Another"}, id="c")],
        ):
            reader.feed({"choices": [{"delta": {"tool_calls": calls}}]})
        assert reader.answer().tool_input == {"title": "T"}
