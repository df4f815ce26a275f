"""Inductor's functions in fewer statements compute the same, and read memory in the same order."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stark_lsp.playbook.inductor.tidy import constants, tidied
from stark_lsp.playbook.inductor.triton import WIDTH, wrapped

NAMES = ("a", "b", "c", "d")


class Language:
    """What stands for `triton.language`: numbers for blocks, and a record of what is loaded and stored."""

    float32, int32 = "float32", "int32"

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def load(self, place: float) -> float:
        """Return a number that depends on the place and on what was read before."""
        self.seen.append(place)
        return float(place) * 0.5 + len(self.seen)

    def store(self, place: float, value: float) -> None:
        """Keep it."""
        self.seen.append((place, value))

    def full(self, shape: list[int], value: float, dtype: str) -> float:
        """Return a block of one."""
        return value

    def where(self, condition: bool, one: float, other: float) -> float:
        """Choose."""
        return one if condition else other


def expressions() -> st.SearchStrategy[str]:
    leaf = st.one_of(
        st.sampled_from(NAMES),
        st.sampled_from(
            ["tl.full([1], 0.5, tl.float32)", "tl.full([1], 3, tl.int32)", "tl.full([1], -2.0, tl.float32)"]
        ),
        st.integers(0, 4).map(str),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda one: f"({one[0]} {one[1]} {one[2]})"),
            st.tuples(inner, inner, inner).map(lambda one: f"tl.where({one[0]} < {one[1]}, {one[2]}, {one[0]})"),
            inner.map(lambda one: f"tl.load({one})"),
        ),
        max_leaves=4,
    )


def blocks(depth: int = 2) -> st.SearchStrategy[list[str]]:
    simple = st.one_of(
        st.tuples(st.sampled_from(NAMES), expressions()).map(lambda one: [f"{one[0]} = {one[1]}"]),
        st.tuples(st.sampled_from(NAMES), expressions()).map(lambda one: [f"{one[0]} += {one[1]}"]),
        st.tuples(expressions(), expressions()).map(lambda one: [f"tl.store({one[0]}, {one[1]})"]),
    )
    if depth:
        inner = blocks(depth - 1)
        loop = inner.map(lambda lines: ["for i in range(2):", *("    " + line for line in lines)])
        chosen = st.tuples(st.sampled_from(["n == 4", "n > 9", "a < 1"]), inner, inner).map(
            lambda one: [
                f"if {one[0]}:",
                *("    " + line for line in one[1]),
                "else:",
                *("    " + line for line in one[2]),
            ]
        )
        simple = st.one_of(simple, simple, loop, chosen)
    return st.lists(simple, min_size=1, max_size=6).map(lambda many: [line for one in many for line in one])


def run(source: str, *given: float) -> tuple[list[Any], Any]:
    language = Language()
    scope: dict[str, Any] = {"tl": language}
    exec(source, scope)
    return language.seen, scope["f"](*given)


@settings(max_examples=40, deadline=None)
@given(blocks())
def test_nothing_else_is_computed_or_read(lines: list[str]) -> None:
    text = (
        "def f(a, b, c, d, n):\n    n = 4\n    tl.store(0, 0)\n"
        + "\n".join("    " + line for line in lines)
        + "\n    return a - b * c + d"
    )
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert constants(function) == ["n"]
    made = ast.unparse(tidied(function, ["n"]))
    expected, found = run(text, 1.5, -2.0, 0.25, 3.0, 0.0), run(made, 1.5, -2.0, 0.25, 3.0)
    assert repr(expected) == repr(found), made
    assert len(made.splitlines()) <= len(text.splitlines())


def test_it_reads_as_written_by_hand() -> None:
    text = """
def gelu(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xnumel = 96
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp1 = tl.full([1], 0.5, tl.float32)
    tmp2 = tmp0 * tmp1
    tmp3 = libdevice.erf(tmp0)
    tmp4 = tmp2 * tmp3
    unused = tmp0 + tmp4
    tl.store(out_ptr0 + (x0), tmp4, xmask)
"""
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert ast.unparse(tidied(function, constants(function))).splitlines() == [
        "def gelu(in_ptr0, out_ptr0, XBLOCK: tl.constexpr):",
        "    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)",
        "    xmask = xindex < 96",
        "    tmp0 = tl.load(in_ptr0 + xindex, xmask)",
        "    tl.store(out_ptr0 + xindex, tmp0 * 0.5 * libdevice.erf(tmp0), xmask)",
    ]


@pytest.mark.parametrize("value", ['float("-inf")', "1e400", "7", "3000000000"])
def test_a_number_that_a_bare_one_would_not_be_stays_a_block(value: str) -> None:
    text = f"def f(a):\n    b = tl.full([1], {value}, tl.float32)\n    c = a + b\n    return tl.load(c) + c"
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert "tl.full" in ast.unparse(tidied(function))


@given(st.lists(st.sampled_from(["x", "tl.load(a + b, mask)", "x=1", "key='word'"]), max_size=12), st.integers(0, 80))
def test_long_calls_are_wrapped_and_mean_the_same(parts: list[str], depth: int) -> None:
    line = f"value{'e' * 60} = call({', '.join(sorted(parts, key=lambda one: '=' in one))})"
    lines = wrapped(" " * 4 + line)
    assert ast.dump(ast.parse("if 1:\n" + "\n".join(lines))) == ast.dump(ast.parse("if 1:\n    " + line))
    assert all(len(one) <= WIDTH for one in lines)


def test_a_long_sum_in_brackets_becomes_no_tuple() -> None:
    places = " + ".join(f"r{number} * 1024 % 32" for number in range(12))
    line = f"saved = tl.load(saved_ptr + ({places}), r0_mask & xmask, eviction_policy='evict_last', other=0.0)"
    assert ast.dump(ast.parse("if 1:\n" + "\n".join(wrapped(" " * 4 + line)))) == ast.dump(
        ast.parse(f"if 1:\n    {line}")
    )
