"""What a statement refers to at the moment it is executed, and not only once its functions are called."""

from __future__ import annotations

import ast

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def immediate_uses(node: ast.AST) -> set[str]:
    """Return the names that must exist when a statement is executed: bodies of functions do not count."""
    names: set[str] = set()
    pending: list[ast.AST] = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Name):
            names.add(part.id)
        elif isinstance(part, _Function):
            pending.extend([*part.decorator_list, part.args])
            pending.extend([part.returns] if part.returns is not None else [])
        elif isinstance(part, ast.Lambda):
            pending.append(part.args)
        else:
            pending.extend(ast.iter_child_nodes(part))
    return names
