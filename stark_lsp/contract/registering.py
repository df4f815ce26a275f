"""What of a class statement puts the class into a registry, under a name that two cannot have."""

from __future__ import annotations

import ast


def registering(node: ast.stmt) -> list[ast.expr | ast.keyword]:
    """Return decorators such as `@register("block")` and keywords such as `key="block"` beside the bases of a class."""
    if not isinstance(node, ast.ClassDef):
        return []
    header = [one for one in node.keywords if one.arg != "metaclass" and node.bases and _is_text(one.value)]
    return [*(one for one in node.decorator_list if _is_named(one)), *header]


def _is_named(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and any(map(_is_text, (*node.args, *(one.value for one in node.keywords))))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
