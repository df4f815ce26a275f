"""Names in emitted Triton functions: after what they are given, where that has a name and the name is free."""

from __future__ import annotations

import ast

from stark_lsp.playbook.inductor.naming import given, named
from stark_lsp.playbook.inductor.reader import Kernel, Program, Step

TEXT = """
def fused(in_ptr0, in_ptr1, out_ptr0, ks0, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tmp0 = tl.load(in_ptr0 + xindex, None)
    tmp1 = tl.load(in_ptr0 + (xindex + ks0), None)
    tmp2 = tl.load(in_ptr1 + 0)
    tl.store(out_ptr0 + xindex, (tmp0 + tmp1) * tmp2, None)
"""


def rewritten(text: str = TEXT, **names: str) -> list[str]:
    """Return a function's lines with its parameters called after names."""
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    return ast.unparse(named(function, names)).splitlines()


def test_pointers_and_the_first_value_behind_each_have_the_names_of_what_is_given() -> None:
    assert rewritten(in_ptr0="x", in_ptr1="weight", out_ptr0="", ks0="n") == [
        "def fused(x_ptr, weight_ptr, out_ptr0, ks0, XBLOCK: tl.constexpr):",
        "    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)",
        "    x = tl.load(x_ptr + xindex, None)",
        "    tmp1 = tl.load(x_ptr + (xindex + ks0), None)",
        "    weight = tl.load(weight_ptr + 0)",
        "    tl.store(out_ptr0 + xindex, (x + tmp1) * weight, None)",
    ]


def test_a_name_that_means_something_else_there_is_not_taken() -> None:
    lines = rewritten(in_ptr0="tl", in_ptr1="xindex")
    assert lines[0].startswith("def fused(tl_ptr, xindex_ptr, out_ptr0")
    assert "    tmp0 = tl.load(tl_ptr + xindex, None)" in lines
    assert "    tmp2 = tl.load(xindex_ptr + 0)" in lines
    assert rewritten(in_ptr0="x", in_ptr1="x")[0].startswith("def fused(x_ptr, in_ptr1, out_ptr0")


def test_a_value_that_changes_keeps_its_name() -> None:
    lines = rewritten(TEXT + "    tmp0 = tmp0 + 1\n", in_ptr0="x")
    assert "    tmp0 = tl.load(x_ptr + xindex, None)" in lines
    assert "    x = tl.load(x_ptr + (xindex + ks0), None)" in lines


def step(kernel: str, text: str) -> Step:
    return Step(ast.parse(text).body[0], kernel)


def test_only_a_kernel_that_is_launched_once_is_named_and_only_after_what_has_a_name() -> None:
    program = Program(("arg0_1",), {name: Kernel(name, (), "") for name in ("once", "twice")})
    program.steps = [
        step("once", "once.run(arg0_1, buf0, 8, stream=stream0)"),
        step("twice", "twice.run(arg0_1, buf0)"),
        step("", "del arg0_1"),
        step("twice", "twice.run(buf0, buf1)"),
    ]
    assert given(program, {"arg0_1": "x"}) == {"once": ["x", "", ""]}
