"""Sums, means, extrema, variances and norms over any dims."""

from __future__ import annotations

import math
from typing import Any

from stark_lsp.playbook.canonical.registry import FLOATS, Bound, Build, Unsupported, Value, operation


def dims_of(call: Bound, name: str = "dim", tensor: str = "input") -> tuple[int, ...]:
    """Return the reduced dims of a call, non-negative and ascending; all dims for None or ()."""
    rank = len(call.metas[tensor].shape)
    dim: Any = call.plain(name)
    if dim is None or dim == ():
        return tuple(range(rank))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if not all(isinstance(d, int) and not isinstance(d, bool) for d in dims):
        raise Unsupported("named dims")
    return tuple(sorted({d % rank if rank else 0 for d in dims}))


def check_reduction(call: Bound) -> None:
    """Refuse scalars and results that are not numbers."""
    if not call.metas["input"].shape or call.metas["input"].numel == 0:
        raise Unsupported("of a single value")


def check_float(call: Bound) -> None:
    """Refuse whole numbers."""
    check_reduction(call)
    if call.result.dtype not in FLOATS or call.metas["input"].dtype not in FLOATS:
        raise Unsupported("of whole numbers")


def check_numbers(call: Bound) -> None:
    """Refuse switches (a sum of switches counts them, which is rare enough)."""
    check_reduction(call)
    if call.metas["input"].dtype == "bool":
        raise Unsupported("of switches")


def finish(b: Build, value: Value, call: Bound) -> Value:
    """Round to the result's dtype where the inside was computed in a wider one."""
    return value if value.dtype == call.result.dtype else b.step("cast", value, dtype=call.result.dtype)


def mean_of(b: Build, x: Value, t: str) -> Value:
    """Σx / n."""
    return b.step("div", b.reduce("sum", x, dtype=t), b.count(), dtype=t)


def deviations(b: Build, x: Value, t: str) -> tuple[Value, Value]:
    """Return mean and x − mean: the variance is taken in a second pass, which does not cancel."""
    mean = mean_of(b, x, t)
    return mean, b.step("sub", x, mean, dtype=t)


def _names(name: str) -> tuple[str, ...]:
    return (f"torch.{name}", f"Tensor.{name}")


@operation(*_names("sum"), parameters="input, dim=None, keepdim=False, dtype=None", dims=dims_of, keeps_shape=False,
           check=check_numbers)  # fmt: skip
def _sum(b: Build, call: Bound) -> Value:
    return finish(b, b.reduce("sum", call["input"], dtype=call.compute), call)


@operation(*_names("mean"), parameters="input, dim=None, keepdim=False, dtype=None", dims=dims_of, keeps_shape=False,
           check=check_float)  # fmt: skip
def _mean(b: Build, call: Bound) -> Value:
    return finish(b, mean_of(b, call["input"], call.compute), call)


@operation(*_names("amax"), parameters="input, dim=None, keepdim=False", dims=dims_of, keeps_shape=False,
           check=check_numbers)  # fmt: skip
def _amax(b: Build, call: Bound) -> Value:
    return b.reduce("amax", call["input"], dtype=call.result.dtype)


@operation(*_names("amin"), parameters="input, dim=None, keepdim=False", dims=dims_of, keeps_shape=False,
           check=check_numbers)  # fmt: skip
def _amin(b: Build, call: Bound) -> Value:
    return b.reduce("amin", call["input"], dtype=call.result.dtype)


def _extremum_all(op: str) -> None:
    """torch.max(x), x.max(dim) (values only: the positions of the extrema must not be used)."""

    def lower(b: Build, call: Bound) -> Value:
        return b.reduce(f"a{op}", call["input"], dtype=call.result.dtype)

    def check(call: Bound) -> None:
        check_numbers(call)
        if not (call.plain("dim") is None or isinstance(call.plain("dim"), int)):
            raise Unsupported("of two tensors")

    operation(*_names(op), parameters="input, dim=None, keepdim=False", dims=dims_of, keeps_shape=False, check=check,
              word=f"a{op}")(lower)  # fmt: skip


_extremum_all("max")
_extremum_all("min")


@operation(*_names("prod"), parameters="input, dim=None, keepdim=False, dtype=None", dims=dims_of, keeps_shape=False,
           check=check_float)  # fmt: skip
def _prod(b: Build, call: Bound) -> Value:
    return finish(b, b.reduce("prod", call["input"], dtype=call.compute), call)


def _correction(call: Bound) -> float:
    if call.has("unbiased"):
        unbiased = call.plain("unbiased")
        return 1.0 if unbiased else 0.0
    return float(call.plain("correction")) if call.has("correction") else 1.0


