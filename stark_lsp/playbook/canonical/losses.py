"""Losses: a pointwise error, then nothing, a sum or a mean over everything."""

from __future__ import annotations

from collections.abc import Callable

from stark_lsp.playbook.canonical.reductions import finish, mean_of
from stark_lsp.playbook.canonical.registry import FLOATS, Bound, Build, Unsupported, Value, operation

Error = Callable[[Build, Bound, str], Value]


def _check(call: Bound) -> None:
    shapes = {meta.shape for name, meta in call.metas.items() if name in ("input", "target", "var")}
    if len(shapes) != 1 or call.result.dtype not in FLOATS:
        raise Unsupported("of different shapes")
    if call.plain("reduction") not in ("none", "mean", "sum"):
        raise Unsupported(f"reduction {call.plain('reduction')}")


def _dims(call: Bound) -> tuple[int, ...] | None:
    return None if call.plain("reduction") == "none" else tuple(range(len(call.metas["input"].shape)))


def _loss(name: str, parameters: str) -> Callable[[Error], Error]:
    def add(error: Error) -> Error:
        def lower(b: Build, call: Bound) -> Value:
            t = call.compute
            value = error(b, call, t)
            if call.plain("reduction") == "sum":
                value = b.reduce("sum", value, dtype=t)
            elif call.plain("reduction") == "mean":
                value = mean_of(b, value, t)
            return finish(b, value, call)

        # Whether the shape is kept depends on the call; `regions` asks `dims` first.
        operation(name, parameters=parameters, dims=_dims, keeps_shape=False, keepdim=lambda call: False, check=_check,
                  kernels=2)(lower)  # fmt: skip
        return error

    return add


def _gap(b: Build, call: Bound, t: str) -> Value:
    return b.step("sub", call["input"], call["target"], dtype=t)


@_loss("F.mse_loss", "input, target, reduction='mean'")
def mse_loss(b: Build, call: Bound, t: str) -> Value:
    """(x − y)²."""
    gap = _gap(b, call, t)
    return b.step("mul", gap, gap, dtype=t)


@_loss("F.l1_loss", "input, target, reduction='mean'")
def l1_loss(b: Build, call: Bound, t: str) -> Value:
    """|x − y|."""
    return b.step("abs", _gap(b, call, t), dtype=t)


@_loss("F.smooth_l1_loss", "input, target, reduction='mean', beta=1.0")
def smooth_l1_loss(b: Build, call: Bound, t: str) -> Value:
    """½d²/beta for |d| < beta, |d| − ½beta otherwise."""
    beta = float(call.plain("beta"))
    gap = b.step("abs", _gap(b, call, t), dtype=t)
    if beta == 0:
        return gap
    inside = b.step("div", b.step("mul", b.step("mul", gap, 0.5, dtype=t), gap, dtype=t), beta, dtype=t)
    return b.step(
        "where", b.step("lt", gap, beta, dtype="bool"), inside, b.step("sub", gap, 0.5 * beta, dtype=t), dtype=t
    )


@_loss("F.huber_loss", "input, target, reduction='mean', delta=1.0")
def huber_loss(b: Build, call: Bound, t: str) -> Value:
    """½d² for |d| < delta, delta·(|d| − ½delta) otherwise."""
    delta = float(call.plain("delta"))
    gap = b.step("abs", _gap(b, call, t), dtype=t)
    inside = b.step("mul", b.step("mul", gap, 0.5, dtype=t), gap, dtype=t)
    outside = b.step("mul", b.step("sub", gap, 0.5 * delta, dtype=t), delta, dtype=t)
    return b.step("where", b.step("le", gap, delta, dtype="bool"), inside, outside, dtype=t)


@_loss("F.binary_cross_entropy_with_logits", "input, target, weight=None, reduction='mean', pos_weight=None")
def bce_with_logits(b: Build, call: Bound, t: str) -> Value:
    """(1 − y)·x − log σ(x)·(1 + (pos_weight − 1)·y), stable for large |x|."""
    x, y = call["input"], call["target"]
    log = b.step("log_sigmoid", x, dtype=t)
    if call.has("pos_weight"):
        extra = b.step("mul", b.step("sub", call["pos_weight"], 1.0, dtype=t), y, dtype=t)
        log = b.step("mul", log, b.step("add", extra, 1.0, dtype=t), dtype=t)
    value = b.step("sub", b.step("mul", b.step("sub", 1.0, y, dtype=t), x, dtype=t), log, dtype=t)
    return b.step("mul", value, call["weight"], dtype=t) if call.has("weight") else value


@_loss("F.binary_cross_entropy", "input, target, weight=None, reduction='mean'")
def binary_cross_entropy(b: Build, call: Bound, t: str) -> Value:
    """−y·log x − (1 − y)·log(1 − x), each logarithm not below −100."""
    x, y = call["input"], call["target"]
    yes = b.step("maximum", b.step("log", x, dtype=t), -100.0, dtype=t)
    no = b.step("maximum", b.step("log1p", b.step("neg", x, dtype=t), dtype=t), -100.0, dtype=t)
    value = b.step(
        "sub", b.step("mul", b.step("sub", y, 1.0, dtype=t), no, dtype=t), b.step("mul", y, yes, dtype=t), dtype=t
    )
    return b.step("mul", value, call["weight"], dtype=t) if call.has("weight") else value


@_loss("F.kl_div", "input, target, reduction='mean', log_target=False")
def kl_div(b: Build, call: Bound, t: str) -> Value:
    """y·(log y − x), where y = 0 gives 0."""
    x, y = call["input"], call["target"]
    if call.plain("log_target"):
        return b.step("mul", b.step("exp", y, dtype=t), b.step("sub", y, x, dtype=t), dtype=t)
    value = b.step("mul", y, b.step("sub", b.step("log", y, dtype=t), x, dtype=t), dtype=t)
    return b.step("where", b.step("gt", y, 0.0, dtype="bool"), value, 0.0, dtype=t)


@_loss("F.soft_margin_loss", "input, target, reduction='mean'")
def soft_margin_loss(b: Build, call: Bound, t: str) -> Value:
    """log(1 + exp(−y·x)), stable."""
    return b.step("softplus", b.step("neg", b.step("mul", call["target"], call["input"], dtype=t), dtype=t), dtype=t)
