"""The classes of an open document are right after each edit, and stay while a part of it is no Python."""

from __future__ import annotations

import logging
from unittest.mock import Mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stark_lsp.core.errors import BadInput
from stark_lsp.core.status import InputSource
from stark_lsp.discovery import index as index_module
from stark_lsp.discovery import pieces, problems
from stark_lsp.discovery.classes import classes_of, find_modules
from stark_lsp.discovery.index import DocumentIndex
from stark_lsp.discovery.pieces import cut, read_whole, recut

TEXT = '''"""Doc."""
import torch
import torch.nn as nn


class A(nn.Module):
    """First."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


@decorated(
    1,
)
class B(A):
    class Inner(nn.Module):
        pass

    def forward(self, x):
        return x


TABLE = [
    1,
]


def get_inputs():
    return [torch.randn(4)]


if TABLE:
    class C(nn.Module): ...
else:
    class D(B): ...
'''
NAMES = ["A", "B", "B.Inner", "C", "D"]


def seen(index: DocumentIndex, text: str) -> list[tuple[str, int]]:
    """The classes, each with the line that its lens is on, which must be its own."""
    found = index.update(text)
    lines = text.split("\n")
    for cls in found:
        name = cls.qualname.rpartition(".")[2]
        assert lines[cls.name_line][cls.name_start : cls.name_end] == name
        assert cls.span.start <= cls.name_line <= cls.span.end < len(lines)
    return [(cls.qualname, cls.name_line) for cls in found]


def names(index: DocumentIndex, text: str) -> list[str]:
    return [name for name, _ in seen(index, text)]


def test_the_same_classes_are_the_same_object() -> None:
    index = DocumentIndex()
    first = index.update(TEXT)
    assert [cls.qualname for cls in first] == NAMES
    assert index.update(TEXT.replace("return x", "return y")) is first
    assert index.update(TEXT) is first
    assert index.update("") == ()


def test_an_edit_is_read_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    index = DocumentIndex()
    index.update(TEXT)
    texts: list[str] = []
    monkeypatch.setattr(pieces, "read", lambda text, real=pieces.read: texts.append(text) or real(text))
    index.update(TEXT.replace("4, 4", "8, 8"))
    assert len(texts) == 1
    assert texts[0].startswith("class A")


BREAKS = [
    "class X(",  # an unclosed bracket where a class begins
    "x = [",
    "(",
    "def broken(:",
    "if True",
    "    indented",
    'y = """',
    "@",
    "from torch import nn, (",
]


def test_lines_that_come_or_go_in_a_body_move_the_classes_and_nothing_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = DocumentIndex()
    index.update(TEXT)
    longer = TEXT.replace("return self.linear(x)", "y = self.linear(x)\n\n        return y")
    used = TEXT.replace("return self.linear(x)", "return D()(x)")
    expected = [find_modules(text) for text in (longer, TEXT, used)]
    monkeypatch.setattr(index_module, "classes_of", looked_up := Mock(side_effect=classes_of))
    assert [index.update(longer), index.update(TEXT)] == expected[:2]
    looked_up.assert_not_called()
    assert index.update(used) == expected[2]
    looked_up.assert_called_once()


