"""A run as a file: all of it comes back, nothing that must not be handed on is in it, and no file can do harm."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_cases import REFERENCE, exchange, loss, run, steerings, tree
from store_strategies import anything, exchanges, losses, said

from stark_lsp.core.conversation import Exchange, Loss
from stark_lsp.core.errors import BadInput
from stark_lsp.core.run import Node
from stark_lsp.core.status import Decision, ModelRole, RunState
from stark_lsp.core.steering import Steering
from stark_lsp.store import RunStore, transcripts
from stark_lsp.store.transcripts import Transcript

WHOLE = Transcript(
    run("r1", RunState.FINISHED, reference=REFERENCE, best=1, message="2.00x as fast."),
    tree(),
    (exchange(1), exchange(1, ModelRole.CODE), exchange(2, ModelRole.DEBUG, dollars=None)),
    (loss(), loss(dollars=None)),
    steerings(),
)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "state" / "runs.sqlite3")


def document() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(transcripts.dumps(WHOLE))
    return made


# --- round trips -----------------------------------------------------------------------------------


def test_a_run_exported_and_imported_elsewhere_is_the_same_run(store: RunStore, tmp_path: Path) -> None:
    store.create(WHOLE.run, WHOLE.nodes, WHOLE.exchanges, WHOLE.steerings, WHOLE.losses)
    path = tmp_path / "run.json"
    path.write_text(transcripts.dumps(transcripts.collect(store, "r1")))
    elsewhere = RunStore(tmp_path / "elsewhere.sqlite3")
    # Not offered by itself, and no program of its choice is run: a transcript may come from anyone.
    environment = replace(REFERENCE.environment, interpreter="python")
    imported = replace(WHOLE.run, decision=Decision.KEPT, reference=replace(REFERENCE, environment=environment))
    assert transcripts.keep(elsewhere, transcripts.read(path)) == imported
    assert transcripts.collect(elsewhere, "r1") == replace(WHOLE, run=imported)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(exchanges, max_size=3, unique_by=lambda e: (e.question.attempt, e.question.role, e.question.ordinal)),
    st.lists(losses, max_size=3),
    st.lists(said, max_size=3),
    anything,
)
def test_whatever_a_run_holds_comes_back(
    made: list[Exchange], lost: list[Loss], told: list[Steering], odd: str
) -> None:
    root, good, bad = tree()
    nodes = (root, good, replace(bad, candidate=replace(bad.candidate, source=odd)))
    whole = Transcript(replace(WHOLE.run, message=odd), nodes, tuple(made), tuple(lost), tuple(told))
    text = transcripts.dumps(whole)
    assert text.isascii()
    assert transcripts.loads(text) == whole


def test_a_file_holds_the_parts_that_its_format_names() -> None:
    made = document()
    assert list(made) == ["stark_transcript", "run", "nodes", "exchanges", "losses", "steerings", "texts"]
    assert made["stark_transcript"] == 2
    assert made["exchanges"][0]["question"]["role"] == "plan"
    assert made["exchanges"][0]["dollars"] == 0.25


def test_a_file_saved_anew_by_another_program_is_read(tmp_path: Path) -> None:
    text = json.dumps(document(), ensure_ascii=False)
    for name, data in {
        "mark": codecs.BOM_UTF8 + text.encode(),
        "utf16": text.encode("utf-16"),
        "crlf": text.replace(", ", ",\r\n").encode(),
    }.items():
        (tmp_path / name).write_bytes(data)
        assert transcripts.read(tmp_path / name) == WHOLE


# --- taking one in ---------------------------------------------------------------------------------


def test_an_id_that_is_taken_gets_another(store: RunStore) -> None:
    first, second = transcripts.keep(store, WHOLE), transcripts.keep(store, WHOLE)
    assert first.id == "r1" != second.id
    assert replace(second, id="r1") == first
    assert transcripts.collect(store, second.id).exchanges == WHOLE.exchanges


@pytest.mark.parametrize("run_id", ["", "../../etc", "\x1b[2J", "-x", "a b", "x" * 65])
def test_an_id_that_is_none_of_ours_gets_another(store: RunStore, run_id: str) -> None:
    made = transcripts.keep(store, replace(WHOLE, run=replace(WHOLE.run, id=run_id)))
    assert made.id != run_id
    assert made.id.isalnum()


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.CANCELLED, RunState.FAILED])
def test_a_run_that_had_not_ended_is_finished_here_and_says_how_it_was(store: RunStore, state: RunState) -> None:
    made = transcripts.keep(store, replace(WHOLE, run=replace(WHOLE.run, state=state, best=None)))
    assert made.state is RunState.FINISHED
    assert state.value in made.message
    assert store.latest_resumable(made.problem) is None
    assert store.mark_interrupted() == ()
    store.delete(made.id)  # nobody owns it


# --- what is not handed on -------------------------------------------------------------------------


def test_an_anonymous_transcript_says_nowhere_where_files_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    told = "File /home/ada/code/net/model.py, line 3; /home/ada/.cache/x.so; cd '/home/ada'; ../adam/home"
    whole = replace(WHOLE, exchanges=(exchange(1, body=told, tool_input={"/home/ada/a": "/home/ada/code/b.h"}),))
    text = transcripts.dumps(whole, anonymous=True)
    assert "/home/ada" not in text
    made = transcripts.loads(text)
    assert made.run.problem.path == "model.py"
    assert made.run.reference is not None
    assert made.run.reference.environment.interpreter == "python"
    assert made.nodes[1].verdict is not None
    assert made.nodes[1].verdict.environment is not None
    assert made.nodes[1].verdict.environment.interpreter == "python"
    assert made.nodes[2].verdict is not None
    assert made.nodes[2].verdict.log == "-Iinclude k.cpp:3: error"
    assert made.exchanges[0].question.body == "File model.py, line 3; .cache/x.so; cd ''; ../adam/home"
    assert made.exchanges[0].answer.tool_input == {"a": "b.h"}
    assert made.run.problem.text == WHOLE.run.problem.text, "what is no path stays"
    assert "/home/ada/code/net/model.py" in transcripts.dumps(whole)


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("/code/model.py", "/code/model.py of legacy/code/x, -I/code/lib", "model.py of legacy/code/x, -Ilib"),
        ("/model.py", "in /model.py / other", "in /model.py / other"),
        ("/srv/team/net/model.py", "/srv/team/lib.h /srv/teams/y /srv/team", "lib.h /srv/teams/y "),
        ("model.py", "in model.py", "in model.py"),
    ],
)
def test_only_folders_that_a_run_names_are_left_out(path: str, before: str, after: str) -> None:
    problem = replace(WHOLE.run.problem, path=path)
    whole = replace(WHOLE, run=replace(WHOLE.run, problem=problem), exchanges=(exchange(1, body=before),))
    made = transcripts.loads(transcripts.dumps(whole, anonymous=True))
    assert made.exchanges[0].question.body == after


def test_what_lies_beside_an_interpreter_is_left_out_too() -> None:
    assert WHOLE.run.reference is not None
    environment = replace(WHOLE.run.reference.environment, interpreter="/data/envs/acme/bin/python")
    run = replace(WHOLE.run, reference=replace(WHOLE.run.reference, environment=environment))
    told = 'File "/data/envs/acme/lib/python3.12/site-packages/torch/nn.py", line 1; -I/data/envs/acme/include'
    whole = replace(WHOLE, run=run, exchanges=(exchange(1, body=told),))
    assert "acme" not in transcripts.dumps(whole, anonymous=True)


def test_a_key_is_never_in_a_transcript(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-of-another-service")
    message = "401: invalid x-api-key sk-ant-api03-AbCdEf_0123456789-xyz (a-key-of-another-service)"
    whole = replace(WHOLE, exchanges=(exchange(1, message=message),))
    made = transcripts.loads(transcripts.dumps(whole))
    assert made.exchanges[0].answer.message == "401: invalid x-api-key [key removed] ([key removed])"
    openai = replace(WHOLE, exchanges=(exchange(1, message="wrong key: sk-proj-AbCdEf_0123456789-xyz"),))
    assert transcripts.loads(transcripts.dumps(openai)).exchanges[0].answer.message == "wrong key: [key removed]"
    older = replace(WHOLE, exchanges=(exchange(1, message=f"wrong key: sk-{'aB3' * 16}"),))
    assert transcripts.loads(transcripts.dumps(older)).exchanges[0].answer.message == "wrong key: [key removed]"
    other = replace(WHOLE, exchanges=(exchange(1, message=f"no such token: ghp_{'aB3' * 12}"),))
    assert transcripts.loads(transcripts.dumps(other)).exchanges[0].answer.message == "no such token: [key removed]"
    problem = WHOLE.run.problem
    inputs = replace(problem.inputs, table={"init_kwargs": {"password": "abc", "tokens": ["a"]}})
    given = replace(WHOLE, run=replace(WHOLE.run, problem=replace(problem, inputs=inputs)))
    assert transcripts.loads(transcripts.dumps(given)).run.problem.inputs.table == {
        "init_kwargs": {"password": "[key removed]", "tokens": ["a"]}
    }
    assert inputs.table["init_kwargs"]["password"] == "abc"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    assert transcripts.loads(transcripts.dumps(WHOLE)) == WHOLE, "what is too short to be a key removes nothing"


# --- files that are none ---------------------------------------------------------------------------


def _without(part: str) -> Callable[[dict[str, Any]], Any]:
    return lambda made: {name: value for name, value in made.items() if name != part}


def _with(*path: Any) -> Callable[[dict[str, Any]], Any]:
    *names, value = path

    def change(made: dict[str, Any]) -> Any:
        at: Any = made
        for name in names[:-1]:
            at = at[name]
        at[names[-1]] = value
        return made

    return change


def _nested() -> list[Any]:
    inner: list[Any] = []
    for _ in range(300):
        inner = [inner]
    return inner


BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a list": (lambda made: [made], "there is no `stark_transcript`"),
    "another JSON": (lambda _: {"a": 1}, "there is no `stark_transcript`"),
    "a strange version": (_with("stark_transcript", "one"), "no version"),
    "a newer version": (_with("stark_transcript", 3), "newer stark-lsp"),
    "a part missing": (_without("steerings"), "it should hold run, nodes, exchanges, losses, steerings, texts"),
    "a part too many": (_with("more", 1), "it should hold"),
    "nodes that are no list": (_with("nodes", {}), "`nodes` is no list"),
    "a misspelled key": (_with("run", "seeed", 1), "seeed"),
    "a number that is text": (_with("run", "seed", "1"), "whole number"),
    "a class that is a path": (_with("run", "problem", "qualname", "../../x"), "no name of Python's"),
    "a node twice": (lambda made: _with("nodes", [*made["nodes"], made["nodes"][1]])(made), "attempt 1 is there twice"),
    "a node without parent": (_with("nodes", 2, "parent", 7), "attempt 2 does not come from an earlier one"),
    "a node below itself": (_with("nodes", 2, "parent", 2), "attempt 2 does not come from an earlier one"),
    "a second root": (_with("nodes", 1, "parent", None), "attempt 1 does not come from an earlier one"),
    "a number out of range": (_with("nodes", 2, "id", 2**70), "out of range"),
    "an attempt out of range": (_with("exchanges", 0, "question", "attempt", 2**70), "out of range"),
    "a steered attempt out of range": (_with("steerings", 0, "node", -1), "out of range"),
    "a proposal that failed": (_with("run", "best", 2), "attempt 2, is not among those verified"),
    "a proposal that is not there": (_with("run", "best", 9), "attempt 9, is not among those verified"),
    "two answers in one place": (
        lambda made: _with("exchanges", [made["exchanges"][0]] * 2)(made), "two exchanges have the same place"),
    "something without end": (_with("run", "settings", {"a": _nested()}), "nested too deeply"),
    "something to take the terminal over": (_with("run", "\x1b]0;title\x07", 1), "not a transcript"),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(BAD))
def test_a_file_that_does_not_fit_together_is_named_with_the_reason(case: str, tmp_path: Path) -> None:
    change, reason = BAD[case]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(change(document())))
    with pytest.raises(BadInput) as caught:
        transcripts.read(path)
    told = str(caught.value)
    assert told.startswith(f"{path}: ")
    assert reason in told
    assert caught.value.cure
    assert "\x1b" not in told
    assert len(told) < 500 + len(str(path))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe\xfd", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"null", "there is no"),
    ],
)
def test_a_file_that_is_no_json_is_named_with_the_reason(data: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(data)
    with pytest.raises(BadInput, match=reason):
        transcripts.read(tmp_path / "run.json")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path / "missing.json", tmp_path, Path("a\0b")):
        with pytest.raises(BadInput, match=r"transcript cannot be read: .*\. Check the path\."):
            transcripts.read(path)
    monkeypatch.setattr(transcripts, "MOST_BYTES", 1000)
    (tmp_path / "run.json").write_text(transcripts.dumps(WHOLE))
    with pytest.raises(BadInput, match="larger than a transcript may be"):
        transcripts.read(tmp_path / "run.json")


def test_a_run_that_was_only_begun_is_a_transcript_too(store: RunStore) -> None:
    begun = Transcript(run("r1", RunState.FAILED), ())
    assert transcripts.loads(transcripts.dumps(begun)) == begun
    nodes: tuple[Node, ...] = tree()[:1]
    assert transcripts.loads(transcripts.dumps(replace(begun, nodes=nodes))).nodes == nodes
    transcripts.keep(store, begun)
    assert transcripts.collect(store, "r1").nodes == ()
