"""The editor's model, a transcript, and the registry."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages_api import replies
from messages_api.server import TEST_KEY
from model_cases import PLAN, TOOL, question

from stark_lsp.agents.models import editor, registry
from stark_lsp.agents.models.editor import EditorModel, EditorProblem, read_result
from stark_lsp.agents.models.registry import Wanted
from stark_lsp.agents.models.replay import ReplayModel
from stark_lsp.agents.models.secret import Secret
from stark_lsp.core.conversation import Answer, Exchange
from stark_lsp.core.errors import BadInput, Fault, StarkError
from stark_lsp.core.roles import NothingToPropose
from stark_lsp.core.status import ModelRole, StopReason


class _Channel:
    """An editor that answers by script."""

    def __init__(self, *results: Any) -> None:
        self.results = list(results)
        self.asked: list[dict[str, Any]] = []
        self.cancelled = False

    async def complete(self, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(params)
        if not self.results:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        result: dict[str, Any] = self.results.pop(0)
        return result


async def test_the_editor_is_asked_with_messages_tool_and_reason() -> None:
    channel = _Channel({"text": "", "toolInput": PLAN, "model": "gpt-x"})
    model = EditorModel(channel)
    answer = await model.ask(question(model="gpt-x", temperature=0.2, effort="high"))
    assert answer.tool_input == PLAN
    assert model.name == answer.model == "gpt-x"
    (params,) = channel.asked
    asked = question()
    assert [message["role"] for message in params["messages"]] == ["user"] * 3
    assert [message["content"] for message in params["messages"]] == [asked.system, asked.shared, asked.body]
    assert params["tool"] == {"name": TOOL.name, "description": TOOL.description, "inputSchema": TOOL.schema}
    assert (params["model"], params["temperature"], params["maxTokens"]) == ("gpt-x", 0.2, 1000)
    assert params["effort"] == "high"
    assert "plan" in params["justification"]


async def test_what_the_question_has_not_the_editor_is_not_told() -> None:
    channel = _Channel({"text": "hello"})
    await EditorModel(channel).ask(question(tool=None, system=""))
    assert set(channel.asked[0]) == {"messages", "maxTokens", "justification"}


async def test_the_editors_usage_is_taken_or_guessed() -> None:
    told = await EditorModel(_Channel({"text": "x", "usage": {"inputTokens": 7, "outputTokens": 9}})).ask(question())
    assert (told.usage.input_tokens, told.usage.output_tokens) == (7, 9)
    guessed = await EditorModel(_Channel({"text": "x" * 350})).ask(question())
    assert guessed.usage.output_tokens == 100
    assert guessed.usage.input_tokens > 200
    silly = read_result(question(), {"text": "x" * 350, "usage": {"inputTokens": 0, "outputTokens": 0}})
    assert silly.usage == guessed.usage
    bare = await EditorModel(_Channel({"text": "x" * 350})).ask(question(tool=None))
    assert bare.usage.input_tokens < guessed.usage.input_tokens


@pytest.mark.parametrize("usage", [{}, {"usage": {"inputTokens": 7, "outputTokens": 1001}}])
def test_text_longer_than_allowed_is_cut_off_and_what_was_handed_in_is_whole(usage: dict[str, Any]) -> None:
    long = {"text": "x" * 4000, **usage}
    cut = read_result(question(), long)
    assert cut.stop is StopReason.MAX_TOKENS
    assert "1000 tokens" in cut.message
    assert cut.usage.output_tokens > 1000
    # An editor that says that it ended by itself knows better; a form comes in one piece.
    assert read_result(question(), {**long, "stop": "complete"}).stop is StopReason.COMPLETE
    assert read_result(question(), {**long, "toolInput": PLAN}).stop is StopReason.COMPLETE


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (EditorProblem.NO_MODEL, BadInput),
        (EditorProblem.NO_CONSENT, BadInput),
        (EditorProblem.BLOCKED, BadInput),
        (EditorProblem.CANCELLED, Fault),
        (EditorProblem.OTHER, Fault),
        ("news", Fault),
    ],
)
async def test_the_editors_errors_name_a_cure(kind: str, error: type[StarkError]) -> None:
    channel = _Channel({"error": "so it \x1b[31mis\n", "kind": getattr(kind, "value", kind)})
    with pytest.raises(error, match="so it") as caught:
        await EditorModel(channel).ask(question())
    assert caught.value.cure
    assert "\x1b" not in str(caught.value)


async def test_off_topic_is_a_refusal() -> None:
    answer = await EditorModel(_Channel({"error": "not that", "kind": "off_topic"})).ask(question())
    assert answer.stop is StopReason.REFUSAL
    assert "not that" in answer.message


async def test_the_editors_stop_reasons_are_read() -> None:
    for stop, expected in [
        ("complete", StopReason.COMPLETE),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("refusal", StopReason.REFUSAL),
        ("odd", StopReason.OTHER),
    ]:
        assert read_result(question(), {"text": "x", "stop": stop}).stop is expected


def test_an_endless_answer_of_the_editor_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editor, "LONGEST_ANSWER", 100)
    answer = read_result(question(), {"text": "x" * 1000})
    assert len(answer.text) == 100
    assert answer.stop is StopReason.OTHER


async def test_a_cancel_reaches_the_editor() -> None:
    channel = _Channel()
    asking = asyncio.create_task(EditorModel(channel).ask(question()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert channel.cancelled


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(
    _json
    | st.fixed_dictionaries({}, optional=dict.fromkeys(("text", "toolInput", "model", "usage", "stop", "kind"), _json))
)
def test_any_result_of_the_editor_is_an_answer_or_an_error(result: Any) -> None:
    try:
        told: object = read_result(question(), result)
    except StarkError as error:
        told = error
    assert isinstance(told, (Answer, BadInput, Fault))


def _exchange(text: str, **changes: Any) -> Exchange:
    return Exchange(question(**changes), Answer(StopReason.COMPLETE, text))


async def test_a_transcript_answers_by_attempt_role_and_ordinal() -> None:
    places: list[dict[str, Any]] = [{}, {"attempt": 2}, {"ordinal": 1}, {"role": ModelRole.CODE}]
    model = ReplayModel([_exchange(str(index), **changes) for index, changes in enumerate(places)])
    answers = [(await model.ask(question(**changes))).text for changes in reversed(places)]
    assert answers == ["3", "2", "1", "0"]
    assert model.differing == 0


async def test_a_transcript_answers_an_edited_prompt_and_counts_it() -> None:
    model = ReplayModel([_exchange("kept")])
    assert (await model.ask(question(body="other words"))).text == "kept"
    assert model.differing == 1


async def test_where_a_transcript_ends_there_is_nothing_to_propose() -> None:
    with pytest.raises(NothingToPropose, match="attempt 9"):
        await ReplayModel([_exchange("x")]).ask(question(attempt=9))


async def test_models_are_built_by_name(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve([replies.tool(PLAN)])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)

    async def find_key() -> Secret | None:
        return Secret(TEST_KEY)

    asked = await registry.BUILDERS["anthropic"](Wanted("claude-sonnet-4-6", find_key))
    assert asked.name == "claude-sonnet-4-6"
    assert (await asked.ask(question())).tool_input == PLAN
    await asked.close()
    lent = await registry.BUILDERS["editor"](Wanted(editor=_Channel({"text": "x"})))
    assert (await lent.ask(question())).text == "x"
    replayed = await registry.BUILDERS["replay"](Wanted("file.json", exchanges=[_exchange("y")]))
    assert (await replayed.ask(question())).text == "y"
    assert replayed.name == "replay:file.json"


def test_nothing_of_the_sdk_is_imported_before_it_is_asked() -> None:
    import subprocess
    import sys

    code = (
        "import sys, stark_lsp.agents.models.registry, stark_lsp.agents.models.journaled, "
        "stark_lsp.agents.models.anthropic, stark_lsp.agents.models.openai, "
        "stark_lsp.agents.models.estimate, stark_lsp.agents.models.replay; "
        "print(sorted({'anthropic', 'openai', 'httpx2', 'pydantic', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
