"""What names of a Python file stand for: dotted paths of what it imports, through aliases and plain assignments.

`F.relu` after `import torch.nn.functional as F` is `torch.nn.functional.relu`; `open` is `builtins.open` where the file
binds no such name; what a call returns is the path of the function with `()`. What the file defines itself has no path.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEEPEST = 12
"""Steps from name to name, and attributes in a row, that are followed."""
_MOST = 8
"""Paths of one name."""


@dataclass
class Scope:
    """The names that a module, class or function binds."""

    node: ast.AST
    parent: Scope | None
    bound: dict[str, list[str | ast.expr | None]] = field(default_factory=dict)
    """For each name: paths that were imported, expressions that were assigned, None for whatever else."""

    def bind(self, name: str, value: str | ast.expr | None) -> None:
        """Add what a name may stand for."""
        self.bound.setdefault(name, []).append(value)

    def find(self, name: str) -> tuple[Scope, list[str | ast.expr | None]] | None:
        """Return where a name is bound and what it may stand for, None if nowhere."""
        scope: Scope | None = self
        while scope is not None:
            # The body of a class is no scope of its methods.
            if name in scope.bound and (scope is self or not isinstance(scope.node, ast.ClassDef)):
                return scope, scope.bound[name]
            scope = scope.parent
        return None


class Names:
    """The names of one file.

    Parameters
    ----------
    tree
        The file.

    Attributes
    ----------
    nodes
        All nodes of the tree, parents before their children.
    scopes
        Scope in which a node is read.
    parents
        The node above a node.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.top = Scope(tree, None)
        self.nodes: list[ast.AST] = []
        self.scopes: dict[ast.AST, Scope] = {}
        self.parents: dict[ast.AST, ast.AST] = {}
        self._known: dict[ast.AST, frozenset[str]] = {}
        stack: list[tuple[ast.AST, Scope]] = [(tree, self.top)]
        while stack:
            node, scope = stack.pop()
            self.nodes.append(node)
            self.scopes[node] = scope
            inner = self._enter(node, scope)
            children = list(ast.iter_child_nodes(node))
            for child in children:
                self.parents[child] = node
            outside = _outside(node)
            stack += [(child, scope if child in outside else inner) for child in reversed(children)]

    def of(self, node: ast.AST, depth: int = 0) -> frozenset[str]:
        """Return the paths that an expression may stand for; none for what the file makes itself."""
        if node in self._known:
            return self._known[node]
        if depth > _DEEPEST:
            return frozenset()
        self._known[node] = frozenset()
        found = frozenset(sorted(self._of(node, depth))[:_MOST])
        self._known[node] = found
        return found

    def _enter(self, node: ast.AST, scope: Scope) -> Scope:
        """Bind what a node binds; returns the scope of what is in it."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope.bind(node.name, None)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                path = alias.name if alias.asname else alias.name.partition(".")[0]
                scope.bind(alias.asname or path, path)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                scope.bind(alias.asname or alias.name, f"{module}.{alias.name}")
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                _bind(scope, target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            _bind(scope, node.target, node.value if isinstance(node, ast.AnnAssign) else None)
        elif isinstance(node, ast.NamedExpr):
            _bind(scope, node.target, node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            _bind(scope, node.target, None)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            _bind(scope, node.optional_vars, None)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            scope.bind(node.name, None)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            for name in node.names:
                # Assignments go to the outer name from here on; this one stands for it too.
                found = scope.parent.find(name) if scope.parent else None
                scope.bound[name] = found[1] if found else self.top.bound.setdefault(name, [])
        if not isinstance(node, (*Function, ast.ClassDef)):
            return scope
        inner = Scope(node, scope)
        if not isinstance(node, ast.ClassDef):
            given = node.args
            rest = [one for one in (given.vararg, given.kwarg) if one is not None]
            for argument in [*given.posonlyargs, *given.args, *given.kwonlyargs, *rest]:
                inner.bind(argument.arg, None)
        return inner

    def _of(self, node: ast.AST, depth: int) -> set[str]:
        if isinstance(node, ast.Name):
            return self._of_name(node, depth)
        if isinstance(node, ast.Attribute):
            parts: list[str] = []
            base: ast.expr = node
            while isinstance(base, ast.Attribute) and len(parts) < _DEEPEST:
                parts.append(base.attr)
                base = base.value
            rest = ".".join(reversed(parts))
            return set() if isinstance(base, ast.Attribute) else {f"{p}.{rest}" for p in self.of(base, depth + 1)}
        if isinstance(node, ast.Call):
            return self._of_call(node, depth)
        if isinstance(node, ast.Subscript):
            return {f"{path}[]" for path in self.of(node.value, depth + 1)}
        if isinstance(node, ast.IfExp):
            return {*self.of(node.body, depth + 1), *self.of(node.orelse, depth + 1)}
        if isinstance(node, ast.NamedExpr):
            return set(self.of(node.value, depth + 1))
        return set()

    def _of_name(self, node: ast.Name, depth: int) -> set[str]:
        found = self.scopes[node].find(node.id)
        if found is None:
            return {f"builtins.{node.id}"}
        paths: set[str] = set()
        for value in found[1][:_MOST]:
            if isinstance(value, str):
                paths.add(value)
            elif value is not None:
                paths |= self.of(value, depth + 1)
        return paths

    def _of_call(self, node: ast.Call, depth: int) -> set[str]:
        called = self.of(node.func, depth + 1)
        said = [one.value for one in node.args[:2] if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if "builtins.getattr" in called and len(node.args) > 1 and len(said) == 1:
            return {f"{path}.{said[0]}" for path in self.of(node.args[0], depth + 1)}
        if called & {"builtins.__import__", "importlib.import_module"} and said:
            return {said[0] if "importlib.import_module" in called else said[0].partition(".")[0]}
        return {f"{path}()" for path in called}


def _bind(scope: Scope, target: ast.expr, value: ast.expr | None) -> None:
    if isinstance(target, ast.Name):
        scope.bind(target.id, value)
    elif isinstance(target, ast.Starred):
        _bind(scope, target.value, None)
    elif isinstance(target, (ast.Tuple, ast.List)):
        values: list[ast.expr] | None = value.elts if isinstance(value, (ast.Tuple, ast.List)) else None
        for number, part in enumerate(target.elts):
            _bind(scope, part, values[number] if values is not None and len(values) == len(target.elts) else None)


def _outside(node: ast.AST) -> set[ast.AST]:
    """Return the children of a function or class that are read where it is defined: decorators, defaults, bases."""
    if isinstance(node, ast.ClassDef):
        return {*node.decorator_list, *node.bases, *node.keywords}
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return {*node.decorator_list}
    return set()
