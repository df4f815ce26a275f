"""Sums, means, extrema, variances and norms over any dims."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from stark_lsp.playbook.canonical.builder import FLOATS, Builder, Value
from stark_lsp.playbook.canonical.registry import Bound, Lower, Unsupported, both, operation


def dims_of(call: Bound, tensor: str = "input") -> tuple[int, ...]:
    """Return the reduced dims of a call, non-negative and ascending; all dims for None or ()."""
    rank = len(call.metas[tensor].shape)
    dim: Any = call.plain("dim")
    if isinstance(dim, bool):  # x.var(False): the second parameter may be `unbiased`
        raise Unsupported("of a switch")
    if dim is None or dim == ():
        return tuple(range(rank))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if not all(isinstance(d, int) and not isinstance(d, bool) for d in dims):
        raise Unsupported("named dims")
    return tuple(sorted({d % rank if rank else 0 for d in dims}))


def _check_numbers(call: Bound) -> None:
    """Refuse single values, and switches (a sum of switches counts them, which is rare enough)."""
    source = call.metas["input"]
    if not source.shape or source.numel == 0 or source.dtype == "bool":
        raise Unsupported("of a single value or of switches")


def check_float(call: Bound) -> None:
    """Refuse single values and whole numbers."""
    _check_numbers(call)
    if call.result.dtype not in FLOATS or call.metas["input"].dtype not in FLOATS:
        raise Unsupported("of whole numbers")


def _check_extremum(call: Bound) -> None:
    """Refuse `max(x, y)`; of `max(x, dim)` values only: the positions of the extrema must not be used."""
    _check_numbers(call)
    if not (call.plain("dim") is None or isinstance(call.plain("dim"), int)):
        raise Unsupported("of two tensors")


def deviations(b: Builder, x: Value) -> Value:
    """Return x − mean: the variance is taken in a second pass, which does not cancel."""
    return x - b.mean(x)


def _reduction(
    *names: str,
    lower: Lower,
    parameters: str = "input, dim=None, keepdim=False, dtype=None",
    check: Callable[[Bound], None] = check_float,
    **options: Any,
) -> None:
    operation(*names, parameters=parameters, dims=dims_of, keeps_shape=False, check=check, **options)(lower)


def _extremum(op: str) -> Lower:
    return lambda b, call: b.reduce(op, call["input"], dtype=call.result.dtype)


_reduction(*both("sum"), lower=lambda b, call: b.reduce("sum", call["input"]), check=_check_numbers)
_reduction(*both("mean"), lower=lambda b, call: b.mean(call["input"]))
_reduction(*both("prod"), lower=lambda b, call: b.reduce("prod", call["input"]))
for _op in ("amax", "amin"):
    _reduction(*both(_op), lower=_extremum(_op), parameters="input, dim=None, keepdim=False", check=_check_numbers)
    _reduction(*both(_op[1:]), lower=_extremum(_op), parameters="input, dim=None, keepdim=False", check=_check_extremum,
               word=_op)  # fmt: skip


def _variance(b: Builder, call: Bound) -> Value:
    """Σ(x − mean)² / max(n − correction, 0)."""
    apart = deviations(b, call["input"])
    total = b.reduce("sum", apart * apart)
    if call.has("unbiased"):
        correction = 1.0 if call.plain("unbiased") else 0.0
    else:
        correction = float(call.plain("correction")) if call.has("correction") else 1.0
    return total / (b.step("maximum", b.count() - correction, 0.0) if correction else b.count())


_OF_VARIANCE = "input, dim=None, unbiased=None, keepdim=False, correction=None"
_reduction(*both("var"), lower=_variance, parameters=_OF_VARIANCE)
_reduction(*both("std"), lower=lambda b, call: b.step("sqrt", _variance(b, call)), parameters=_OF_VARIANCE)


def _logsumexp(b: Builder, call: Bound) -> Value:
    """Moved by the row's maximum, or by 0 where that is not finite."""
    x = call["input"]
    top = b.reduce("amax", x)
    shift = b.step("where", b.step("isinf", top), 0.0, top)
    total = b.reduce("sum", b.step("exp", x - shift))
    return b.step("add", b.step("log", total), shift, dtype=call.result.dtype)


_reduction(*both("logsumexp"), "torch.special.logsumexp", lower=_logsumexp, parameters="input, dim, keepdim=False",
           kernels=4)  # fmt: skip


def norm_of(b: Builder, x: Value, p: float) -> Value:
    """(Σ|x|^p)^(1/p) for p = 1, 2, ∞, −∞ and any other positive p."""
    size = abs(x)
    if p == 2:
        return b.step("sqrt", b.reduce("sum", x * x))
    if p == 1:
        return b.reduce("sum", size)
    if math.isinf(p):
        return b.reduce("amax" if p > 0 else "amin", size)
    return b.step("pow", b.reduce("sum", b.step("pow", size, p)), 1.0 / p)


def order_of(call: Bound, name: str) -> float:
    """Return the order of a norm; "fro" and None are 2."""
    order = call.plain(name)
    if order in (None, "fro"):
        return 2.0
    if isinstance(order, str) or -math.inf < order <= 0:
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

    _reduction(name, *more, lower=lambda b, call: norm_of(b, call["input"], order_of(call, order)),
               parameters=f"input, {order}={default}, dim=None, keepdim=False, dtype=None", check=check,
               word="norm")  # fmt: skip


_norm("torch.norm", "Tensor.norm", order="p", default="'fro'")
_norm("torch.linalg.vector_norm", order="ord", default="2")
_norm("torch.linalg.norm", order="ord", default="None")
