"""What a candidate leaves open: read from any text, written into any source, and told where it cannot be used."""

from __future__ import annotations

import ast
import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stark_lsp.search.tunable import CONDITION, MOST, NAME, Misdeclared, Value, read

SOURCE = '''import torch

BLOCK = 128  # elements
WARPS: int = 4
TUNE = {"BLOCK": [64, 128, 256], "WARPS": [4, 8], "if": "BLOCK >= 32 * WARPS"}  # to be tried
KERNEL = f"""
constexpr int block = {BLOCK};
"""


class ModelNew(torch.nn.Module):
    pass
'''


def test_values_are_written_where_they_stood_and_nothing_else_changes() -> None:
    tunable = read(SOURCE)
    assert tunable is not None
    assert (tunable.names, tunable.own) == (("BLOCK", "WARPS"), (128, 4))
    assert tunable.others == ((256, 4), (256, 8)), "one change first; (64, 4) and (128, 8) are not allowed"
    plain = "".join(line for line in SOURCE.splitlines(keepends=True) if not line.startswith(NAME))
    assert tunable.source(tunable.own) == plain
    assert tunable.source((256, 8)) == plain.replace("= 128", "= 256").replace("= 4", "= 8")
    assert tunable.words((256, 8)) == "BLOCK = 256, WARPS = 8"


