"""Arithmetic, comparisons, selection and conversion."""

from __future__ import annotations

from collections.abc import Callable

from stark_lsp.playbook.canonical.registry import (
    SUPPORTED,
    Bound,
    Build,
    Unsupported,
    Value,
    only_floats,
    operation,
)  # fmt: skip
from stark_lsp.playbook.graph import DType
from stark_lsp.playbook.spec import POINTWISE


def _same(name: str) -> tuple[str, ...]:
    return (f"torch.{name}", f"Tensor.{name}")


def _binary(op: str, *names: str, word: str = "") -> None:
    def lower(build: Build, call: Bound) -> Value:
        return build.step(op, call["input"], call["other"], dtype=call.result.dtype)

    operation(*names, parameters="input, other", word=word or op)(lower)


def _reflected(op: str, *names: str) -> None:
    def lower(build: Build, call: Bound) -> Value:
        return build.step(op, call["other"], call["input"], dtype=call.result.dtype)

    operation(*names, parameters="input, other", word=op)(lower)


def _scaled(op: str, reflected: bool = False) -> Callable[[Build, Bound], Value]:
    def lower(build: Build, call: Bound) -> Value:
        other = call["other"]
        if call.plain("alpha") != 1:
            other = build.step("mul", other, call["alpha"], dtype=call.compute)
        pair = (other, call["input"]) if reflected else (call["input"], other)
        return build.step(op, *pair, dtype=call.result.dtype)

    return lower


operation(*_same("add"), "Tensor.add_", "Tensor.__iadd__", "Tensor.__add__", "Tensor.__radd__",
          parameters="input, other, alpha=1")(_scaled("add"))  # fmt: skip
operation(*_same("sub"), "torch.subtract", "Tensor.subtract", "Tensor.sub_", "Tensor.__isub__", "Tensor.__sub__",
          parameters="input, other, alpha=1")(_scaled("sub"))  # fmt: skip
