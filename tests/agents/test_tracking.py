"""Anchors keep to their lines through edits of the document."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.agents.grounding.tracking import AnchorTracker
from stark_lsp.core.plan import Anchor
from stark_lsp.core.problem import Span

LINES = ["import torch", "", "def f(x):", "    y = x * 2", "    z = y + 1", "    return z", "", "# end"]
TEXT = "\n".join(LINES) + "\n"


class Document:
    """An editor's side: applies edits to a text and tells the tracker."""

    def __init__(self, text: str, span: Span) -> None:
        self.text = text
        lines = text.split("\n")
        self.tracker = AnchorTracker([Anchor(span, "\n".join(lines[span.start : span.end + 1]))])

    def edit(self, start: tuple[int, int], end: tuple[int, int], new: str) -> Span | None:
        lines = self.text.split("\n")

        def offset(place: tuple[int, int]) -> int:
            return sum(len(line) + 1 for line in lines[: place[0]]) + place[1]

        self.text = self.text[: offset(start)] + new + self.text[offset(end) :]
        self.tracker.apply(start, end, new)
        return self.span

    @property
    def span(self) -> Span | None:
        return self.tracker.anchors_now()[0][1]

    @property
    def shown(self) -> str | None:
        span = self.span
        return None if span is None else "\n".join(self.text.split("\n")[span.start : span.end + 1])


def test_edits_above_move_it() -> None:
    document = Document(TEXT, Span(3, 4))
    assert document.edit((1, 0), (1, 0), "import os\nimport re\n") == Span(5, 6)
    assert document.edit((0, 0), (1, 0), "") == Span(4, 5)
    assert document.edit((3, 9), (3, 9), "\n    # why") == Span(5, 6)
    assert document.shown == "    y = x * 2\n    z = y + 1"


def test_a_line_inserted_right_above_moves_it() -> None:
    document = Document(TEXT, Span(3, 4))
    assert document.edit((3, 0), (3, 0), "    a = 1\n") == Span(4, 5)
    assert document.edit((4, 4), (4, 4), "\n    ") == Span(5, 6)


def test_edits_below_leave_it() -> None:
    document = Document(TEXT, Span(3, 4))
    assert document.edit((4, 13), (4, 13), "\n    w = z") == Span(3, 5) or document.span == Span(3, 4)
    assert document.shown is not None
    assert document.shown.startswith("    y = x * 2\n    z = y + 1")
    assert document.edit((6, 0), (7, 5), "") == Span(3, 4)


def test_a_new_line_after_it_does_not_belong_to_it() -> None:
    document = Document(TEXT, Span(3, 4))
    document.edit((4, 13), (4, 13), "\n    ")
    document.edit((5, 4), (5, 4), "w = z")
    assert document.shown == "    y = x * 2\n    z = y + 1"


def test_edits_inside_grow_and_shrink_it() -> None:
    document = Document(TEXT, Span(3, 5))
    assert document.edit((3, 13), (3, 13), "\n    y = y * 3") == Span(3, 6)
    assert document.edit((4, 0), (6, 0), "") == Span(3, 4)
    assert document.shown == "    y = x * 2\n    return z"
    assert document.edit((3, 8), (3, 9), "xx") == Span(3, 4)


def test_cutting_its_head_or_tail_keeps_the_rest() -> None:
    document = Document(TEXT, Span(3, 5))
    assert document.edit((2, 0), (4, 0), "") == Span(2, 3)
    assert document.shown == "    z = y + 1\n    return z"
    assert document.edit((3, 0), (5, 0), "") == Span(2, 2)
    assert document.shown == "    z = y + 1"


def test_it_is_gone_with_its_text_and_back_with_undo() -> None:
    document = Document(TEXT, Span(3, 4))
    assert document.edit((3, 0), (5, 0), "") is None
    assert document.edit((0, 0), (0, 0), "# top\n") is None
    assert document.edit((4, 0), (4, 0), "    y = x * 2\n    z = y + 1\n") == Span(4, 5)


