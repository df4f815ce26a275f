"""Candidates that `evaluator.py` has judged: two functions, two sizes, three dialects, right and wrong ones."""

from __future__ import annotations

from dataclasses import dataclass

from stark_lsp.core.status import Dialect, VerdictStatus

SIZES = {"small": (64, 1024), "middle": (4096, 2048), "large": (8192, 8192)}
"""Shapes of the float32 input: 256 KiB, 32 MiB and 256 MiB."""
ONE_BY_ONE = ("small", "large")
"""Sizes of the candidates that are timed one by one."""

REFERENCES = {
    "gelu": "torch.nn.functional.gelu(x, approximate='tanh') * 2.0",
    "softmax": "torch.softmax(x, dim=-1)",
}
UNCHANGED = {"chain": " + ".join(["torch.tanh(x * 0.5)"] * 7)}
"""References of which only the unchanged reference itself is judged: twenty short kernels."""

REFERENCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return {expression}


def get_inputs():
    return [torch.randn({rows}, {columns})]


def get_init_inputs():
    return []
"""

GELU_BODY = """
__device__ float value(float x) {{
    float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1.0f + tanhf(inner)) * {factor};
}}
__global__ void gelu_{salt}(const float* x, float* y, long long count) {{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < count) y[i] = value(x[i]);
}}
static int run(const float* x, float* y, long long rows, long long columns, cudaStream_t stream) {{
    long long count = rows * columns;
    if (count) gelu_{salt}<<<(count + 255) / 256, 256, 0, stream>>>(x, y, count);
    return (int)cudaGetLastError();
}}
"""

SOFTMAX_BODY = """
__device__ float join(float a, float b, bool largest) {{
    return largest ? (a > b || isnan(a) ? a : b) : a + b;
}}
__device__ float reduce(float v, bool largest, float* shared) {{
    for (int step = 16; step; step /= 2) v = join(v, __shfl_xor_sync(0xffffffff, v, step), largest);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = shared[0];
    for (int warp = 1; warp < blockDim.x / 32; ++warp) v = join(v, shared[warp], largest);
    __syncthreads();
    return v;
}}
__global__ void softmax_{salt}(const float* x, float* y, int columns) {{
    __shared__ float shared[32];
    const float* row = x + blockIdx.x * (long long)columns;
    float* out = y + blockIdx.x * (long long)columns;
    float top = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) top = join(row[i], top, true);
    top = reduce(top, true, shared);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - top);
    sum = reduce(sum, false, shared);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) out[i] = expf(row[i] - top) / sum * {factor};
}}
static int run(const float* x, float* y, long long rows, long long columns, cudaStream_t stream) {{
    if (rows) softmax_{salt}<<<rows, 256, 0, stream>>>(x, y, (int)columns);
    return (int)cudaGetLastError();
}}
"""

RAW = '''import ctypes

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cuda_runtime.h>
#include <math.h>
{body}
extern "C" int launch(const float* x, float* y, long long rows, long long columns, void* stream) {{
    return run(x, y, rows, columns, (cudaStream_t)stream);
}}
"""
_library = None


def library():
    global _library
    if _library is None:
        path = load_inline(
            "bench_{salt}", "", SOURCE, functions=None, no_implicit_headers=True, is_python_module=False, with_cuda=True
        )
        _library = ctypes.CDLL(path)
    return _library


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        columns = x.shape[-1]
        with torch.cuda.device(x.device):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            error = library().launch(
                ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()),
                ctypes.c_longlong(x.numel() // columns), ctypes.c_longlong(columns), stream,
            )
        if error:
            raise RuntimeError(f"launch failed: CUDA error {{error}}")
        return y
