"""What the judge is told of a source: its kernels, and which extensions replace others."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("old", "new", "noted"),
    [
        pytest.param("", "", False, id="with a warning"),
        pytest.param("        warnings.warn(\n", "        str(\n", True, id="without a word"),
    ],
)
def test_with_a_warning_it_may_go_on(old: str, new: str, *, noted: bool) -> None:
    reading = read(HEAD + WARNS.replace(old, new) + TAIL, "ModelNew")
    assert reading.refusals == ()
    assert any("goes on without it" in note.reason for note in reading.notes) is noted


@pytest.mark.parametrize("source", ["def f(:\n", "import torch\n", "x = " + "-" * 100_000 + "1", "\0"])
def test_of_what_cannot_be_read_and_what_has_no_kernel_it_is_told_nothing(source: str) -> None:
    found = told(source)
    assert found == read(source, "ModelNew").told
    assert (found.kernels, found.alternatives) == ((), ())


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
