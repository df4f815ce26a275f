"""Marker comments: every spelling is read, nothing else of the text is touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.agents.grounding.alignment import check, realign
from stark_lsp.agents.grounding.check import to_document
from stark_lsp.agents.grounding.markers import annotate, parse, strip
from stark_lsp.core.problem import SourceSlice, Span

SOURCE = """\
class Model:
    def forward(self, x):
        y = x * 2

        return y + 1
"""

OPEN_AND_CLOSE = [
    ("# <<<IMPROVE BEGIN>>>", "# <<<IMPROVE END>>>"),
    ("# # <<<IMPROVE BEGIN>>>", "# # <<<IMPROVE END>>>"),
    ("# <<<IMPROVE BEGINS>>>", "# <<<IMPROVE ENDS>>>"),
    ("#<<<IMPROVE START>>>", "#<<<IMPROVE STOP>>>"),
    ("# <<<improve begin>>>", "# <<<improve end>>>"),
    ("# <<< IMPROVE  BEGIN >>>", "# <<< IMPROVE END >>>"),
    ("# <<IMPROVE BEGIN>>", "# <IMPROVE END>"),
    ("# <<<IMPROVE BEGIN", "# IMPROVE END>>>"),
    ("# <<<IMPROVE_BEGIN>>>", "# <<<IMPROVE_END>>>"),
    ("# <<<BEGIN IMPROVE>>>", "# <<<END IMPROVE>>>"),
    ("// <<<IMPROVE BEGIN>>>", "// <<<IMPROVE END>>>"),
    ("/* <<<IMPROVE BEGIN>>>*/", "/* <<<IMPROVE END>>>*/"),
    ("<!-- <<<IMPROVE BEGIN>>> -->", "<!-- <<<IMPROVE END>>> -->"),
    ("<<<IMPROVE BEGIN>>>", "<<<IMPROVE END>>>"),
    ("# IMPROVE BEGIN", "# IMPROVE END"),
]


@pytest.mark.parametrize(("opening", "closing"), OPEN_AND_CLOSE)
def test_every_spelling_marks_the_lines_between(opening: str, closing: str) -> None:
    lines = SOURCE.splitlines()
    annotated = "\n".join([*lines[:2], "        " + opening, lines[2], "        " + closing, *lines[3:]]) + "\n"
    parsed = parse(annotated)
    assert parsed.source == SOURCE
    assert parsed.spans == (Span(2, 2),)
    assert parsed.notes == ("",)


@pytest.mark.parametrize(("opening", "closing"), OPEN_AND_CLOSE[:-2])
def test_markers_behind_code_include_their_lines(opening: str, closing: str) -> None:
    lines = SOURCE.splitlines()
    annotated = "\n".join([*lines[:2], f"{lines[2]}  {opening}", "", f"{lines[4]}  {closing}"]) + "\n"
    parsed = parse(annotated)
    assert parsed.source == SOURCE
    assert parsed.spans == (Span(2, 4),)


def test_both_markers_on_one_line_of_code() -> None:
    parsed = parse("/* <<<IMPROVE BEGIN>>> fuse */ y = f(x); /* <<<IMPROVE END>>> */\n")
    assert parsed.source == "y = f(x);\n"
    assert parsed.spans == (Span(0, 0),)
    assert parsed.notes == ("fuse",)
    parsed = parse("y = f(x)  # <<<IMPROVE BEGIN>>> fuse # <<<IMPROVE END>>>\n")
    assert (parsed.source, parsed.spans, parsed.notes) == ("y = f(x)\n", (Span(0, 0),), ("fuse",))


@pytest.mark.parametrize("note", ["fuse these", ": fuse these", "- fuse these"])
def test_a_note_behind_the_opening_marker_is_kept(note: str) -> None:
    parsed = parse(f"# <<<IMPROVE BEGIN>>> {note}\nx = 1\n# <<<IMPROVE END>>> done\n")
    assert parsed.notes == ("fuse these",)
    assert parsed.source == "x = 1\n"


def test_an_opening_marker_without_end_reaches_to_the_end_of_its_block() -> None:
    text = "def f(x):\n    # <<<IMPROVE BEGIN>>>\n    y = x\n    return y\n\n\ndef g():\n    pass\n"
    assert parse(text).spans == (Span(1, 2),)


def test_a_stray_end_is_dropped() -> None:
    parsed = parse("x = 1\n# <<<IMPROVE END>>>\ny = 2\n# <<<IMPROVE BEGIN>>>\nz = 3\n# <<<IMPROVE END>>>\n")
    assert parsed.source == "x = 1\ny = 2\nz = 3\n"
    assert parsed.spans == (Span(2, 2),)


def test_nested_markers_come_outermost_first() -> None:
    parsed = parse(annotate(SOURCE, [Span(2, 2), Span(1, 4)], ["inner", "outer"]))
    assert parsed.spans == (Span(1, 4), Span(2, 2))
    assert parsed.notes == ("outer", "inner")


def test_crossing_spans_are_marked_as_one() -> None:
    parsed = parse(annotate("a\nb\nc\nd\n", [Span(0, 2), Span(1, 3)], ["one", "two"]))
    assert parsed.spans == (Span(0, 3),)
    assert parsed.notes == ("one; two",)


def test_markers_inside_a_kernel_string_are_read() -> None:
    text = 'K = """\nvoid f() {\n  // <<<IMPROVE BEGIN>>>\n  g();\n  // <<<IMPROVE END>>>\n}\n"""\n'
    assert parse(text).spans == (Span(2, 2),)


@pytest.mark.parametrize(
    "line",
    [
        "if improve_begin > 3:",
        "x = a < improve_end",
        "improve_start > 2",
        "# we improve the end here",
        "# begin",
        "a // b",
    ],
)
def test_code_that_only_looks_alike_is_left_alone(line: str) -> None:
    assert parse(line + "\n") == parse(line + "\n").__class__(line + "\n", (), ())


def test_line_ends_and_a_missing_last_one_are_kept() -> None:
    for source in ("a\r\n\tb\r\nc", "a\nb", "a\rb\r", "é\n\n"):
        annotated = annotate(source, [Span(0, 1)])
        assert annotated != source
        assert strip(annotated) == source


_LINES = st.lists(
    st.text(alphabet=" \tabc=()#'/*é\x0c", max_size=12).filter(lambda line: "\r" not in line), min_size=1, max_size=12
)


@st.composite
def _marked(draw: st.DrawFn) -> tuple[str, list[Span]]:
    lines = draw(_LINES)
    source = draw(st.sampled_from(["\n", "\r\n"])).join(lines)
    source += draw(st.sampled_from(["", "\n"])) if lines[-1] else ""
    spans: list[Span] = []
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(lines) - 1))
        spans.append(Span(start, draw(st.integers(start, len(lines) - 1))))
    return source, spans