@pytest.mark.parametrize("broken", BREAKS)
def test_no_lens_goes_or_jumps_while_something_is_typed_anywhere(broken: str) -> None:
    lines = TEXT.split("\n")
    home = dict(zip(NAMES, [line for _, line in seen(DocumentIndex(), TEXT)], strict=True))
    index = DocumentIndex()
    for place in range(0, len(lines), 2):
        index.update(TEXT)
        for typed in (broken[: len(broken) // 2], broken):
            text = "\n".join([*lines[:place], typed, *lines[place:]])
            now = dict(seen(index, text))
            expected = {name: line + (line >= place) for name, line in home.items()}
            assert {name: line for name, line in now.items() if name in home} == expected, (place, typed)
        assert seen(index, TEXT) == list(home.items())


def test_an_unclosed_bracket_in_the_first_class_hides_no_other_one_when_a_file_is_opened() -> None:
    for line in ("class A(nn.Module", "        super().__init__(", "        self.linear = nn.Linear(4, 4"):
        text = TEXT.replace(f"{line})", line)
        assert text != TEXT
        found = names(DocumentIndex(), text)
        assert set(found) >= {"B.Inner", "C"}, line
        assert ("A" in found) == ("class" not in line)


def test_inputs_stay_while_the_function_that_makes_them_is_broken() -> None:
    index = DocumentIndex()
    text = "import torch.nn as nn\nclass Net(nn.Module): ...\ndef get_inputs():\n    return [1]\n"
    for now in (text, text.replace("():", "(:")):
        (found,) = index.update(now)
        assert found.inputs.source is InputSource.FUNCTIONS
    (found,) = index.update(text.partition("def")[0])
    assert found.inputs.source is InputSource.NONE


def test_a_class_that_is_deleted_or_renamed_goes_although_something_is_broken() -> None:
    index = DocumentIndex()
    index.update(TEXT)
    broken = TEXT.replace("TABLE = [", "TABLE = ([")
    assert names(index, broken) == NAMES
    assert names(index, broken.replace("class C(", "class E(")) == ["A", "B", "B.Inner", "E", "D"]
    assert "D" not in names(index, broken.replace("    class D(B): ...", "    pass"))


EDITS = [
    "", "\n", "class N(nn.Module):\n    def forward(self, x):\n        return x\n", "import torch.nn as nn\n", '"""',
    "(", ")", "#", "'", "    ", "\\", "@dec\n", "else:\n    pass\n", "x = 1\n", "def f():\n    pass\n", "\r\n", "class",
    "[\n1,\n]\n", "A", "B()\n", " D ", "get_inputs", "class A(nn.Module): ...\n",
    "    class M(nn.Linear): ...\n", "\t", "\f", "é",
]  # fmt: skip


HALVES = [(0.0, 8, "class A(nn.Module): ...\n"), (0.75, 0, "#"), (1.0, 0, "\n")]
"""With them a comment alone stands between the two halves of a line end, which are two line ends then."""


def edited(text: str, edit: tuple[float, int, str]) -> str:
    """Put a text in the place of so many characters somewhere."""
    place, removed, new = edit
    start = int(place * len(text))
    return text[:start] + new + text[start + removed :]


def test_a_comment_between_the_halves_of_a_line_end_keeps_them_apart() -> None:
    assert cut("x = 1\r#\nclass A: ...\nclass B: ...\n") == ["x = 1\r#\n", "class A: ...\n", "class B: ...\n"]
    text = TEXT.replace("\n", "\r\n")
    known = recut(text, [])[0]
    for edit in HALVES:
        text = edited(text, edit)
        known = recut(text, known)[0]
        assert [piece.text for piece in known] == cut(text)
    assert "\r#\n" in text


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_backslash_alone_on_a_line_begins_nothing(newline: str) -> None:
    """Nor does it end anything: what follows it is read as if it stood there alone."""
    text = TEXT.replace("\n", newline)
    for place in range(len(text) + 1):
        typed = text[:place] + "\\" + text[place:]
        try:
            whole = classes_of([read_whole(typed)], None)
        except SyntaxError:
            continue
        index = DocumentIndex()
        assert index.update(typed) == tuple(cls for cls in whole if cls.reachable), place
        assert index.valid, place


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_form_feed_within_an_indentation_begins_it_anew(newline: str) -> None:
    text = TEXT.replace("\n", newline)
    for place in range(len(text) + 1):
        typed = text[:place] + "\f" + text[place:]
        try:
            whole = classes_of([read_whole(typed)], None)
        except SyntaxError:
            continue
        assert find_modules(typed) == tuple(cls for cls in whole if cls.reachable), place


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 60), st.sampled_from(EDITS)), max_size=8),
    st.sampled_from(["\n", "\r\n"]),
)
@example(HALVES, "\r\n")
@example([(0.365234375, 0, "\f")], "\r\n")
def test_any_edits_give_what_the_whole_text_gives(edits: list[tuple[float, int, str]], newline: str) -> None:
    text = TEXT.replace("\n", newline)
    index, known = DocumentIndex(), recut(text, [])[0]
    for edit in edits:
        text = edited(text, edit)
        known, _, _ = recut(text, known)
        assert [piece.text for piece in known] == cut(text)
        index.update(text)
        fresh = DocumentIndex()
        found = fresh.update(text)
        assert index.valid == fresh.valid
        if index.valid:
            assert index.classes == found
        try:
            whole = classes_of([read_whole(text)], None)
        except SyntaxError:
            continue
        assert index.valid
        assert found == find_modules(text) == tuple(cls for cls in whole if cls.reachable)
    # Whatever was between, the last good text counts.
    assert index.update(TEXT) == find_modules(TEXT)


def test_a_very_long_text_is_not_looked_into(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(index_module, "LONGEST", len(TEXT))
    monkeypatch.setattr(problems, "LONGEST", len(TEXT))
    index = DocumentIndex("/a.py")
    with caplog.at_level(logging.WARNING):
        assert index.update(TEXT) != ()
        assert index.update(TEXT + "#") == index.update(TEXT + "##") == ()
    assert caplog.text.count("it is not looked into") == 1
    assert index.update(TEXT) == find_modules(TEXT)
    with pytest.raises(BadInput, match="at most"):
        problems.make_problem("/a.py", TEXT + "#", "A")
