"""A `try` whose handler builds another kernel in place of the one that fails, and what only looks like it."""

from __future__ import annotations

import pytest

from stark_lsp.judge.integrity import alternatives, check

HEAD = """import warnings

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = "torch::Tensor act(torch::Tensor x) { return x.relu(); }"


"""
TAIL = """

class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.act(x)
"""
PLAIN_TAIL = """

class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.act(x) if kernel is not None else torch.relu(x)
"""

HONEST = {
    "other flags": """
try:
    kernel = load_inline("act_omp", CPP, functions=["act"], extra_cflags=["-fopenmp"])
except RuntimeError:
    kernel = load_inline("act_plain", CPP, functions=["act"])
""",
    "a word about it": """
try:
    kernel = load_inline("act_omp", CPP, functions=["act"], extra_cflags=["-fopenmp"])
except RuntimeError as error:
    warnings.warn(f"without OpenMP: {error}")
    kernel = load_inline("act_plain", CPP, functions=["act"])
""",
    "a function of its own": """
def build(name, *flags):
    return load_inline(name, CPP, functions=["act"], extra_cflags=list(flags))


def built():
    try:
        return build("act_omp", "-fopenmp")
    except (RuntimeError, ImportError):
        return build("act_plain")


kernel = built()
""",
    "three of them": """
try:
    kernel = load_inline("act_omp", CPP, functions=["act"], extra_cflags=["-fopenmp"])
except RuntimeError:
    try:
        kernel = load_inline("act_native", CPP, functions=["act"], extra_cflags=["-march=native"])
    except RuntimeError:
        kernel = load_inline("act_plain", CPP, functions=["act"])
""",
    "flags in turn": """
for flags in (["-fopenmp"], []):
    try:
        kernel = load_inline(f"act_{len(flags)}", CPP, functions=["act"], extra_cflags=flags)
        break
    except RuntimeError:
        continue
else:
    raise RuntimeError("no compiler takes it")
""",
    "kept by a global": """
kernel = None


def build():
    global kernel
    try:
        kernel = load_inline("act_omp", CPP, functions=["act"], extra_cflags=["-fopenmp"])
    except RuntimeError:
        flags = ["-O2"]
        kernel = load_inline("act_plain", CPP, functions=["act"], extra_cflags=flags)


build()
""",
}
CHEATS = {
    "goes on with None": """
try:
    kernel = load_inline("act_omp", CPP, functions=["act"])
except RuntimeError:
    kernel = None
""",
    "builds what nobody uses": """
try:
    kernel = load_inline("act_omp", CPP, functions=["act"])
except RuntimeError:
    other = load_inline("act_plain", CPP, functions=["act"])
    kernel = None
""",
    "under another name": """
kernel = None
try:
    kernel = load_inline("act_omp", CPP, functions=["act"])
except RuntimeError:
    other = load_inline("act_plain", CPP, functions=["act"])
""",
    "only perhaps": """
kernel = None
try:
    kernel = load_inline("act_omp", CPP, functions=["act"])
except RuntimeError:
    if torch.cuda.is_available():
        kernel = load_inline("act_plain", CPP, functions=["act"])
""",
    "a part that is none": """
try:
    kernel = load_inline("act_omp", CPP, functions=["act"]).act
except RuntimeError:
    kernel = load_inline("act_plain", CPP, functions=["act"]).other
""",
    "a function that may give nothing": """
def other():
    if torch.cuda.is_available():
        return load_inline("act_plain", CPP, functions=["act"])
    return None


try:
    kernel = load_inline("act_omp", CPP, functions=["act"])
except RuntimeError:
    kernel = other()
""",
    "flags in turn, and none at last": """
kernel = None
for flags in (["-fopenmp"], []):
    try:
        kernel = load_inline(f"act_{len(flags)}", CPP, functions=["act"], extra_cflags=flags)
        break
    except RuntimeError:
        continue
""",
    "told by a list": """
FAILED = []
try:
    kernel = load_inline("act_omp", CPP, functions=["act"])
except RuntimeError:
    FAILED.append(1)
    kernel = load_inline("act_plain", CPP, functions=["act"])
""",
}


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST)
def test_a_handler_that_builds_another_kernel_in_its_place_is_no_hidden_failure(text: str) -> None:
    assert check(HEAD + text + TAIL, "ModelNew") is None
    found = alternatives(HEAD + text + TAIL)
    assert found.include("act_plain")
    assert found.include("act_omp")


@pytest.mark.parametrize("text", CHEATS.values(), ids=CHEATS)
def test_a_handler_that_may_do_without_a_kernel_is_refused(text: str) -> None:
    refusal = check(HEAD + text + PLAIN_TAIL, "ModelNew")
    assert refusal is not None
    assert "goes on without it" in refusal.reason
    assert not alternatives(HEAD + text + PLAIN_TAIL).include("act_plain")


def test_a_file_that_cannot_be_read_has_no_alternatives() -> None:
    assert not alternatives("def broken(:").include("act")
