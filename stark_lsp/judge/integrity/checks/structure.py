"""Is there a candidate at all?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import Candidate
from ..words import Refusal


def defines_class(candidate: Candidate) -> Iterator[Refusal]:
    """The file defines the class at its top level; one that is only imported or assigned is not a candidate."""
    stack: list[ast.stmt] = list(candidate.tree.body)
    while stack:
        statement = stack.pop()
        if isinstance(statement, ast.ClassDef) and statement.name == candidate.class_name:
            return
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                stack.extend(getattr(statement, field, []))
    line = None
    for node in ast.walk(candidate.tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == candidate.class_name:
            line = node.lineno
    yield Refusal(f"The candidate defines no class {candidate.class_name}.", line)


def has_forward(candidate: Candidate) -> Iterator[Refusal]:
    """The class, or one of its bases in the file, has a forward method of its own."""
    classes = candidate.classes
    seen = set()
    queue = [candidate.class_name]
    while queue:
        name = queue.pop()
        node = classes.get(name)
        if node is None or name in seen:
            # A base from elsewhere: what it defines cannot be seen here.
            if node is None and name not in ("Module", "object"):
                return
            continue
        seen.add(name)
        for item in node.body:
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name == "forward":
                return
            if isinstance(item, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id == "forward" for target in item.targets
            ):
                return
        for base in node.bases:
            queue.append(base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "object"))
    yield Refusal(f"{candidate.class_name} has no forward method.", classes[candidate.class_name].lineno)
