"""What comes back, whatever the model does."""

from dataclasses import replace
from typing import Any

import pytest
from messages_api import replies
from messages_api.replies import Reply
from model_cases import OLD, PLAN, question

from stark_lsp.agents.models import reading
from stark_lsp.core.status import StopReason


async def _ask(serve: Any, connect: Any, reply: Reply, **changes: Any) -> Any:
    return await connect(serve([reply])).ask(question(**changes))


async def test_thinking_is_not_part_of_the_answer(serve: Any, connect: Any) -> None:
    answer = await _ask(serve, connect, replies.tool(PLAN, thinking="Let me see. " * 20, text="Here it is."))
    assert answer.tool_input == PLAN
    assert answer.text == "Here it is."
    assert answer.stop is StopReason.COMPLETE


async def test_text_instead_of_the_tool_is_an_answer(serve: Any, connect: Any) -> None:
    answer = await _ask(serve, connect, replies.text("```python\nx = 1\n```"))
    assert answer.tool_input is None
    assert answer.text == "```python\nx = 1\n```"
    assert answer.message == ""


async def test_an_empty_answer_says_so(serve: Any, connect: Any) -> None:
    answer = await _ask(serve, connect, replies.empty())
    assert (answer.stop, answer.text, answer.tool_input) == (StopReason.COMPLETE, "", None)
    assert answer.message == "The model answered nothing."


async def test_a_tools_input_that_is_no_json_is_kept_as_text(serve: Any, connect: Any) -> None:
    answer = await _ask(serve, connect, replies.malformed('{"title": "Fuse", advice}'))
    assert answer.tool_input is None
    assert answer.text == '{"title": "Fuse", advice}'
    assert "not JSON" in answer.message


@pytest.mark.parametrize(
    ("handed_in", "problem"),
    [
        ("[1, 2]", "not an object"),
        ('"text"', "not an object"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1e999}', "too large"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 60 + "1" + "}" * 60, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "could not be read"),
    ],
)
async def test_hostile_input_of_a_tool_is_kept_as_text(serve: Any, connect: Any, handed_in: str, problem: str) -> None:
    answer = await _ask(serve, connect, replies.malformed(handed_in))
    assert answer.tool_input is None
    assert answer.text == handed_in
    assert problem in answer.message


async def test_halves_of_surrogate_pairs_in_an_answer_are_replaced(serve: Any, connect: Any) -> None:
    answer = await _ask(serve, connect, replies.malformed('{"title": "a \\ud83d b"}'))
    assert answer.tool_input == {"title": "a ? b"}
    text = await _ask(serve, connect, replies.text("c \udc00 d"))
    assert text.text == "c ? d"


async def test_an_answer_cut_off_at_the_limit_keeps_what_came(serve: Any, connect: Any) -> None:
    reply = replace(replies.cut_off('{"title": "Fu'), usage={"input_tokens": 300, "output_tokens": 77})
    answer = await _ask(serve, connect, reply, max_tokens=77)
    assert answer.stop is StopReason.MAX_TOKENS
    assert answer.text == '{"title": "Fu'
    assert answer.message == "The answer was cut off at 77 tokens."


async def test_a_full_context_counts_as_cut_off_and_blames_no_limit_of_ours(serve: Any, connect: Any) -> None:
    answer = await _ask(serve, connect, Reply(text="so far", stop="model_context_window_exceeded"))
    assert answer.stop is StopReason.MAX_TOKENS
    assert answer.message == "The model's context was full before the answer ended."
    # llama.cpp's and vLLM's way: "max_tokens", and fewer tokens than were allowed.
    reply = Reply(text="so far", stop="max_tokens", usage={"input_tokens": 6743, "output_tokens": 1402})
    other = await _ask(serve, connect, reply, max_tokens=32000)
    assert other.stop is StopReason.MAX_TOKENS
    assert other.message == "The server cut the answer off after 1,402 of 32,000 tokens; its context may be full."


async def test_a_refusal_says_why(serve: Any, connect: Any) -> None:
    answer = await _ask(serve, connect, replies.refusal("frontier_llm", "It reads like a lab."))
    assert answer.stop is StopReason.REFUSAL
    assert answer.message == "The model declined to answer (frontier_llm): It reads like a lab."
    plain = await _ask(serve, connect, replies.refusal())
    assert plain.message == "The model declined to answer."


async def test_an_unknown_reason_to_stop_is_named(serve: Any, connect: Any) -> None:
    answer = await _ask(serve, connect, Reply(text="half", stop="pause_turn"))
    assert answer.stop is StopReason.OTHER
    assert "pause_turn" in answer.message


async def test_an_answer_without_end_is_cut_off_and_counted(
    serve: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONGEST_ANSWER", 1000)
    server = serve([Reply(text="x" * 100_000, pieces=200)])
    answer = await connect(server).ask(question())
    assert answer.stop is StopReason.OTHER
    assert len(answer.text) < 3000
    assert "longer than 1000 characters" in answer.message
    assert answer.usage.output_tokens > 200
    assert len(server.requests) == 1


async def test_where_the_service_says_no_usage_it_is_guessed(serve: Any, connect: Any) -> None:
    answer = await _ask(serve, connect, replies.tool(PLAN, usage={}))
    assert 200 < answer.usage.input_tokens < 1000
    assert 0 < answer.usage.output_tokens < 100
    assert answer.usage.cache_read_tokens == 0


async def test_usage_without_fields_of_the_cache_is_read(serve: Any, connect: Any) -> None:
    answer = await _ask(serve, connect, replies.tool(PLAN, usage={"input_tokens": 12, "output_tokens": 34}))
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total) == (12, 34, 46)


async def test_absurd_usage_is_not_believed(serve: Any, connect: Any) -> None:
    usage: dict[str, Any] = {"input_tokens": -5, "output_tokens": 10**15, "cache_read_input_tokens": True}
    answer = await _ask(serve, connect, replies.tool(PLAN, usage=usage))
    assert 0 < answer.usage.total < 10_000


async def test_the_model_that_answered_is_named(serve: Any, connect: Any) -> None:
    answer = await _ask(serve, connect, replies.tool(PLAN, model="claude-sonnet-5-5-20260928"))
    assert answer.model == "claude-sonnet-5-5-20260928"


async def test_questions_without_a_tool_are_answered_by_text(serve: Any, connect: Any) -> None:
    server = serve([replies.text("yes")])
    answer = await connect(server).ask(question(tool=None, model=OLD))
    assert answer.text == "yes"
    assert "tools" not in server.requests[0].body
    assert "tool_choice" not in server.requests[0].body
