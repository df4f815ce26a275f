"""Activation functions, written out as torch defines them (https://pytorch.org/docs/stable/nn.functional.html)."""

from __future__ import annotations

import math
from collections.abc import Callable

from stark_lsp.playbook.canonical.builder import Builder, Value
from stark_lsp.playbook.canonical.registry import Bound, both, only_floats, operation

Activation = Callable[[Builder, Value, Bound], Value]


def _activation(*names: str, parameters: str = "input") -> Callable[[Activation], Activation]:
    """Register a function of one tensor, which it gets as its second argument."""

    def add(function: Activation) -> Activation:
        lower = operation(*names, parameters=parameters, check=only_floats)
        lower(lambda b, call: function(b, call["input"], call))
        return function

    return add


def _between(b: Builder, x: Value, low: Value | float, high: Value | float) -> Value:
    return b.step("minimum", b.step("maximum", x, low), high)


def _leaky(slope: str) -> Activation:
    return lambda b, x, call: b.step("where", x > 0.0, x, x * call[slope])


_activation("F.relu", *both("relu"), "Tensor.relu_", "torch.relu_", "F.relu_")(
    lambda b, x, call: b.step("maximum", x, 0.0)
)
_activation("F.relu6")(lambda b, x, call: _between(b, x, 0.0, 6.0))
_activation("F.hardtanh", parameters="input, min_val=-1.0, max_val=1.0")(
    lambda b, x, call: _between(b, x, call["min_val"], call["max_val"])
)
_activation("F.leaky_relu", parameters="input, negative_slope=0.01")(_leaky("negative_slope"))
_activation("F.prelu", "torch.prelu", parameters="input, weight")(_leaky("weight"))
_activation("F.silu", "torch.silu")(lambda b, x, call: x * b.step("sigmoid", x))
# https://arxiv.org/abs/1908.08681
_activation("F.mish")(lambda b, x, call: x * b.step("tanh", b.step("softplus", x)))
_activation("F.logsigmoid")(lambda b, x, call: b.step("log_sigmoid", x))
_activation("F.softsign")(lambda b, x, call: x / (abs(x) + 1.0))
_activation("F.tanhshrink")(lambda b, x, call: x - b.step("tanh", x))
_activation("F.hardshrink", *both("hardshrink"), parameters="input, lambd=0.5")(
    lambda b, x, call: b.step("where", abs(x) <= call["lambd"], 0.0, x)
)
_activation("F.softshrink", parameters="input, lambd=0.5")(
    lambda b, x, call: b.step("maximum", x - call["lambd"], 0.0) + b.step("minimum", x + call["lambd"], 0.0)
)
_activation("F.threshold", "torch.threshold", parameters="input, threshold, value")(
    lambda b, x, call: b.step("where", x <= call["threshold"], call["value"], x)
)


@_activation("F.hardsigmoid")
def _hardsigmoid(b: Builder, x: Value, call: Bound) -> Value:
    return _between(b, x + 3.0, 0.0, 6.0) * (1.0 / 6.0)


# https://arxiv.org/abs/1905.02244
_activation("F.hardswish")(lambda b, x, call: x * _hardsigmoid(b, x, call))


@_activation("F.gelu", parameters="input, approximate='none'")
def _gelu(b: Builder, x: Value, call: Bound) -> Value:
    """x·Φ(x), or its tanh form (https://arxiv.org/abs/1606.08415)."""
    if call.plain("approximate") == "none":
        inner = b.step("erf", x * math.sqrt(0.5))
        return x * 0.5 * (inner + 1.0)
    inner = b.step("fma", x * x * x, 0.044715, x) * math.sqrt(2.0 / math.pi)
    return x * 0.5 * (b.step("tanh", inner) + 1.0)


@_activation("F.softplus", parameters="input, beta=1.0, threshold=20.0")
def _softplus(b: Builder, x: Value, call: Bound) -> Value:
    """log(1 + exp(beta·x)) / beta, and x itself where beta·x exceeds the threshold."""
    beta, threshold = call.plain("beta"), call.plain("threshold")
    scaled = x if beta == 1 else x * beta
    soft = b.step("softplus", scaled)
    if beta != 1:
        soft = soft / beta
    return soft if threshold >= 20 else b.step("where", scaled > threshold, x, soft)


def _exponential(b: Builder, x: Value, scale: float, inside: float, outside: float) -> Value:
    negative = b.step("expm1", x if inside == 1 else x * inside) * outside
    positive = x if scale == 1 else x * scale
    return b.step("where", x > 0.0, positive, negative)


_activation("F.elu", "F.elu_", parameters="input, alpha=1.0")(
    lambda b, x, call: _exponential(b, x, 1.0, 1.0, float(call.plain("alpha")))
)


@_activation("F.selu", "torch.selu", "F.selu_", "torch.selu_")
def _selu(b: Builder, x: Value, call: Bound) -> Value:
    """The scaled ELU of https://arxiv.org/abs/1706.02515."""
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return _exponential(b, x, scale, 1.0, scale * alpha)


@_activation("F.celu", "torch.celu", "F.celu_", "torch.celu_", parameters="input, alpha=1.0")
def _celu(b: Builder, x: Value, call: Bound) -> Value:
    alpha = float(call.plain("alpha"))
    return _exponential(b, x, 1.0, 1.0 / alpha, alpha)
