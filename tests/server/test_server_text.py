"""Positions, lines and paths between documents and the protocol."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from stark_lsp.core.editing import Replacement, apply_edits, keep_ends
from stark_lsp.core.problem import Span
from stark_lsp.server.text.positions import Units, path_of, trimmed_range, uri_of

TEXT = st.text(alphabet="ab\n\r\f\u2028é😋 ", max_size=60)
ENCODINGS = st.sampled_from(["utf-8", "utf-16", "utf-32"])


@given(TEXT)
def test_splitting_loses_nothing_and_splits_at_protocol_line_ends_only(text: str) -> None:
    lines = keep_ends(text)
    assert "".join(lines) == text
    for line in lines:
        assert line
        body = line.rstrip("\r\n")
        assert "\n" not in body
        assert "\r" not in body


def test_form_feeds_and_unicode_separators_end_no_line() -> None:
    assert keep_ends("a\fb\u2028c\nd\re\r\nf") == ["a\fb\u2028c\n", "d\r", "e\r\n", "f"]


@given(st.text(alphabet="aé😋", max_size=20), st.data(), ENCODINGS)
def test_columns_survive_the_way_to_the_client_and_back(line: str, data: st.DataObject, encoding: str) -> None:
    units = Units(encoding)
    column = data.draw(st.integers(0, len(line)))
    position = units.position((line,), (0, column)) if line else types.Position(0, 0)
    assert (
        position.character
        == len(line[:column].encode(f"{encoding}-le" if encoding != "utf-8" else encoding))
        // ({"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding])
    )
    if line:
        assert units.place((line,), position) == (0, column)


def test_positions_beyond_the_text_are_taken_as_its_end() -> None:
    lines = ("ab\n", "c")
    assert Units().place(lines, types.Position(0, 99)) == (0, 2)
    assert Units().place(lines, types.Position(9, 9)) == (1, 1)
    assert Units().place(("ab\n",), types.Position(1, 0)) == (1, 0)
    assert Units().place((), types.Position(0, 0)) == (0, 0)


def test_a_span_is_trimmed_to_its_text() -> None:
    lines = keep_ends("\n    x = 1  # 😋  \n\n")
    found = trimmed_range(lines, Span(0, 2), Units("utf-16"))
    assert (found.start.line, found.start.character) == (1, 4)
    assert (found.end.line, found.end.character) == (1, 15)


def test_a_span_beyond_the_text_gives_a_range_inside_it() -> None:
    found = trimmed_range(("a\n",), Span(5, 9), Units())
    assert (found.start.line, found.end.line) == (0, 0)
    assert trimmed_range((), Span(0, 0), Units()).end == types.Position(0, 0)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///tmp/a%20b.py", "/tmp/a b.py"),
        ("file:///tmp/a%3Bb%23c.py", "/tmp/a;b#c.py"),
        ("file://localhost/tmp/a.py", "/tmp/a.py"),
        ("untitled:Untitled-1", None),
        ("file://server/share/a.py", None),
        ("file:///tmp/%00.py", None),
        ("file:///tmp/%FF.py", None),
        ("file:relative.py", None),
        ("http://[::1", None),
        ("", None),
        ("vscode-notebook-cell:/tmp/a.ipynb#W0", None),
    ],
)
def test_only_uris_of_files_on_this_machine_have_a_path(uri: str, path: str | None) -> None:
    assert path_of(uri) == path


@given(st.text(alphabet="aé 😋;#?%&+", min_size=1, max_size=12))
def test_a_path_survives_as_uri(name: str) -> None:
    assert path_of(uri_of(f"/tmp/{name}.py")) == f"/tmp/{name}.py"


def test_replacements_are_all_in_terms_of_the_old_text() -> None:
    text = "one\ntwo\nthree"
    edits = [(0, 0, 0, 3, "1"), (2, 0, 2, 5, "3"), (1, 3, 1, 3, "!"), (9, 0, 9, 0, "\nend")]
    assert apply_edits(text, [Replacement(*edit) for edit in edits]) == "1\ntwo!\n3\nend"


def test_insertions_at_one_place_keep_their_order() -> None:
    assert apply_edits("x", [Replacement(0, 0, 0, 0, "a"), Replacement(0, 0, 0, 0, "b")]) == "abx"
