"""What a file does with names from elsewhere: imports, loads, calls, stores, in the order of their lines."""

from __future__ import annotations

import ast
from typing import NamedTuple

from .names import Names
from .strings import Folder

IMPORT, LOAD, CALL, STORE = "import", "load", "call", "store"


class Use(NamedTuple):
    """One use of a path."""

    kind: str
    path: str
    """As `Names` gives it; `?` stands for a name that is made at run time."""
    node: ast.AST

    @property
    def line(self) -> int:
        """1-based line."""
        return getattr(self.node, "lineno", 1)


def uses_of(tree: ast.Module, names: Names, folder: Folder) -> list[Use]:
    """Return every use of a name that is not the file's own."""
    found: list[Use] = []
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [Use(IMPORT, alias.name, node) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found.append(Use(IMPORT, module, node))
            found += [Use(IMPORT, f"{module}.{alias.name}", node) for alias in node.names]
        elif isinstance(node, (ast.Attribute, ast.Name, ast.Subscript)):
            if isinstance(node.ctx, ast.Load):
                call = called.get(id(node))
                found += [Use(CALL, path, call) if call else Use(LOAD, path, node) for path in sorted(names.of(node))]
            elif not isinstance(node, ast.Name):
                found += [Use(STORE, path, node) for path in _stored(node, names, folder)]
        elif isinstance(node, ast.Call):
            found += _patched(node, names)
            # What a call stands for: `getattr(os, "system")`, `__import__("os")`.
            called_again = called.get(id(node))
            for path in sorted(names.of(node)):
                if not path.endswith("()"):
                    found.append(Use(CALL if called_again else LOAD, path, called_again or node))
    return sorted(found, key=lambda use: use.line)


def _stored(node: ast.Attribute | ast.Subscript, names: Names, folder: Folder) -> list[str]:
    found = []
    for base in sorted(names.of(node.value)):
        if isinstance(node, ast.Attribute):
            found.append(f"{base}.{node.attr}")
        elif base.endswith(".__dict__"):
            said = folder.fold(node.slice)
            found.append(f"{base[: -len('.__dict__')]}.{said.value if said and said.whole else '?'}")
        else:
            found.append(f"{base}[]")
    return found


def _patched(node: ast.Call, names: Names) -> list[Use]:
    """Return the stores of `setattr` and `delattr`."""
    if len(node.args) < 2 or not names.of(node.func) & {"builtins.setattr", "builtins.delattr", "operator.setitem"}:
        return []
    said = names.spellings.of(node.args[1]) or ["?"]
    return [Use(STORE, f"{base}.{name}", node) for base in sorted(names.of(node.args[0])) for name in said]
