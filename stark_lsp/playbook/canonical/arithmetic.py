"""Arithmetic, comparisons, selection and conversion."""

from __future__ import annotations

from typing import Any

from stark_lsp.playbook.canonical.builder import Builder, Value
from stark_lsp.playbook.canonical.registry import SUPPORTED, Bound, Lower, Unsupported, both, only_floats, operation
from stark_lsp.playbook.graph import DType
from stark_lsp.playbook.spec import POINTWISE


def _primitive(op: str, *names: str, parameters: str, of: str = "", word: str = "", **options: Any) -> None:
    """Register an operation that is one primitive of its arguments, or of those that `of` names in another order."""
    arguments = (of or parameters).split(", ")

    def lower(build: Builder, call: Bound) -> Value:
        return build.step(op, *(call[name] for name in arguments), dtype=call.result.dtype)

    operation(*names, parameters=parameters, word=word or op, **options)(lower)


def _binary(op: str, *names: str, **options: Any) -> None:
    _primitive(op, *names, parameters="input, other", **options)


def _scaled(op: str, reflected: bool = False) -> Lower:
    def lower(build: Builder, call: Bound) -> Value:
        other = call["other"]
        if call.plain("alpha") != 1:
            other = other * call["alpha"]
        pair = (other, call["input"]) if reflected else (call["input"], other)
        return build.step(op, *pair, dtype=call.result.dtype)

    return lower


operation(*both("add"), "Tensor.add_", "Tensor.__iadd__", "Tensor.__add__", "Tensor.__radd__",
          parameters="input, other, alpha=1")(_scaled("add"))  # fmt: skip
operation(*both("sub"), "torch.subtract", "Tensor.subtract", "Tensor.sub_", "Tensor.__isub__", "Tensor.__sub__",
          parameters="input, other, alpha=1")(_scaled("sub"))  # fmt: skip
