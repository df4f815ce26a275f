import functools

import torch
import torch.nn as nn
import torch.nn.functional as F

_DECLARATION = "void epilogue(at::Tensor y, at::Tensor residual, at::Tensor bias, at::Tensor gain);"

_CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <algorithm>

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

void epilogue(at::Tensor y, at::Tensor residual, at::Tensor bias, at::Tensor gain) {
    const c10::cuda::CUDAGuard guard(y.device());
    const int64_t features = y.size(-1), rows = y.numel() / features;
    const unsigned blocks = unsigned(std::min<int64_t>(rows, 65536));
    epilogue_kernel<<<blocks, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        y.data_ptr<float>(), residual.data_ptr<float>(), bias.data_ptr<float>(), gain.data_ptr<float>(),
        rows, features);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}
"""


@functools.cache
def _kernels():
    """Build the kernels when they are first needed, and load them."""
    from torch.utils.cpp_extension import load_inline

    return load_inline(
        "dense_tanh_residual",
        cpp_sources=[_DECLARATION],
        cuda_sources=[_CUDA],
        functions=["epilogue"],
        extra_cuda_cflags=["-O3"],
    )


def _pytorch(x, residual, weight, bias, gain):
    return residual + gain * torch.tanh(F.linear(x, weight, bias))


def _forward(x, residual, weight, bias, gain):
    y = F.linear(x, weight).contiguous()  # cuBLAS; its result is ours to overwrite
    _kernels().epilogue(y, residual.contiguous(), bias, gain)
    return y


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
