"""Conditions on sizes: what Dynamo and Inductor take for granted of them, as one that a person can read."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

ROWS, LENGTH = "rows", "length"
"""What sizes are called in what is asked of them, and among a program's arguments."""
_BOUND = re.compile(rf"(?:(\d+) \* )?({ROWS}|{LENGTH}) ([<>]=?|!=) (-?\d+)")
_PRODUCT = re.compile(rf"(?:(\d+) \* )?(?:{ROWS} \* {LENGTH}|{LENGTH} \* {ROWS}) (<=|>) (\d+)")
_WITHIN = re.compile(rf"(?:({ROWS}|{LENGTH}) == )?(min\((\d+), ({ROWS}|{LENGTH})\))(?: == ({ROWS}|{LENGTH}))?")
_PIECES = re.compile(rf"(\d+) \* \(\((\d+) \+ ((?:{ROWS}|{LENGTH})(?: \* (?:{ROWS}|{LENGTH}))?)\) // (\d+)\) <= (\d+)")
"""So many times the number of pieces of one length."""
_MORE = re.compile(rf"({ROWS}|{LENGTH}) < (?:({ROWS}|{LENGTH}) \* ({ROWS}|{LENGTH}))")
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!="}
_ARITHMETIC = (
    ast.Expression, ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Call, ast.Load,
    ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip


def together(asks: list[str], names: Iterable[str]) -> str:
    """Return conditions as one; bounds, as that indices have 32 bits, become a first and a last size."""
    bounds = {name: _Bounds(name) for name in names}
    # A table of places has so many rows, for instance: what it gives is as long as what is asked for.
    within = [found for one in asks if (found := _WITHIN.fullmatch(one)) and found[4] in (found[1], found[5])]
    left, most, least = [], math.inf, 0
    for one in [*asks, *(f"{found[4]} <= {found[3]}" for found in within)]:
        for found in within:
            one = one.replace(found[2], found[4])
        if (found := _PIECES.fullmatch(one)) and int(found[2]) == int(found[4]) - 1:
            one = f"{found[3]} <= {int(found[5]) // int(found[1]) * int(found[4])}"
        if (found := _BOUND.fullmatch(one)) and found[2] in bounds:
            bounds[found[2]].add(int(found[1] or 1), found[3], int(found[4]))
        elif (found := _PRODUCT.fullmatch(one)) and found[2] == "<=":
            most = min(most, int(found[3]) // int(found[1] or 1))
        elif found:
            least = max(least, int(found[3]) // int(found[1] or 1))
        elif (found := _MORE.fullmatch(one)) and found[2] != found[3]:
            bounds[found[2] if found[1] == found[3] else found[3]].add(1, ">", 1)
        elif not _holds(ast.parse(one, mode="eval").body):
            left.append(one)
    first = math.prod(one.first for one in bounds.values())
    left += [f"{ROWS} * {LENGTH} > {least}"] if least and first <= least else []
    left += [f"{ROWS} * {LENGTH} <= {most}"] if most < math.inf else []
    return " and ".join([*map(str, bounds.values()), *dict.fromkeys(left)])


class _Bounds:
    """Which numbers a size may be."""

    def __init__(self, name: str) -> None:
        self._name, self.first, self._last = name, 1, math.inf
        self._without: set[int] = set()

    def add(self, times: int, sign: str, limit: int) -> None:
        """Have so many times the size compare so with a limit."""
        if sign == "!=":
            self._without |= {limit // times} if limit % times == 0 else set()
        elif sign in ("<", "<="):
            self._last = min(self._last, (limit - (sign == "<")) // times)
        else:
            self.first = max(self.first, -(-(limit + (sign == ">")) // times))

    def __str__(self) -> str:
        while self.first in self._without:
            self.first += 1
        known = self._last < 1 << 62  # further ones are those of numbers alone
        bounds = f"{self.first} <= {self._name} <= {self._last}" if known else f"{self._name} >= {self.first}"
        return " and ".join([bounds, *(f"{self._name} != {one}" for one in sorted(self._without) if one > self.first)])


def renamed(expression: Any, symbols: Mapping[str, str]) -> str:
    """Return an expression, or its text, as Python by names; empty where it has something else."""
    from torch.utils._sympy.printers import PythonPrinter

    tree = ast.parse(expression if isinstance(expression, str) else PythonPrinter().doprint(expression), mode="eval")
    for item in ast.walk(tree):
        if isinstance(item, ast.Name) and item.id not in ("min", "max"):
            if item.id not in symbols:
                return ""
            item.id = symbols[item.id]
        if not isinstance(item, _ARITHMETIC):
            return ""
    return ast.unparse(tree)


def asked(guard: Any, symbols: Mapping[str, str]) -> str:
    """Return a guard as Python, with a size alone on the left where it is linear in that."""
    if getattr(guard, "is_Relational", False):
        # Two sizes of one name are one.
        named: dict[str, Any] = {}
        for one in sorted(guard.free_symbols, key=str):
            named.setdefault(symbols.get(str(one), str(one)), one)
        same = {one: named[symbols.get(str(one), str(one))] for one in guard.free_symbols}
        difference = (guard.lhs - guard.rhs).xreplace(same).expand()
        if difference == 0:
            return "True" if guard.rel_op in ("==", "<=", ">=") else "False"
        if len(difference.free_symbols) == 1 and guard.rel_op in _FLIPPED:
            (size,) = difference.free_symbols
            times = difference.coeff(size)
            rest = difference - times * size
            if times.is_Integer and rest.is_Integer and times != 0 and str(size) in symbols:
                sign, rest = (guard.rel_op, -rest) if times > 0 else (_FLIPPED[guard.rel_op], rest)
                return f"{abs(times)} * {symbols[str(size)]} {sign} {rest}"
    text = renamed(guard, symbols) or "False"
    return f"({text})" if isinstance(ast.parse(text, mode="eval").body, ast.BoolOp) else text


def _holds(tree: ast.expr) -> bool:
    """Whether a condition always holds, as that something equals itself."""
    if isinstance(tree, ast.Constant):
        return tree.value is True
    if isinstance(tree, ast.BoolOp):
        return isinstance(tree.op, ast.Or) and any(map(_holds, tree.values))
    if not isinstance(tree, ast.Compare):
        return False
    return isinstance(tree.ops[0], ast.Eq) and ast.unparse(tree.left) == ast.unparse(tree.comparators[0])
