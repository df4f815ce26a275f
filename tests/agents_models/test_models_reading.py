"""Reading events, whatever they hold."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_cases import TOOL, question

from stark_lsp.agents.models.reading import AnswerReader, clean_text, read_object
from stark_lsp.core.status import StopReason

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_kinds = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "ping", "new_kind"]
)
_event = st.fixed_dictionaries(
    {"type": _kinds | _json},
    optional={"message": _json, "index": _json, "content_block": _json, "delta": _json, "usage": _json},
)
_texts = st.text(alphabet=st.characters(codec=None), max_size=40)


@settings(max_examples=60, deadline=None)
@given(st.lists(_event, max_size=12))
def test_no_event_breaks_the_reader(events: list[dict[str, Any]]) -> None:
    reader = AnswerReader(question())
    for event in events:
        reader.feed(event)
    answer = reader.answer()
    assert answer.stop in StopReason
    assert answer.usage.total >= 0
    answer.text.encode()
    json.dumps(answer.tool_input, allow_nan=False)


def _streamed(pieces: list[str]) -> AnswerReader:
    reader = AnswerReader(question())
    reader.feed({"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 5, "output_tokens": 1}}})
    block = {"type": "tool_use", "name": TOOL.name, "input": {}}
    reader.feed({"type": "content_block_start", "index": 0, "content_block": block})
    for piece in pieces:
        delta = {"type": "input_json_delta", "partial_json": piece}
        reader.feed({"type": "content_block_delta", "index": 0, "delta": delta})
    return reader


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(_texts, _texts | st.integers() | st.lists(_texts, max_size=3), max_size=4), st.integers(1, 9))
def test_what_is_handed_in_comes_back_however_it_is_cut(handed_in: dict[str, Any], size: int) -> None:
    text = json.dumps(handed_in)
    reader = _streamed([text[begin : begin + size] for begin in range(0, len(text), size)])
    reader.feed({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}})
    reader.feed({"type": "message_stop"})
    answer = reader.answer()
    assert answer.tool_input == json.loads(json.dumps(handed_in), object_pairs_hook=_cleaned)
    assert answer.usage.output_tokens == 9


def _cleaned(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return clean_text(value)
        return [clean(entry) for entry in value] if isinstance(value, list) else value

    return {clean_text(name): clean(value) for name, value in pairs}


def test_an_object_may_be_written_as_a_text_within_a_text() -> None:
    assert read_object(json.dumps(json.dumps({"title": "x"}))) == {"title": "x"}
    with pytest.raises(ValueError, match="not an object"):
        read_object(json.dumps(json.dumps(json.dumps({}))))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_what_a_tool_is_handed_is_read_or_refused_with_words(text: str) -> None:
    try:
        told: object = read_object(text)
    except ValueError as error:
        told = str(error)
    assert isinstance(told, dict) or told


def test_a_stream_that_broke_off_counts_what_had_come() -> None:
    reader = _streamed(['{"a": "' + "x" * 3500])
    assert reader.started
    assert not reader.finished
    assert reader.usage.input_tokens == 5
    assert reader.usage.output_tokens > 900


def test_a_server_that_hands_the_whole_input_in_at_once_is_understood() -> None:
    reader = AnswerReader(question())
    reader.feed({"type": "message_start", "message": {}})
    block = {"type": "tool_use", "name": TOOL.name, "input": {"title": "x"}}
    reader.feed({"type": "content_block_start", "index": 0, "content_block": block})
    reader.feed({"type": "message_stop"})
    assert reader.answer().tool_input == {"title": "x"}


def test_of_several_tools_the_one_that_was_offered_counts() -> None:
    reader = AnswerReader(question())
    reader.feed({"type": "message_start", "message": {}})
    for index, (name, given_in) in enumerate([("other", {"a": 1}), (TOOL.name, {"title": "x"})]):
        block = {"type": "tool_use", "name": name, "input": given_in}
        reader.feed({"type": "content_block_start", "index": index, "content_block": block})
    assert reader.answer().tool_input == {"title": "x"}
