"""What the frames of a failure tell: their statements, what these compare, and which names stand for None."""

from __future__ import annotations

import ast
import functools
import linecache
import math
import sys
import types
from typing import Any

import torch

SHOWN = 60
"""Numbers and names that are told of one place at most."""


def nothing_of(frames: list[Any]) -> list[str]:
    """Return the variables that stand for None in the innermost failing statement that is neither torch's nor ours."""
    for frame, line in reversed(frames):
        if not frame.f_globals.get("__name__", "").startswith(("torch.", f"{__package__.partition('.')[0]}.")):
            node = _node_at(frame, line)
            names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)] if node is not None else []
            return [name for name in dict.fromkeys(names) if frame.f_locals.get(name, "") is None][:12]
    return []


def unset_of(error: BaseException, frames: list[Any]) -> list[str]:
    """Return what stands for None in the innermost failing statements, and such fields of configurations at hand.

    If the message is about None: also what does so in the functions of these statements.
    """
    found: dict[str, None] = {}
    words: set[str] = set()
    near = frames[-6:]
    for frame, line in reversed(near):
        node = _node_at(frame, line)
        for part in ast.walk(node) if node is not None and not hasattr(node, "body") else ():
            if isinstance(part, ast.Attribute) and _value(frame, part) is None:
                found[part.attr] = None
                words |= set(part.attr.split("_"))
    for frame, _ in near:
        for value in list(frame.f_locals.values()):
            if not isinstance(value, (torch.nn.Module, type)) and hasattr(value, "__dict__"):
                for name, field in list(vars(value).items())[:400]:
                    if field is None and not name.startswith("_") and words & set(name.split("_")) - {"num", "n"}:
                        found[name] = None
    for frame, line in near if "None" in str(error) else ():
        function = _function_at(frame, line)
        for part in ast.walk(function) if function is not None else ():
            if not isinstance(part, ast.Attribute) or ast.unparse(part.value) == "self" or part.attr[0] == "_":
                continue
            if _value(frame, part) is None:
                found[part.attr] = None
    return list(found)[:12]


def statement_of(frame: types.FrameType, line: int) -> dict[str, Any]:
    """Return the text of a statement, and which of the names in it stand for a number, and for which."""
    source = linecache.getlines(frame.f_code.co_filename)
    node = _node_at(frame, line)
    text = ast.unparse(node) if node is not None else (source[line - 1].strip() if 0 < line <= len(source) else "")
    return {
        "text": text[:1000],
        "names": {
            name: {"value": value}
            for name, value in frame.f_locals.items()
            if name in text and isinstance(value, (bool, int, float)) and math.isfinite(value)
        },
    }


def _node_at(frame: types.FrameType, line: int) -> ast.stmt | None:
    """Return the smallest statement of the frame's function at a line."""
    return max(reversed(_around(frame, line)), key=lambda node: node.lineno, default=None)


def _function_at(frame: types.FrameType, line: int) -> ast.FunctionDef | None:
    """Return the function of a frame."""
    functions = [node for node in _around(frame, line) if isinstance(node, ast.FunctionDef)]
    return next((node for node in reversed(functions) if node.name == frame.f_code.co_name), None)


def _around(frame: types.FrameType, line: int) -> list[ast.stmt]:
    """Return the statements around a line of a frame's file, outer ones first; none where it cannot be parsed."""
    tree = _parsed(frame.f_code.co_filename)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)] if tree is not None else []
    return [node for node in statements if node.lineno <= line <= (node.end_lineno or node.lineno)]


@functools.cache
def _parsed(path: str) -> Any:
    source = "".join(linecache.getlines(path))
    try:
        return ast.parse(source) if source else None
    except (SyntaxError, ValueError, RecursionError):
        return None


_READ = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.BinOp, ast.Tuple, ast.UnaryOp, ast.Call)


def facts_of(frame: types.FrameType, line: int) -> list[dict[str, Any]]:
    """Return the comparisons, remainders and look-ups around a failing line, with the values of both sides.

    They are evaluated again only if they read values: names, attributes, items, sizes.
    """
    found: list[dict[str, Any]] = []
    tests: list[ast.AST] = []
    statement = _node_at(frame, line)
    if statement is not None and not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        tests.append(statement.test if isinstance(statement, (ast.If, ast.While)) else statement)
    if isinstance(statement, ast.Raise):
        tests += [node.test for node in _around(frame, line) if isinstance(node, ast.If)][-2:]
    for test in tests:
        for node in ast.walk(test):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                for operator, left, right in zip(node.ops, sides, sides[1:]):
                    found += _pair(frame, type(operator).__name__, left, right)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.FloorDiv)):
                found += _pair(frame, type(node.op).__name__, node.left, node.right)
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.expr):
                keys = _value(frame, node.value)
                if isinstance(keys, dict) and all(isinstance(key, str) for key in keys):
                    found.append({"op": "Keys", "left": ast.unparse(node.slice), "keys": list(keys)[:SHOWN]})
    return found


def _pair(frame: types.FrameType, operator: str, left: ast.expr, right: ast.expr) -> list[dict[str, Any]]:
    one, other = _value(frame, left), _value(frame, right)
    if not (_told(one) and _told(other)):
        return []
    sides = {"left": ast.unparse(left)[:200], "right": ast.unparse(right)[:200]}
    return [{"op": operator, **sides, "values": [_plain(one), _plain(other)]}]


def _told(value: Any) -> bool:
    return isinstance(value, (int, float, str, type(None))) or (
        isinstance(value, (tuple, list, set, frozenset)) and all(isinstance(item, (int, str)) for item in value)
    )


def _plain(value: Any) -> Any:
    return list(value)[:SHOWN] if isinstance(value, (tuple, list, set, frozenset)) else value


def _value(frame: types.FrameType, node: ast.expr) -> Any:
    """Return what an expression that only reads stands for; `sys` if that cannot be told."""
    for part in ast.walk(node):
        if isinstance(part, ast.expr) and not isinstance(part, (*_READ, ast.List, ast.Set)):
            return sys
        if isinstance(part, ast.Call):
            name = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
            if name not in ("size", "dim", "len", "ndimension", "keys"):
                return sys
    try:
        return eval(  # the user's own expression, once more
            compile(ast.Expression(node), "<fact>", "eval"), frame.f_globals, dict(frame.f_locals)
        )
    except Exception:  # noqa: BLE001 - then nothing is known of it
        return sys
