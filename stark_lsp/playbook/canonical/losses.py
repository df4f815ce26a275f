"""Losses: a pointwise error, then nothing, a sum or a mean over everything."""

from __future__ import annotations

from collections.abc import Callable

from stark_lsp.playbook.canonical.builder import FLOATS, Builder, Value
from stark_lsp.playbook.canonical.registry import Bound, Unsupported, operation

Error = Callable[[Builder, Value, Value, Bound], Value]


def _check(call: Bound) -> None:
    shapes = {meta.shape for name, meta in call.metas.items() if name in ("input", "target", "var")}
    if len(shapes) != 1 or call.result.dtype not in FLOATS:
        raise Unsupported("of different shapes")
    if call.plain("reduction") not in ("none", "mean", "sum"):
        raise Unsupported(f"reduction {call.plain('reduction')}")


def _dims(call: Bound) -> tuple[int, ...] | None:
    return None if call.plain("reduction") == "none" else tuple(range(len(call.metas["input"].shape)))


def _loss(name: str, parameters: str = "input, target, reduction='mean'") -> Callable[[Error], Error]:
    """Register a loss by its error, a function of input and target."""

    def add(error: Error) -> Error:
        def lower(b: Builder, call: Bound) -> Value:
            value = error(b, call["input"], call["target"], call)
            if call.plain("reduction") == "none":
                return value
            return b.reduce("sum", value) if call.plain("reduction") == "sum" else b.mean(value)

        # Whether the shape is kept depends on the call; `regions` asks `dims` first.
        operation(name, parameters=parameters, dims=_dims, keeps_shape=False, keepdim=lambda call: False, check=_check,
                  kernels=2)(lower)  # fmt: skip
        return error

    return add


_loss("F.l1_loss")(lambda b, x, y, call: abs(x - y))
_loss("F.soft_margin_loss")(lambda b, x, y, call: b.step("softplus", -(y * x)))


@_loss("F.mse_loss")
def _squared(b: Builder, x: Value, y: Value, call: Bound) -> Value:
    gap = x - y
    return gap * gap


@_loss("F.smooth_l1_loss", "input, target, reduction='mean', beta=1.0")
def _smooth_l1(b: Builder, x: Value, y: Value, call: Bound) -> Value:
    beta = float(call.plain("beta"))
    gap = abs(x - y)
    if beta == 0:
        return gap
    inside = gap * 0.5 * gap / beta
    return b.step("where", gap < beta, inside, gap - 0.5 * beta)


@_loss("F.huber_loss", "input, target, reduction='mean', delta=1.0")
def _huber(b: Builder, x: Value, y: Value, call: Bound) -> Value:
    delta = float(call.plain("delta"))
    gap = abs(x - y)
    inside, outside = gap * 0.5 * gap, (gap - 0.5 * delta) * delta
    return b.step("where", gap <= delta, inside, outside)


@_loss("F.binary_cross_entropy_with_logits", "input, target, weight=None, reduction='mean', pos_weight=None")
def _bce_with_logits(b: Builder, x: Value, y: Value, call: Bound) -> Value:
    """(1 − y)·x − log σ(x)·(1 + (pos_weight − 1)·y), stable for large |x|."""
    log = b.step("log_sigmoid", x)
    if call.has("pos_weight"):
        log = log * ((call["pos_weight"] - 1.0) * y + 1.0)
    value = (1.0 - y) * x - log
    return value * call["weight"] if call.has("weight") else value


@_loss("F.binary_cross_entropy", "input, target, weight=None, reduction='mean'")
def _binary_cross_entropy(b: Builder, x: Value, y: Value, call: Bound) -> Value:
    """−y·log x − (1 − y)·log(1 − x), each logarithm not below −100."""
    yes = b.step("maximum", b.step("log", x), -100.0)
    no = b.step("maximum", b.step("log1p", -x), -100.0)
    value = (y - 1.0) * no - y * yes
    return value * call["weight"] if call.has("weight") else value


@_loss("F.kl_div", "input, target, reduction='mean', log_target=False")
def _kl_div(b: Builder, x: Value, y: Value, call: Bound) -> Value:
    """y·(log y − x), where y = 0 gives 0."""
    if call.plain("log_target"):
        return b.step("exp", y) * (y - x)
    value = y * (b.step("log", y) - x)
    return b.step("where", y > 0.0, value, 0.0)
