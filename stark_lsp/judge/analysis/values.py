"""Python numbers that remember where they came from.

A size read from a tensor, or a number read from a module, is given to the user's `forward` as one of
these instead of a plain number. They compute like numbers and keep an expression, so that the
rewritten `forward` can stay as general as the original one. Whenever a plain fact leaves them (a
comparison, a loop count, an index), the fact is noted as an assumption.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

Expr = list[Any]
"""`["node", id]`, `["self", path]`, `["input", path]`, `["const", number]`, `[symbol, a, b]` or `["math", name, a]`."""

Note = Callable[[Expr, str, Any], None]
"""Called with an expression, a relation and the other side: this held when the module was recorded."""


def expr_of(value: Any) -> Expr:
    """Return the expression of a tracked or plain number."""
    if isinstance(value, (TracedInt, TracedFloat)):
        return value.expr
    return ["const", value]


def plain(value: Any) -> Any:
    """Return the plain number behind a tracked one; anything else as it is."""
    if isinstance(value, TracedInt):
        return int.__int__(value)
    if isinstance(value, TracedFloat):
        return float.__float__(value)
    return value


def fact(value: Any) -> Any:
    """Return the plain number behind a tracked one, on which the code relies from now on; anything else as it is."""
    return value.fact() if isinstance(value, (TracedInt, TracedFloat)) else value


def track(value: Any, expr: Expr, note: Note) -> Any:
    """Return `value` as a tracked number; booleans and non-numbers stay as they are."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (TracedInt if isinstance(value, int) else TracedFloat)(value, expr, note)
    return value


_BINARY = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_FACTS = ("and", "or", "xor", "lshift", "rshift")


def _binary(name: str, symbol: str, reflected: bool) -> Callable[[Any, Any], Any]:
    compute = getattr(operator, name)

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            if isinstance(other, (list, tuple, str)) and name == "mul":
                return compute(other, self.fact())
            return NotImplemented
        left, right = (other, self) if reflected else (self, other)
        result = compute(plain(left), plain(right))
        return track(result, [symbol, expr_of(left), expr_of(right)], self.note)

    return method


def _compare(name: str, symbol: str) -> Callable[[Any, Any], Any]:
    compute = getattr(operator, name)

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        result = compute(plain(self), plain(other))
        self.note([symbol, self.expr, expr_of(other)], "is", result)
        return result

    return method


def _fact_operation(name: str, reflected: bool) -> Callable[[Any, Any], Any]:
    compute = getattr(operator, f"{name}_" if name in ("and", "or") else name)

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return compute(other, self.fact()) if reflected else compute(self.fact(), fact(other))

    return method


def _fact_function(compute: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args: compute(self.fact(), *args)


class _Tracked:
    """What tracked integers and floats share."""

    expr: Expr
    note: Note

    def __new__(cls, value: Any, expr: Expr, note: Note) -> Any:
        self: Any = super().__new__(cls, value)  # type: ignore[call-arg]
        self.expr, self.note = expr, note
        return self

    def fact(self) -> Any:
        """Return the plain number and note that the code relies on it."""
        value = plain(self)
        self.note(self.expr, "==", value)
        return value

    def __bool__(self) -> bool:
        value = plain(self) != 0
        self.note(["!=", self.expr, ["const", 0]], "is", value)
        return value

    def __neg__(self) -> Any:
        return track(-plain(self), ["-", ["const", 0], self.expr], self.note)

    def __pos__(self) -> Any:
        return self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other  # type: ignore[operator]

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __reduce__(self) -> Any:
        value = self.fact()
        return (type(value), (value,))


# Set here: int and float declare them in ways that no common method fits.
for _function in (hash, int, float, str, repr, format, math.trunc, math.floor, math.ceil, abs, round, operator.invert):
    setattr(_Tracked, f"__{_function.__name__}__", _fact_function(_function))
for _name, _symbol in _BINARY.items():
    setattr(_Tracked, f"__{_name}__", _binary(_name, _symbol, reflected=False))
    setattr(_Tracked, f"__r{_name}__", _binary(_name, _symbol, reflected=True))
for _name, _symbol in _COMPARE.items():
    setattr(_Tracked, f"__{_name}__", _compare(_name, _symbol))
for _name in _FACTS:
    setattr(_Tracked, f"__{_name}__", _fact_operation(_name, reflected=False))
    setattr(_Tracked, f"__r{_name}__", _fact_operation(_name, reflected=True))


class TracedInt(_Tracked, int):
    """A whole number with its expression."""

    bit_length = _fact_function(int.bit_length)


class TracedFloat(_Tracked, float):
    """A real number with its expression."""

    is_integer = _fact_function(float.is_integer)


class TracedSize(tuple):  # type: ignore[type-arg]
    """Stands in for `torch.Size`; its members are `TracedInt`."""

    def numel(self) -> Any:
        """Return the product of the sizes."""
        product: Any = 1
        for size in self:
            product = size * product
        return product

    def __getitem__(self, key: Any) -> Any:
        item = tuple.__getitem__(self, key)
        return TracedSize(item) if isinstance(key, slice) else item

    def __add__(self, other: Any) -> TracedSize:
        return TracedSize(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Any) -> TracedSize:
        return TracedSize(tuple(other) + tuple(self))


class TracedDict(dict):  # type: ignore[type-arg]
    """Stands in for a dict that the module holds; tells which of its items are read.

    Parameters
    ----------
    content
        What it holds.
    expr
        How the code reaches it, as source.
    seen
        Is given an item's expression and value, and returns what the code gets.
    """

    def __init__(self, content: dict[Any, Any], expr: str, seen: Callable[[str, Any], Any]) -> None:
        super().__init__(content)
        self._expr, self._seen = expr, seen

    def __getitem__(self, key: Any) -> Any:
        value, key = super().__getitem__(key), fact(key)
        if type(key) in (str, int):
            return self._seen(f"{self._expr}[{key!r}]", value)
        place = list(super().keys()).index(key)
        return self._seen(f"dict(enumerate({self._expr}.values())).get({place})", value)

    def get(self, key: Any, default: Any = None) -> Any:
        """Return an item; that there is none is told as well."""
        value, key, there = super().get(key), fact(key), super().__contains__(key)
        if type(key) not in (str, int):
            return self[key] if there else default
        seen = self._seen(f"{self._expr}.get({key!r})", value)
        return seen if there else default

    def __contains__(self, key: Any) -> bool:
        found, key = super().__contains__(key), fact(key)
        return self._seen(f"({key!r} in {self._expr})", found) if type(key) in (str, int) else found

    def __len__(self) -> int:
        return fact(self._seen(f"len({self._expr})", super().__len__()))

    def __iter__(self) -> Iterator[Any]:
        # Also of `**`, which would not ask for each item without it.
        self._seen(f"list({self._expr})", list(super().keys()))
        return super().__iter__()

    def keys(self) -> Any:
        """Return the keys, all of which are told."""
        return dict.fromkeys(self).keys()

    def items(self) -> Any:
        """Return keys and what the code gets for them."""
        return {key: self[key] for key in self}.items()

    def values(self) -> Any:
        """Return what the code gets."""
        return {key: self[key] for key in self}.values()
