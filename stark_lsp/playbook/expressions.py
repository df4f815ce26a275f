"""Operations as Python expressions, the way the user would write them."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from typing import Any

from stark_lsp.playbook.graph import Construct, Device, DType, Ref, Scalar, TorchConstant

Name = Callable[[Ref], ast.expr]
"""Gives the expression of a tensor or size."""

_OPERATORS: dict[str, type[ast.operator]] = {
    "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "div": ast.Div, "true_divide": ast.Div, "truediv": ast.Div,
    "floor_divide": ast.FloorDiv, "floordiv": ast.FloorDiv, "remainder": ast.Mod, "mod": ast.Mod, "pow": ast.Pow,
    "matmul": ast.MatMult, "and": ast.BitAnd, "or": ast.BitOr, "xor": ast.BitXor, "lshift": ast.LShift,
    "rshift": ast.RShift,
}  # fmt: skip
"""By the name of a method, without the underscores around it."""
_COMPARE: dict[str, type[ast.cmpop]] = {
    "eq": ast.Eq, "ne": ast.NotEq, "lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE,
}  # fmt: skip
_UNARY: dict[str, type[ast.unaryop]] = {"neg": ast.USub, "invert": ast.Invert}
_IN_PLACE = {
    "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__idiv__": "div_",
    "__ipow__": "pow_",
}  # fmt: skip
"""Methods that do the same as an operator."""
_SYMBOLS: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "//": ast.FloorDiv, "%": ast.Mod, "**": ast.Pow,
}  # fmt: skip
_RELATIONS: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq,
}  # fmt: skip


_POWER = re.compile(r"(?<![\w.\])])([A-Za-z_][\w.]*|\d[\d.]*) \*\* (-?[\w.]+)(?![\w.(\[])")
"""A power of plain operands."""


class CannotWrite(Exception):
    """An operation or value that has no spelling in source."""


def parse(text: str) -> ast.expr:
    """Return the expression that `text` is."""
    return ast.parse(text, mode="eval").body


def constant(value: Any) -> ast.expr:
    """Return a plain value as an expression."""
    if isinstance(value, float) and not math.isfinite(value):
        return parse(f'float("{value}")')
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    if isinstance(value, tuple):
        return ast.Tuple([constant(item) for item in value], ast.Load())
    return ast.Constant(value)


class Writer:
    """Writes operations with given names for tensors and for the torch namespaces.

    Parameters
    ----------
    name
        The expression of a tensor or size node.
    torch, functional
        How the file calls `torch` and `torch.nn.functional`.
    baked
        Write numbers by value, for functions that have no `self`.
    """

    def __init__(self, name: Name, torch: str, functional: str, *, baked: bool = False) -> None:
        self.name = name
        self.torch = torch
        self.functional = functional
        self.baked = baked

    def value(self, value: Any) -> ast.expr:
        """Return an argument as an expression."""
        if isinstance(value, Ref):
            return self.name(value)
        if isinstance(value, Scalar):
            return constant(value.value) if self.baked else self.number(value.expr)
        if isinstance(value, DType):
            return parse(f"{self.torch}.{value.name}")
        if isinstance(value, TorchConstant):
            return parse(f"{self.torch}.{value.name}")
        if isinstance(value, Device):
            if value.of is None:
                return constant(value.name)
            return ast.Attribute(self.name(value.of), "device", ast.Load())
        if isinstance(value, tuple):
            return ast.Tuple([self.value(item) for item in value], ast.Load())
        if isinstance(value, list):
            return ast.List([self.value(item) for item in value], ast.Load())
        if isinstance(value, dict):
            return ast.Dict([self.value(key) for key in value], [self.value(item) for item in value.values()])
        if isinstance(value, slice):
            parts = [None if part is None else self.value(part) for part in (value.start, value.stop, value.step)]
            return ast.Slice(*parts)
        if isinstance(value, Construct):
            keywords = [ast.keyword(name, self.value(item)) for name, item in value.fields]
            return ast.Call(parse(value.name), [], keywords)
        return constant(value)

    def number(self, expr: Any) -> ast.expr:
        """Return the expression of a tracked number or of a comparison of such."""
        kind = expr[0]
        if kind == "const":
            return constant(expr[1])
        if kind == "node":
            return self.name(Ref(int(expr[1])))
        if kind in ("self", "input"):
            return parse(expr[1])
        if kind == "math":
            return ast.Call(parse(f"math.{expr[1]}"), [self.number(expr[2])], [])
        left, right = self.number(expr[1]), self.number(expr[2])
        if kind in _RELATIONS:
            return ast.Compare(left, [_RELATIONS[kind]()], [right])
        return ast.BinOp(left, _SYMBOLS[kind](), right)

    def call(self, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ast.expr:
        """Return an operation as an expression.

        Raises
        ------
        CannotWrite
            It has no public name.
        """
        space = target.rpartition(".")[0]
        kwargs = {k: v for k, v in kwargs.items() if v is not None and k not in ("_stacklevel", "inplace")}
        plain = _method(target)
        written = [self.value(item) for item in args]
        if target.endswith(".get"):
            return ast.Attribute(written[0], target.split(".")[1], ast.Load())
        if space == "Tensor" and not kwargs:
            operator = self._operator(plain, written)
            if operator is not None:
                return operator
        keywords = [ast.keyword(key, self.value(item)) for key, item in kwargs.items()]
        if space == "Tensor":
            if plain.startswith("__"):
                raise CannotWrite(f"{target} has no spelling")
            return ast.Call(ast.Attribute(written[0], plain, ast.Load()), written[1:], keywords)
        if space == "F":
            return ast.Call(parse(f"{self.functional}.{plain}"), written, keywords)
        if space == "torch" or space.startswith("torch."):
            path = target if space != "torch" else f"torch.{plain}"
            return ast.Call(parse(self.torch + path.removeprefix("torch")), written, keywords)
        raise CannotWrite(f"{target.lstrip('?')} has no public name in torch")

    @staticmethod
    def _operator(name: str, written: list[ast.expr]) -> ast.expr | None:
        if name == "__getitem__":
            return ast.Subscript(written[0], written[1], ast.Load())
        special = name.startswith("__")
        name = name.strip("_") if special else name
        if len(written) == 2:
            if name in _OPERATORS:
                return ast.BinOp(written[0], _OPERATORS[name](), written[1])
            if special and name.startswith("r") and name[1:] in _OPERATORS:
                return ast.BinOp(written[1], _OPERATORS[name[1:]](), written[0])
            if name in _COMPARE:
                return ast.Compare(written[0], [_COMPARE[name]()], [written[1]])
        if len(written) == 1 and name in _UNARY:
            return ast.UnaryOp(_UNARY[name](), written[0])
        return None


def _method(target: str) -> str:
    name = target.rpartition(".")[2]
    return _IN_PLACE.get(name, name)


def ordinary(target: str) -> str:
    """Return the name of an operation's ordinary form, for one that was written in place."""
    name = _method(target)
    return f"{target.rpartition('.')[0]}.{name[:-1]}" if name.endswith("_") and not name.endswith("__") else target


def unparse(node: ast.AST) -> str:
    """Return the source of an expression or statement, as a formatter leaves it."""
    text = _POWER.sub(r"\1**\2", ast.unparse(ast.fix_missing_locations(node)))
    return text if '"' in text or "\\" in text else text.replace("'", '"')
