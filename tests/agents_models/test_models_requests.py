"""What is sent to a service with the Messages API."""

import json
from typing import Any

import pytest
from messages_api import replies
from messages_api.server import TEST_KEY
from model_cases import NEW, OLD, PLAN, TOOL, question

from stark_lsp.agents.models.features import Feature, Features
from stark_lsp.core.errors import BadInput

WELL = replies.tool(PLAN)


async def test_the_newest_sonnet_is_asked_where_no_model_is_named(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    model = connect(server)
    answer = await model.ask(question())
    assert model.name == answer.model == server.requests[0].model == "claude-sonnet-5-5"


async def test_a_question_names_its_model(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    await connect(server).ask(question(model=OLD))
    assert server.requests[0].model == OLD


async def test_the_answer_that_was_handed_in_comes_back(serve: Any, connect: Any) -> None:
    answer = await connect(serve([WELL])).ask(question())
    assert answer.tool_input == PLAN
    assert answer.message == ""
    assert answer.request_id.startswith("req_")
    assert answer.latency_s > 0


async def test_the_shared_part_is_marked_and_paid_once(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    model = connect(server)
    first = await model.ask(question())
    second = await model.ask(question(body="Something else was tried."))
    sent = server.requests[0].body
    parts = sent["messages"][0]["content"]
    assert sent["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert [("cache_control" in part) for part in parts] == [True, False]
    assert first.usage.cache_write_tokens > 0
    assert first.usage.cache_read_tokens == 0
    assert second.usage.cache_read_tokens == first.usage.cache_write_tokens


async def test_an_older_model_is_made_to_hand_in_by_the_tool(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    await connect(server).ask(question(model=OLD))
    assert server.requests[0].body["tool_choice"]["name"] == TOOL.name


async def test_a_model_that_thinks_unasked_is_left_to_choose_the_tool(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    await connect(server).ask(question(model=NEW))
    assert server.requests[0].body["tool_choice"]["type"] == "auto"
    assert len(server.requests) == 1


async def test_a_temperature_is_sent_in_the_version_of_the_api_that_has_it(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    model = connect(server)
    assert model.takes_temperature(OLD) is None
    await model.ask(question(model=OLD, temperature=0.8))
    assert server.requests[0].body["temperature"] == 0.8
    assert server.requests[0].headers["anthropic-version"] == "2023-06-01"
    assert model.takes_temperature(OLD) is True


async def test_a_temperature_of_zero_is_sent_too(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    await connect(server).ask(question(model=OLD, temperature=0.0))
    assert server.requests[0].body["temperature"] == 0.0


async def test_a_model_known_to_refuse_a_temperature_is_asked_without_it(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    model = connect(server)
    await model.ask(question(model=NEW, temperature=0.8))
    assert "temperature" not in server.requests[0].body
    assert model.takes_temperature(NEW) is False
    assert len(server.requests) == 1


async def test_a_refused_temperature_is_left_away_and_remembered(serve: Any, connect: Any) -> None:
    server = serve([replies.temperature_refused(), WELL], models=(), manners=False)
    model = connect(server, name="claude-next")
    answer = await model.ask(question(temperature=0.8))
    assert answer.tool_input == PLAN
    await model.ask(question(temperature=0.8))
    assert ["temperature" in request.body for request in server.requests] == [True, False, False]
    assert model.takes_temperature() is False


async def test_what_was_learned_holds_for_the_process_and_for_that_server_alone(serve: Any, connect: Any) -> None:
    learned = Features()
    first = serve([replies.temperature_refused(), WELL], models=(), manners=False)
    second = serve([WELL], models=(), manners=False)
    await connect(first, name="some-model", features=learned).ask(question(temperature=0.5))
    again = connect(first, name="some-model", features=learned)
    assert again.takes_temperature() is False
    assert connect(second, name="some-model", features=learned).takes_temperature() is None


@pytest.mark.parametrize("refusal", [replies.forced_tool_refused(), replies.thinking_with_forced_tool()])
async def test_a_refused_forced_tool_becomes_an_offered_one(serve: Any, connect: Any, refusal: replies.Reply) -> None:
    server = serve([refusal, WELL], models=(), manners=False)
    answer = await connect(server, name="some-model").ask(question())
    assert answer.tool_input == PLAN
    assert [request.body["tool_choice"]["type"] for request in server.requests] == ["tool", "auto"]


async def test_effort_is_sent_and_left_away_where_it_is_refused(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    model = connect(server)
    await model.ask(question(effort="high"))
    assert server.requests[0].body["output_config"] == {"effort": "high"}
    answer = await model.ask(question(model="claude-haiku-4-5-20251001", effort="high"))
    assert answer.tool_input == PLAN
    assert "output_config" not in server.requests[-1].body


async def test_a_model_without_tools_is_asked_for_text(serve: Any, connect: Any) -> None:
    server = serve([replies.tools_refused(), replies.text("```python\n1\n```")], models=(), manners=False)
    answer = await connect(server, name="tiny:1b").ask(question())
    assert answer.text == "```python\n1\n```"
    assert "tools" not in server.requests[1].body
    assert "In place of calling `submit_plan` write one JSON object" in server.requests[1].text
    assert json.dumps(question().tool.schema) in server.requests[1].text
    assert "JSON object" not in server.requests[0].text


async def test_several_refusals_one_after_the_other_are_all_learned(serve: Any, connect: Any) -> None:
    scripted = [replies.temperature_refused(), replies.effort_refused(), replies.forced_tool_refused(), WELL]
    server = serve(scripted, models=(), manners=False)
    features = Features()
    model = connect(server, name="some-model", features=features)
    answer = await model.ask(question(temperature=0.1, effort="low"))
    assert answer.tool_input == PLAN
    known = {feature: features.takes(server.url, "some-model", feature) for feature in Feature}
    assert [feature for feature, takes in known.items() if takes is False] == [
        Feature.TEMPERATURE,
        Feature.EFFORT,
        Feature.FORCED_TOOL,
    ]


async def test_a_refusal_that_goes_on_without_the_parameter_ends(serve: Any, connect: Any) -> None:
    server = serve([replies.temperature_refused()], models=(), manners=False)
    with pytest.raises(BadInput, match="refused the question"):
        await connect(server, name="some-model").ask(question(temperature=0.1))
    assert len(server.requests) == 2


async def test_empty_parts_are_not_sent(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    await connect(server).ask(question(system="", shared="  "))
    assert "system" not in server.requests[0].body
    assert len(server.requests[0].body["messages"][0]["content"]) == 1


async def test_halves_of_surrogate_pairs_do_not_break_a_request(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    answer = await connect(server).ask(question(body="a \ud83d b"))
    assert answer.tool_input == PLAN
    assert server.requests[0].text.endswith("a ? b")


async def test_the_base_url_comes_from_the_environment(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from stark_lsp.agents.models.anthropic import AnthropicModel
    from stark_lsp.agents.models.secret import Secret

    server = serve([WELL])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url + "/")
    model = AnthropicModel(Secret(TEST_KEY), features=Features())
    try:
        assert (await model.ask(question())).tool_input == PLAN
    finally:
        await model.close()


async def test_without_a_key_the_token_of_the_environment_is_sent(
    serve: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", TEST_KEY)
    server = serve([WELL])
    assert (await connect(server, key=None).ask(question())).tool_input == PLAN
    assert server.requests[0].headers["authorization"] == f"Bearer {TEST_KEY}"


async def test_without_a_key_or_token_the_cure_is_named(serve: Any, connect: Any) -> None:
    server = serve([WELL])
    with pytest.raises(BadInput, match="ANTHROPIC_API_KEY"):
        await connect(server, key=None).ask(question())
    assert server.requests == []


async def test_a_key_in_the_editor_wins_over_the_environment(
    serve: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "another")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "a-third")
    server = serve([WELL])
    await connect(server).ask(question())
    assert server.requests[0].headers["authorization"] == f"Bearer {TEST_KEY}"
