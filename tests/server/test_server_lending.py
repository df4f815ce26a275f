"""What a client lends: its key and its model, asked over the real protocol, in this process."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.server.app import make_server
from stark_lsp.server.client import keys as key_requests
from stark_lsp.server.client import lent_model
from stark_lsp.server.client.abilities import provided
from stark_lsp.server.client.keys import KeyHolder
from stark_lsp.server.client.lent_model import LentModel, obstacle_in
from stark_lsp.server.client.providers import lend
from stark_lsp.server.language_server import StarkServer

KEY = "sk-test-0123456789"
MODELS = {"models": [{"id": "copilot/x", "name": "X"}], "consent": "unasked"}


class Client:
    """The other side: takes what the server writes, answers requests by their method."""

    def __init__(self, server: StarkServer, **answers: Any) -> None:
        self.server = server
        self.answers: dict[str, Any] = {name.replace("_", "/"): value for name, value in answers.items()}
        """A result, an exception to answer with, or a function of the parameters; none for silence."""
        self.asked: list[tuple[str, Any]] = []
        self.notified: list[tuple[str, Any]] = []
        self.numbers: list[str] = []
        server.protocol.set_writer(self)

    def write(self, data: bytes) -> None:
        message = json.loads(data.partition(b"\r\n\r\n")[2])
        method, params = message.get("method"), message.get("params")
        if "id" not in message:
            self.notified.append((method, params))
            return
        self.asked.append((method, params))
        self.numbers.append(message["id"])
        if method in self.answers:
            answer = self.answers[method]
            asyncio.get_running_loop().call_soon(
                self.reply, message["id"], answer(params) if callable(answer) else answer
            )

    def reply(self, number: str, answer: Any) -> None:
        """Answer a request, as if it came over the wire."""
        if isinstance(answer, Exception):
            self.take({"id": number, "error": {"code": -32000, "message": str(answer)}})
        else:
            self.take({"id": number, "result": answer})

    def take(self, message: dict[str, Any]) -> None:
        """Send the server a message."""
        self.server.protocol.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def close(self) -> None:
        """Nothing to close."""


def connect(**answers: Any) -> Client:
    return Client(make_server(), **answers)


async def test_a_key_is_asked_for_once_and_held() -> None:
    client = connect(stark_key={"key": KEY})
    keys = KeyHolder(client.server)
    first, second = await keys.get(ask=False), await keys.get(ask=True)
    assert first is second
    assert first is not None
    assert first.reveal() == KEY
    assert client.asked == [("stark/key", {"service": "anthropic", "ask": False})]


async def test_a_run_is_lent_the_key_of_the_client() -> None:
    client = connect(stark_key={"key": KEY})
    client.server.provides = frozenset({"key"})
    lent = await lend(client.server, KeyHolder(client.server), "auto")
    assert lent.key is not None
    assert await lent.key() is not None


@pytest.mark.parametrize("params", [{}, None])
async def test_the_notification_of_a_changed_key_needs_no_parameters(params: Any) -> None:
    from stark_lsp.server.runs.desk import Desk

    server = StarkServer()
    server.begun = True
    desk = Desk(server)
    key_requests.register(server, desk.keys)
    client = Client(server, stark_key={"key": KEY})
    assert await desk.keys.get(ask=False) is not None
    client.take({"method": "stark/key/changed"} | ({"params": params} if params is not None else {}))
    client.answers["stark/key"] = None
    assert await desk.keys.get(ask=False) is None
    assert len(client.asked) == 2


async def test_an_answer_that_was_under_way_when_the_key_was_forgotten_is_not_held() -> None:
    client = connect()
    keys = KeyHolder(client.server)
    asking = asyncio.create_task(keys.get(ask=False))
    await asyncio.sleep(0)
    keys.forget()
    client.reply(client.numbers[0], {"key": KEY})
    assert await asking is not None
    client.answers["stark/key"] = {"key": "another"}
    newer = await keys.get(ask=False)
    assert newer is not None
    assert newer.reveal() == "another"


@pytest.mark.parametrize("answer", [None, {}, {"key": None}, {"key": ""}, "text", 3, ValueError("locked")])
async def test_no_key_is_no_error(answer: Any) -> None:
    client = connect(stark_key=answer)
    assert await KeyHolder(client.server).get(ask=False) is None


@pytest.mark.parametrize("key", ["two words", "line\nfeed", "x" * 2000, 5, [], "\udc80"])
async def test_a_key_that_cannot_be_sent_is_reported_without_its_text(key: Any) -> None:
    client = connect(stark_key={"key": key})
    assert await KeyHolder(client.server).get(ask=False) is None
    (shown,) = [params["message"] for method, params in client.notified if method == "window/showMessage"]
    assert "cannot be used" in shown
    assert str(key) not in shown


async def test_the_key_is_in_no_log_of_any_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = connect(stark_key={"key": KEY})
    secret = await KeyHolder(client.server).get(ask=False)
    assert secret is not None
    assert "stark/key" in caplog.text
    assert KEY not in caplog.text + repr(secret) + str(secret) + repr(vars(client.server))
    # An answer that comes when nobody waits for it any more is not shown either.
    client.reply(client.numbers[0], {"key": KEY})
    assert KEY not in caplog.text


async def test_a_client_is_asked_only_for_what_the_run_can_use() -> None:
    client = connect(stark_key={"key": KEY}, stark_model_describe=MODELS)
    client.server.provides = frozenset({"key", "model"})
    keys = KeyHolder(client.server)
    for model in ("playbook", "replay:x.json"):
        lent = await lend(client.server, keys, model)
        assert (lent.key, lent.editor) == (None, None)
    assert client.asked == []
    assert (await lend(client.server, keys, "anthropic:claude-sonnet-5")).editor is None
    lent = await lend(client.server, keys, "auto")
    assert isinstance(lent.editor, LentModel)
    assert [method for method, _ in client.asked] == ["stark/model/describe"]


async def test_a_client_that_provides_nothing_is_asked_nothing() -> None:
    client = connect()
    lent = await lend(client.server, KeyHolder(client.server), "auto")
    assert (lent.key, lent.editor, client.asked) == (None, None, [])


async def test_the_user_is_asked_to_type_a_key_only_for_the_service_they_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    client = connect(stark_key=None)
    client.server.provides = frozenset({"key"})
    keys = KeyHolder(client.server)
    for model in ("auto", "anthropic", "anthropic"):
        lent = await lend(client.server, keys, model)
        assert lent.key is not None
        assert await lent.key() is None
        assert await lent.key() is None
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    lent = await lend(client.server, keys, "anthropic")
    assert await lent.find_key() is not None
    assert [params["ask"] for _, params in client.asked] == [False, True, True, False]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"models": []}, "has no language model"),
        (None, "has no language model"),
        ({"models": "all"}, "has no language model"),
        ({**MODELS, "consent": "refused"}, "may not use"),
        (ValueError("[x](y)\nz"), "does not say which models it has"),
    ],
)
async def test_a_model_that_cannot_be_asked_is_left_out_by_auto_and_explained_where_it_was_named(
    answer: Any, told: str
) -> None:
    client = connect(stark_model_describe=answer)
    client.server.provides = frozenset({"model"})
    assert (await lend(client.server, KeyHolder(client.server), "auto")).editor is None
    with pytest.raises(BadInput, match=told):
        await lend(client.server, KeyHolder(client.server), "editor")
    assert [params for _, params in client.asked] == [{"named": False}, {"named": True}]


def test_consent_that_is_not_refused_lets_the_model_be_asked() -> None:
    for consent in ("given", "unasked", None):
        assert obstacle_in({**MODELS, "consent": consent}) is None


async def test_the_models_answer_comes_as_the_json_it_is() -> None:
    answer = {"text": "t", "toolInput": {"class": 1, "a b": [None, {"_x": 2.5}]}, "model": "m"}
    client = connect(stark_model_complete=answer)
    question = {"messages": [{"role": "user", "content": "\ud800 é"}]}
    assert await LentModel(client.server).complete(question) == answer
    assert client.asked == [("stark/model/complete", question)]


@pytest.mark.parametrize("answer", [None, [], "text", ValueError("no"), {"text": "x" * (lent_model.LIMIT + 1)}])
async def test_an_answer_that_is_none_is_a_fault_with_a_cure(answer: Any) -> None:
    client = connect(stark_model_complete=answer)
    with pytest.raises(Fault, match="choose another model"):
        await LentModel(client.server).complete({})


async def test_what_is_handed_in_cannot_pass_as_a_message_of_the_protocol() -> None:
    client = connect(stark_model_complete={"text": "", "toolInput": {"jsonrpc": "2.0", "method": "exit"}})
    answer = await LentModel(client.server).complete({})
    assert answer["toolInput"] == {"jsonrpc": "2.0", "method": "exit"}
    assert not client.server.leaving.is_set()


async def test_a_cancelled_question_is_withdrawn_and_its_late_answer_dropped(caplog: pytest.LogCaptureFixture) -> None:
    client = connect()
    asking = asyncio.create_task(LentModel(client.server).complete({}))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert client.notified == [("$/cancelRequest", {"id": client.numbers[0]})]
    client.reply(client.numbers[0], {"text": "late"})
    client.reply(client.numbers[0], {"text": "twice"})
    assert "late" not in caplog.text
    assert client.server.awaited == {}


@pytest.mark.parametrize("code", [-32800, -32802, -32603])
async def test_a_question_that_was_withdrawn_ends_without_a_word(code: int) -> None:
    client = connect()
    server = client.server
    server.facts = replace(server.facts, message_actions=True)
    for withdrawn in (True, False):
        asking = asyncio.create_task(server.choose("Which?", ["This"], "Use the code action.", number=f"q{withdrawn}"))
        await asyncio.sleep(0)
        if withdrawn:
            server.withdraw(f"q{withdrawn}")
        client.take({"id": f"q{withdrawn}", "error": {"code": code, "message": "it is gone"}})
        assert await asking is None
        said = [params["message"] for method, params in client.notified if method == "window/showMessage"]
        assert said == ([] if withdrawn else ["Use the code action."])


async def test_a_client_that_is_silent_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lent_model, "COMPLETE_S", 0.01)
    monkeypatch.setattr(lent_model, "DESCRIBE_S", 0.01)
    monkeypatch.setattr(key_requests, "LOOK_S", 0.01)
    client = connect()
    with pytest.raises(Fault, match="was silent"):
        await LentModel(client.server).complete({})
    assert await lent_model.obstacle(client.server, named=False) is not None
    assert await KeyHolder(client.server).get(ask=False) is None
    assert len([method for method, _ in client.notified if method == "$/cancelRequest"]) == 3


def test_what_a_client_provides_is_a_list_of_names_or_nothing() -> None:
    assert provided({"provides": ["key", 3, None, "model"]}) == {"key", "model"}
    for odd in ({}, {"provides": None}, {"provides": "key"}, {"provides": {"key": True}}):
        assert provided(odd) == frozenset()


async def test_a_run_that_is_cancelled_as_the_answer_comes_is_cancelled() -> None:
    server = make_server()
    client = Client(server)
    asking = asyncio.create_task(server.ask_own("stark/model/complete", {}, 10.0))
    while not client.numbers:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    client.reply(client.numbers[0], {"text": "it"})
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
