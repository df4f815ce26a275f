"""All texts that a name may be, where there are a few: loops over literals, entries of tables, choices."""

from __future__ import annotations

import ast

from .scopes import Bound, Element, Imported, Scope, Scopes
from .strings import Folder

MANY = 200
"""Texts that one expression may be."""
DEPTH = 12
WORK, ALL_WORK = 5000, 400_000
"""Steps for one expression, and for all of a file; what needs more cannot be told."""
_DISPLAYS = (ast.Tuple, ast.List, ast.Set)
_PASSED_ON = ("enumerate", "zip", "sorted", "reversed", "list", "tuple", "set", "items", "keys", "values")


class Spellings:
    """Tells the texts of expressions of one file.

    Parameters
    ----------
    tree, scopes, folder
        The parsed file, its scopes, its texts.
    """

    def __init__(self, tree: ast.Module, scopes: Scopes, folder: Folder) -> None:
        self._scopes = scopes
        self._folder = folder
        self._left, self._budget = WORK, ALL_WORK
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        self._passed = {
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(tree)
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load) and id(node) not in called
        }
        """Names that are used other than by calling them: with what such functions are called cannot be told."""

    def of(self, node: ast.expr) -> list[str] | None:
        """Return every text that an expression may be; None if one of them cannot be told."""
        self._left = min(WORK, self._budget)
        found = self._texts(node, 0)
        self._budget -= min(WORK, self._budget) - self._left
        return found if found is not None and len(found) <= MANY else None

    def beginning(self, node: ast.expr, depth: int = 0) -> str:
        """Return the constant beginning of a text that is put together at run time, empty if there is none."""
        if depth > DEPTH:
            return ""
        if isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
            return str(node.values[0].value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
            first = self.of(node.left)
            if first is None:
                return self.beginning(node.left, depth + 1)
            return first[0].split("%")[0] if len(first) == 1 else ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            first = self.of(node.func.value)
            return first[0].split("{")[0] if first is not None and len(first) == 1 else ""
        if isinstance(node, ast.Name):
            bounds = self._scopes.of.get(node, self._scopes.top).find(node.id) or []
            if len(bounds) == 1 and isinstance(bounds[0].source, ast.expr) and bounds[0].source is not node:
                return self.beginning(bounds[0].source, depth + 1)
        return ""

    def _texts(self, node: ast.expr, depth: int) -> list[str] | None:
        self._left -= 1
        if depth > DEPTH or self._left < 0:
            return None
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            return self._named(self._scopes.of.get(node, self._scopes.top).find(node.id), depth)
        if isinstance(node, ast.IfExp):
            return self._all([node.body, node.orelse], depth)
        if isinstance(node, ast.BoolOp):
            return self._all(node.values, depth)
        if isinstance(node, ast.NamedExpr):
            return self._texts(node.value, depth + 1)
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
            return self._elements(node.value, depth + 1, keys=False)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            return self._elements(node.func.value, depth + 1, keys=False)
        said = self._folder.fold(node)
        return [said.value] if said is not None and said.whole else None

    def _all(self, nodes: list[ast.expr], depth: int) -> list[str] | None:
        found: list[str] = []
        for node in nodes[: MANY + 1]:
            texts = self._texts(node, depth + 1)
            if texts is None:
                return None
            found += texts
        return found or None

    def _named(self, bounds: list[Bound] | None, depth: int) -> list[str] | None:
        found: list[str] = []
        for bound in bounds or []:
            source = bound.source
            texts: list[str] | None = None
            if isinstance(source, ast.expr):
                texts = self._texts(source, depth + 1)
            elif isinstance(source, Element):
                texts = self._elements(source.of, depth + 1)
            elif source is None and len(bounds or []) > 1 and self._all_calls_seen(bound.scope):
                texts = []
            if texts is None:
                return None
            found += texts
        return found or None

    def _all_calls_seen(self, scope: Scope) -> bool:
        """Whether a parameter has no values but those that calls in the file give it."""
        function = scope.node
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return function.name not in self._passed and not function.name.startswith("__")
        return False

    def _elements(self, node: ast.expr, depth: int, *, keys: bool = True) -> list[str] | None:
        """Return the texts among the elements of a display; numbers and things of modules are no names."""
        self._left -= 1
        if depth > DEPTH or self._left < 0:
            return None
        if isinstance(node, _DISPLAYS):
            parts: list[ast.expr] = []
            for item in node.elts:
                parts += item.elts if isinstance(item, _DISPLAYS) else [item]
            return self._among(parts, depth)
        if isinstance(node, ast.Dict):
            return self._among([*(filter(None, node.keys) if keys else ()), *node.values], depth)
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name == "split" and isinstance(node.func, ast.Attribute):
                said = self._folder.fold(node.func.value)
                return said.value.replace(",", " ").split() if said is not None and said.whole else None
            if name not in _PASSED_ON:
                return None
            found: list[str] = []
            for part in [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]:
                texts = self._elements(part, depth + 1)
                if texts is None:
                    return None
                found += texts
            return found
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._of_bounds(node, depth, keys)
        return None

    def _of_bounds(self, node: ast.Name | ast.Attribute, depth: int, keys: bool) -> list[str] | None:
        bounds: list[Bound] = []
        if isinstance(node, ast.Name):
            bounds = self._scopes.of.get(node, self._scopes.top).find(node.id) or []
        else:
            for attributes in self._scopes.attributes.values():
                bounds += attributes.get(node.attr, [])
        found: list[str] = []
        for bound in bounds:
            source = bound.source
            texts = self._elements(source, depth + 1, keys=keys) if isinstance(source, ast.expr) else None
            if texts is None:
                return None
            found += texts
        return found or None

    def _among(self, parts: list[ast.expr], depth: int) -> list[str] | None:
        found: list[str] = []
        for part in parts[: MANY + 1]:
            texts = self._texts(part, depth + 1)
            if texts is None and not isinstance(part, (ast.Constant, ast.Lambda)) and not self._of_module(part):
                return None
            found += texts or []
        return found

    def _of_module(self, node: ast.expr) -> bool:
        """Whether an expression is `torch.float32` or the like."""
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return False
        bounds = self._scopes.of.get(node, self._scopes.top).find(node.value.id) or []
        return bool(bounds) and all(isinstance(bound.source, Imported) for bound in bounds)
