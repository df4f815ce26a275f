"""What the code of a module can read: plain values at the top level of its file, and attributes, by their names."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

LONGEST = 100
"""A longer text is no setting but a source, a message."""
_PLAIN = (bool, int, float, str, type(None))
IMPLIED = ("__getitem__", "__call__", "__contains__", "__getattr__", "__iter__", "__len__")
"""Methods that code runs without naming them."""


def reached(namespace: dict[str, Any], classes: Iterable[type]) -> tuple[dict[str, Any], set[str], set[str]]:
    """Return the plain values of a file that a forward of these classes can reach, and the attributes it may ask for.

    Third are those of the attributes that `hasattr` or `getattr` asks for, which may not be there.

    Followed are functions and classes of the same file, of classes what is asked for by name, beginning with forward;
    PyTorch's own are not.
    """
    members = {base for cls in classes for base in cls.__mro__}
    functions: list[Any] = []
    attributes, seen = {"forward", *IMPLIED}, set[CodeType]()
    found: dict[str, Any] = {}
    perhaps: set[str] = set()
    while True:
        methods = [vars(base)[name] for base in members for name in attributes & vars(base).keys()]
        whole = [one for one in map(_function, [*functions, *methods]) if one is not None and one.__code__ not in seen]
        new = [one for one in whole if not str(one.__module__).startswith("torch.")]
        if not new:
            return found, attributes, perhaps
        seen |= {one.__code__ for one in new}
        asked = {name for one in new for name in _asked(one.__code__)}
        attributes |= asked
        perhaps |= asked
        for scope, name, is_global in ((one.__globals__, *pair) for one in new for pair in set(_names(one.__code__))):
            value = scope.get(name) if is_global else None
            if not is_global:
                attributes.add(name)
            elif isinstance(value, type):
                members |= set(value.__mro__) if value.__module__ == scope.get("__name__") else set()
            elif name in scope and is_literal(value) and len(str(value)) <= LONGEST and name[:2] != "__":
                found |= {name: value} if scope is namespace else {}
            elif getattr(_function(value), "__globals__", None) is scope:
                functions.append(value)


def globals_of(cls: type) -> dict[str, Any]:
    """Return the names of the file that the forward of a module's class is in."""
    module = sys.modules.get(cls.__module__)
    forward = inspect.unwrap(getattr(cls, "forward", cls))
    return getattr(forward, "__globals__", None) or (vars(module) if module is not None else {})


def is_literal(value: Any) -> bool:
    """Whether a value is a number, a switch, a text, None, or a few of these in a row."""
    if isinstance(value, (tuple, list)):
        return len(value) <= 16 and all(isinstance(item, _PLAIN) for item in value)
    return isinstance(value, _PLAIN)


def _function(value: Any) -> FunctionType | None:
    """Return the function behind a function with decorators, a method, a property."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.cached_property):
        value = value.func
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, FunctionType) else None


def _names(code: CodeType) -> Iterator[tuple[str, bool]]:
    """Yield the names that code looks up, functions within it included, and whether as a global."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval, True
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            yield step.argval, False
        elif isinstance(step.argval, CodeType):
            yield from _names(step.argval)


def _asked(code: CodeType) -> Iterator[str]:
    """Yield the names of attributes that code hands to `hasattr` or `getattr`, functions within it included."""
    asks = False
    for step in dis.get_instructions(code):
        if isinstance(step.argval, CodeType):
            yield from _asked(step.argval)
        elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            asks = step.argval in ("hasattr", "getattr")
        elif asks and step.opname == "LOAD_CONST" and isinstance(step.argval, str):
            yield from [step.argval] if step.argval.isidentifier() else []
            asks = False
