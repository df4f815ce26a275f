"""Activation functions, written out as torch defines them (https://pytorch.org/docs/stable/nn.functional.html)."""

from __future__ import annotations

import math
from collections.abc import Callable

from stark_lsp.playbook.canonical.registry import Bound, Build, Value, only_floats, operation

Activation = Callable[[Build, Value, Bound, str], Value]


def activation(*names: str, parameters: str = "input") -> Callable[[Activation], Activation]:
    """Register a function of one tensor; it gets the input and the dtype to compute in; its last step is rounded."""

    def add(function: Activation) -> Activation:
        def lower(build: Build, call: Bound) -> Value:
            value = function(build, call["input"], call, call.compute)
            if value.dtype != call.result.dtype:
                value = build.step("cast", value, dtype=call.result.dtype)
            return value

        operation(*names, parameters=parameters, check=only_floats)(lower)
        return function

    return add


@activation("F.relu", "torch.relu", "Tensor.relu", "Tensor.relu_", "torch.relu_", "F.relu_")
def relu(b: Build, x: Value, call: Bound, t: str) -> Value:
    """max(x, 0)."""
    return b.step("maximum", x, 0.0, dtype=t)


@activation("F.relu6")
def relu6(b: Build, x: Value, call: Bound, t: str) -> Value:
    """min(max(x, 0), 6)."""
    return b.step("minimum", b.step("maximum", x, 0.0, dtype=t), 6.0, dtype=t)


@activation("F.hardtanh", parameters="input, min_val=-1.0, max_val=1.0")
def hardtanh(b: Build, x: Value, call: Bound, t: str) -> Value:
    """min(max(x, low), high)."""
    return b.step("minimum", b.step("maximum", x, call["min_val"], dtype=t), call["max_val"], dtype=t)


@activation("F.leaky_relu", parameters="input, negative_slope=0.01")
def leaky_relu(b: Build, x: Value, call: Bound, t: str) -> Value:
    """x for x > 0, slope·x otherwise."""
    return b.step(
        "where", b.step("gt", x, 0.0, dtype="bool"), x, b.step("mul", x, call["negative_slope"], dtype=t), dtype=t
    )


@activation("F.prelu", "torch.prelu", parameters="input, weight")
def prelu(b: Build, x: Value, call: Bound, t: str) -> Value:
    """x for x > 0, weight·x otherwise; only for a single weight."""
    return b.step("where", b.step("gt", x, 0.0, dtype="bool"), x, b.step("mul", x, call["weight"], dtype=t), dtype=t)


def _erf_gelu(b: Build, x: Value, t: str) -> Value:
    inner = b.step("erf", b.step("mul", x, math.sqrt(0.5), dtype=t), dtype=t)
    return b.step("mul", b.step("mul", x, 0.5, dtype=t), b.step("add", inner, 1.0, dtype=t), dtype=t)


@activation("F.gelu", parameters="input, approximate='none'")
def gelu(b: Build, x: Value, call: Bound, t: str) -> Value:
    """x·Φ(x), or its tanh form (https://arxiv.org/abs/1606.08415)."""
    if call.plain("approximate") == "none":
        return _erf_gelu(b, x, t)
    cube = b.step("mul", b.step("mul", x, x, dtype=t), x, dtype=t)
    inner = b.step("mul", b.step("fma", cube, 0.044715, x, dtype=t), math.sqrt(2.0 / math.pi), dtype=t)
    return b.step(
        "mul", b.step("mul", x, 0.5, dtype=t), b.step("add", b.step("tanh", inner, dtype=t), 1.0, dtype=t), dtype=t
    )


@activation("F.silu", "torch.silu")
def silu(b: Build, x: Value, call: Bound, t: str) -> Value:
    """x·σ(x)."""
    return b.step("mul", x, b.step("sigmoid", x, dtype=t), dtype=t)


@activation("F.mish")
def mish(b: Build, x: Value, call: Bound, t: str) -> Value:
    """x·tanh(softplus(x)) (https://arxiv.org/abs/1908.08681)."""
    return b.step("mul", x, b.step("tanh", b.step("softplus", x, dtype=t), dtype=t), dtype=t)


