import ctypes
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F

_CUDA = r"""
#include <cstdint>
#include <cuda_runtime.h>

// y = residual + gain * tanh(y + bias), in place on y; a block walks along a row.
__global__ void epilogue_kernel(float* __restrict__ y, const float* __restrict__ residual,
                                const float* __restrict__ bias, const float* __restrict__ gain,
                                int64_t rows, int64_t features) {
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        for (int64_t column = threadIdx.x; column < features; column += blockDim.x) {
            const int64_t i = row * features + column;
            y[i] = residual[i] + gain[column] * tanhf(y[i] + bias[column]);
        }
    }
}

extern "C" int epilogue(float* y, const float* residual, const float* bias, const float* gain,
                        int64_t rows, int64_t features, cudaStream_t stream) {
    const unsigned blocks = unsigned(rows < 65536 ? rows : 65536);
    epilogue_kernel<<<blocks, 256, 0, stream>>>(y, residual, bias, gain, rows, features);
    return int(cudaGetLastError());
}

extern "C" const char* error_text(int code) { return cudaGetErrorString(cudaError_t(code)); }
"""


@functools.cache
def _kernels():
    """Build the kernels when they are first needed, and load them."""
    from torch.utils.cpp_extension import load_inline

    path = load_inline(
        "dense_tanh_residual",
        cpp_sources=[],
        cuda_sources=[_CUDA],
        extra_cuda_cflags=["-O3"],
        no_implicit_headers=True,
        is_python_module=False,
    )
    library = ctypes.CDLL(path)
    library.epilogue.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int64] * 2 + [ctypes.c_void_p]
    library.epilogue.restype = ctypes.c_int
    library.error_text.argtypes = [ctypes.c_int]
    library.error_text.restype = ctypes.c_char_p
    return library


def _epilogue(y, residual, bias, gain):
    library, features = _kernels(), y.shape[-1]
    with torch.cuda.device(y.device):
        stream = torch.cuda.current_stream(y.device).cuda_stream
        code = library.epilogue(
            y.data_ptr(), residual.data_ptr(), bias.data_ptr(), gain.data_ptr(), y.numel() // features, features, stream
        )
    if code:
        raise RuntimeError(f"epilogue could not be launched: {library.error_text(code).decode()}")
    return y


def _pytorch(x, residual, weight, bias, gain):
    return residual + gain * torch.tanh(F.linear(x, weight, bias))


def _forward(x, residual, weight, bias, gain):
    y = F.linear(x, weight).contiguous()  # cuBLAS; its result is ours to overwrite
    return _epilogue(y, residual.contiguous(), bias, gain)


class _DenseTanhResidual(torch.autograd.Function):
    """Forward hands on what the kernel gave; backward differentiates the PyTorch form, computed anew."""

    @staticmethod
    def forward(ctx, made, *tensors):
        ctx.save_for_backward(*tensors)
        return made()

    @staticmethod
    def backward(ctx, gradient):
        needed = ctx.needs_input_grad[1:]
        with torch.enable_grad():
            inputs = [t.view_as(t) if n else t for t, n in zip(ctx.saved_tensors, needed)]
            y = _pytorch(*inputs)
        wanted = [t for t, n in zip(inputs, needed) if n]
        found = iter(torch.autograd.grad(y, wanted, gradient, create_graph=torch.is_grad_enabled()))
        return (None, *(next(found) if n else None for n in needed))


class ModelNew(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.dense = nn.Linear(features, features)
        self.gain = nn.Parameter(torch.full((features,), 0.1))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        tensors = (x, residual, self.dense.weight, self.dense.bias, self.gain)
        alike = all(t.is_cuda and t.dtype is torch.float32 and t.device == x.device for t in tensors)
        if not alike or torch.is_autocast_enabled() or x.shape != residual.shape or x.numel() == 0:
            return _pytorch(*tensors)  # not what the kernel was written for
        with torch.no_grad():
            y = _forward(*tensors)  # before autograd is told, so that the GPU is at work meanwhile
        return _DenseTanhResidual.apply(lambda: y, *tensors)
