"""Builds in a `try` whose handlers build another kernel in place of the one that failed: what honest code does where it
does not know which flags a compiler takes.

What is built must take the failed one's place under its name, and nothing else may differ between the two ways: a flag
that one of them sets would let the forward pass know, and do without both.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from .candidate import Candidate

RETURNED = "return"
"""Stands for the name of what a function returns."""
_TOLD = ("builtins.print", "warnings.", "logging.")
"""Calls that tell somebody something and change nothing."""
_DEEPEST = 8
"""Functions that return what other functions return."""


class Alternatives(NamedTuple):
    """Extensions that another one may take the place of, or that take the place of another one."""

    names: frozenset[str]
    all: bool
    """Whether there are some whose names are made at run time, so that it may be any."""

    def include(self, name: str) -> bool:
        """Whether an extension may be one of them."""
        return self.all or name in self.names


NO_ALTERNATIVES = Alternatives(frozenset(), False)


def alternatives_of(candidate: Candidate) -> Alternatives:
    """Return the extensions of a candidate that are alternatives of each other."""
    names: set[str] = set()
    unknown = False
    for node in ast.walk(candidate.tree):
        if not isinstance(node, ast.Try) or not candidate.reaches_kernel(node.body) or not replaces(candidate, node):
            continue
        for call in candidate.mentioned([node]) & {*candidate.builds}:
            name = _name(call)
            if isinstance(name, ast.Constant):
                names.add(str(name.value))
            else:
                unknown = True
    return Alternatives(frozenset(names), unknown)


def _name(call: ast.AST) -> ast.expr:
    """Return the expression of an extension's name."""
    assert isinstance(call, ast.Call)
    named = [word.value for word in call.keywords if word.arg == "name"]
    return [*named, *call.args, ast.Constant(None)][0]


def replaces(candidate: Candidate, node: ast.Try) -> bool:
    """Whether each handler either raises, or builds a kernel in place of the one that the body builds."""
    return _Reader(candidate, node).replaces()


def always_raises(body: Sequence[ast.stmt]) -> bool:
    """Whether every way through statements raises."""
    for statement in body:
        if isinstance(statement, ast.Raise):
            return True
        if (
            isinstance(statement, ast.If)
            and statement.orelse
            and always_raises(statement.body)
            and always_raises(statement.orelse)
        ):
            return True
        if isinstance(statement, (ast.Return, ast.Continue, ast.Break)):
            return False
        if isinstance(statement, ast.With) and always_raises(statement.body):
            return True
    return False


def returns(bound: set[str]) -> bool:
    """Whether something is returned, rather than bound to a name."""
    return all(name.startswith(f"{RETURNED} ") for name in bound)


class _Reader:
    """Reads one `try`.

    Parameters
    ----------
    candidate
        The file.
    node
        The outermost `try`.
    """

    def __init__(self, candidate: Candidate, node: ast.Try) -> None:
        self._candidate = candidate
        self._node = node
        self._inside = set(ast.walk(node))

    def replaces(self) -> bool:
        loop = self._loop()
        body = self._node.body
        leaves = loop is not None and isinstance(body[-1], ast.Break)
        bound = self._bound(body[:-1] if leaves else body)
        if not bound or self._node.orelse:
            return False
        # A loop over flags, that raises when none of them did.
        tries_on = loop is not None and always_raises(loop.orelse) and (leaves or returns(bound))
        for handler in self._node.handlers:
            made = handler.body[:-1] if tries_on and isinstance(handler.body[-1], ast.Continue) else handler.body
            if not always_raises(handler.body) and self._bound(made) not in ([bound, set()] if tries_on else [bound]):
                return False
        return True

    def _loop(self) -> ast.For | None:
        """Return the loop that consists of nothing but this `try`."""
        for node in ast.walk(self._candidate.tree):
            if isinstance(node, ast.For) and node.body == [self._node]:
                return node
        return None

    def _bound(self, body: Sequence[ast.stmt]) -> set[str] | None:
        """Return what statements bind to kernels that they build; None if they do, or may do, anything else."""
        found: set[str] = set()
        for statement in body:
            if isinstance(statement, (ast.Pass, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)):
                continue
            made = self._of(statement)
            if made is None:
                return None
            found |= made
        return found

    def _of(self, statement: ast.stmt) -> set[str] | None:
        if isinstance(statement, ast.Return):
            part = self._built(statement.value)
            return None if part is None else {f"{RETURNED} {part}"}
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            part = self._built(statement.value)
            if part is not None:
                return {f"{ast.dump(target)} {part}" for target in targets}
            return set() if all(self._own(target) for target in targets) else None
        if isinstance(statement, ast.Expr):
            return set() if self._tells(statement.value) else None
        if isinstance(statement, ast.With):
            return self._bound(statement.body)
        if isinstance(statement, ast.If):
            ways = [part for part in (statement.body, statement.orelse) if not always_raises(part)]
            return self._same([self._bound(part) for part in ways])
        if isinstance(statement, ast.Try) and not statement.orelse and not statement.finalbody:
            parts = [statement.body, *(handler.body for handler in statement.handlers)]
            return self._same([self._bound(part) for part in parts if not always_raises(part)])
        return None

    @staticmethod
    def _same(ways: list[set[str] | None]) -> set[str] | None:
        """Return what all ways bind, None if they differ."""
        return ways[0] if ways and all(way == ways[0] for way in ways) else None

    def _own(self, target: ast.expr) -> bool:
        """Whether a name is used nowhere outside of this `try`."""
        return isinstance(target, ast.Name) and all(
            node in self._inside
            for node in ast.walk(self._candidate.tree)
            if isinstance(node, ast.Name) and node.id == target.id
        )

    def _tells(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return True
        if not isinstance(node, ast.Call):
            return False
        paths = self._candidate.names.of(node.func)
        return bool(paths) and all(path.startswith(_TOLD) for path in paths)

    def _built(self, node: ast.expr | None) -> str | None:
        """Return which part of a kernel that was just built an expression is, empty for all of it; None for others."""
        if isinstance(node, ast.Attribute):
            whole = self._built(node.value)
            return None if whole is None else f"{whole}.{node.attr}"
        return "" if self._builds(node, 0) else None

    def _builds(self, node: ast.expr | None, depth: int) -> bool:
        """Whether an expression is a build, or a function of the file that returns nothing else."""
        if not isinstance(node, ast.Call) or depth > _DEEPEST:
            return False
        if node in self._candidate.builds:
            return True
        made = self._candidate.names.functions(node.func)
        return bool(made) and all(
            isinstance(one, ast.FunctionDef) and self._returns_builds(one, depth + 1) for one in made
        )

    def _returns_builds(self, function: ast.FunctionDef, depth: int) -> bool:
        returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
        return bool(returned) and all(self._builds(value, depth) for value in returned)