@given(_marked(), st.sampled_from(["#", "# #", "//", "/*", "<!--"]))
def test_stripping_undoes_annotating(marked: tuple[str, list[Span]], comment: str) -> None:
    source, spans = marked
    assert strip(annotate(source, spans, comment=comment)) == source


@given(_marked(), st.sampled_from(["#", "//", "/*"]))
def test_parsing_returns_the_spans_that_were_annotated(marked: tuple[str, list[Span]], comment: str) -> None:
    source, spans = marked
    nested = parse(annotate(source, spans, comment=comment))
    again = parse(annotate(nested.source, nested.spans, nested.notes, comment=comment))
    assert again == nested
    covered = {line for span in spans for line in range(span.start, span.end + 1)}
    count = len(source.splitlines()) if "\x0c" not in source else None
    if count is not None:
        assert {line for span in nested.spans for line in range(span.start, span.end + 1)} == {
            line for line in covered if line < count
        }


def test_a_plan_that_only_marks_changes_nothing() -> None:
    annotated = annotate(SOURCE, [Span(2, 2)]).replace("y = x * 2", "y  =  x * 2  # slow")
    assert check(SOURCE, annotated) == ()


def test_a_plan_that_rewrites_is_caught_at_its_lines() -> None:
    annotated = annotate(SOURCE, [Span(2, 4)]).replace("x * 2", "x + x")
    assert check(SOURCE, annotated) == (2,)
    assert check(SOURCE, SOURCE.replace("        return", "    return")) == (4,)
    assert check(SOURCE, SOURCE + "z = 1\n") == (4,)


def test_spans_of_a_rewritten_plan_find_their_original_lines() -> None:
    annotated = (
        "import math\n\nclass Model:\n    def forward(self, x):\n        # <<<IMPROVE BEGIN>>>\n"
        "        y = math.fuse(x)\n        # <<<IMPROVE END>>>\n        return y + 1\n"
        "# <<<IMPROVE BEGIN>>>\nextra = 1\n# <<<IMPROVE END>>>\n"
    )
    assert realign(SOURCE, annotated) == (Span(2, 2), None)


def test_a_span_of_a_slice_splits_where_the_document_has_other_lines_between() -> None:
    piece = SourceSlice("a\nb\n\nc\n", (3, 4, -1, 9))
    assert to_document(Span(0, 3), piece) == [Span(3, 4), Span(9, 9)]
