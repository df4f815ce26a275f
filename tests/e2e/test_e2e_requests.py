"""No request without an answer, over real stdio: LSP 3.17, "Base Protocol" and "Server lifecycle"."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e_editor import MODULE, SMALL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lsprotocol import types
from raw_client import RawClient

PARSE_ERROR, INVALID_REQUEST, NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
NOT_INITIALIZED, CANCELLED, INTERNAL = -32002, -32800, -32603
ENDS = {types.SHUTDOWN, types.EXIT}
HOVER = {"textDocument": {"uri": "file:///a.py"}, "position": {"line": 0, "character": 0}}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RawClient]:
    client = RawClient(tmp_path / "state")
    yield client
    client.process.kill()
    client.process.wait()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    client = RawClient(tmp_path_factory.mktemp("state"))
    client.begin()
    yield client
    client.process.kill()
    client.process.wait()


def code(answer: dict[str, Any]) -> int | None:
    return answer["error"]["code"] if "error" in answer else None


def test_before_initialize_requests_are_refused_and_notifications_dropped(client: RawClient, tmp_path: Path) -> None:
    uri = client.open(tmp_path / "model.py", MODULE)
    assert code(client.ask("textDocument/hover", HOVER)) == NOT_INITIALIZED
    assert code(client.ask("workspace/executeCommand", {"command": "stark.status"})) == NOT_INITIALIZED
    assert code(client.ask("shutdown")) == NOT_INITIALIZED
    assert code(client.ask("initialize", {"processId": []})) == INVALID_PARAMS
    client.begin()
    assert client.lenses(uri) == []
    assert code(client.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})) == INVALID_REQUEST
    assert client.end() == 1


def test_exit_before_initialize_ends_the_server(client: RawClient) -> None:
    client.tell("exit")
    assert client.process.wait(60) == 1


def test_after_shutdown_requests_are_refused(client: RawClient) -> None:
    client.begin()
    for _ in range(3):  # all before the first is answered
        client.send({"id": client.number(), "method": "shutdown"})
    client.send({"id": "h", "method": "textDocument/hover", "params": HOVER})
    assert [code(client.answer(number)) for number in (2, 3, 4, "h")] == [None, *[INVALID_REQUEST] * 3]
    assert code(client.ask("initialize", {})) == INVALID_REQUEST
    client.tell("exit")
    assert client.end() == 0


@pytest.mark.parametrize("params", [None, [], 5, "x", {}, {"textDocument": {"uri": "file:///a.py"}}])
def test_invalid_parameters_are_answered_with_the_reason(running: RawClient, params: Any) -> None:
    client = running
    answer = client.ask("textDocument/hover", params)
    assert code(answer) == INVALID_PARAMS
    assert "params" in answer["error"]["message"]
    answer = client.ask("textDocument/hover", {**HOVER, "position": {"line": "x", "character": 0}})
    assert "expected int @ params.position.line" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", PARSE_ERROR),
        (b"{", PARSE_ERROR),
        (b"\xff\xfe{", PARSE_ERROR),
        (b"[" * 100_000, PARSE_ERROR),
        (b"[]", INVALID_REQUEST),
        (b"null", INVALID_REQUEST),
        (b'{"jsonrpc": "2.0"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": null, "method": "textDocument/hover"}', INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": [1], "method": "textDocument/hover"}', INVALID_REQUEST),
    ],
)
def test_what_is_no_request_is_answered_without_an_id(running: RawClient, body: bytes, expected: int) -> None:
    client = running
    before = len(client.answers[None])
    client.send(body)
    assert code(client.answer(None, before + 1)) == expected
    assert "result" in client.ask("textDocument/hover", HOVER)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"method": "no/such"}, NOT_FOUND),
        ({"method": "$/no/such", "params": []}, NOT_FOUND),
        ({"method": "textDocument/rename", "params": 1}, NOT_FOUND),
        ({"method": 3}, INVALID_REQUEST),
        ({}, INVALID_REQUEST),
        ({"method": "textDocument/hover", "params": HOVER, "jsonrpc": "1.0"}, INVALID_REQUEST),
        ({"method": "textDocument/didClose", "params": {"textDocument": {"uri": ""}}}, INVALID_REQUEST),
        ({"method": "workspace/executeCommand", "params": {"command": "no.such"}}, INVALID_PARAMS),
    ],
)
def test_other_requests_that_cannot_be_handled(running: RawClient, message: dict[str, Any], expected: int) -> None:
    client = running
    number = client.number()
    client.send({"id": number, **message})
    assert code(client.answer(number)) == expected


def test_json_that_looks_like_a_message_is_not_taken_for_one(running: RawClient) -> None:
    client = running
    inner = {"jsonrpc": "2.0", "method": "exit", "id": 7}
    answer = client.ask("workspace/executeCommand", {"command": "stark.status", "arguments": [inner]})
    assert answer["result"]["status"] == "told"


def test_headers_are_read_as_http_has_them(running: RawClient) -> None:
    client = running
    body = json.dumps({"jsonrpc": "2.0", "id": "h", "method": "textDocument/hover", "params": HOVER}).encode()
    assert client.process.stdin is not None
    client.process.stdin.write(b"content-type: x\r\ncontent-length:%d\r\n\r\n" % len(body) + body)
    client.process.stdin.flush()
    assert "result" in client.answer("h")


@pytest.mark.parametrize("waits", [0.0, 0.05])
def test_a_cancelled_optimize_starts_no_run(client: RawClient, tmp_path: Path, waits: float) -> None:
    client.begin(settings=SMALL)
    uri = client.open(tmp_path / "model.py", MODULE)
    params = {"command": "stark.optimize", "arguments": [uri, "Model"]}
    client.send({"id": "run", "method": "workspace/executeCommand", "params": params})
    time.sleep(waits)
    client.tell("$/cancelRequest", {"id": "run"})
    assert code(client.answer("run")) == CANCELLED
    time.sleep(0.5)  # a run that goes on would be shown by then
    assert client.ask("workspace/executeCommand", {"command": "stark.status"})["result"]["runs"] == []
    assert len(client.answers["run"]) == 1


def test_shutdown_while_optimize_is_handled_answers_both(client: RawClient, tmp_path: Path) -> None:
    client.begin(settings=SMALL)
    uri = client.open(tmp_path / "model.py", MODULE)
    for number in range(100, 110):
        params = {"command": "stark.optimize", "arguments": [uri, "Model"]}
        client.send({"id": number, "method": "workspace/executeCommand", "params": params})
    client.send({"id": "end", "method": "shutdown"})
    assert "error" not in client.answer("end")
    for number in range(100, 110):
        client.answer(number)
    client.tell("exit")
    assert client.end() == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PLACE = st.fixed_dictionaries({"line": JSON | st.integers(-2, 30), "character": JSON | st.integers(-2, 30)})
PARAMS = JSON | st.fixed_dictionaries(
    {},
    optional={
        "textDocument": JSON | st.fixed_dictionaries({"uri": st.sampled_from(["file:///a.py", "", "x:"]) | JSON}),
        "position": JSON | PLACE,
        "range": JSON | st.fixed_dictionaries({"start": PLACE, "end": PLACE}),
        "context": JSON | st.fixed_dictionaries({"diagnostics": JSON | st.just([])}),
        "command": st.sampled_from(["stark.optimize", "stark.status", "stark.review", "stark.cancel", "stark.hint"]),
        "arguments": JSON | st.lists(JSON, max_size=3),
        "token": JSON,
        "settings": JSON,
        "contentChanges": JSON,
    },
)
METHODS = st.sampled_from(sorted(set(types.METHOD_TO_TYPES) - ENDS - {"$/cancelRequest"})) | st.text(max_size=6)
ODD_METHODS = JSON.filter(lambda value: not isinstance(value, str))
STEP = st.one_of(
    st.tuples(
        st.just("request"), st.fixed_dictionaries({"method": METHODS | ODD_METHODS}, optional={"params": PARAMS})
    ),
    st.tuples(st.just("notification"), st.fixed_dictionaries({"method": METHODS}, optional={"params": PARAMS})),
    st.tuples(st.just("cancel"), st.none()),
    st.tuples(
        st.just("answer"), st.fixed_dictionaries({"id": JSON, "result": JSON}) | st.fixed_dictionaries({"error": JSON})
    ),
    st.tuples(st.just("garbage"), st.binary(max_size=20).filter(lambda body: not _is_json(body))),
)


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def play(client: RawClient, steps: list[tuple[str, Any]]) -> list[int]:
    """Send all of it; return the ids of the requests."""
    numbers: list[int] = []
    for kind, what in steps:
        if kind == "request":
            numbers.append(client.number())
            client.send({"id": numbers[-1], **what})
        elif kind == "cancel":
            client.tell("$/cancelRequest", {"id": numbers[-1] if numbers else 0})
        elif kind == "answer":  # one without an id is to the last request, which is nobody's to answer
            client.send({"id": numbers[-1] if numbers else None, **what})
        else:
            client.send(what)
    return numbers


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, max_size=12))
def test_each_request_gets_exactly_one_answer(running: RawClient, steps: list[tuple[str, Any]]) -> None:
    client = running
    nameless = len(client.answers[None]) + sum(kind == "garbage" for kind, _ in steps)
    numbers = play(client, steps)
    for number in numbers:
        client.answer(number)
    client.answer(None, nameless) if nameless else None
    client.ask("textDocument/hover", HOVER)
    assert {len(client.answers[number]) for number in numbers} <= {1}
    assert INTERNAL not in {code(client.answers[number][0]) for number in numbers}
    assert len(client.answers[None]) == nameless


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.lists(STEP, max_size=6), amid=st.lists(STEP, max_size=6), after=st.lists(STEP, max_size=6))
def test_so_does_each_from_the_start_to_the_end(tmp_path: Path, before, amid, after) -> None:
    client = RawClient(tmp_path / "state")
    try:
        early = play(client, [step for step in before if step[0] != "cancel" and "initialize" not in str(step[1])])
        client.begin()
        meanwhile = play(client, amid)
        client.send({"id": "end", "method": "shutdown"})
        late = play(client, after)
        for number in [*early, *meanwhile, "end", *late]:
            client.answer(number)
        client.tell("exit")
        assert client.end() == 0
        assert {len(client.answers[number]) for number in [*early, *meanwhile, "end", *late]} == {1}
        assert {code(client.answers[number][0]) for number in early} <= {NOT_INITIALIZED, INVALID_REQUEST}
        assert {code(client.answers[number][0]) for number in late} <= {INVALID_REQUEST}
    finally:
        client.process.kill()
        client.process.wait()


# --- settings that are asked for ---------------------------------------------------------------------


def settings_asked(client: RawClient, count: int) -> Any:
    """Return the id of so many-th request for the settings."""
    deadline = time.monotonic() + 60
    while len(asked := [one for one in client.told if one["method"] == types.WORKSPACE_CONFIGURATION]) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return asked[count - 1]["id"]


def test_a_click_waits_for_the_settings(client: RawClient, tmp_path: Path) -> None:
    """By those of nobody a service could be asked that was not chosen."""
    file = tmp_path / "model.py"
    file.write_text(MODULE)
    client.begin({"workspace": {"configuration": True}})
    arguments = [client.open(file, MODULE), "Model"]
    wanted, number = settings_asked(client, 1), client.number()
    params = {"command": "stark.optimize", "arguments": arguments}
    client.send({"id": number, "method": types.WORKSPACE_EXECUTE_COMMAND, "params": params})
    assert client.ask(types.TEXT_DOCUMENT_HOVER, {**HOVER, "textDocument": {"uri": arguments[0]}})["result"] is None
    assert not client.answers[number]
    client.send({"id": wanted, "result": [{"interpreter": "/nowhere/python"}]})
    assert "/nowhere/python" in client.answer(number)["result"]["message"]


def test_settings_that_cannot_be_read_again_stay(client: RawClient) -> None:
    def model() -> str:
        params = {"command": "stark.status", "arguments": []}
        return str(client.ask(types.WORKSPACE_EXECUTE_COMMAND, params)["result"]["model"])

    client.begin({"workspace": {"configuration": True}})
    client.send({"id": settings_asked(client, 1), "result": [{"model": "playbook"}]})
    client.tell(types.WORKSPACE_DID_CHANGE_CONFIGURATION, {"settings": None})
    failed = {"code": INTERNAL, "message": "the Python extension did not start"}
    client.send({"id": settings_asked(client, 2), "error": failed})
    deadline = time.monotonic() + 60
    while not any("refused workspace/configuration" in str(one["params"]) for one in client.told if "params" in one):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert model() == "playbook"
    client.tell(types.WORKSPACE_DID_CHANGE_CONFIGURATION, {"settings": None})
    client.send({"id": settings_asked(client, 3), "result": [None]})
    while model() != "auto":
        assert time.monotonic() < deadline