@pytest.mark.parametrize(
    "source",
    ["x = 1\n", "# TUNE = {}\nx = 1\n", "def f():\n    TUNE = {}\n", "TUNE = {", "TUNE = 1\x00", "print('TUNE')\n", ""],
)
def test_a_source_that_declares_nothing_is_left_alone(source: str) -> None:
    assert read(source) is None


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("A = 1\nTUNE = dict(A=[1])\n", 2, "a dict written out in full"),
        ("A = 1\nTUNE = {'A': 2}\n", 2, "The values of A"),
        ("A = 1\nTUNE = {'A': []}\n", 2, "The values of A"),
        ("A = 1\nTUNE = {'A': ['x']}\n", 2, "The values of A"),
        ("A = 1\nTUNE = {'A': [1e999]}\n", 2, "The values of A"),
        (f"A = 1\nTUNE = {{'A': [1{'0' * 400}]}}\n", 2, "The values of A"),
        ("A = 1\nTUNE = {1: [2]}\n", 2, "cannot be a constant's name"),
        ("TUNE = {'A': [1]}\n", 1, "TUNE names A, which is no constant of the module"),
        ("class M:\n    A = 1\nTUNE = {'A': [1]}\n", 3, "no constant of the module"),
        ("A, B = 1, 2\nTUNE = {'A': [1]}\n", 2, "no constant of the module"),
        ("A = 1\nTUNE = {'A': [1]}\nA = 2\n", 3, "A is given a value in line 1 as well"),
        ("A = 1\nTUNE = {'A': [1]}\ndef f():\n    global A\n    A += 1\n", 5, "given a value in line 1 as well"),
        ("A = 2 * 3\nTUNE = {'A': [1]}\n", 1, "A must be a number written out"),
        ("A = 'x'\nTUNE = {'A': [1]}\n", 1, "A must be a number written out"),
        ("A = 1\nTUNE = {'A': [1]}\nprint(TUNE)\n", 3, "nothing else may name it"),
        ("A = 1; TUNE = {'A': [1]}\n", 1, "on lines of its own"),
        ("A = 1\nTUNE = {'A': [1]}; B = 2\n", 2, "on lines of its own"),
        (f"A = B = 1\nA = 1\nB = 1\nTUNE = {{'A': {[*range(99)]}, 'B': {[*range(99)]}}}\n", 2, "A is given a value"),
        (f"A = 1\nB = 1\nTUNE = {{'A': {[*range(99)]}, 'B': {[*range(99)]}}}\n", 3, "9,801 combinations"),
        (f"TUNE = {dict.fromkeys(map('A{}'.format, range(13)), (1,))}\n", 1, "names 13 constants; at most 12"),
        (f"{'A' * 41} = 1\nTUNE = {{'{'A' * 41}': [1]}}\n", 2, "cannot be a constant's name"),
        ("A = 1\nTUNE = {'A': [1], 'if': 3}\n", 2, "one text of at most 300"),
        (f"A = 1\nTUNE = {{'A': [1], 'if': '{'A + ' * 90}A'}}\n", 2, "one text of at most 300"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_line(source: str, line: int, said: str) -> None:
    with pytest.raises(Misdeclared, match=said) as told:
        read(source)
    assert told.value.line == line


@pytest.mark.parametrize(
    "condition",
    ["B > 1", "A ** 9", "f(A)", "A.real", "[A][0]", "A >", "A = 1", "A; A", "A // 0", "'x' * A", "lambda: A", "A << 9"],
)
def test_a_condition_is_arithmetic_and_nothing_else(condition: str) -> None:
    with pytest.raises(Misdeclared, match="cannot be worked out"):
        read(f"A = 1\nTUNE = {{'A': [1, 2], 'if': {condition!r}}}\n")


NUMBERS = st.one_of(st.integers(-(2**40), 2**40), st.floats(-1e9, 1e9), st.booleans())
CONSTANTS = st.dictionaries(
    st.sampled_from(["A", "BLOCK", "größe", "_x1", "TUNED"]),
    st.tuples(NUMBERS, st.lists(NUMBERS, min_size=1, max_size=4)),
    min_size=1,
    max_size=4,
)
FORMS = [
    "{} = {}",
    "{}: int = {}",
    "{} = ({})",
    "{} = tl.constexpr({})  # größe",
    "é = 'ü'; {} = {}",
    "{} = (\n    {}\n)",
]
CONDITIONS = ["", "1", "0", "True", "1 < 2 <= 2", "not 0 and 1.5 or 0"]


@given(CONSTANTS, st.data())
def test_whatever_is_declared_is_read_back_and_written_anywhere(
    constants: dict[str, tuple[Value, list[Value]]], data: st.DataObject
) -> None:
    newline = data.draw(st.sampled_from(["\n", "\r\n"]))
    condition = data.draw(st.sampled_from(CONDITIONS))
    pieces = [data.draw(st.sampled_from(FORMS)).format(name, repr(own)) for name, (own, _) in constants.items()]
    table: dict[str, object] = {name: values for name, (_, values) in constants.items()}
    declaration = f"{NAME} = {table | ({CONDITION: condition} if condition else {})!r}"
    if data.draw(st.booleans()):
        declaration = declaration.replace("], ", "],\n    ")
    pieces.insert(data.draw(st.integers(0, len(pieces))), declaration)
    others = ["s = '''\f TUNE \x0b'''", "def f(A, *, BLOCK=1):\n    return A + BLOCK", "# größe"]
    for other in others:
        pieces.insert(data.draw(st.integers(0, len(pieces))), other)
    source = "\n".join(pieces).replace("\n", newline) + data.draw(st.sampled_from(["", newline]))

    tunable = read(source)
    assert tunable is not None
    own = tuple(own for own, _ in constants.values())
    everything = set(product(*(values for _, values in constants.values())))
    assert (tunable.names, tunable.own) == (tuple(constants), own)
    holds = not condition or eval(condition)
    assert set(tunable.others) == (everything - {own} if holds else set())
    assert len(set(tunable.others)) == len(tunable.others) <= MOST
    changes = [len(tunable.changed(tuning)) for tuning in tunable.others]
    assert changes == sorted(changes)
    assert 0 not in changes
    for tuning in (*tunable.others[:5], own):
        written = tunable.source(tuning)
        assert read(written) is None
        assert values_in(written, tunable.names) == tuning
        # Nothing but the values and the declaration is another.
        declared = {name: [0] for name in constants}
        back = read(f"{written}\n{NAME} = {declared!r}")
        assert back is not None
        assert back.source(own) == tunable.source(own) + "\n"


def values_in(source: str, names: tuple[str, ...]) -> tuple[Value, ...]:
    """Return what the constants are when the file is run."""
    given: dict[str, object] = {"tl": type("tl", (), {"constexpr": staticmethod(lambda value: value)})}
    exec(compile(ast.parse(source), "candidate", "exec"), given)
    return tuple(given[name] for name in names)  # type: ignore[misc]


@given(st.text(alphabet="TUNE={}[]:,'\"AB1-. \n(#\\;if", max_size=60))
def test_any_text_is_read_or_told_about(text: str) -> None:
    for source in (text, f"A = 1\nTUNE = {text}", f"A = 1\nTUNE = {{'A': [1, 2], 'if': {text!r}}}\n"):
        try:
            tunable = read(source)
        except Misdeclared as told:
            line, tunable = told.line, None
        else:
            line = 1
        assert 1 <= line <= source.count("\n") + 1
        if tunable is not None:
            ast.parse(tunable.source(tunable.own))
            assert all(math.isfinite(value) for tuning in tunable.others for value in tuning)