@activation("F.softplus", parameters="input, beta=1.0, threshold=20.0")
def softplus(b: Build, x: Value, call: Bound, t: str) -> Value:
    """log(1 + exp(beta·x)) / beta, and x itself where beta·x exceeds the threshold."""
    beta, threshold = call.plain("beta"), call.plain("threshold")
    scaled = x if beta == 1 else b.step("mul", x, call["beta"], dtype=t)
    soft = b.step("softplus", scaled, dtype=t)
    if beta != 1:
        soft = b.step("div", soft, call["beta"], dtype=t)
    if threshold >= 20:
        return soft
    return b.step("where", b.step("gt", scaled, call["threshold"], dtype="bool"), x, soft, dtype=t)


@activation("F.logsigmoid")
def log_sigmoid(b: Build, x: Value, call: Bound, t: str) -> Value:
    """log σ(x), stable for large |x|."""
    return b.step("log_sigmoid", x, dtype=t)


@activation("F.softsign")
def softsign(b: Build, x: Value, call: Bound, t: str) -> Value:
    """x / (1 + |x|)."""
    return b.step("div", x, b.step("add", b.step("abs", x, dtype=t), 1.0, dtype=t), dtype=t)


@activation("F.tanhshrink")
def tanhshrink(b: Build, x: Value, call: Bound, t: str) -> Value:
    """x − tanh(x)."""
    return b.step("sub", x, b.step("tanh", x, dtype=t), dtype=t)


@activation("F.hardsigmoid")
def hardsigmoid(b: Build, x: Value, call: Bound, t: str) -> Value:
    """min(max(x + 3, 0), 6) / 6."""
    inner = b.step("minimum", b.step("maximum", b.step("add", x, 3.0, dtype=t), 0.0, dtype=t), 6.0, dtype=t)
    return b.step("mul", inner, 1.0 / 6.0, dtype=t)


@activation("F.hardswish")
def hardswish(b: Build, x: Value, call: Bound, t: str) -> Value:
    """x·hardsigmoid(x) (https://arxiv.org/abs/1905.02244)."""
    return b.step("mul", x, hardsigmoid(b, x, call, t), dtype=t)


@activation("F.hardshrink", "torch.hardshrink", "Tensor.hardshrink", parameters="input, lambd=0.5")
def hardshrink(b: Build, x: Value, call: Bound, t: str) -> Value:
    """0 for |x| <= lambda, x otherwise."""
    small = b.step("le", b.step("abs", x, dtype=t), call["lambd"], dtype="bool")
    return b.step("where", small, 0.0, x, dtype=t)


@activation("F.softshrink", parameters="input, lambd=0.5")
def softshrink(b: Build, x: Value, call: Bound, t: str) -> Value:
    """x moved by lambda towards 0, and 0 in between."""
    high = b.step("maximum", b.step("sub", x, call["lambd"], dtype=t), 0.0, dtype=t)
    low = b.step("minimum", b.step("add", x, call["lambd"], dtype=t), 0.0, dtype=t)
    return b.step("add", high, low, dtype=t)


@activation("F.threshold", "torch.threshold", parameters="input, threshold, value")
def threshold(b: Build, x: Value, call: Bound, t: str) -> Value:
    """x where x > threshold, value otherwise."""
    return b.step("where", b.step("le", x, call["threshold"], dtype="bool"), call["value"], x, dtype=t)


def _exponential(b: Build, x: Value, scale: float, inside: float, outside: float, t: str) -> Value:
    negative = b.step(
        "mul", b.step("expm1", x if inside == 1 else b.step("mul", x, inside, dtype=t), dtype=t), outside, dtype=t
    )
    positive = x if scale == 1 else b.step("mul", x, scale, dtype=t)
    return b.step("where", b.step("gt", x, 0.0, dtype="bool"), positive, negative, dtype=t)


@activation("F.elu", "F.elu_", parameters="input, alpha=1.0")
def elu(b: Build, x: Value, call: Bound, t: str) -> Value:
    """x for x > 0, alpha·(exp(x) − 1) otherwise."""
    return _exponential(b, x, 1.0, 1.0, float(call.plain("alpha")), t)


@activation("F.selu", "torch.selu", "F.selu_", "torch.selu_")
def selu(b: Build, x: Value, call: Bound, t: str) -> Value:
    """The scaled ELU of https://arxiv.org/abs/1706.02515."""
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return _exponential(b, x, scale, 1.0, scale * alpha, t)


@activation("F.celu", "torch.celu", "F.celu_", "torch.celu_", parameters="input, alpha=1.0")
def celu(b: Build, x: Value, call: Bound, t: str) -> Value:
    """x for x > 0, alpha·(exp(x / alpha) − 1) otherwise."""
    alpha = float(call.plain("alpha"))
    return _exponential(b, x, 1.0, 1.0 / alpha, alpha, t)
