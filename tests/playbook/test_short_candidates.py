# ruff: noqa: E501
"""A candidate holds what it needs and nothing else."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from .conftest import Bench, close, formatted
from .playbook_cases import BY_NAME, Case, text_of

SAMPLES = Path(__file__).parents[2] / "samples"


def new_class(source: str) -> ast.ClassDef:
    return next(s for s in ast.parse(source).body if isinstance(s, ast.ClassDef) and s.name == "ModelNew")


@pytest.mark.parametrize(("sample", "statements"), [("new_gelu", 1), ("swiglu_gate", 1), ("rms_norm", 2)])
def test_a_plain_module_becomes_a_kernel_call(sample: str, statements: int, bench: Callable[..., Bench]) -> None:
    text = (SAMPLES / f"{sample}.py").read_text().replace("2048", "16")
    source = bench(text).attempt().candidate.source
    methods = {s.name: s for s in new_class(source).body if isinstance(s, ast.FunctionDef)}
    assert len(methods["forward"].body) == statements
    assert isinstance(methods["forward"].body[-1], ast.Return)
    # A setting that a constructor takes can differ: there the old way must stay.
    assert ("_forward_pytorch" in methods) == (sample == "rms_norm")


@pytest.mark.parametrize(
    "sample", ["new_gelu", "swiglu_gate", "rms_norm", "log_softmax", "layernorm_residual", "masked_softmax"]
)
def test_a_candidate_is_formatted_and_one_for_an_activation_is_short(sample: str, bench: Callable[..., Bench]) -> None:
    text = (SAMPLES / f"{sample}.py").read_text().replace("2048", "16").replace("1024", "16")
    source = bench(text).attempt().candidate.source
    assert formatted(source) == ""
    assert sample != "new_gelu" or len(source.splitlines()) <= 120


def test_a_parameter_that_may_be_missing_is_looked_at(bench: Callable[..., Bench]) -> None:
    code = (
        "class Model(nn.Module):\n    def __init__(self, bias=True):\n        super().__init__()\n"
        "        self.bias = nn.Parameter(torch.ones(64)) if bias else None\n\n    def forward(self, x):\n"
        "        y = torch.tanh(x) * 2\n        if self.bias is not None:\n            y = y + self.bias\n        return y\n"
    )
    one = bench(text_of(Case("optional", code, "[torch.randn(8, 64)]")))
    new = one.build(one.attempt().candidate)
    old, without = type(one.model)(False), type(new)(False)
    with torch.no_grad():
        close(old(*one.inputs), without(*one.inputs))


def test_the_docstring_of_forward_stays(bench: Callable[..., Bench]) -> None:
    code = 'class Model(nn.Module):\n    def forward(self, x):\n        """Mine."""\n        return torch.tanh(x) * 2 + 1\n'
    source = bench(text_of(Case("told", code, "[torch.randn(8, 64)]"))).attempt().candidate.source
    forward = next(s for s in new_class(source).body if isinstance(s, ast.FunctionDef) and s.name == "forward")
    assert ast.get_docstring(forward) == "Mine."


@pytest.mark.parametrize("name", ["tanh_gelu", "layer_norm_residual", "transformer_block"])
def test_imports_are_sorted_with_the_standard_library_first(name: str, bench: Callable[..., Bench]) -> None:
    text = text_of(BY_NAME[name])
    source = bench(text).attempt().candidate.source
    imports = [s for s in ast.parse(source).body if isinstance(s, (ast.Import, ast.ImportFrom))]
    names = [s.names[0].name if isinstance(s, ast.Import) else s.module or "" for s in imports]
    groups = [n.partition(".")[0] not in sys.stdlib_module_names for n in names]
    assert groups == sorted(groups)
    standard = [n for n, other in zip(names, groups, strict=True) if not other]
    assert standard == sorted(standard)
