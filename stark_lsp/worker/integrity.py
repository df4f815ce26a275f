"""Static integrity check: what can be refused without running it.

Each check is a function from the parsed candidate to a refusal or None; `CHECKS` holds them in order.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import NamedTuple, Optional


class Refusal(NamedTuple):
    """Why a candidate is not run."""

    reason: str
    line: int | None
    """1-based line it is about."""


Check = Callable[[ast.Module, str], Optional[Refusal]]  # noqa: UP045 - evaluated, and Python 3.9 has no `X | None`


def defines_class(tree: ast.Module, class_name: str) -> Refusal | None:
    """The file defines the class at its top level; one that is only imported or assigned is not a candidate."""
    stack: list[ast.stmt] = list(tree.body)
    while stack:
        statement = stack.pop()
        if isinstance(statement, ast.ClassDef) and statement.name == class_name:
            return None
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                stack.extend(getattr(statement, field, []))
    return Refusal(f"The candidate defines no class {class_name}.", None)


def has_forward(tree: ast.Module, class_name: str) -> Refusal | None:
    """The class, or one of its bases in the file, has a forward method of its own."""
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    seen = set()
    queue = [class_name]
    while queue:
        name = queue.pop()
        node = classes.get(name)
        if node is None or name in seen:
            # A base from elsewhere: what it defines cannot be seen here.
            if node is None and name not in ("Module", "object"):
                return None
            continue
        seen.add(name)
        for item in node.body:
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name == "forward":
                return None
            if isinstance(item, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "forward" for target in item.targets
            ):
                return None
        for base in node.bases:
            queue.append(base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "object"))
    return Refusal(f"{class_name} has no forward method.", classes[class_name].lineno)


CHECKS: tuple[Check, ...] = (defines_class, has_forward)


def check(source: str, class_name: str) -> Refusal | None:
    """Return why the candidate is refused, None if nothing speaks against running it.

    A source that does not parse is not refused: loading it reports the syntax error.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for rule in CHECKS:
        refusal = rule(tree, class_name)
        if refusal is not None:
            return refusal
    return None
