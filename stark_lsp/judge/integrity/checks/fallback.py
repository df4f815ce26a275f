"""PyTorch operators in place of a kernel that fails."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import Candidate
from ..forgoing import forgoes
from ..replacing import always_raises, replaces
from ..words import Refusal


def hidden_failures(candidate: Candidate) -> Iterator[Refusal]:
    """`try` around the build, loading or launch of a kernel, and going on without it and without a warning."""
    if not candidate.has_kernels:
        return
    for node in ast.walk(candidate.tree):
        if isinstance(node, ast.Try) and candidate.reaches_kernel(node.body):
            for handler in node.handlers:
                if always_raises(handler.body) or forgoes(candidate, node) or replaces(candidate, node):
                    continue
                yield Refusal(
                    "When its kernel fails, it goes on without it; let the error out, build another kernel in its "
                    "place and under its name, or choose by an explicit condition where the kernel does not apply.",
                    handler.lineno,
                )
            if _returns(node.finalbody):
                yield Refusal("When its kernel fails, it goes on without it.", node.finalbody[0].lineno)
        elif isinstance(node, (ast.With, ast.AsyncWith)) and candidate.reaches_kernel(node.body):
            for item in node.items:
                if candidate.names.of(item.context_expr) & {"contextlib.suppress()"}:
                    yield Refusal("When its kernel fails, it goes on without it.", node.lineno)


def _returns(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, (ast.Return, ast.Break, ast.Continue)) for item in body for node in ast.walk(item))


def unused_kernels(candidate: Candidate) -> Iterator[Refusal]:
    """Kernels that no forward pass can reach."""
    if not candidate.has_kernels or not candidate.forwards:
        return
    main = candidate.main
    reached = candidate.mentioned(candidate.forwards)
    if main is not None:
        reached = reached | candidate.mentioned([main])
    for function in candidate.jit_functions:
        if not _used(candidate, function):
            yield Refusal(f"The kernel {function.name} is never launched.", function.lineno)
    seeds: set[ast.AST] = {*candidate.builds, *candidate.jit_functions}
    if not candidate.mentioned(candidate.forwards) & seeds and not reached & seeds:
        first = min(seeds, key=lambda node: getattr(node, "lineno", 0))
        yield Refusal("It has a kernel, but its forward pass never gets there.", getattr(first, "lineno", None))


def _used(candidate: Candidate, function: ast.FunctionDef) -> bool:
    inside = set(ast.walk(function))
    return any(
        node not in inside
        and (
            (isinstance(node, ast.Name) and node.id == function.name and isinstance(node.ctx, ast.Load))
            or (isinstance(node, ast.Attribute) and node.attr == function.name)
        )
        for node in ast.walk(candidate.tree)
    )
