"""What annotations say, read as text."""

from __future__ import annotations

import ast


def kind_of(annotation: ast.expr | None) -> str:
    """Return the last part of an annotation's name (`int`, `Tensor`, `Tuple`), empty if there is none.

    `Optional` stands for any annotation that allows None.
    """
    if isinstance(annotation, ast.Constant):
        if annotation.value is None:
            return "None"
        if isinstance(annotation.value, str):
            return kind_of(parsed(annotation.value))
        return ""
    if isinstance(annotation, ast.BinOp):
        left, right = kind_of(annotation.left), kind_of(annotation.right)
        return "Optional" if "None" in (left, right) or "Optional" in (left, right) else left
    if isinstance(annotation, ast.Subscript):
        outer = kind_of(annotation.value)
        if outer == "Union" and isinstance(annotation.slice, ast.Tuple):
            inner = [kind_of(item) for item in annotation.slice.elts]
            return "Optional" if "None" in inner else next((one for one in ("int", *inner) if one in inner), "")
        return kind_of(annotation.slice) if outer in ("Annotated", "Final") else outer
    if isinstance(annotation, ast.Attribute):
        return annotation.attr
    return annotation.id if isinstance(annotation, ast.Name) else ""


def parsed(text: str) -> ast.expr | None:
    """Return an expression written as text, None if it is none."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None


def inside(annotation: ast.expr | None) -> ast.expr | None:
    """Return what `Optional[...]`, `... | None` or a union allows besides None."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return inside(parsed(annotation.value))
    if isinstance(annotation, ast.BinOp):
        return inside(annotation.left) if kind_of(annotation.left) != "None" else inside(annotation.right)
    if isinstance(annotation, ast.Subscript) and kind_of(annotation.value) == "Optional":
        return inside(annotation.slice)
    if (
        isinstance(annotation, ast.Subscript)
        and kind_of(annotation.value) == "Union"
        and isinstance(annotation.slice, ast.Tuple)
    ):
        return next((inside(item) for item in annotation.slice.elts if kind_of(item) != "None"), None)
    return annotation


def of_numbers(annotation: ast.expr | None) -> bool:
    """Whether an annotation is a list or tuple of whole numbers."""
    if not isinstance(annotation, ast.Subscript) or kind_of(annotation) not in ("list", "List", "tuple", "Tuple"):
        return False
    items = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    return kind_of(items[0]) == "int"


def parts_of(annotation: ast.expr | None) -> int:
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple):
        return len([e for e in annotation.slice.elts if not (isinstance(e, ast.Constant) and e.value is ...)]) or 2
    return 2


def literal(annotation: ast.expr | None) -> str | None:
    """Return the first choice of a `Literal`."""
    node = inside(annotation)
    if isinstance(node, ast.Subscript) and kind_of(node.value) == "Literal":
        first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
        return ast.unparse(first).replace("'", '"')
    return None
