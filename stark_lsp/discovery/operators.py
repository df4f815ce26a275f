"""Which operators of torch a class is made of, as far as its text tells; classes that share most are similar.

An operator is what is called of torch in the slice (`nn.Linear(…)`, `torch.softmax(…)`, `F.gelu(…)`), what is called
outside of constructors on anything but `self` (`x.softmax(…)`), and `@`. Names count without case and underscores, so
that `nn.LayerNorm` is `F.layer_norm`. `+`, `*` and the like say nothing.
"""

from __future__ import annotations

import ast
from functools import lru_cache

from stark_lsp.discovery.names import Scope
from stark_lsp.discovery.syntax import parse

ALIKE = 0.5
"""Share of the operators of two classes that both must have, of those that either has."""

_NO_WORK = frozenset(
    {
        *("module", "modulelist", "moduledict", "sequential", "parameter", "parameterlist", "buffer", "identity"),
        *("tensor", "empty", "zeros", "ones", "full", "rand", "randn", "randint", "arange", "device", "nograd"),
        *("view", "reshape", "size", "dim", "contiguous", "to", "append", "items", "get"),
    }
)
"""Containers, what makes tensors, and methods that say nothing."""


@lru_cache(maxsize=256)
def operators(source: str) -> frozenset[str]:
    """Return the operators of a slice; none if it is no Python."""
    scope, found = Scope(), set[str]()
    try:
        tree = parse(source)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                scope.bind_import(node)
        _collect(tree, scope, found, constructing=False)
    except (SyntaxError, RecursionError):
        return frozenset()
    return frozenset(found - _NO_WORK)


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of the operators of two classes that both have, 0 to 1; 0 where nothing is known."""
    return len(one & other) / len(one | other) if one and other else 0.0


def _collect(node: ast.AST, scope: Scope, found: set[str], constructing: bool) -> None:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        constructing = node.name == "__init__"
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.MatMult):
        found.add("matmul")
    elif isinstance(node, ast.Call):
        name = _called(node.func, scope, constructing)
        if name:
            found.add(name.lower().replace("_", ""))
    for child in ast.iter_child_nodes(node):
        _collect(child, scope, found, constructing)


def _called(function: ast.expr, scope: Scope, constructing: bool) -> str:
    """Return the name of the operator that is called, empty if it is none."""
    paths = scope.resolve(function)
    if paths:
        path = min(paths)
        return path.rpartition(".")[2] if path.startswith("torch.") and ".init." not in path else ""
    if constructing or not isinstance(function, ast.Attribute):
        return ""
    root = function.value
    return "" if isinstance(root, ast.Name) and root.id == "self" else function.attr
