"""Texts of Triton kernels as one writes them by hand, for the candidates of `evaluator_real.py`."""

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F
"""
TRITON = (
    HEAD
    + '''import triton
import triton.language as tl

PASS_NAN = tl.constexpr(tl.PropagateNan.ALL)


class Recomputed(torch.autograd.Function):
    """The kernel forward; backward computes the PyTorch form anew."""

    @staticmethod
    def forward(ctx, fast, plain, *tensors):
        ctx.plain = plain
        ctx.save_for_backward(*tensors)
        return fast(*tensors)

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            tensors = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
            out = ctx.plain(*tensors)
        wanted = [t for t in tensors if t.requires_grad]
        found = iter(torch.autograd.grad(out, wanted, grad))
        return (None, None, *[next(found) if t.requires_grad else None for t in tensors])

'''
)

POINTWISE = """
@triton.jit
def pointwise(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < n)
    tl.store(out_ptr + place, {expression}, mask=place < n)


def launch_pointwise(x, out):
    pointwise[(triton.cdiv(x.numel(), 4096),)](x, out, x.numel(), BLOCK=4096)
    return out

"""

EPILOGUE = """
@triton.jit
def epilogue(x_ptr, bias_ptr, n, inner, channels, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < n)
    bias = tl.load(bias_ptr + (place // inner) % channels, mask=place < n)
    tl.store(x_ptr + place, {expression}, mask=place < n)


def launch_epilogue(x, bias):
    channels = bias.numel()
    inner = x.numel() // (x.shape[0] * channels)
    epilogue[(triton.cdiv(x.numel(), 4096),)](x, bias, x.numel(), inner, channels, BLOCK=4096)
    return x

"""

AFFINE = """
@triton.jit
def affine(x_ptr, scale_ptr, shift_ptr, out_ptr, n, inner, channels, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    channel = (place // inner) % channels
    x = tl.load(x_ptr + place, mask=place < n)
    scale = tl.load(scale_ptr + channel, mask=place < n)
    shift = tl.load(shift_ptr + channel, mask=place < n)
    tl.store(out_ptr + place, x * scale + shift, mask=place < n)


def launch_affine(x, scale, shift):
    out = torch.empty_like(x)
    inner = x.shape[2] * x.shape[3]
    affine[(triton.cdiv(x.numel(), 4096),)](x, scale, shift, out, x.numel(), inner, x.shape[1], BLOCK=4096)
    return out

"""

SOFTMAX = """
@triton.jit
def softmax_rows(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, columns, BLOCK):
        place = begin + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + place, mask=place < columns, other=float("-inf"))
        new = tl.maximum(top, x)
        total = tl.where(new == float("-inf"), 0.0, total * tl.exp(top - new) + tl.exp(x - new))
        top = new
    most = tl.max(top, 0)
    whole = tl.sum(tl.where(top == float("-inf"), 0.0, total * tl.exp(top - most)), 0)
    for begin in range(0, columns, BLOCK):
        place = begin + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + place, mask=place < columns, other=0.0)
        tl.store(out_ptr + row * columns + place, tl.exp(x - most) / whole, mask=place < columns)

"""

RMS = """
@triton.jit
def rms_channels(x_ptr, out_ptr, channels, inner, eps, BLOCK: tl.constexpr):
    sample = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    base = x_ptr + sample * channels * inner
    total = tl.zeros((BLOCK,), tl.float32)
    for c in range(0, channels):
        x = tl.load(base + c * inner + place, mask=place < inner, other=0.0)
        total += x * x
    scale = 1.0 / tl.sqrt(total / channels + eps)
    for c in range(0, channels):
        x = tl.load(base + c * inner + place, mask=place < inner, other=0.0)
        tl.store(out_ptr + sample * channels * inner + c * inner + place, x * scale, mask=place < inner)

"""

LAYER_NORM = """
@triton.jit
def moments(x_ptr, sums_ptr, n, parts, BLOCK: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    each = tl.cdiv(n, parts)
    total = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, each, BLOCK):
        place = part * each + begin + tl.arange(0, BLOCK)
        inside = (place < n) & (begin + tl.arange(0, BLOCK) < each)
        x = tl.load(x_ptr + row * n + place, mask=inside, other=0.0)
        total += x
        squares += x * x
    tl.store(sums_ptr + (row * parts + part) * 2, tl.sum(total, 0))
    tl.store(sums_ptr + (row * parts + part) * 2 + 1, tl.sum(squares, 0))


@triton.jit
def normalize(x_ptr, weight_ptr, bias_ptr, mean_ptr, scale_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    x = tl.load(x_ptr + row * n + place, mask=inside)
    w = tl.load(weight_ptr + place, mask=inside)
    b = tl.load(bias_ptr + place, mask=inside)
    y = (x - tl.load(mean_ptr + row)) * tl.load(scale_ptr + row) * w + b
    tl.store(out_ptr + row * n + place, y, mask=inside)


def fast_layer_norm(x, weight, bias):
    rows, n = x.shape[0], weight.numel()
    sums = torch.empty(rows, 64, 2, device=x.device)
    moments[(rows, 64)](x, sums, n, 64, BLOCK=2048)
    total = sums.double().sum(1)
    mean = total[:, 0] / n
    scale = torch.rsqrt(total[:, 1] / n - mean * mean + 1e-5)
    out = torch.empty_like(x)
    normalize[(rows, triton.cdiv(n, 4096))](x, weight, bias, mean.float(), scale.float(), out, n, BLOCK=4096)
    return out

"""

MEAN = """
@triton.jit
def mean_rows(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    sample = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    part = tl.arange(0, PARTS)
    total = tl.zeros((PARTS, BLOCK), tl.float32)
    for row in range(0, rows, PARTS):
        at = (row + part)[:, None] * columns + place[None, :]
        inside = ((row + part)[:, None] < rows) & (place[None, :] < columns)
        total += tl.load(x_ptr + sample * rows * columns + at, mask=inside, other=0.0)
    tl.store(out_ptr + sample * columns + place, tl.sum(total, 0) / rows, mask=place < columns)

"""

CUMSUM = """
@triton.jit
def scan_rows(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    before = 0.0
    for begin in range(0, columns, BLOCK):
        place = begin + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + place, mask=place < columns, other=0.0)
        tl.store(out_ptr + row * columns + place, before + tl.cumsum(x, 0), mask=place < columns)
        before += tl.sum(x, 0)

"""

MAX_POOL = """
@triton.jit
def max_pool(x_ptr, out_ptr, n, height, width, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    column, rest = place % width, place // width
    row, plane = rest % height, rest // height
    base = x_ptr + (plane * 2 * height + 2 * row) * 2 * width + 2 * column
    inside = place < n
    one = tl.maximum(tl.load(base, mask=inside), tl.load(base + 1, mask=inside), PASS_NAN)
    two = tl.maximum(
        tl.load(base + 2 * width, mask=inside), tl.load(base + 2 * width + 1, mask=inside), PASS_NAN
    )
    tl.store(out_ptr + place, tl.maximum(one, two, PASS_NAN), mask=inside)

"""
