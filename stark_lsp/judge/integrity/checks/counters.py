"""A number that grows with each call, and decides what is done."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import Candidate
from ..names import own_nodes
from ..words import Refusal
from .state import is_tool, root_of


def call_counters(candidate: Candidate) -> Iterator[Refusal]:
    """A number that grows with each call, and decides what is done."""
    ours = _counted(candidate.reference) if candidate.reference is not None else {}
    counted = _counted(candidate)
    for root, line in counted.items():
        if root in ours:
            continue
        if _decides(candidate, root):
            yield Refusal("It counts its calls and behaves by their number.", line)
    for function in candidate.forward_functions:
        for node in own_nodes(function):
            if isinstance(node, ast.Call) and node.args and "builtins.next" in candidate.names.of(node.func):
                first = node.args[0]
                if root_of(candidate, first) or "itertools.count()" in candidate.names.of(first):
                    yield Refusal("It counts its calls and behaves by their number.", node.lineno)


def _counted(candidate: Candidate) -> dict[str, int]:
    """Return the state that grows by itself in a forward pass, with the line."""
    found: dict[str, int] = {}
    for function in candidate.forward_functions:
        for node in own_nodes(function):
            if isinstance(node, ast.AugAssign):
                root = root_of(candidate, node.target)
                if root and not _is_tensor_sum(node):
                    found.setdefault(root, node.lineno)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
                for target in node.targets:
                    root = root_of(candidate, target)
                    if root and root in {root_of(candidate, part) for part in ast.walk(node.value)}:
                        found.setdefault(root, node.lineno)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
                root = root_of(candidate, node.func.value)
                if root and node.args and not is_tool(candidate, node.args[0]):
                    found.setdefault(root, node.lineno)
    return found


def _is_tensor_sum(node: ast.AugAssign) -> bool:
    return not isinstance(node.value, ast.Constant) and isinstance(node.op, (ast.MatMult,))


def _decides(candidate: Candidate, root: str) -> bool:
    """Whether state takes part in a condition, or in choosing an element."""
    for function in candidate.forward_functions:
        for node in own_nodes(function):
            tests: list[ast.AST] = []
            if isinstance(node, (ast.If, ast.IfExp, ast.While)):
                tests = [node.test]
            elif isinstance(node, (ast.Compare, ast.BoolOp)):
                tests = [node]
            elif isinstance(node, ast.Subscript):
                tests = [node.slice]
            elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.FloorDiv, ast.Mult)):
                tests = [node]
            for test in tests:
                if any(root_of(candidate, part) == root for part in ast.walk(test)):
                    return True
    return False