operation("torch.rsub", "Tensor.__rsub__", parameters="input, other, alpha=1", word="sub")(
    _scaled("sub", reflected=True)
)
_binary("mul", *both("mul"), *both("multiply"), "Tensor.mul_", "Tensor.__imul__", "Tensor.__mul__", "Tensor.__rmul__")
_binary("pow", *both("pow"), "Tensor.__pow__", "Tensor.pow_", "Tensor.__ipow__")
_binary("pow", "Tensor.__rpow__", of="other, input")
_binary("div", "Tensor.__rtruediv__", "Tensor.__rdiv__", of="other, input")
_binary("maximum", *both("maximum"))
_binary("minimum", *both("minimum"))
_binary("remainder", *both("remainder"), "Tensor.__mod__")
_binary("floor_div", *both("floor_divide"), "Tensor.__floordiv__")
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _binary(_name, *both(_name), f"Tensor.__{_name}__")
for _name, _other in (
    ("less", "lt"),
    ("less_equal", "le"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
    ("not_equal", "ne"),
):
    _binary(_other, *both(_name))
_binary("logical_and", *both("logical_and"))
_binary("logical_or", *both("logical_or"))


def _bool_only(call: Bound) -> None:
    if call.result.dtype != "bool":
        raise Unsupported("bits of whole numbers")


_binary("logical_and", *both("bitwise_and"), "Tensor.__and__", check=_bool_only)
_binary("logical_or", *both("bitwise_or"), "Tensor.__or__", check=_bool_only)
_primitive("logical_not", *both("bitwise_not"), "Tensor.__invert__", parameters="input", check=_bool_only)


@operation(*both("div"), *both("divide"), *both("true_divide"), "Tensor.div_", "Tensor.__idiv__",
           "Tensor.__itruediv__", "Tensor.__truediv__", "Tensor.__div__",
           parameters="input, other, rounding_mode=None")  # fmt: skip
def _div(build: Builder, call: Bound) -> Value:
    if call.plain("rounding_mode") == "trunc":
        only_floats(call)
        return build.step("trunc", call["input"] / call["other"], dtype=call.result.dtype)
    op = "div" if call.plain("rounding_mode") is None else "floor_div"
    return build.step(op, call["input"], call["other"], dtype=call.result.dtype)


_ALIASES = {
    "neg": ("torch.negative", "Tensor.negative", "Tensor.__neg__"), "abs": ("torch.absolute", "Tensor.__abs__"),
    "trunc": ("torch.fix",), "atan": ("torch.arctan", "Tensor.arctan"), "erf": ("torch.special.erf",),
    "sigmoid": ("F.sigmoid", "torch.special.expit"), "tanh": ("F.tanh",), "expm1": ("torch.special.expm1",),
    "exp2": ("torch.special.exp2",), "log1p": ("torch.special.log1p",),
}  # fmt: skip
for _name, _count in POINTWISE.items():
    if _count == 1 and _name not in ("softplus", "log_sigmoid", "cast", "identity"):
        _primitive(_name, *both(_name), f"Tensor.{_name}_", *_ALIASES.get(_name, ()), parameters="input")


@operation(*both("clamp"), *both("clip"), "Tensor.clamp_", "Tensor.clip_", parameters="input, min=None, max=None")
def _clamp(build: Builder, call: Bound) -> Value:
    value = call["input"]
    if call.has("min"):
        value = build.step("maximum", value, call["min"], dtype=call.result.dtype)
    if call.has("max"):
        value = build.step("minimum", value, call["max"], dtype=call.result.dtype)
    return value


_primitive("maximum", *both("clamp_min"), "Tensor.clamp_min_", parameters="input, min", word="clamp")
_primitive("minimum", *both("clamp_max"), "Tensor.clamp_max_", parameters="input, max", word="clamp")
_primitive("where", "torch.where", parameters="condition, input, other")
_primitive("where", "Tensor.where", parameters="input, condition, other", of="condition, input, other")
_primitive("where", *both("masked_fill"), "Tensor.masked_fill_", parameters="input, mask, value",
           of="mask, value, input", word="masked_fill")  # fmt: skip


@operation(*both("lerp"), parameters="input, end, weight", check=only_floats)
def _lerp(build: Builder, call: Bound) -> Value:
    # torch switches to end - (end - start)(1 - w) for w >= 0.5; the difference is one rounding.
    return build.step("fma", call["weight"], call["end"] - call["input"], call["input"], dtype=call.result.dtype)


def _with_value(op: str) -> None:
    def lower(build: Builder, call: Bound) -> Value:
        inner = build.step(op, call["tensor1"], call["tensor2"])
        if call.plain("value") != 1:
            inner = inner * call["value"]
        return build.step("add", call["input"], inner, dtype=call.result.dtype)

    operation(*both(f"addc{op}"), parameters="input, tensor1, tensor2, value=1", check=only_floats)(lower)


_with_value("mul")
_with_value("div")


def _supported(call: Bound) -> None:
    if call.result.dtype not in SUPPORTED:
        raise Unsupported(f"to {call.result.dtype}")


def _only_dtype(call: Bound) -> None:
    _supported(call)
    if not isinstance(call.values["dtype"], DType):
        raise Unsupported("to a device")


for _name in ("float", "double", "half", "bfloat16", "bool", "long", "int"):
    _primitive("cast", f"Tensor.{_name}", parameters="input", check=_supported)
_binary("cast", "Tensor.type_as", of="input", check=_supported)
_primitive("cast", "Tensor.to", "Tensor.type", parameters="input, dtype, non_blocking=False, copy=False", of="input",
           check=_only_dtype)  # fmt: skip


def _identity(*names: str, **options: Any) -> None:
    operation(*names, word="identity", **options)(lambda build, call: call["input"])


def _not_training(call: Bound) -> None:
    if call.plain("training") and call.plain("p"):
        raise Unsupported("random")


_identity("Tensor.clone", "torch.clone", "Tensor.contiguous", parameters="input")
_identity("torch.dropout", "F.dropout", "F.dropout1d", "F.dropout2d", "F.dropout3d", "F.alpha_dropout",
          "F.feature_alpha_dropout", parameters="input, p=0.5, training=True", check=_not_training)  # fmt: skip


@operation(*both("nan_to_num"), parameters="input, nan=0.0, posinf=None, neginf=None", check=only_floats)
def _nan_to_num(build: Builder, call: Bound) -> Value:
    limits = {"float64": 1.7976931348623157e308, "float32": 3.4028234663852886e38, "bfloat16": 3.3895313892515355e38,
              "float16": 65504.0}  # fmt: skip
    limit = limits[call.result.dtype]
    x = call["input"]
    high = call.plain("posinf") if call.has("posinf") else limit
    low = call.plain("neginf") if call.has("neginf") else -limit
    nan = call.plain("nan") if call.has("nan") else 0.0
    y = build.step("where", x > limit, float(high), x)
    y = build.step("where", x < -limit, float(low), y)
    return build.step("where", build.step("isnan", x), float(nan), y, dtype=call.result.dtype)
