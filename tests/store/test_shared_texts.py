"""Long texts are written once, whatever the document is, and no table of texts can do harm."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_cases import SYSTEM, exchange, run, tree
from store_strategies import anything

from stark_lsp.core.conversation import Exchange
from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import ModelRole, RunState
from stark_lsp.store import shared_texts, transcripts
from stark_lsp.store.nesting import DEEPEST
from stark_lsp.store.shared_texts import TEXT, TextError, expand, share
from stark_lsp.store.transcripts import Transcript

SOURCE = "".join(f"x{line} = {line} * torch.ones({line})\n" for line in range(20))
OTHER = "".join(f"y{line} = {line} * torch.ones({line})\n" for line in range(30))
MOST = 10**6

# Pieces that make long texts of each other: with and without an end of line, alike at the beginning, one in another.
_pieces = st.sampled_from(
    [
        SOURCE,
        SOURCE[:-1],
        SOURCE + "z = 1\n",
        OTHER,
        OTHER + SOURCE,
        "```python\n",
        "```\n",
        "\n",
        "x",
        "\ud83d",
        "\ude00",
    ]
)
_texts = st.lists(_pieces | anything, max_size=6).map("".join).filter(lambda text: json.loads(json.dumps(text)) == text)
_names = st.sampled_from([TEXT, "$$text", "$$$text", "text", "$", "a b", ""]) | anything
_documents = st.dictionaries(
    st.sampled_from(["run", "nodes"]),
    st.recursive(
        st.none() | st.integers() | _texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names, inner, max_size=3),
        max_leaves=12,
    ),
)


@settings(max_examples=300, deadline=None)
@given(_documents)
def test_a_document_comes_back_whatever_is_in_it(document: dict[str, Any]) -> None:
    made, table = json.loads(json.dumps(share(document)))
    assert expand(made, table, 10**9) == document


@settings(max_examples=100, deadline=None)
@given(_documents)
def test_no_long_text_is_written_twice(document: dict[str, Any]) -> None:
    made, table = share(document)
    # A long text of the table stands nowhere else as a whole, whether as a text or as lines.
    written = [text for text in _written(made) if len(text) >= shared_texts.LONG]
    kept = ["".join(lines) for lines in table.values()]
    assert all(json.dumps({TEXT: name}) in json.dumps(made) for name in table), "what is in the table is used"
    assert len({*written, *kept}) == len(written) + len(kept)


def _written(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict) and list(value) == [TEXT]:
        inner = value[TEXT]
        return ["".join(inner)] if isinstance(inner, list) and all(isinstance(one, str) for one in inner) else []
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for one in inner for text in _written(one)]


def test_a_source_within_a_prompt_is_a_reference_to_it() -> None:
    prompt = f"# Attempt 1\n\n```python\n{SOURCE}```\nGo on.\n"
    made, table = share({"source": SOURCE, "bodies": [prompt, "short"]})
    assert table == {"source": SOURCE.splitlines(keepends=True)}
    assert made == {
        "source": {TEXT: "source"},
        "bodies": [
            {TEXT: ["# Attempt 1\n", "\n", "```python\n", {TEXT: "source"}, "```\n", "Go on.\n"]},
            "short",
        ],
    }


def test_a_source_that_is_only_the_beginning_of_a_line_is_not_taken_for_it() -> None:
    made, table = share({"source": SOURCE[:-1], "body": f"#\n{SOURCE[:-1]}00\n"})
    assert table == {}
    assert expand(made, table, MOST) == {"source": SOURCE[:-1], "body": f"#\n{SOURCE[:-1]}00\n"}


def test_an_object_of_a_model_that_looks_like_a_reference_stays_what_it_is() -> None:
    document: dict[str, Any] = {"a": {TEXT: "source"}, "b": {"$$text": [1]}, "c": {TEXT: 1, "d": 2}}
    made, table = share(document)
    assert made == {"a": {"$$text": "source"}, "b": {"$$$text": [1]}, "c": {TEXT: 1, "d": 2}}
    assert expand(made, table, MOST) == document


def test_names_of_a_model_are_no_names_of_texts() -> None:
    made, table = share({"a": {"\x1b]0;title\x07": SOURCE, "b": SOURCE}, "c": {"x" * 200: OTHER}, "d": OTHER})
    assert list(table) == ["text 0", "c." + "x" * 40]
    # Two places may be written alike.
    made, table = share({"a": [{"b.c": SOURCE, "b": {"c": OTHER}}, SOURCE, OTHER]})
    assert list(table) == ["a[0].b.c", "text 1"]
    assert made["a"][1:] == [{TEXT: "a[0].b.c"}, {TEXT: "text 1"}]


def test_looking_for_texts_in_texts_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_texts, "MOST_COMPARED", 0)
    document = {"sources": [SOURCE, OTHER], "bodies": [f"#\n{SOURCE}", f"#\n{OTHER}", f"#\n{OTHER}"]}
    made, table = share(document)
    assert expand(made, table, MOST) == document
    assert len(table) == 2, "what is alike as a whole is found all the same"


# --- tables from anywhere --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "table", "reason"),
    [
        ({TEXT: "x"}, {}, r"exchanges\[0\]\.body: there is no text 'x'"),
        ({TEXT: [{TEXT: "x"}]}, {"y": "y"}, r"exchanges\[0\]\.body: there is no text 'x'"),
        ({TEXT: 1}, {}, r"exchanges\[0\]\.body: .* neither a name nor a list"),
        ({TEXT: [1]}, {}, r"exchanges\[0\]\.body: .* neither a text nor a name"),
        ({TEXT: [{TEXT: ["x"]}]}, {}, r"exchanges\[0\]\.body: .* neither a text nor a name"),
        ({TEXT: [{"$$text": "x"}]}, {"x": "x"}, r"exchanges\[0\]\.body: .* neither a text nor a name"),
        ({TEXT: "x"}, {"x": 1}, "texts: 'x' is neither a text nor a list of lines"),
        ({TEXT: "x"}, {"x": ["a", {TEXT: "y"}], "y": "y"}, "texts: 'x' is neither a text nor a list of lines"),
        ({TEXT: "x"}, [], "`texts` is no object"),
        ([{TEXT: "x"}, {TEXT: "x"}], {"x": "x" * (MOST // 2 + 1)}, r"body\[1\]: with the text 'x' .* 1,000,000 char"),
        ({TEXT: [{TEXT: "x"}] * 100}, {"x": "x" * (MOST // 99)}, r"body: with the text 'x' .* 1,000,000 characters"),
        ({TEXT: "n" * 10**6}, {}, r"body: there is no text 'n{80}' "),
    ],
)  # fmt: skip
def test_a_reference_that_cannot_be_followed_is_named_with_its_place(value: Any, table: Any, reason: str) -> None:
    with pytest.raises(TextError, match=reason):
        expand({"exchanges": [{"body": value}]}, table, MOST)


# --- transcripts -----------------------------------------------------------------------------------

SHARED = "The class and an example.\n" * 100


def _exchange(attempt: int, role: ModelRole, body: str) -> Exchange:
    one = exchange(attempt, role, body=body, tool_input={"source": SOURCE})
    return replace(one, question=replace(one.question, shared=SHARED))


def _whole(attempts: int) -> Transcript:
    made = tuple(
        _exchange(attempt, role, f"Attempt {attempt}, {role.value}\n{SOURCE}")
        for attempt in range(1, attempts + 1)
        for role in (ModelRole.PLAN, ModelRole.CODE)
    )
    root, good, _ = tree()
    nodes = (root, replace(good, candidate=replace(good.candidate, source=SOURCE)))
    return Transcript(run("r1", RunState.FINISHED), nodes, made)


def test_what_prompts_share_is_in_a_transcript_once() -> None:
    text = transcripts.dumps(_whole(10))
    assert transcripts.loads(text) == _whole(10)
    assert text.count(json.dumps(SYSTEM)) == 1
    assert text.count("x7 = 7 * torch.ones(7)") == 1
    assert text.count("The class and an example.") == 100
    more = len(transcripts.dumps(_whole(11))) - len(text)
    assert more < 2 * 2500, "a further exchange is its own words and figures"


def test_lines_of_a_prompt_are_lines_of_the_file() -> None:
    lines = [line.strip() for line in transcripts.dumps(_whole(1)).splitlines()]
    assert r'"x7 = 7 * torch.ones(7)\n",' in lines
    assert r'"Attempt 1, plan\n",' in lines
    assert '"$text": "nodes[1].candidate.source"' in lines


def test_what_was_handed_in_may_be_as_deep_as_the_store_takes_it() -> None:
    inner: dict[str, Any] = {"a": f"#\n{SOURCE}"}
    for _ in range(DEEPEST - 1):
        inner = {"a": inner}
    whole = replace(_whole(1), exchanges=(exchange(1, tool_input=inner),))
    assert transcripts.loads(transcripts.dumps(whole)) == whole


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda made: made["texts"].pop("nodes[1].candidate.source"), "nodes[1].candidate.source: there is no text"),
        (lambda made: made.update(texts=[]), "`texts` is no object"),
        (lambda made: made["texts"].update(x=[None]), "texts: 'x' is neither"),
        (lambda made: made["texts"].update({"\x1b]0;": 0}), "texts: '\\x1b]0;' is neither"),
        (lambda made: made["run"].update(id={TEXT: ["a", 1]}), "run.id: `$text` lists what is neither"),
        (lambda made: made["run"].update(seed={TEXT: ["1"]}), "whole number"),
    ],
)  # fmt: skip
def test_a_transcript_with_a_bad_reference_is_named_with_the_place(change: Any, reason: str, tmp_path: Path) -> None:
    made = json.loads(transcripts.dumps(_whole(1)))
    change(made)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(made))
    with pytest.raises(BadInput) as caught:
        transcripts.read(path)
    told = str(caught.value)
    assert told.startswith(f"{path}: ")
    assert reason in told
    assert "\x1b" not in told


def test_a_small_file_that_would_be_a_huge_transcript_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = json.loads(transcripts.dumps(_whole(1)))
    made["texts"]["huge"] = "x" * 50_000
    made["exchanges"][1]["question"]["body"] = {TEXT: [{TEXT: "huge"}] * 100}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(made))
    monkeypatch.setattr(transcripts, "MOST_BYTES", 1_000_000)
    with pytest.raises(BadInput, match=r"exchanges\[1\]\.question\.body: with the text 'huge' there are more than"):
        transcripts.read(path)
