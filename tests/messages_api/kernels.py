"""An expert by rule: real CPU candidates for two of the samples, right and fast, right and slow, wrong, not compiling.

What it answers depends on what the question says and on how often the same was asked:

- a plan: the first idea that no source in the question shows yet;
- code: the idea that the plan names;
- a repair: the fast candidate;
- a question without a plan to a single agent: as a plan and its code in one.

It does not look at times or attempts' numbers, so what was measured changes nothing.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

from messages_api import replies
from messages_api.replies import Reply

if TYPE_CHECKING:
    from messages_api.server import Request

_HEAD = "import torch\nimport torch.nn as nn\n\n"

_GELU = """
class ModelNew(nn.Module):
    # idea: {name}
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        {body}
"""

_RMS = """
class ModelNew(nn.Module):
    # idea: {name}
    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        {body}
"""

_NATIVE = '''import ctypes
import threading

import torch
import torch.nn as nn

_CPP = r"""
#include <cmath>
#include <cstdint>

extern "C" void {function}({parameters}) {{
{code}
}}
"""

_library = None
_lock = threading.Lock()


def _kernels():
    global _library
    with _lock:
        if _library is None:
            from torch.utils.cpp_extension import load_inline

            path = load_inline(
                "{function}",
                cpp_sources=[_CPP],
                extra_cflags=["-O3", "-march=native", "-fopenmp"],
                extra_ldflags=["-lgomp"],
                no_implicit_headers=True,
                is_python_module=False,
            )
            library = ctypes.CDLL(path)
            library.{function}.argtypes = {types}
            library.{function}.restype = None
            _library = library
    return _library

'''

_RMS_PARAMETERS = "const float* x, const float* weight, float* y, int64_t rows, int64_t features, float eps"
_RMS_TYPES = "[ctypes.c_void_p] * 3 + [ctypes.c_int64] * 2 + [ctypes.c_float]"
_RMS_CODE = """    #pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {{
        const float* in = x + row * features;
        float* out = y + row * features;
        float sum = 0.0f;
        #pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < features; ++i) sum += in[i] * in[i];
        const float scale = 1.0f / std::sqrt(sum / features + eps);
        #pragma omp simd
        for (int64_t i = 0; i < features; ++i) out[i] = in[i] * scale * weight[i]{end}
    }}"""
_RMS_CALL = """x = x.contiguous()
        y = torch.empty_like(x)
        rows = x.numel() // x.shape[-1]
        _kernels().rms_norm(
            x.data_ptr(), self.weight.data_ptr(), y.data_ptr(), rows, x.shape[-1], self.eps
        )
        return y"""


def _gelu(name: str, body: str) -> str:
    return _HEAD + _GELU.format(name=name, body=body)


def _rms(name: str, body: str) -> str:
    return _HEAD + _RMS.format(name=name, body=body)


def _native_rms(name: str, end: str) -> str:
    code = _RMS_CODE.format(end=end)
    head = _NATIVE.format(function="rms_norm", parameters=_RMS_PARAMETERS, types=_RMS_TYPES, code=code)
    return head + _RMS.format(name=name, body=_RMS_CALL)


_GELU_CALL = """y = torch.empty_like(x)
        _kernels().gelu(x.contiguous().data_ptr(), y.data_ptr(), x.numel())
        return y"""
_GELU_BROKEN = _NATIVE.format(
    function="gelu",
    parameters="const float* x, float* y, int64_t count",
    types="[ctypes.c_void_p] * 2 + [ctypes.c_int64]",
    code="    for (int64_t i = 0; i < count; ++i) y[i] = x[i]",
) + _GELU.format(name="loop", body=_GELU_CALL)

NEW_GELU = {
    "wide": _gelu(
        "wide",
        "z = x.double()\n        inner = 0.7978845608028654 * (z + 0.044715 * z**3)\n"
        "        return (0.5 * z * (1.0 + torch.tanh(inner))).to(x.dtype)",
    ),
    "loop": _GELU_BROKEN,
    "operator": _gelu("operator", 'return nn.functional.gelu(x, approximate="tanh")'),
    "exact": _gelu("exact", "return nn.functional.gelu(x)"),
}
"""For `samples/new_gelu.py`: right and slow, not compiling, right and fast, wrong."""

RMS_NORM = {
    "wide": _rms(
        "wide",
        "y = x.double()\n        return (self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)))"
        ".to(x.dtype)",
    ),
    "loop": _native_rms("loop", ""),
    "rows": _native_rms("rows", ";"),
    "absolute": _rms("absolute", "return self.weight * x / (x.abs().mean(-1, keepdim=True) + self.eps)"),
}
"""For `samples/rms_norm.py`: right and slow, not compiling, right and fast, wrong."""

FAST = {"new_gelu": "operator", "rms_norm": "rows"}
"""Name of the right and fast candidate."""
CANDIDATES = {"new_gelu": NEW_GELU, "rms_norm": RMS_NORM}

_KNOWN_BY = {"new_gelu": "0.044715", "rms_norm": "torch.rsqrt(variance + self.eps)"}
_PLANNED = re.compile(r"Carry out the idea called (\w+)")
_FENCED = re.compile(r"^(`{3,})python\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
_LATEST, _REFERENCE = "# The attempt you start from", "# The reference"
"""Headings of the prompts, below which the source to improve stands: the first that has one."""


class Expert:
    """Answers questions about the samples it knows."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, ...], int] = {}
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Reply:
        """Return the answer to a question."""
        sample = next((name for name, mark in _KNOWN_BY.items() if mark in request.text), None)
        if sample is None:
            return replies.text("I know nothing of this class.")
        candidates = CANDIDATES[sample]
        if request.tool == "submit_plan":
            return _plan(self._next(request, sample), request.text)
        if request.tool == "submit_fix":
            return replies.tool({"cause": "It did not do what the original does.", "source": candidates[FAST[sample]]})
        planned = [name for name in _PLANNED.findall(request.text) if name in candidates]
        name = planned[-1] if planned else self._next(request, sample)
        return replies.tool({"source": candidates[name], "summary": f"The idea called {name}."})

    def _next(self, request: Request, sample: str) -> str:
        left = [name for name in CANDIDATES[sample] if f"# idea: {name}\n" not in request.text]
        choices = left or [FAST[sample]]
        key = (request.tool, sample, *choices)
        with self._lock:
            count = self._asked.get(key, 0)
            self._asked[key] = count + 1
        return choices[count % len(choices)]


def _plan(name: str, question: str) -> Reply:
    given = {
        "title": f"Idea {name}",
        "advice": f"Carry out the idea called {name}: one pass over the data instead of several.",
        "annotated_source": _annotated(question),
    }
    return replies.tool(given, thinking="One pass is enough.")


def _annotated(question: str) -> str:
    """Return the source that is to be improved, with anchors around the end of its forward."""
    source = ""
    for heading in (_LATEST, _REFERENCE, ""):
        _, _, below = question.rpartition(heading) if heading else ("", "", question)
        found = [text for _, text in _FENCED.findall(below if heading in question else "") if "(nn.Module)" in text]
        # Attempts that are only shown for comparison stand below other headings.
        if found and not (heading == _LATEST and "you start from the reference" in below[:400]):
            source = found[0]
            break
    lines = source.splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if line.startswith("        return ")]
    if ends:
        marked = ["        # # <<<IMPROVE BEGIN>>>\n", lines[ends[-1]], "        # # <<<IMPROVE END>>>\n"]
        lines[ends[-1] : ends[-1] + 1] = marked
    return "".join(lines)


def expert(request: Request) -> Reply:
    """Answer with the expert of this process."""
    return _EXPERT(request)


_EXPERT = Expert()