operation("torch.rsub", "Tensor.__rsub__", parameters="input, other, alpha=1", word="sub")(
    _scaled("sub", reflected=True)
)
_binary("mul", *_same("mul"), *_same("multiply"), "Tensor.mul_", "Tensor.__imul__", "Tensor.__mul__", "Tensor.__rmul__")
_binary("pow", *_same("pow"), "Tensor.__pow__", "Tensor.pow_", "Tensor.__ipow__")
_reflected("pow", "Tensor.__rpow__")
_reflected("div", "Tensor.__rtruediv__", "Tensor.__rdiv__")
_binary("maximum", *_same("maximum"))
_binary("minimum", *_same("minimum"))
_binary("remainder", *_same("remainder"), "Tensor.__mod__")
_binary("floor_div", *_same("floor_divide"), "Tensor.__floordiv__")
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _binary(_name, *_same(_name), f"Tensor.__{_name}__")
for _name, _other in (
    ("less", "lt"),
    ("less_equal", "le"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
    ("not_equal", "ne"),
):
    _binary(_other, *_same(_name))
_binary("logical_and", *_same("logical_and"))
_binary("logical_or", *_same("logical_or"))


@operation(*_same("div"), *_same("divide"), *_same("true_divide"), "Tensor.div_", "Tensor.__idiv__",
           "Tensor.__itruediv__", "Tensor.__truediv__", "Tensor.__div__",
           parameters="input, other, rounding_mode=None")  # fmt: skip
def _div(build: Build, call: Bound) -> Value:
    rounding = call.plain("rounding_mode")
    if rounding is None:
        return build.step("div", call["input"], call["other"], dtype=call.result.dtype)
    if rounding == "floor":
        return build.step("floor_div", call["input"], call["other"], dtype=call.result.dtype)
    only_floats(call)
    return build.step(
        "trunc", build.step("div", call["input"], call["other"], dtype=call.compute), dtype=call.result.dtype
    )


def _bitwise(op: str, *names: str) -> None:
    def lower(build: Build, call: Bound) -> Value:
        return build.step(op, call["input"], call["other"], dtype="bool")

    operation(*names, parameters="input, other", word=op, check=_bool_only)(lower)


def _bool_only(call: Bound) -> None:
    if call.result.dtype != "bool":
        raise Unsupported("bits of whole numbers")


_bitwise("logical_and", *_same("bitwise_and"), "Tensor.__and__")
_bitwise("logical_or", *_same("bitwise_or"), "Tensor.__or__")


@operation(*_same("bitwise_not"), "Tensor.__invert__", parameters="input", word="logical_not", check=_bool_only)
def _invert(build: Build, call: Bound) -> Value:
    return build.step("logical_not", call["input"], dtype="bool")


_ALIASES = {
    "neg": ("torch.negative", "Tensor.negative", "Tensor.__neg__"), "abs": ("torch.absolute", "Tensor.__abs__"),
    "trunc": ("torch.fix",), "atan": ("torch.arctan", "Tensor.arctan"), "erf": ("torch.special.erf",),
    "sigmoid": ("F.sigmoid", "torch.special.expit"), "tanh": ("F.tanh",), "expm1": ("torch.special.expm1",),
    "exp2": ("torch.special.exp2",), "log1p": ("torch.special.log1p",),
}  # fmt: skip


def _unary(op: str) -> None:
    def lower(build: Build, call: Bound) -> Value:
        return build.step(op, call["input"], dtype=call.result.dtype)

    operation(*_same(op), f"Tensor.{op}_", *_ALIASES.get(op, ()), parameters="input", word=op)(lower)


for _name, _count in POINTWISE.items():
    if _count == 1 and _name not in ("softplus", "log_sigmoid", "cast", "identity"):
        _unary(_name)


@operation(*_same("clamp"), *_same("clip"), "Tensor.clamp_", "Tensor.clip_", parameters="input, min=None, max=None")
def _clamp(build: Build, call: Bound) -> Value:
    value = call["input"]
    if call.has("min"):
        value = build.step("maximum", value, call["min"], dtype=call.result.dtype)
    if call.has("max"):
        value = build.step("minimum", value, call["max"], dtype=call.result.dtype)
    return value


@operation(*_same("clamp_min"), "Tensor.clamp_min_", parameters="input, min", word="clamp")
def _clamp_min(build: Build, call: Bound) -> Value:
    return build.step("maximum", call["input"], call["min"], dtype=call.result.dtype)


@operation(*_same("clamp_max"), "Tensor.clamp_max_", parameters="input, max", word="clamp")
def _clamp_max(build: Build, call: Bound) -> Value:
    return build.step("minimum", call["input"], call["max"], dtype=call.result.dtype)


@operation("torch.where", parameters="condition, input, other")
def _where(build: Build, call: Bound) -> Value:
    return build.step("where", call["condition"], call["input"], call["other"], dtype=call.result.dtype)


@operation("Tensor.where", parameters="input, condition, other")
def _where_method(build: Build, call: Bound) -> Value:
    return build.step("where", call["condition"], call["input"], call["other"], dtype=call.result.dtype)


@operation("Tensor.masked_fill", "torch.masked_fill", "Tensor.masked_fill_", parameters="input, mask, value")
def _masked_fill(build: Build, call: Bound) -> Value:
    return build.step("where", call["mask"], call["value"], call["input"], dtype=call.result.dtype)


@operation(*_same("lerp"), parameters="input, end, weight")
def _lerp(build: Build, call: Bound) -> Value:
    # torch switches to end - (end - start)(1 - w) for w >= 0.5; the difference is one rounding.
    only_floats(call)
    gap = build.step("sub", call["end"], call["input"], dtype=call.compute)
    return build.step("fma", call["weight"], gap, call["input"], dtype=call.result.dtype)


def _with_value(op: str) -> None:
    def lower(build: Build, call: Bound) -> Value:
        inner = build.step(op, call["tensor1"], call["tensor2"], dtype=call.compute)
        if call.plain("value") != 1:
            inner = build.step("mul", inner, call["value"], dtype=call.compute)
        return build.step("add", call["input"], inner, dtype=call.result.dtype)

    operation(*_same(f"addc{op}"), parameters="input, tensor1, tensor2, value=1", check=only_floats)(lower)


_with_value("mul")
_with_value("div")


def _supported(call: Bound) -> None:
    if call.result.dtype not in SUPPORTED:
        raise Unsupported(f"to {call.result.dtype}")


def _convert(build: Build, call: Bound) -> Value:
    return build.step("cast", call["input"], dtype=call.result.dtype)


for _name in ("float", "double", "half", "bfloat16", "bool", "long", "int"):
    operation(f"Tensor.{_name}", parameters="input", word="cast", check=_supported)(_convert)
operation("Tensor.type_as", parameters="input, other", word="cast", check=_supported)(
    lambda build, call: build.step("cast", call["input"], dtype=call.result.dtype)
)


def _only_dtype(call: Bound) -> None:
    _supported(call)
    if not isinstance(call.values["dtype"], DType):
        raise Unsupported("to a device")


operation("Tensor.to", "Tensor.type", parameters="input, dtype, non_blocking=False, copy=False", word="cast",
          check=_only_dtype)(_convert)  # fmt: skip


@operation("Tensor.clone", "torch.clone", "Tensor.detach", "Tensor.contiguous",
           parameters="input", word="identity")  # fmt: skip
def _identity(build: Build, call: Bound) -> Value:
    return call["input"]


def _not_training(call: Bound) -> None:
    if call.plain("training") and call.plain("p"):
        raise Unsupported("random")


for _name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
    operation(f"F.{_name}", *((f"torch.{_name}",) if _name == "dropout" else ()),
              parameters="input, p=0.5, training=True", word="identity", check=_not_training)(_identity)  # fmt: skip


@operation(*_same("nan_to_num"), parameters="input, nan=0.0, posinf=None, neginf=None")
def _nan_to_num(build: Build, call: Bound) -> Value:
    only_floats(call)
    limits = {"float64": 1.7976931348623157e308, "float32": 3.4028234663852886e38, "bfloat16": 3.3895313892515355e38,
              "float16": 65504.0}  # fmt: skip
    limit = limits[call.result.dtype]
    x = call["input"]
    high = call.plain("posinf") if call.has("posinf") else limit
    low = call.plain("neginf") if call.has("neginf") else -limit
    nan = call.plain("nan") if call.has("nan") else 0.0
    compute = call.compute
    y = build.step("where", build.step("gt", x, limit, dtype="bool"), float(high), x, dtype=compute)
    y = build.step("where", build.step("lt", x, -limit, dtype="bool"), float(low), y, dtype=compute)
    return build.step("where", build.step("isnan", x, dtype="bool"), float(nan), y, dtype=call.result.dtype)