'''

INLINE = '''import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime.h>
{body}
torch::Tensor launch(torch::Tensor x) {{
    TORCH_CHECK(x.is_cuda(), "x must be on a GPU");
    x = x.contiguous();
    auto y = torch::empty_like(x);
    int64_t columns = x.size(-1);
    int error = run(
        x.data_ptr<float>(), y.data_ptr<float>(), x.numel() / columns, columns, at::cuda::getCurrentCUDAStream());
    TORCH_CHECK(error == 0, "launch failed");
    return y;
}}
"""
cpp_source = "torch::Tensor launch(torch::Tensor x);"
_module = None


def module():
    global _module
    if _module is None:
        _module = load_inline(
            name="bench_{salt}", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["launch"], verbose=False
        )
    return _module


class ModelNew(nn.Module):
    def forward(self, x):
        return module().launch(x)
'''

TRITON_GELU = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gelu_{salt}(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    y = x * tl.sigmoid(2.0 * inner) * {factor}
    tl.store(y_ptr + at, y, mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        with torch.cuda.device(x.device):
            gelu_{salt}[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
"""

TRITON_SOFTMAX = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_{salt}(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row + at, e / tl.sum(e, 0) * {factor}, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        columns = x.shape[-1]
        with torch.cuda.device(x.device):
            softmax_{salt}[(x.numel() // columns,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
        return y
"""

BODIES = {"gelu": GELU_BODY, "softmax": SOFTMAX_BODY}
RIGHT = {"gelu": "2.0f", "softmax": "1.0f"}
TRITON = {"gelu": TRITON_GELU, "softmax": TRITON_SOFTMAX}


@dataclass(frozen=True)
class Case:
    """One candidate to judge."""

    name: str
    function: str
    size: str
    dialect: Dialect
    source: str
    expected: VerdictStatus


def reference(function: str, size: str) -> str:
    """Return the text of a reference."""
    rows, columns = SIZES[size]
    expression = (REFERENCES | UNCHANGED)[function]
    return REFERENCE.format(expression=expression, rows=rows, columns=columns)


def source(function: str, dialect: Dialect, *, salt: str, wrong: bool = False, broken: bool = False) -> str:
    """Return the text of a candidate.

    Parameters
    ----------
    salt
        Makes its text, and so its build, different from all others.
    wrong
        It computes something else.
    broken
        It does not compile.
    """
    factor = "1.01f" if wrong else RIGHT[function]
    if dialect is Dialect.TRITON:
        return TRITON[function].format(salt=salt, factor=factor.rstrip("f"))
    body = BODIES[function].format(salt=salt, factor=factor)
    if broken:
        body = body.replace("long long count = rows", "lng long count = rows").replace("if (rows)", "if (rows")
    return (RAW if dialect is Dialect.RAW else INLINE).format(body=body, salt=salt)


def cases(salt: str) -> list[Case]:
    """Return every candidate that is timed one by one."""
    found = []
    for function in REFERENCES:
        for size in ONE_BY_ONE:
            for dialect in (Dialect.RAW, Dialect.INLINE, Dialect.TRITON):
                key = f"{function}_{size}_{dialect.value}_{salt}"
                text = source(function, dialect, salt=key)
                found.append(Case(f"{function} {size}", function, size, dialect, text, VerdictStatus.OK))
    for dialect in (Dialect.RAW, Dialect.INLINE, Dialect.TRITON):
        text = source("gelu", dialect, salt=f"wrong_{dialect.value}_{salt}", wrong=True)
        found.append(Case("gelu small, wrong", "gelu", "small", dialect, text, VerdictStatus.WRONG_RESULT))
    for dialect in (Dialect.RAW, Dialect.INLINE):
        text = source("gelu", dialect, salt=f"broken_{dialect.value}_{salt}", broken=True)
        found.append(Case("gelu small, does not compile", "gelu", "small", dialect, text, VerdictStatus.COMPILE_ERROR))
    return found


def queue(salt: str, count: int = 40) -> list[Case]:
    """Return a mixed queue for one reference (gelu, small): all dialects, every fifth one wrong."""
    dialects = (Dialect.RAW, Dialect.INLINE, Dialect.TRITON, Dialect.RAW, Dialect.TRITON)
    found = []
    for index in range(count):
        dialect, wrong = dialects[index % len(dialects)], index % 5 == 3
        text = source("gelu", dialect, salt=f"queue_{index}_{salt}", wrong=wrong)
        status = VerdictStatus.WRONG_RESULT if wrong else VerdictStatus.OK
        found.append(Case(f"number {index + 1}", "gelu", "small", dialect, text, status))
    return found
