"""Softmax and the normalizations: reductions whose result has the input's shape."""

from __future__ import annotations

from stark_lsp.playbook.canonical.reductions import (
    check_float,
    deviations,
    dims_of,
    finish,
    mean_of,
    norm_of,
)  # fmt: skip
from stark_lsp.playbook.canonical.registry import FLOATS, Bound, Build, Unsupported, Value, operation


def _softmax_dims(call: Bound) -> tuple[int, ...]:
    if not isinstance(call.plain("dim"), int):
        raise Unsupported("softmax without a dim")
    return dims_of(call)


def _soft(b: Build, x: Value, t: str) -> tuple[Value, Value]:
    shifted = b.step("sub", x, b.reduce("amax", x, dtype=t), dtype=t)
    return shifted, b.step("exp", shifted, dtype=t)


def _softmax_with_sign(sign: int):  # type: ignore[no-untyped-def]
    def lower(b: Build, call: Bound) -> Value:
        t = call.compute
        x = call["input"] if sign > 0 else b.step("neg", call["input"], dtype=t)
        _, weight = _soft(b, x, t)
        return finish(b, b.step("div", weight, b.reduce("sum", weight, dtype=t), dtype=t), call)

    return lower


operation("F.softmax", "torch.softmax", "Tensor.softmax", "torch.special.softmax",
          parameters="input, dim=None, dtype=None", dims=_softmax_dims,
          check=check_float)(_softmax_with_sign(1))  # fmt: skip
operation("F.softmin", parameters="input, dim=None, dtype=None", dims=_softmax_dims, check=check_float, kernels=2)(
    _softmax_with_sign(-1)
)


@operation("F.log_softmax", "torch.log_softmax", "Tensor.log_softmax", "torch.special.log_softmax",
           parameters="input, dim=None, dtype=None", dims=_softmax_dims, check=check_float)  # fmt: skip
def _log_softmax(b: Build, call: Bound) -> Value:
    t = call.compute
    shifted, weight = _soft(b, call["input"], t)
    log = b.step("log", b.reduce("sum", weight, dtype=t), dtype=t)
    return finish(b, b.step("sub", shifted, log, dtype=t), call)


def _last_dims(call: Bound) -> tuple[int, ...]:
    shape = call.plain("normalized_shape")
    length = 1 if isinstance(shape, int) else len(shape)
    rank = len(call.metas["input"].shape)
    return tuple(range(rank - length, rank))


def _affine(b: Build, value: Value, call: Bound, t: str) -> Value:
    if call.has("weight"):
        value = b.step("mul", value, call["weight"], dtype=t)
    if call.has("bias"):
        value = b.step("add", value, call["bias"], dtype=t)
    return finish(b, value, call)


def _standard(b: Build, call: Bound, t: str) -> Value:
    _, apart = deviations(b, call["input"], t)
    spread = mean_of(b, b.step("mul", apart, apart, dtype=t), t)
    return b.step("mul", apart, b.step("rsqrt", b.step("add", spread, call["eps"], dtype=t), dtype=t), dtype=t)


@operation("F.layer_norm", "torch.layer_norm",
           parameters="input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True",
           dims=_last_dims, check=check_float)  # fmt: skip
def _layer_norm(b: Build, call: Bound) -> Value:
    """https://arxiv.org/abs/1607.06450, variance in a second pass."""
    return _affine(b, _standard(b, call, call.compute), call, call.compute)


_EPSILON = {
    "float64": 2.220446049250313e-16,
    "float32": 1.1920928955078125e-07,
    "float16": 0.0009765625,
    "bfloat16": 0.0078125,
}


@operation("F.rms_norm", "torch.rms_norm", parameters="input, normalized_shape, weight=None, eps=None", dims=_last_dims,
           check=check_float, kernels=6)  # fmt: skip
def _rms_norm(b: Build, call: Bound) -> Value:
    """https://arxiv.org/abs/1910.07467."""
    t = call.compute
    x = call["input"]
    eps = float(call.plain("eps")) if call.has("eps") else _EPSILON[t]
    square = mean_of(b, b.step("mul", x, x, dtype=t), t)
    value = b.step("mul", x, b.step("rsqrt", b.step("add", square, eps, dtype=t), dtype=t), dtype=t)
    return _affine(b, value, call, t)


@operation("F.normalize", parameters="input, p=2.0, dim=1, eps=1e-12", dims=dims_of, check=check_float, kernels=3)
def _normalize(b: Build, call: Bound) -> Value:
    t = call.compute
    norm = norm_of(b, call["input"], float(call.plain("p")), t)
    return finish(b, b.step("div", call["input"], b.step("maximum", norm, call["eps"], dtype=t), dtype=t), call)


def _check_batch_norm(call: Bound) -> None:
    if call.plain("training") or not call.has("running_mean") or not call.has("running_var"):
        raise Unsupported("batch statistics")
    if call.result.dtype not in FLOATS or len(call.metas["input"].shape) < 2:
        raise Unsupported("of whole numbers")


@operation("F.batch_norm",
           parameters="input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, "
                      "eps=1e-5",
           check=_check_batch_norm, channel=("running_mean", "running_var", "weight", "bias"))  # fmt: skip
def _batch_norm(b: Build, call: Bound) -> Value:
    """With running statistics: pointwise (https://arxiv.org/abs/1502.03167)."""
    t = call.compute
    scale = b.step("rsqrt", b.step("add", call["running_var"], call["eps"], dtype=t), dtype=t)
    if call.has("weight"):
        scale = b.step("mul", scale, call["weight"], dtype=t)
    apart = b.step("sub", call["input"], call["running_mean"], dtype=t)
    value = b.step("mul", apart, scale, dtype=t)
    if call.has("bias"):
        value = b.step("add", value, call["bias"], dtype=t)
    return finish(b, value, call)


def _spatial_dims(call: Bound) -> tuple[int, ...]:
    return tuple(range(2, len(call.metas["input"].shape)))


def _check_instance_norm(call: Bound) -> None:
    check_float(call)
    if not call.plain("use_input_stats") or call.has("running_mean") or len(call.metas["input"].shape) < 3:
        raise Unsupported("running statistics")


@operation("F.instance_norm",
           parameters="input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, "
                      "momentum=0.1, eps=1e-5",
           dims=_spatial_dims, check=_check_instance_norm, channel=("weight", "bias"), kernels=2)  # fmt: skip
def _instance_norm(b: Build, call: Bound) -> Value:
    """https://arxiv.org/abs/1607.08022."""
    return _affine(b, _standard(b, call, call.compute), call, call.compute)


def _check_cosine(call: Bound) -> None:
    if call.result.dtype not in FLOATS or call.metas["x1"].shape != call.metas["x2"].shape:
        raise Unsupported("broadcast cosine")


@operation("F.cosine_similarity", "torch.cosine_similarity", parameters="x1, x2, dim=1, eps=1e-8",
           dims=lambda call: dims_of(call, tensor="x1"), keeps_shape=False, keepdim=lambda call: False,
           check=_check_cosine, kernels=6)  # fmt: skip
def _cosine_similarity(b: Build, call: Bound) -> Value:
    t = call.compute
    lengths = [b.step("maximum", norm_of(b, call[name], 2, t), call["eps"], dtype=t) for name in ("x1", "x2")]
    dot = b.reduce("sum", b.step("mul", call["x1"], call["x2"], dtype=t), dtype=t)
    return finish(b, b.step("div", dot, b.step("mul", *lengths, dtype=t), dtype=t), call)
