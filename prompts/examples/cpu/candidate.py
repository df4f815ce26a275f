import ctypes
import functools

import torch
import torch.nn as nn

_CPP = r"""
#include <cstdint>

// One row at a time, so that its second pass finds it in the cache; rows are shared out among the threads.
extern "C" void normalize(const float* __restrict__ x, const float* __restrict__ scale,
                          const float* __restrict__ shift, float* __restrict__ y,
                          int64_t rows, int64_t features, float eps) {
    #pragma omp parallel for schedule(static) if (rows * features > 32768)
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * features;
        float* out = y + row * features;
        float sum = 0.0f;
        #pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < features; ++i) {
            const float value = in[i] * scale[i] + shift[i];
            const float positive = value < 0.0f ? 0.0f : value;  // NaN stays NaN
            out[i] = positive;
            sum += positive;
        }
        sum += eps;
        #pragma omp simd
        for (int64_t i = 0; i < features; ++i) out[i] /= sum;
    }
}
"""


@functools.cache
def _kernels():
    """Build the kernels when they are first needed, and load them."""
    from torch.utils.cpp_extension import load_inline

    path = load_inline(
        "scale_relu_normalize",
        cpp_sources=[_CPP],
        extra_cflags=["-O3", "-march=native", "-fopenmp", "-fno-trapping-math"],
        extra_ldflags=["-lgomp"],
        no_implicit_headers=True,
        is_python_module=False,
    )
    library = ctypes.CDLL(path)
    library.normalize.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int64] * 2 + [ctypes.c_float]
    library.normalize.restype = None
    return library


def _pytorch(x, scale, shift, eps):
    positive = torch.relu(x * scale + shift)
    return positive / (positive.sum(-1, keepdim=True) + eps)


class _ScaleReluNormalize(torch.autograd.Function):
    """The kernel forward; backward differentiates the PyTorch form, computed anew."""

    @staticmethod
    def forward(ctx, x, scale, shift, eps):
        ctx.save_for_backward(x, scale, shift)
        ctx.eps = eps
        x = x.contiguous()
        y = torch.empty_like(x)
        rows = x.numel() // x.shape[-1]
        _kernels().normalize(x.data_ptr(), scale.data_ptr(), shift.data_ptr(), y.data_ptr(), rows, x.shape[-1], eps)
        return y

    @staticmethod
    def backward(ctx, gradient):
        needed = ctx.needs_input_grad
        with torch.enable_grad():
            inputs = [t.view_as(t) if n else t for t, n in zip(ctx.saved_tensors, needed)]
            y = _pytorch(*inputs, ctx.eps)
        wanted = [t for t, n in zip(inputs, needed) if n]
        found = iter(torch.autograd.grad(y, wanted, gradient, create_graph=torch.is_grad_enabled()))
        return tuple(next(found) if n else None for n in needed)


class ModelNew(nn.Module):
    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tensors = (x, self.scale, self.shift)
        alike = all(t.is_cpu and t.dtype is torch.float32 for t in tensors)
        if not alike or torch.is_autocast_enabled("cpu") or x.shape[-1:] != self.scale.shape or x.numel() == 0:
            return _pytorch(*tensors, self.eps)  # not what the kernel was written for
        return _ScaleReluNormalize.apply(*tensors, self.eps)
