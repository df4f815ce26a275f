"""Anchors of plans: checked, carried over, put on the document; and edits that leave them."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from agent_cases import FIRST, FIRST_PLAN, PROBLEM, ROOT, candidate
from hypothesis import given, settings
from hypothesis import strategies as st

from stark_lsp.agents.grounding.check import NO_MARKS, NOT_READABLE, document_anchors, ground, mark
from stark_lsp.agents.grounding.edits import described, edited_outside, is_marked, report, unmarked
from stark_lsp.agents.grounding.markers import annotate, parse
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.problem import Span
from stark_lsp.core.run import Node
from stark_lsp.core.status import AgentRole
from stark_lsp.store import transcripts

SAMPLES = Path(__file__).parents[2] / "samples" / "transcripts"
SLICE = PROBLEM.slice.text
LINES = SLICE.splitlines()
MOVED = LINES.index("        moved = x * self.scale + self.shift")
NAMES = ("Gate", "ModelNew")

KERNEL = '''\
import torch
import torch.nn as nn

_CUDA = r"""
__global__ void gate(float* y, long n) {
    long i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.0f;
}
"""


class ModelNew(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return launch(x, self.scale, self.shift)
'''


def marked(source: str, *lines: int) -> str:
    return annotate(source, [Span(line, line) for line in lines])


def test_a_plan_that_only_marks_is_taken_as_it_stands() -> None:
    annotated = marked(SLICE, MOVED)
    grounded = ground(SLICE, annotated)
    assert grounded.annotated_source == annotated
    assert grounded.spans == (Span(MOVED, MOVED),)
    assert grounded.remark == ""


@pytest.mark.parametrize(
    ("annotated", "remark"),
    [
        ("", NO_MARKS),
        ("  \n", NO_MARKS),
        (SLICE, NO_MARKS),
        ("something else", NO_MARKS),
        ("<" * 5_000 + "improve", NOT_READABLE),
        ("}\n" * 90_000 + "# <<<IMPROVE BEGIN>>>\n}\n# <<<IMPROVE END>>>\n", NOT_READABLE),
        ("".join(f"a{n}\nb\n" for n in range(50_000)) + "# <<<IMPROVE BEGIN>>>\nb\n", NOT_READABLE),
        ("# <<<IMPROVE BEGIN>>>\nb\n" * 5_000, NOT_READABLE),
        ("# <<<IMPROVE BEGIN>>>\n# <<<IMPROVE END>>>\n" * 50 + SLICE, "The plan marked 50 places"),
        ("# <<<IMPROVE BEGIN>>>\nfar = away\n# <<<IMPROVE END>>>\n" + SLICE, "marked lines that are not in the source"),
    ],
)
def test_a_plan_without_usable_marks_leaves_the_source_bare(annotated: str, remark: str) -> None:
    grounded = ground(SLICE, annotated)
    assert grounded.annotated_source == SLICE
    assert grounded.spans == ()
    assert remark in grounded.remark


def test_two_texts_too_alike_to_be_compared_are_not_read() -> None:
    braces = "}\n" * 1_000
    assert ground(braces, braces + "# <<<IMPROVE BEGIN>>>\nx\n# <<<IMPROVE END>>>\n").remark == NOT_READABLE


def test_a_plan_that_rewrote_the_source_gets_its_marks_carried_over() -> None:
    rewritten = marked(SLICE, MOVED).replace("moved = x * self.scale + self.shift", "moved = fused(x)")
    grounded = ground(SLICE, rewritten)
    assert grounded.spans == (Span(MOVED, MOVED),)
    assert parse(grounded.annotated_source).source == SLICE
    assert "(`moved = x * self.scale + self.shift`)" in grounded.remark


def test_a_plan_that_changed_comments_alone_did_as_it_was_told() -> None:
    grounded = ground(
        SLICE, marked(SLICE, MOVED).replace("moved = x", "moved = x  # slow\n" + " " * 12)[: len(SLICE) * 2]
    )
    assert grounded.spans
    assert ground(SLICE, marked(SLICE, MOVED) + "# a remark\n\n").remark == ""


def test_a_fragment_is_found_in_the_whole() -> None:
    fragment = "\n".join(["# <<<IMPROVE BEGIN>>> here", LINES[MOVED], LINES[MOVED + 1], "# <<<IMPROVE END>>>"])
    grounded = ground(SLICE, fragment)
    assert grounded.spans == (Span(MOVED, MOVED + 1),)
    assert grounded.notes == ("here",)


def test_marks_inside_a_kernel_are_comments_of_its_language() -> None:
    row = KERNEL.splitlines().index("    if (i < n) y[i] = 0.0f;")
    text = mark(KERNEL, (Span(row, row), Span(18, 18)), ("wider", "fewer"))
    assert "    // <<<IMPROVE BEGIN>>> wider\n" in text
    assert "        # <<<IMPROVE BEGIN>>> fewer\n" in text
    assert parse(text).source == KERNEL


@given(
    st.sets(st.sampled_from([n for n, line in enumerate(LINES) if line.strip()]), min_size=1, max_size=5),
    st.sampled_from(["#", "//", "/*", "# #"]),
)
@settings(deadline=None)
def test_what_the_coder_sees_is_the_source_with_marks_and_nothing_else(rows: set[int], comment: str) -> None:
    annotated = annotate(SLICE, [Span(row, row) for row in sorted(rows)], (), comment)
    grounded = ground(SLICE, annotated + "\n# and a comment")
    assert parse(grounded.annotated_source).source == SLICE
    assert {span.start for span in grounded.spans} == rows


def test_anchors_on_the_reference_are_lines_of_the_document() -> None:
    (anchor,) = document_anchors(PROBLEM, ROOT, ground(SLICE, marked(SLICE, MOVED)))
    assert PROBLEM.text.splitlines()[anchor.span.start] == LINES[MOVED]
    assert anchor.text == LINES[MOVED]


def test_anchors_on_a_candidate_stand_at_the_lines_it_rewrote() -> None:
    source = FIRST.candidate.source
    row = next(n for n, line in enumerate(source.splitlines()) if "return x * torch.sigmoid" in line)
    (anchor,) = document_anchors(PROBLEM, FIRST, ground(source, marked(source, row)))
    assert anchor.text.splitlines()[0] == LINES[MOVED]
    assert "squashed" in anchor.text


def test_what_a_model_marked_in_its_kernels_stands_at_the_header_of_forward() -> None:
    # A run of a language model: from its second plan on, it is about kernels that stand before the candidate's class.
    transcript = transcripts.read(SAMPLES / "focal_loss-cpu.json")
    nodes = {node.id: node for node in transcript.nodes}
    planned = [(node, node.plan) for node in transcript.nodes if node.plan is not None and node.parent]
    assert len(planned) == 5
    for node, plan in planned:
        selected = nodes[node.parent or 0]
        grounded = ground(selected.candidate.source, plan.annotated_source)
        (anchor,) = document_anchors(transcript.run.problem, selected, grounded)
        assert anchor.text.strip().startswith("def forward("), node.id


def test_anchors_on_a_kernel_of_its_own_stand_at_the_header_of_forward() -> None:
    node = Node(4, 1, AgentRole.CODE, Candidate(KERNEL), FIRST_PLAN)
    row = KERNEL.splitlines().index("    if (i < n) y[i] = 0.0f;")
    (anchor,) = document_anchors(PROBLEM, node, ground(KERNEL, marked(KERNEL, row)))
    assert anchor.text.strip().startswith("def forward(")


def test_every_mark_becomes_an_anchor_inside_the_document() -> None:
    for row in range(len(KERNEL.splitlines())):
        node = Node(4, 1, AgentRole.CODE, Candidate(KERNEL), FIRST_PLAN)
        for anchor in document_anchors(PROBLEM, node, ground(KERNEL, marked(KERNEL, row))):
            assert anchor.text == "\n".join(PROBLEM.text.splitlines()[anchor.span.start : anchor.span.end + 1])


def changed(source: str, *, within: tuple[int, ...] = (MOVED, MOVED + 1, MOVED + 2)) -> list[Span]:
    found = edited_outside(annotate(SLICE, [Span(within[0], within[-1])]), source, NAMES)
    assert found is not None
    return found


def test_edits_between_the_marks_are_inside() -> None:
    assert changed(candidate().source) == []


def test_new_definitions_and_imports_are_helpers() -> None:
    kernel = '\nimport ctypes\n\n\n_CUDA = r"""\nint x;\n"""\n\n\ndef launch(x):\n    return x\n'
    assert changed(candidate("return launch(x)", kernel).source) == []


def test_a_function_renamed_between_marks_keeps_its_other_lines() -> None:
    body = "    y = x + 1\n    return y * 2\n\n\nclass ModelNew:\n    def forward(self, x):\n        return _old(x)\n"
    before = f"def _old(x):\n{body}"
    annotated = annotate(before, [Span(0, 1), Span(7, 7)])
    after = before.replace("_old", "_new").replace("x + 1", "x + 2")
    assert edited_outside(annotated, after) == []
    assert edited_outside(annotated, after.replace("y * 2", "y * 3")) == [Span(2, 2)]


def test_what_nothing_names_any_more_may_go() -> None:
    rest = "class ModelNew:\n    def forward(self, x):\n        return _old(x) + LIMIT\n"
    before = f"LIMIT = 1\n\n\ndef _old(x):\n    return x\n\n\n{rest}"
    annotated = annotate(before, [Span(9, 9)])
    assert edited_outside(annotated, rest.replace("_old(x) + LIMIT", "x + 1")) == []
    assert edited_outside(annotated, rest.replace("_old(x)", "x")) == [Span(0, 0)], "what is still named is not to go"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("torch.ones(features)", "torch.ones(features) * 1.0", "self.scale ="),
        ("super().__init__()", "super().__init__()\n        self.cache = {}", "super()"),
        ("        self.shift = nn.Parameter(torch.zeros(features))\n", "", "self.shift ="),
        ("(self, features: int)", "(self, features: int, mode=0)", "def __init__"),
    ],
)
def test_edits_elsewhere_are_outside(old: str, new: str, line: str) -> None:
    found = changed(candidate().source.replace(old, new))
    assert len(found) == 1
    near = LINES[max(0, found[0].start - 1) : found[0].end + 1]
    assert any(line in text for text in near)
    assert described(found, SLICE).strip("`") in "\n".join(near)


def test_comments_docstrings_and_spacing_are_no_edits() -> None:
    source = candidate().source.replace('"""Scale, shift, squash, and multiply with the input."""', '"""Faster."""')
    source = source.replace("super().__init__()", "super().__init__()  # as before\n\n")
    assert changed(source) == []


def test_lines_added_next_to_an_anchor_are_inside() -> None:
    source = candidate("x = x.contiguous()\n        return x * torch.sigmoid(x * self.scale + self.shift)").source
    assert changed(source) == []


def test_a_plan_without_marks_binds_nobody() -> None:
    assert edited_outside(SLICE, KERNEL, NAMES) is None
    assert edited_outside("", KERNEL, NAMES) is None


def test_a_change_of_an_existing_kernel_outside_the_marks_is_seen() -> None:
    rows = KERNEL.splitlines()
    annotated = marked(KERNEL, rows.index("    if (i < n) y[i] = 0.0f;"))
    assert edited_outside(annotated, KERNEL.replace("y[i] = 0.0f", "y[i] = 1.0f")) == []
    assert edited_outside(annotated, KERNEL.replace("threadIdx.x;", "threadIdx.x + 1;")) == [Span(5, 5)]


def test_texts_of_any_size_are_compared_or_left_alone() -> None:
    many = "".join(f"a{number} = {number}\n" for number in range(20_000))
    assert edited_outside(marked(many, 0), many.replace("0\n", "1\n"), NAMES) is None
    assert edited_outside("# <<<IMPROVE BEGIN>>>\n" * 1_000, SLICE, NAMES) is None


def test_the_report_of_a_node_is_made_from_what_is_stored() -> None:
    edited = FIRST.candidate.source.replace("torch.ones(features)", "torch.ones(features) * 1.0")
    assert FIRST.plan is not None
    assert report(ROOT.candidate, FIRST.plan, FIRST.candidate) == ""
    assert report(ROOT.candidate, FIRST.plan, replace(FIRST.candidate, source=edited)).startswith("`self.scale = ")


@pytest.mark.parametrize(("old", "new"), [("    ", "\t"), ("\t", "    "), ("  ", "    "), ("    ", "  ")])
def test_how_indentation_is_written_is_no_edit(old: str, new: str) -> None:
    source = "class M:\n>def f(self, x):\n>>for i in x:\n>>>y = i\n>>z = 1\n>>return z\n"
    annotated = marked(source, 4).replace(">>>", old * 3).replace(">>", old * 2).replace("\n>d", f"\n{old}d")

    def outside(text: str) -> list[Span] | None:
        return edited_outside(annotated, text.replace(">", new))

    assert outside(source.replace("z = 1", "z = 2")) == []
    assert outside(source.replace(">>return", ">>>return")) == [Span(5, 5)], "a level deeper"
    assert outside(source.replace("y = i", "y = -i")) == [Span(3, 3)]
    assert outside("HELPER = 1\n" + source.replace("z = 1", "z = HELPER")) == []


def test_a_line_at_the_margin_of_a_kernel_moves_none_behind_it() -> None:
    line = KERNEL.splitlines().index("    if (i < n) y[i] = 0.0f;") - 1
    changed_ = KERNEL.replace("    if (i", "#pragma unroll\n    if (i")
    assert edited_outside(marked(KERNEL, line), changed_) == []


def test_many_places_are_told_in_short() -> None:
    spans = tuple(Span(3 * n, 3 * n + n % 2) for n in range(12))
    told = described(spans, "".join(f"  line {number} `\n" for number in range(40)))
    assert told.startswith("`line 0 '`, `line 3 '` to `line 4 '`, `line 6 '`")
    assert told.endswith("and 4 more places")


@given(st.text(st.sampled_from("ab\n }#x=1"), max_size=300), st.text(st.sampled_from("ab\n }#x=1"), max_size=300))
@settings(max_examples=100, deadline=None)
def test_no_pair_of_texts_breaks_the_comparison(before: str, after: str) -> None:
    found = edited_outside(marked(before + "end\n", 0), after, NAMES)
    assert found is None or all(span.end < len((before + "end").splitlines()) + 1 for span in found)


def test_stripping_for_the_ablation_leaves_the_source_alone() -> None:
    assert unmarked(marked(SLICE, 1, MOVED)) == SLICE


@pytest.mark.parametrize(
    "text",
    ['x = """' + "/* " * 60_000 + '"""', '\\"' * 90_000, "\\'" * 90_000 + "\\", '"""' + '\\"""' * 40_000],
    ids=["comments", "quotes", "apostrophes", "triple"],
)
def test_plans_full_of_what_nearly_ends_cost_nothing(text: str) -> None:
    begun = time.process_time()
    ground("x = 1\n", f"# <<<IMPROVE BEGIN>>>\n{text}\n# <<<IMPROVE END>>>\n")
    assert time.process_time() - begun < 2.0


def test_texts_of_few_different_lines_are_not_compared_at_length() -> None:
    before = "a\nb\n" * 440
    after = "b\na\nc\n" * 300
    begun = time.process_time()
    assert ground(before, f"# <<<IMPROVE BEGIN>>>\n{after}# <<<IMPROVE END>>>\n").remark == NOT_READABLE
    assert time.process_time() - begun < 2.0


@given(
    st.sets(st.sampled_from([n for n, line in enumerate(LINES) if line.strip()]), min_size=1, max_size=5),
    st.integers(0, 3),
    st.booleans(),
)
@settings(deadline=None)
def test_quoted_places_are_found_where_they_stand(rows: set[int], around: int, dotted: bool) -> None:
    kept = {row + step for row in rows for step in range(-around, around + 1)}
    pieces: list[str] = []
    for number, line in enumerate(LINES):
        if number in rows:
            pieces += ["# <<<IMPROVE BEGIN>>> here", line, "# <<<IMPROVE END>>>"]
        elif number in kept:
            pieces.append(line)
        elif dotted and number - 1 in kept:
            pieces.append("# ...")
    grounded = ground(SLICE, "\n".join(pieces))
    said = [LINES[span.start].strip() for span in grounded.spans]
    assert said == [LINES[row].strip() for row in sorted(rows)]
    assert parse(grounded.annotated_source).source == SLICE
    assert grounded.remark == ""
    if len(rows) == len({LINES[row].strip() for row in range(len(LINES)) if LINES[row].strip() in said}):
        assert [span.start for span in grounded.spans] == sorted(rows)


def test_a_quoted_line_that_stands_twice_is_found_by_its_neighbour() -> None:
    source = "#define N 4\na = 1\nb = f(a)\nc = 2\nb = f(a)\n#define M 4\n"
    begin, end = "# <<<IMPROVE BEGIN>>> here", "# <<<IMPROVE END>>>"
    for quoted, line in (
        (["c = 2", begin, "b = f(a)", end], 4),
        ([begin, "b = f(a)", end, "c = 2"], 2),
        ([begin, "b = f(a)", end], 2),
        ([begin, "#define M 4", end], 5),
    ):
        assert ground(source, "\n".join(quoted)).spans == (Span(line, line),)
    assert ground(source, "\n".join([begin, "a = 1", "...", "c = 2", end])).spans == (Span(1, 3),)
    assert ground(source, "\n".join([begin, "c = 2", "# ...", "b = f(a)", end])).spans == (Span(3, 4),)
    assert ground(source, "\n".join([begin, "c = 2", "...", "a = 1", end])).remark, "not in that order"
    twice = ground(source, "\n".join([begin, "b = f(a)", end, "", begin, "b = f(a)", end]))
    assert [span.start for span in twice.spans] == [2, 4]


def test_a_line_that_is_quoted_wrongly_does_not_lose_the_other_places() -> None:
    begin, end = "# <<<IMPROVE BEGIN>>> here", "# <<<IMPROVE END>>>"
    wrongly = [begin, "    if (i < n) y[i] = 1.0f;", end, begin, "return launch(x, self.scale)", "", end]
    assert [span.start for span in ground(KERNEL, "\n".join(wrongly)).spans] == [6, 18]
    two = [begin, "long i = blockIdx.x * blockDim.x + threadIdx.x;", "if (i <= n) {", end]
    assert ground(KERNEL, "\n".join(two)).spans == (Span(5, 6),)
    assert ground(KERNEL, "\n".join([begin, "return 1", end])).spans == ()
    assert ground(KERNEL, "\n".join([begin, "self.shape = nn.Parameter(torch.fours(features))", end])).spans == ()


def test_what_models_marked_is_found_when_they_quote_it_alone() -> None:
    found = 0
    for path in sorted(SAMPLES.rglob("*.json")):
        transcript = transcripts.read(path)
        nodes = {node.id: node for node in transcript.nodes}
        for node in transcript.nodes:
            if node.plan is None or node.parent is None or not is_marked(node.plan.annotated_source):
                continue
            selected = nodes[node.parent].candidate.source
            whole = ground(selected, node.plan.annotated_source)
            inside, quoted = 0, [""]
            for line in whole.annotated_source.splitlines():
                inside += "IMPROVE BEGIN" in line
                if inside or "IMPROVE END" in quoted[-1]:
                    quoted.append(line)  # what is marked, and the line behind it
                inside -= "IMPROVE END" in line
            alone = ground(selected, "\n".join(quoted))
            assert (alone.spans, alone.remark) == (whole.spans, ""), (path.name, node.id)
            found += len(alone.spans)
    assert found > 30
