"""A `try` that goes on in PyTorch where a kernel cannot be built: allowed with a warning, and without it when judged."""

from __future__ import annotations

import ast

import pytest

pytest.importorskip("torch")

from stark_lsp.judge import integrity

HEAD = """import warnings

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline


"""
TAIL = """

class ModelNew(nn.Module):
    def forward(self, x):
        kernel = build()
        return torch.relu(x) if kernel is None else kernel.fused(x)
"""
WARNS = """def build():
    try:
        return load_inline("one", ["torch::Tensor fused(torch::Tensor x) { return x.relu(); }"], functions=["fused"])
    except Exception as error:
        warnings.warn(
            f"The kernel cannot be built: {error}"
        )
        return None  # PyTorch
"""


def judged(text: str) -> str:
    return integrity.to_be_judged(HEAD + text + TAIL)


def test_with_a_warning_it_may_go_on_but_not_where_it_is_judged() -> None:
    source = HEAD + WARNS + TAIL
    assert integrity.check(source, "ModelNew") is None
    before, after = source.splitlines(), judged(WARNS).splitlines()
    row = before.index("        warnings.warn(")
    assert after[row].strip() == "raise"
    assert len(after) == len(before)
    assert after[:row] == before[:row]
    assert after[row + 4 :] == before[row + 4 :]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(WARNS.replace("\n", "\r\n"), id="CRLF"),
        pytest.param("TEXT = '\x0c\x1c\u2028'\n" + WARNS, id="characters that only str.splitlines takes for line ends"),
        pytest.param("x = '\u00e4\u00f6'; y = 1\n" + WARNS.replace("as error:\n        warnings", "as error: warnings")
                     .replace("        )\n        return None", "        ); return None"), id="on one line"),
    ],
)  # fmt: skip
def test_however_it_is_written_only_the_handler_changes(text: str) -> None:
    wanted = ast.parse(HEAD + text + TAIL)
    for node in ast.walk(wanted):
        if isinstance(node, ast.ExceptHandler):
            node.body = [ast.Raise()]
    assert ast.dump(ast.parse(judged(text))) == ast.dump(wanted)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("        warnings.warn(\n", "        str(\n", id="says nothing"),
        pytest.param("        return load_inline", "        kernel = load_inline", id="launches, too"),
        pytest.param("        return None", "        return build_simple()", id="does something else"),
        pytest.param("    try:\n", "    try:\n        prepare()\n", id="does more than build"),
    ],
)
def test_anything_else_is_refused_as_before(old: str, new: str) -> None:
    text = WARNS.replace(old, new)
    if "kernel = " in new:
        text = text.replace('["fused"])\n', '["fused"])\n        kernel.fused(torch.ones(1))\n        return kernel\n')
    refusal = integrity.check(HEAD + text + TAIL, "ModelNew")
    assert refusal is not None
    assert "goes on without it" in refusal.reason
    assert judged(text) == HEAD + text + TAIL


def test_what_does_not_parse_and_what_has_no_kernel_stay_as_they_are() -> None:
    for source in ("def f(:\n", "import torch\n"):
        assert integrity.to_be_judged(source) == source
