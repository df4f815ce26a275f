import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _epilogue_kernel(y, residual, bias, gain, features, BLOCK: tl.constexpr):
    """y = residual + gain * tanh(y + bias), in place on y; one program for each block of one row."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < features
    at = row * features + columns
    value = tl.load(y + at, mask=inside) + tl.load(bias + columns, mask=inside)
    scaled = tl.load(gain + columns, mask=inside) * libdevice.tanh(value)
    tl.store(y + at, tl.load(residual + at, mask=inside) + scaled, mask=inside)


def _epilogue(y, residual, bias, gain):
    features = y.shape[-1]
    block = min(1024, triton.next_power_of_2(features))
    grid = (y.numel() // features, triton.cdiv(features, block))
    with torch.cuda.device(y.device):
        _epilogue_kernel[grid](y, residual, bias, gain, features, BLOCK=block, num_warps=4)
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
