"""Edits instead of files: what they make of a source, what little is tolerated, and that nothing is guessed."""

from __future__ import annotations

import difflib
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.agents import patching
from stark_lsp.agents.patching import Edit, Misfit, applied

SOURCE = """\
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        y = torch.relu(y)
        return y

    def other(self, x):
        return x
"""
LINES = st.lists(
    st.sampled_from(["a", "b", "  a", "    b", "", "x = 1", "x = 1  ", "\tq", "é"]), min_size=1, max_size=14
)


def edit(search: str, replace: str = "") -> Edit:
    return Edit(search, replace)


def edits_between(before: list[str], after: list[str]) -> list[Edit]:
    """Return edits that make the one from the other, each with as many lines around it as make it unique."""
    whole = "".join(before)
    hunks: list[list[int]] = []
    for kind, first, last, start, end in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        hunk = [first, last, start, end]
        while True:
            text = "".join(before[hunk[0] : hunk[1]])
            if text.strip() and occurrences(whole, text) == 1:
                break
            if hunk[0] > 0 and hunk[2] > 0 and before[hunk[0] - 1] == after[hunk[2] - 1]:
                hunk[0], hunk[2] = hunk[0] - 1, hunk[2] - 1
            elif hunk[1] < len(before) and hunk[3] < len(after) and before[hunk[1]] == after[hunk[3]]:
                hunk[1], hunk[3] = hunk[1] + 1, hunk[3] + 1
            else:
                return [Edit(whole, "".join(after))]
        hunks.append(hunk)
    if any(two[0] < one[1] for one, two in pairwise(hunks)):
        return [Edit(whole, "".join(after))]
    return [Edit("".join(before[a:b]), "".join(after[c:d])) for a, b, c, d in hunks]


def occurrences(text: str, wanted: str) -> int:
    return sum(text.startswith(wanted, at) for at in range(len(text)))


@given(LINES, LINES, st.randoms(use_true_random=False))
def test_edits_made_from_a_difference_give_the_other_text_in_any_order(
    before: list[str], after: list[str], rng: Random
) -> None:
    one, two = [f"{line}\n" for line in before], [f"{line}\n" for line in after]
    if not "".join(one).strip():
        return
    made = edits_between(one, two)
    rng.shuffle(made)
    assert applied("".join(one), made) == "".join(two)


@given(LINES, LINES.map("\n".join), st.booleans())
def test_what_stands_for_no_single_place_is_never_applied(before: list[str], search: str, whole: bool) -> None:
    source, search = "".join(f"{line}\n" for line in before), f"{search}\n" if whole else search
    count, lines = occurrences(source, search), occurrences(f"\n{source}", "\n" + search.removesuffix("\n") + "\n")
    try:
        made = applied(source, [edit(search, "NEW")])
    except Misfit:
        assert lines != 1 or not search.strip()
        return
    assert made.count("NEW") == 1
    kept = made.split("NEW")
    assert source.startswith(kept[0])
    assert source.endswith(kept[1].removeprefix("\n"))
    taken = source[len(kept[0]) : len(source) - len(kept[1].removeprefix("\n"))]
    assert lines < 2
    if lines == 0 and count != 1:  # then it was lines, and no others are the same but for blanks
        same = [line.strip() for line in search.strip("\n").splitlines() if line.strip()]
        assert [line.strip() for line in taken.splitlines() if line.strip()] == same
        tidy = "\n".join(["", *(line.strip() for line in source.split("\n")), ""])
        wanted = "\n".join(["", *(line.strip() for line in taken.strip("\n").split("\n")), ""])
        rstripped = "\n".join(["", *(line.rstrip() for line in source.split("\n")), ""])
        exact = "\n".join(["", *(line.rstrip() for line in taken.strip("\n").split("\n")), ""])
        assert occurrences(tidy, wanted) == 1 or occurrences(rstripped, exact) == 1


NESTED = """\
def outer(f, x):
    def inner():
        for _ in range(2):
            y = f(x)
        y = f(x)
        acc_sum = 0.0
        return y * 2.0
"""


@pytest.mark.parametrize(
    ("search", "replace", "old", "new"),
    [
        # A whole line is that line, though a deeper one ends alike.
        ("        y = f(x)\n", "        y = f(x) + 1\n", "\n        y = f(x)\n", "\n        y = f(x) + 1\n"),
        # What is quoted without its margin is written with it, however many lines take its place.
        ("return y * 2.0", "out = y * 2.0\nreturn out", "return y * 2.0", "out = y * 2.0\n        return out"),
        ("return y", "y = -y\nreturn y", "return y * 2.0", "y = -y\n        return y * 2.0"),
        ("y * 2.0", "(\n            y\n        )", "y * 2.0", "(\n            y\n        )"),
    ],
)
def test_lines_are_whole_lines_first_and_keep_their_margin(search: str, replace: str, old: str, new: str) -> None:
    made = applied(NESTED, [edit(search, replace)])
    assert made == NESTED.replace(old, new)
    compile(made, "made.py", "exec")


@pytest.mark.parametrize("search", ["sum = 0.0", "return y * 2", "uter(f"])
def test_no_edit_begins_or_ends_within_a_word(search: str) -> None:
    with pytest.raises(Misfit, match="not in the source"):
        applied(NESTED.replace("2.0", "200"), [edit(search, "NEW")])


