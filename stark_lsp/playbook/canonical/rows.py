"""Softmax and the normalizations: reductions whose result has the input's shape."""

from __future__ import annotations

from stark_lsp.playbook.canonical.builder import FLOATS, Builder, Value
from stark_lsp.playbook.canonical.reductions import check_float, deviations, dims_of, norm_of, order_of
from stark_lsp.playbook.canonical.registry import Bound, Lower, Unsupported, both, operation


def _softmax_dims(call: Bound) -> tuple[int, ...]:
    if not isinstance(call.plain("dim"), int):
        raise Unsupported("softmax without a dim")
    return dims_of(call)


def _softmax(*names: str, lower: Lower, kernels: int = 1) -> None:
    operation(*names, parameters="input, dim=None, dtype=None", dims=_softmax_dims, check=check_float,
              kernels=kernels)(lower)  # fmt: skip


def _shifted(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return x − max x, and the exponential of it."""
    shifted = x - b.reduce("amax", x)
    return shifted, b.step("exp", shifted)


def _weights(b: Builder, x: Value) -> Value:
    _, weight = _shifted(b, x)
    return weight / b.reduce("sum", weight)


def _log_weights(b: Builder, x: Value) -> Value:
    shifted, weight = _shifted(b, x)
    return shifted - b.step("log", b.reduce("sum", weight))


_softmax("F.softmax", *both("softmax"), "torch.special.softmax", lower=lambda b, call: _weights(b, call["input"]))
_softmax("F.softmin", lower=lambda b, call: _weights(b, -call["input"]), kernels=2)
_softmax("F.log_softmax", *both("log_softmax"), "torch.special.log_softmax",
         lower=lambda b, call: _log_weights(b, call["input"]))  # fmt: skip


def _last_dims(call: Bound) -> tuple[int, ...]:
    shape = call.plain("normalized_shape")
    length = 1 if isinstance(shape, int) else len(shape)
    rank = len(call.metas["input"].shape)
    return tuple(range(rank - length, rank))


def _affine(value: Value, call: Bound) -> Value:
    if call.has("weight"):
        value = value * call["weight"]
    return value + call["bias"] if call.has("bias") else value


def _standard(b: Builder, call: Bound) -> Value:
    """Variance in a second pass."""
    apart = deviations(b, call["input"])
    return _affine(apart * b.step("rsqrt", b.mean(apart * apart) + call["eps"]), call)


# https://arxiv.org/abs/1607.06450
operation("F.layer_norm", "torch.layer_norm",
          parameters="input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True",
          dims=_last_dims, check=check_float)(_standard)  # fmt: skip


@operation("F.rms_norm", "torch.rms_norm", parameters="input, normalized_shape, weight=None, eps=None", dims=_last_dims,
           check=check_float, kernels=6)  # fmt: skip
def _rms_norm(b: Builder, call: Bound) -> Value:
    """https://arxiv.org/abs/1910.07467."""
    x = call["input"]
    epsilon = 2.220446049250313e-16 if call.compute == "float64" else 1.1920928955078125e-07
    eps = float(call.plain("eps")) if call.has("eps") else epsilon
    return _affine(x * b.step("rsqrt", b.mean(x * x) + eps), call)


@operation("F.normalize", parameters="input, p=2.0, dim=1, eps=1e-12", dims=dims_of, check=check_float, kernels=3)
def _normalize(b: Builder, call: Bound) -> Value:
    norm = norm_of(b, call["input"], order_of(call, "p"))
    return call["input"] / b.step("maximum", norm, call["eps"])


def _check_batch_norm(call: Bound) -> None:
    if call.plain("training") or not call.has("running_mean") or not call.has("running_var"):
        raise Unsupported("batch statistics")
    if call.result.dtype not in FLOATS or len(call.metas["input"].shape) < 2:
        raise Unsupported("of whole numbers")


@operation("F.batch_norm",
           parameters="input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, "
                      "eps=1e-5",
           check=_check_batch_norm, channel=("running_mean", "running_var", "weight", "bias"))  # fmt: skip
def _batch_norm(b: Builder, call: Bound) -> Value:
    """With running statistics: pointwise (https://arxiv.org/abs/1502.03167)."""
    scale = b.step("rsqrt", call["running_var"] + call["eps"])
    if call.has("weight"):
        scale = scale * call["weight"]
    value = (call["input"] - call["running_mean"]) * scale
    return value + call["bias"] if call.has("bias") else value


def _check_instance_norm(call: Bound) -> None:
    check_float(call)
    if not call.plain("use_input_stats") or call.has("running_mean") or len(call.metas["input"].shape) < 3:
        raise Unsupported("running statistics")


# https://arxiv.org/abs/1607.08022
operation("F.instance_norm",
          parameters="input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, "
                     "momentum=0.1, eps=1e-5",
          dims=lambda call: tuple(range(2, len(call.metas["input"].shape))), check=_check_instance_norm,
          channel=("weight", "bias"), kernels=2)(_standard)  # fmt: skip


def _check_cosine(call: Bound) -> None:
    if call.result.dtype not in FLOATS or call.metas["x1"].shape != call.metas["x2"].shape:
        raise Unsupported("broadcast cosine")


@operation("F.cosine_similarity", "torch.cosine_similarity", parameters="x1, x2, dim=1, eps=1e-8",
           dims=lambda call: dims_of(call, tensor="x1"), keeps_shape=False, keepdim=lambda call: False,
           check=_check_cosine, kernels=6)  # fmt: skip
def _cosine_similarity(b: Builder, call: Bound) -> Value:
    one, other = (b.step("maximum", norm_of(b, call[name], 2), call["eps"]) for name in ("x1", "x2"))
    dot = b.reduce("sum", call["x1"] * call["x2"])
    return dot / (one * other)
