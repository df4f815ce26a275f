"""Open documents follow the client's edits exactly."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from stark_lsp.core.editing import keep_ends
from stark_lsp.server.text.documents import Change, Documents, read_file

URI = "file:///tmp/model.py"
TEXT = st.text(alphabet="ab\n\r\f😋", max_size=30)


def opened(text: str) -> Documents:
    documents = Documents()
    documents.open(types.TextDocumentItem(URI, "python", 1, text))
    return documents


def changed(documents: Documents, version: int, *events: types.TextDocumentContentChangeEvent) -> None:
    documents.change(
        types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(version, URI), list(events))
    )


def partial(start: tuple[int, int], end: tuple[int, int], text: str) -> types.TextDocumentContentChangePartial:
    return types.TextDocumentContentChangePartial(types.Range(types.Position(*start), types.Position(*end)), text)


@given(TEXT, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), TEXT), max_size=5))
def test_incremental_edits_give_the_text_that_slicing_gives(text: str, edits: list[tuple[int, int, str]]) -> None:
    documents = opened(text)
    units = documents.units
    expected = text
    for number, (a, b, new) in enumerate(edits):
        document = documents.get(URI)
        assert document is not None
        lines = document.lines
        places = [(row, column) for row, line in enumerate(lines) for column in range(len(line.rstrip("\r\n")) + 1)]
        places = places or [(0, 0)]
        start, end = sorted((places[a % len(places)], places[b % len(places)]))
        first = sum(len(line) for line in lines[: start[0]]) + start[1]
        last = sum(len(line) for line in lines[: end[0]]) + end[1]
        expected = expected[:first] + new + expected[last:]
        there = units.range(lines, start, end)
        changed(documents, number + 2, types.TextDocumentContentChangePartial(there, new))
        assert document.text == expected
        assert document.lines == keep_ends(expected)
        assert document.version == number + 2


def test_watchers_see_each_change_in_terms_of_the_text_before_it() -> None:
    documents = opened("one\ntwo\n")
    seen: list[tuple[str, Change]] = []
    documents.on_change = lambda document, change: seen.append((document.text, change))
    changed(documents, 2, partial((1, 0), (1, 3), "2"), partial((0, 0), (0, 3), "1"))
    assert [text for text, _ in seen] == ["one\ntwo\n", "one\n2\n"]
    assert seen[0][1] == Change("2", (1, 0), (1, 3))


def test_a_full_text_change_replaces_everything() -> None:
    documents = opened("one")
    changed(documents, 2, types.TextDocumentContentChangeWholeDocument("two\n"))
    document = documents.get(URI)
    assert document is not None
    assert document.lines == ["two\n"]


def test_a_change_of_a_document_that_is_not_open_is_ignored() -> None:
    documents = Documents()
    event = types.TextDocumentContentChangeWholeDocument("x")
    params = types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(1, URI), [event])
    assert documents.change(params) is None


def test_a_document_is_found_however_the_client_encodes_its_uri() -> None:
    documents = Documents()
    documents.open(types.TextDocumentItem("file:///tmp/a%2Bb.py", "python", 1, ""))
    assert documents.get("file:///tmp/a+b.py") is not None
    assert documents.at("/tmp/a+b.py") is not None


def test_classes_survive_a_syntax_error_and_follow_the_next_good_text() -> None:
    documents = opened("import torch.nn as nn\nclass A(nn.Module):\n    pass\n")
    document = documents.get(URI)
    assert document is not None
    assert [cls.qualname for cls in document.classes] == ["A"]
    changed(documents, 2, partial((2, 0), (2, 8), "    def"))
    assert [cls.qualname for cls in document.classes] == ["A"]
    changed(
        documents, 3, types.TextDocumentContentChangeWholeDocument("import torch.nn as nn\nclass B(nn.Module): ...\n")
    )
    assert [cls.qualname for cls in document.classes] == ["B"]
    assert document.find("B") is not None
    assert document.find("A") is None


def test_what_stands_above_a_class_is_looked_at_line_by_line() -> None:
    document = opened("import torch.nn as nn\n" * 100 + "# b\n# a\nclass A(nn.Module): ...\n").get(URI)
    assert document is not None
    (cls,) = document.classes
    touched: list[object] = []

    class Lines(list[str]):
        def __getitem__(self, place: Any) -> Any:
            touched.append(place)
            return super().__getitem__(place)

    document.lines = Lines(document.lines)
    assert list(document.comments_above(cls)) == ["# a\n", "# b\n"]
    assert touched == [101, 100, 99]


def test_a_file_is_read_with_its_own_line_ends(tmp_path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"a\r\nb\n")
    assert read_file(str(path)) == "a\r\nb\n"
    path.write_bytes(b"\xff\xfe")
    assert read_file(str(path)) is None
    assert read_file(str(tmp_path / "none.py")) is None