def _variance_dims(call: Bound) -> tuple[int, ...]:
    if isinstance(call.values["dim"], bool):  # x.var(False): the second parameter may be `unbiased`
        raise Unsupported("var(unbiased)")
    return dims_of(call)


def variance(b: Build, call: Bound) -> Value:
    """Σ(x − mean)² / max(n − correction, 0)."""
    t = call.compute
    _, apart = deviations(b, call["input"], t)
    total = b.reduce("sum", b.step("mul", apart, apart, dtype=t), dtype=t)
    correction = _correction(call)
    freedom = (
        b.count() if not correction else b.step("maximum", b.step("sub", b.count(), correction, dtype=t), 0.0, dtype=t)
    )
    return b.step("div", total, freedom, dtype=t)


@operation(*_names("var"), parameters="input, dim=None, unbiased=None, keepdim=False, correction=None",
           dims=_variance_dims, keeps_shape=False, check=check_float)  # fmt: skip
def _var(b: Build, call: Bound) -> Value:
    return finish(b, variance(b, call), call)


@operation(*_names("std"), parameters="input, dim=None, unbiased=None, keepdim=False, correction=None",
           dims=_variance_dims, keeps_shape=False, check=check_float)  # fmt: skip
def _std(b: Build, call: Bound) -> Value:
    return finish(b, b.step("sqrt", variance(b, call), dtype=call.compute), call)


def log_sum_exp(b: Build, x: Value, t: str) -> tuple[Value, Value]:
    """Return the row's shift and log Σ exp(x − shift); the shift is its maximum, or 0 where that is not finite."""
    top = b.reduce("amax", x, dtype=t)
    shift = b.step("where", b.step("isinf", top, dtype="bool"), 0.0, top, dtype=t)
    total = b.reduce("sum", b.step("exp", b.step("sub", x, shift, dtype=t), dtype=t), dtype=t)
    return shift, b.step("log", total, dtype=t)


@operation("torch.logsumexp", "Tensor.logsumexp", "torch.special.logsumexp", parameters="input, dim, keepdim=False",
           dims=dims_of, keeps_shape=False, check=check_float, kernels=4)  # fmt: skip
def _logsumexp(b: Build, call: Bound) -> Value:
    shift, log = log_sum_exp(b, call["input"], call.compute)
    return b.step("add", log, shift, dtype=call.result.dtype)


def norm_of(b: Build, x: Value, p: float, t: str) -> Value:
    """(Σ|x|^p)^(1/p) for p = 1, 2, ∞, −∞ and any other positive p."""
    size = b.step("abs", x, dtype=t)
    if p == 2:
        return b.step("sqrt", b.reduce("sum", b.step("mul", x, x, dtype=t), dtype=t), dtype=t)
    if p == 1:
        return b.reduce("sum", size, dtype=t)
    if p == math.inf:
        return b.reduce("amax", size, dtype=t)
    if p == -math.inf:
        return b.reduce("amin", size, dtype=t)
    if p <= 0:
        raise Unsupported(f"norm of order {p}")
    return b.step("pow", b.reduce("sum", b.step("pow", size, p, dtype=t), dtype=t), 1.0 / p, dtype=t)


def order_of(call: Bound, name: str) -> float:
    """Return the order of a norm; "fro" and None are 2."""
    order = call.plain(name)
    if order in (None, "fro"):
        return 2.0
    if isinstance(order, str):
        raise Unsupported(f"norm {order}")
    return float(order)


def _norm(name: str, *more: str, order: str, default: str) -> None:
    """Register a norm whose order is an argument."""

    def check(call: Bound) -> None:
        check_float(call)
        order_of(call, order)
        dim = call.plain("dim")
        of_matrices = dim is None or (isinstance(dim, tuple) and len(dim) > 1)
        if name == "torch.linalg.norm" and of_matrices and call.has(order):
            raise Unsupported("a matrix norm")

    def lower(b: Build, call: Bound) -> Value:
        return finish(b, norm_of(b, call["input"], order_of(call, order), call.compute), call)

    parameters = f"input, {order}={default}, dim=None, keepdim=False, dtype=None"
    operation(name, *more, parameters=parameters, dims=dims_of, keeps_shape=False, check=check, word="norm")(lower)


_norm("torch.norm", "Tensor.norm", order="p", default="'fro'")
_norm("torch.linalg.vector_norm", order="ord", default="2")
_norm("torch.linalg.norm", order="ord", default="None")
