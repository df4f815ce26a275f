"""Values inside a kernel, and the builder that collects the steps that make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from stark_lsp.playbook.spec import COUNT, Step

HALF = ("float16", "bfloat16")
"""dtypes that torch computes in float32 inside one operation."""
FLOATS = ("float64", "float32", *HALF)
_COMPARISONS = frozenset(["lt", "le", "gt", "ge", "eq", "ne"])
_LOGIC = frozenset(["logical_and", "logical_or", "logical_not"])


def _operator(op: str) -> Callable[[Value, Value | float], Value]:
    return lambda one, other: one.builder.step(op, one, other)


@dataclass(frozen=True)
class Value:
    """A value inside a kernel: a step, an operand or a number. Its operators append a step each."""

    what: str | float | int | bool
    """Name of a step or operand, or the number itself."""
    dtype: str
    """dtype by torch's rules; for a number `int`, `float` or `bool` as Python has it."""
    builder: Builder = field(repr=False, compare=False)
    reduced: bool = False

    @property
    def is_number(self) -> bool:
        """Whether it is a Python number, which does not promote a tensor's dtype within its kind."""
        return not isinstance(self.what, str) or self.what.startswith("@")

    __add__ = _operator("add")
    __sub__ = _operator("sub")
    __mul__ = _operator("mul")
    __truediv__ = _operator("div")
    __lt__ = _operator("lt")
    __le__ = _operator("le")
    __gt__ = _operator("gt")

    def __rsub__(self, other: float) -> Value:
        return self.builder.step("sub", other, self)

    def __neg__(self) -> Value:
        return self.builder.step("neg", self)

    def __abs__(self) -> Value:
        return self.builder.step("abs", self)


class Builder:
    """Collects the steps of a kernel."""

    def __init__(self, names: set[str]) -> None:
        self.steps: list[Step] = []
        self.compute = "float32"
        """dtype in which the operation that is written now computes, where a step does not say another."""
        self._taken = set(names)

    def value(self, what: str | float, dtype: str = "") -> Value:
        """Return an operand, or a number, whose dtype is its Python type."""
        return Value(what, dtype or type(what).__name__, self)

    def step(self, op: str, *args: Value | float, dtype: str | None = None) -> Value:
        """Append one primitive; arguments of other kinds of numbers are converted as torch does."""
        values = [a if isinstance(a, Value) else self.value(a) for a in args]
        target = dtype or self.compute
        if op in _COMPARISONS:
            values = self._common(values)
            target = "bool"
        elif op in _LOGIC:
            values = [self._as(v, "bool") for v in values]
            target = "bool"
        elif op == "where":
            values = [self._as(values[0], "bool"), *(self._as(v, target) for v in values[1:])]
        elif op in ("isnan", "isinf"):
            target = "bool"
        elif op not in ("cast", "identity"):
            values = [self._as(v, target) for v in values]
        reduced = any(v.reduced for v in values) and all(v.reduced or v.is_number for v in values)
        return self._append(op, values, target, reduced)

    def reduce(self, op: str, value: Value, dtype: str | None = None) -> Value:
        """Append a reduction over the kernel's reduce dims."""
        target = dtype or self.compute
        return self._append(op, [self._as(value, target)], target, True)

    def count(self) -> Value:
        """Return the number of elements a reduction runs over."""
        return self.value(COUNT, "int")

    def mean(self, value: Value) -> Value:
        """Return the mean over the kernel's reduce dims."""
        return self.reduce("sum", value) / self.count()

    def rename(self, value: Value, wish: str) -> Value:
        """Give the last step a name the user knows."""
        if not self.steps or self.steps[-1].name != value.what or wish in self._taken:
            return value
        self.steps[-1] = replace(self.steps[-1], name=wish)
        self._taken.add(wish)
        return replace(value, what=wish)

    def _append(self, op: str, values: list[Value], dtype: str, reduced: bool) -> Value:
        number = len(self.steps)
        while f"t{number}" in self._taken:
            number += 1
        name = f"t{number}"
        self._taken.add(name)
        self.steps.append(Step(name, op, tuple(v.what for v in values), dtype))
        return Value(name, dtype, self, reduced)

    def _as(self, value: Value, dtype: str) -> Value:
        if value.is_number or value.dtype == dtype:
            return value
        if value.dtype in HALF and dtype in FLOATS and dtype != "float64":
            return value  # read as float32 anyway
        if dtype in HALF and value.dtype == "float32":
            return value  # rounded when the step is done
        if dtype == "bool":
            return self.step("ne", value, 0)
        return self.step("cast", value, dtype="float32" if dtype in HALF else dtype)

    def _common(self, values: list[Value]) -> list[Value]:
        floats = [v for v in values if v.dtype in FLOATS]
        if floats:
            wide = "float64" if any(v.dtype == "float64" for v in floats) else "float32"
            return [self._as(v, wide) for v in values]
        whole = [v for v in values if not v.is_number and v.dtype != "bool"]
        if any(v.dtype == "float" for v in values):
            return [self._as(v, "float32") for v in values]
        return [self._as(v, "int64") for v in values] if whole or len({v.dtype for v in values}) > 1 else values