def test_several_edits_are_made_at_once() -> None:
    made = applied(SOURCE, [edit("return y", "return y * 2"), edit("y = x + 1\n", "y = x - 1"), edit("import torch\n")])
    assert made == SOURCE.replace("return y", "return y * 2").replace("x + 1", "x - 1").replace("import torch\n", "")


@pytest.mark.parametrize(
    ("search", "replace"),
    [
        ("y = x + 1   \ny = torch.relu(y)", "y = torch.relu(x + 1)"),
        ("    y = x + 1\n    y = torch.relu(y)\n", "    y = torch.relu(x + 1)\n"),
        ("                y = x + 1\n                y = torch.relu(y)", "                y = torch.relu(x + 1)"),
        ("\n        y = x + 1 \n        y = torch.relu(y)\t\n\n", "        y = torch.relu(x + 1)"),
    ],
)
def test_blanks_at_the_end_and_the_margin_may_differ(search: str, replace: str) -> None:
    wanted = SOURCE.replace("y = x + 1\n        y = torch.relu(y)", "y = torch.relu(x + 1)")
    assert applied(SOURCE, [edit(search, replace)]) == wanted


@pytest.mark.parametrize("dots", ["...", "    # ...", "        …", "// ..."])
def test_of_a_long_piece_both_ends_will_do(dots: str) -> None:
    first, last = "    def forward(self, x):", "        return y"
    assert applied(SOURCE, [edit(f"{first}\n{dots}\n{last}\n", "    forward = f\n")]) == SOURCE.replace(
        SOURCE[SOURCE.index(first) : SOURCE.index(last) + len(last)], "    forward = f"
    )
    assert "forward" not in applied(SOURCE, [edit(f"{first}\n{dots}\n{last}")])
    # Dots that stand in the source are code.
    stub = SOURCE.replace("        return x\n", "        ...\n        return x\n")
    assert applied(stub, [edit("        ...\n        return x", "        return x")]) == SOURCE


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([edit("self, x")], r"Edit 1: .* begins at lines 4 and 9\. Quote more"),
        ([edit(" "), edit("return y")], "Edit 1: it searches for nothing"),
        (
            [edit("return y", "z"), edit("y = torch.relu( y )\nreturn y")],
            r"Edit 2: what it searches for is not in the source\. Nearest to it, from line 6 on:\n"
            r"        y = torch\.relu\(y\)\n        return y",
        ),
        ([edit("qqqq\n")], r"Edit 1: what it searches for is not in the source\.$"),
        ([edit("y = x + 1\n        y ="), edit("y = torch.relu(y)")], "Two edits change line 6"),
        ([edit("a" * 9), edit("b" * 9)], r"Edit 1: .*\nEdit 2: "),
        ([edit("class Model(torch.nn.Module):\n...\n        return z", "a")], "a passage of it is not in.*line 7"),
        ([edit("        return y\n...\n        y = x + 1", "a")], "or not in that order"),
        ([edit("import torch\n...\n        return y\n...\n        return x", "a")], "at several places"),
        ([edit("import torch\n...\n        return y", "import torch\n# ...\n")], "lines are left out"),
        ([edit("    def forward(self, x):\n...\n", "a")], r"Edit 1: .* not in the source\."),
        ([edit("y = x + 1\n  y = torch.relu(y)")], "Edit 1: .* not in the source"),
    ],
)
def test_what_fits_nowhere_is_told_with_where_to_look(edits: list[Edit], said: str) -> None:
    with pytest.raises(Misfit, match=said):
        applied(SOURCE, edits)


def test_the_same_edit_twice_is_one() -> None:
    assert applied(SOURCE, [edit("return y", "return 1")] * 2) == SOURCE.replace("return y", "return 1")


def test_hostile_edits_take_no_time() -> None:
    source = "x\n" * 100_000
    for search in ("x\n" * 50_000 + "y", "x" * 200_000, " x \n" * 60_000 + "z", "x\n...\n" * 40_000 + "y"):
        with pytest.raises(Misfit):
            applied(source, [edit(search)] * 20)


def test_dots_are_not_written_into_the_source_unless_they_stand_there() -> None:
    with pytest.raises(Misfit, match="Write all of them"):
        applied(SOURCE, [edit("        y = x + 1\n        y = torch.relu(y)\n", "        y = x\n        ...\n")])
    stub = "def f():\n    ...\n"
    assert applied(SOURCE + stub, [edit(stub, stub.replace("f", "g"))]) == SOURCE + stub.replace("f", "g")


def test_edits_that_fit_nowhere_are_looked_at_until_enough_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    monkeypatch.setattr(patching, "_nearest", lambda *of: looked.append(of) or "")
    with pytest.raises(Misfit, match=r"Edit 5: .*\nThose behind it were not looked at\.$"):
        applied(SOURCE, [edit(f"nowhere {number}") for number in range(400)])
    assert len(looked) == patching.TOLD
    with pytest.raises(Misfit, match="3,000 edits are too many"):
        applied(SOURCE, [edit(f"nowhere {number}") for number in range(3000)])
