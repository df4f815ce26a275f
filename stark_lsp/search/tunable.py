"""Constants that a candidate leaves open: what it declares of them, and its source with other values.

    BLOCK = 128
    WARPS = 4
    TUNE = {"BLOCK": [64, 128, 256], "WARPS": [4, 8], "if": "BLOCK >= 32 * WARPS"}

`TUNE` names constants of the module, each with the values to try, and under `if` what must hold of them. Everything is
read from the text and nothing is run. A source that is written has no `TUNE` any more.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

from stark_lsp.core.editing import Replacement, apply_edits, keep_ends
from stark_lsp.core.parsing import BOM, last_name, parse

NAME = "TUNE"
CONDITION = "if"
"""Key of what must hold; a word that no constant can be called."""
MOST = 1000
"""Combinations of values that are looked at."""
MOST_NAMES = 12
_LARGEST = 2**40
_LONGEST_NAME = 40
_LONGEST = 300
"""Characters of a condition."""

Value = int | float | bool
Tuning = tuple[Value, ...]
"""A value for each constant, in the order of their declaration."""


class Misdeclared(Exception):
    """What a candidate declares cannot be used; `str()` says why and what to write, `line` is 1-based."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True)
class Tunable:
    """What a candidate declares."""

    names: tuple[str, ...]
    own: Tuning
    """The values that stand in its source."""
    others: tuple[Tuning, ...]
    """All others that are allowed: those with the fewest changes first."""
    _text: str
    _places: tuple[Replacement, ...]
    """Where the values stand, in the order of the names."""
    _declaration: Replacement

    def source(self, tuning: Tuning) -> str:
        """Return the source with these values, without the declaration."""
        values = [
            Replacement(place.start_line, place.start_column, place.end_line, place.end_column, repr(value))
            for place, value in zip(self._places, tuning, strict=True)
        ]
        return apply_edits(self._text, [*values, self._declaration])

    def changed(self, tuning: Tuning) -> tuple[tuple[str, Value], ...]:
        """Return what differs from the source, by name."""
        pairs = zip(self.names, tuning, self.own, strict=True)
        return tuple((name, value) for name, value, own in pairs if value != own)

    def with_one(self, name: str, value: Value) -> Tuning:
        """Return the candidate's own values but for one."""
        return tuple(value if one == name else own for one, own in zip(self.names, self.own, strict=True))

    def words(self, tuning: Tuning) -> str:
        """Return values as they stand in a source: `BLOCK = 128, WARPS = 4`."""
        return ", ".join(f"{name} = {value!r}" for name, value in zip(self.names, tuning, strict=True))


