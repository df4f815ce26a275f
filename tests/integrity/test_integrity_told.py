"""What the judge is told of a source: its kernels, what is run in its place, which extensions replace others."""

from __future__ import annotations

import ast
from fnmatch import fnmatchcase

import pytest

from stark_lsp.integrity import read, told

from .texts import HEAD as TORCH
from .texts import KERNEL, candidate

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
    return told(HEAD + text + TAIL).judged


def test_with_a_warning_it_may_go_on_but_not_where_it_is_judged() -> None:
    source = HEAD + WARNS + TAIL
    assert read(source, "ModelNew").refusals == ()
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
        pytest.param("        return None", "        return build_simple()", id="does something else"),
        pytest.param("    try:\n", "    try:\n        prepare()\n", id="does more than build"),
    ],
)
def test_anything_else_is_run_as_it_is_and_noted(old: str, new: str) -> None:
    text = WARNS.replace(old, new)
    reading = read(HEAD + text + TAIL, "ModelNew")
    assert reading.refusals == ()
    assert any("goes on without it" in note.reason for note in reading.notes)
    assert judged(text) == HEAD + text + TAIL


@pytest.mark.parametrize("source", ["def f(:\n", "import torch\n", "x = " + "-" * 100_000 + "1", "\0"])
def test_what_cannot_be_read_and_what_has_no_kernel_stays_as_it_is(source: str) -> None:
    found = told(source)
    assert found == read(source, "ModelNew").told
    assert (found.judged, found.kernels, found.alternatives) == (source, (), ())


ALSO = """import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = "torch::Tensor act(torch::Tensor x) { return x.relu(); }"


"""
REPLACED = {
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


def replaces(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@pytest.mark.parametrize("text", REPLACED.values(), ids=REPLACED)
def test_a_kernel_that_is_built_in_place_of_another_is_an_alternative(text: str) -> None:
    found = told(ALSO + text).alternatives
    # A function that builds whatever it is told may build anything.
    names = ("act_0", "act_1") if "flags in" in text else ("act_plain", "act_omp")
    assert all(replaces(name, found) for name in names)
    assert not replaces("other", found) or "def build(name" in text


@pytest.mark.parametrize(
    "text",
    [
        'kernel = load_inline("act", CPP)\nother = load_inline("act_plain", CPP)',
        'try:\n    kernel = load_inline("act", CPP)\nexcept RuntimeError:\n    kernel = None',
        'try:\n    kernel = load_inline("act", CPP)\nexcept RuntimeError:\n    raise\nother = load_inline("act_plain", CPP)',
    ],
)
def test_what_takes_nobodys_place_is_none(text: str) -> None:
    assert told(ALSO + text).alternatives == ()


TRITON = "import triton\nimport triton.language as tl\n@triton.autotune([], key=[])\n@triton.jit\ndef add(x):\n    pass\nadd[1](1)\n"
INLINE = "from torch.utils.cpp_extension import load_inline as build\nM = build('m', 'float f(float x) { return g(x); } static float g(float x) { return x; }', functions=['f'])\n"
GPU = "from torch.utils.cpp_extension import load_inline\nN = 4\nC = f'template <int M> __global__ void __launch_bounds__(256) fused_{N}(float* x) {{ x[0] = M; }}'\nM = load_inline('m', '', cuda_sources=[C])\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [(TRITON, ("add",)), (KERNEL, ("k",)), (INLINE, ("f",)), (GPU, ("fused_4",)), ("", ())],
    ids=["triton", "raw", "inline", "named by an f-string", "none"],
)
def test_kernels_are_named(text: str, names: tuple[str, ...]) -> None:
    assert told(TORCH + text).kernels == names
    assert read(candidate(text), "ModelNew").told.kernels == names