def test_it_is_gone_when_its_text_is_replaced_by_another() -> None:
    document = Document(TEXT, Span(3, 4))
    assert document.edit((3, 0), (5, 0), "    return fused(x)\n") is None


def test_a_formatter_that_replaces_everything_keeps_it() -> None:
    document = Document(TEXT, Span(3, 4))
    changed = '"""Doc."""\n\n' + TEXT.replace("    ", "  ")
    assert document.edit((0, 0), (8, 0), changed) == Span(5, 6)


def test_full_text_sync_follows_every_keystroke() -> None:
    tracker = AnchorTracker([Anchor(Span(3, 3), LINES[3])])
    tracker.resync(TEXT)
    text = TEXT
    for typed in ("y = x * 2", "y = x * 25", "y = xx * 25", "yy = xx * 25"):
        text = "\n".join([*LINES[:3], f"    {typed}", *LINES[4:]]) + "\n"
        tracker.resync(text)
        assert tracker.anchors_now()[0][1] == Span(3, 3)
    tracker.resync("# a\n# b\n" + text)
    assert tracker.anchors_now()[0][1] == Span(5, 5)
    tracker.resync("# nothing left\n")
    assert tracker.anchors_now()[0][1] is None
    tracker.resync(text)
    assert tracker.anchors_now()[0][1] == Span(3, 3)


def test_resync_without_a_known_text_goes_by_content_and_nearness() -> None:
    twice = TEXT + "\n" + TEXT
    tracker = AnchorTracker([Anchor(Span(12, 13), "    y = x * 2\n    z = y + 1")])
    tracker.resync(twice)
    assert tracker.anchors_now()[0][1] == Span(12, 13)
    tracker = AnchorTracker([Anchor(Span(3, 5), "    y = x * 2\n    z = y + 1\n    return z")])
    tracker.resync("# top\n" + TEXT.replace("    z = y + 1\n", "    z = y + 1\n    z = z * z\n"))
    assert tracker.anchors_now()[0][1] == Span(4, 7)


_EDIT = st.tuples(st.integers(0, 11), st.integers(0, 14), st.integers(0, 2), st.integers(0, 14), st.sampled_from(
    ["", "\n", "x", "x\n", "\nx", "a\nb\nc", "  # c\n", "\n\n"]
))  # fmt: skip


@given(st.integers(0, 11), st.integers(1, 4), st.lists(_EDIT, max_size=8))
def test_a_living_anchor_shows_exactly_the_lines_it_keeps(
    first: int, size: int, edits: list[tuple[int, int, int, int, str]]
) -> None:
    text = "\n".join(f"line {number}" for number in range(12))
    span = Span(first, min(11, first + size - 1))
    document = Document(text, span)
    for line, column, height, end_column, new in edits:
        lines = document.text.split("\n")
        start = (min(line, len(lines) - 1), 0)
        start = (start[0], min(column, len(lines[start[0]])))
        last = min(start[0] + height, len(lines) - 1)
        end = (last, min(end_column, len(lines[last])))
        document.edit(start, max(start, end), new)
        if document.shown is not None:
            assert document.span is not None
            assert document.span.end < len(document.text.split("\n"))
            assert document.shown.strip()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.sampled_from(["new", "more"])), max_size=10))
def test_whole_lines_added_or_removed_elsewhere_never_lose_it(edits: list[tuple[bool, int, str]]) -> None:
    document = Document(TEXT, Span(3, 4))
    for insert, line, new in edits:
        count = len(document.text.split("\n"))
        span = document.span
        assert span is not None
        line = min(line, count - 1)
        if insert and not span.start < line <= span.end:
            document.edit((line, 0), (line, 0), new + "\n")
        elif not insert and line not in span and line + 1 < count:
            document.edit((line, 0), (line + 1, 0), "")
        assert document.shown == "    y = x * 2\n    z = y + 1"