def read(source: str) -> Tunable | None:
    """Return what a candidate declares; None if it declares nothing, or is no Python.

    Raises
    ------
    Misdeclared
        It cannot be used.
    """
    source = source.removeprefix(BOM)
    try:
        tree = parse(source)
    except SyntaxError:
        return None
    found = [statement for statement in tree.body if _assigned(statement) == NAME]
    if not found:
        return None
    statement, lines = found[0], keep_ends(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == NAME and node.lineno != statement.lineno:
            raise Misdeclared(f"{NAME} is taken out once its values were tried: nothing else may name it.", node.lineno)
    values, condition = _values(statement)
    places, own = [], []
    for name in values:
        place, value = _constant(tree, name, statement.lineno, lines)
        places.append(place)
        own.append(value)
    if (count := math.prod(map(len, values.values()))) > MOST:
        raise Misdeclared(f"{NAME} has {count:,} combinations of values; at most {MOST:,} can be.", statement.lineno)
    allowed = _allowed(values, condition, statement.lineno)
    others = [tuning for tuning in dict.fromkeys(allowed) if tuning != tuple(own)]
    others.sort(key=lambda tuning: sum(a != b for a, b in zip(tuning, own, strict=True)))
    return Tunable(tuple(values), tuple(own), tuple(others), source, tuple(places), _whole_lines(statement, lines))


def _assigned(statement: ast.stmt) -> str:
    """Return the one name that a statement gives a value to; empty if it does something else."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None or len(targets) != 1:
        return ""
    return targets[0].id if isinstance(targets[0], ast.Name) else ""


def _values(statement: ast.stmt) -> tuple[dict[str, tuple[Value, ...]], str]:
    """Return the values of each constant, and the condition."""
    line = statement.lineno
    form = f'write {NAME} = {{"BLOCK": [64, 128]}}, with numbers or True and False as values'
    assert isinstance(statement, (ast.Assign, ast.AnnAssign))
    declared = _literal(statement.value)
    if not isinstance(declared, dict):
        raise Misdeclared(f"{NAME} must be a dict written out in full: {form}.", line)
    condition = declared.pop(CONDITION, "")
    if not isinstance(condition, str) or len(condition) > _LONGEST:
        raise Misdeclared(
            f'What must hold is one text of at most {_LONGEST} characters: "{CONDITION}": "BLOCK >= 32 * WARPS".', line
        )
    if len(declared) > MOST_NAMES:
        raise Misdeclared(f"{NAME} names {len(declared)} constants; at most {MOST_NAMES} can be left open.", line)
    for name, values in declared.items():
        if not isinstance(name, str) or not name.isidentifier() or len(name) > _LONGEST_NAME:
            raise Misdeclared(f"{str(name)[:60]!r} cannot be a constant's name: {form}.", line)
        if not isinstance(values, (list, tuple)) or not values or not all(map(_is_value, values)):
            raise Misdeclared(f"The values of {name} cannot be used: {form}.", line)
    return {name: tuple(dict.fromkeys(values)) for name, values in declared.items()}, condition.strip()


def _constant(tree: ast.Module, name: str, line: int, lines: list[str]) -> tuple[Replacement, Value]:
    """Return where the value of a constant stands, and the value."""
    stores = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)]
    found = [statement for statement in tree.body if _assigned(statement) == name]
    if not found:
        raise Misdeclared(f"{NAME} names {name}, which is no constant of the module: write {name} = … there.", line)
    if len(stores) > 1:
        raise Misdeclared(f"{name} is given a value in line {stores[0].lineno} as well.", stores[-1].lineno)
    assert isinstance(found[0], (ast.Assign, ast.AnnAssign))
    node = found[0].value
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        node = node.args[0] if last_name(node.func) == "constexpr" else node
    value = _literal(node)
    if node is None or not _is_value(value):
        raise Misdeclared(f"{name} must be a number written out, such as {name} = 128.", found[0].lineno)
    assert isinstance(value, (int, float))
    return _span(node, lines), value


def _literal(node: ast.expr | None) -> object:
    try:
        return ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _is_value(value: object) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= _LARGEST


def _span(node: ast.expr | ast.stmt, lines: list[str]) -> Replacement:
    """Return where a node stands; its columns count bytes."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    first, last = node.lineno - 1, node.end_lineno - 1
    begin = len(lines[first].encode()[: node.col_offset].decode())
    end = len(lines[last].encode()[: node.end_col_offset].decode())
    return Replacement(first, begin, last, end, "")


def _whole_lines(statement: ast.stmt, lines: list[str]) -> Replacement:
    """Return the edit that takes a statement out with its lines."""
    place = _span(statement, lines)
    behind = lines[place.end_line][place.end_column :].strip()
    if place.start_column or (behind and not behind.startswith("#")):
        raise Misdeclared(f"{NAME} must stand on lines of its own.", statement.lineno)
    return Replacement(place.start_line, 0, place.end_line + 1, 0, "")


_OPERATORS: dict[type[ast.AST], Callable[..., Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _allowed(values: dict[str, tuple[Value, ...]], condition: str, line: int) -> list[Tuning]:
    """Return all combinations of which the condition holds."""
    everything = list(product(*values.values()))
    if not condition:
        return everything
    try:
        (statement,) = parse(condition).body
        if not isinstance(statement, ast.Expr):
            raise KeyError(condition)
        given = [dict(zip(values, tuning, strict=True)) for tuning in everything]
        return [tuning for tuning, by_name in zip(everything, given, strict=True) if _worth(statement.value, by_name)]
    except (SyntaxError, ValueError, KeyError, ArithmeticError, RecursionError) as error:
        raise Misdeclared(
            f"The condition {condition!r} cannot be worked out. It may have names of {NAME}, numbers, and, or, not, "
            "comparisons and + - * / // %, and divide by nothing that is 0.",
            line,
        ) from error


def _worth(node: ast.expr, values: Mapping[str, Value]) -> Value:
    """Return what an expression comes to; no other part of Python has a meaning here."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp():
            return _OPERATORS[type(node.op)](_worth(node.operand, values))
        case ast.BinOp():
            return _OPERATORS[type(node.op)](_worth(node.left, values), _worth(node.right, values))
        case ast.BoolOp():
            parts = (_worth(part, values) for part in node.values)
            return all(parts) if isinstance(node.op, ast.And) else any(parts)
        case ast.Compare():
            sides = [_worth(side, values) for side in (node.left, *node.comparators)]
            pairs = zip(node.ops, sides, sides[1:], strict=False)
            return all(_OPERATORS[type(op)](left, right) for op, left, right in pairs)
    raise KeyError(type(node).__name__)
