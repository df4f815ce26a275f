"""A `try` around a build that warns and goes on without the kernel: right where users run a file, never for a judge.

Users keep an accepted file and run it on machines without a compiler too; PyTorch's operators are better there than an
error. What is judged must be the kernel, so a candidate is run with `raise` in the place of such a handler.
"""

from __future__ import annotations

import ast
import re

from .candidate import Candidate
from .parsing import syntax_tree

_LINES = re.compile(r".*?(?:\r\n|\r|\n)|.+", re.S)
"""Lines as Python counts them, which `str.splitlines` does not."""
WARN = "warnings.warn"


def forgoes(candidate: Candidate, node: ast.Try) -> bool:
    """Whether a `try` builds one kernel and does nothing else, and its handler warns and does nothing else.

    A launch does not count: where that fails, the error must come out.
    """
    *imports, build = node.body
    if not all(isinstance(item, (ast.Import, ast.ImportFrom)) for item in imports):
        return False
    if not isinstance(build, (ast.Assign, ast.Return)) or build.value not in candidate.builds:
        return False
    if len(node.handlers) != 1 or node.finalbody:
        return False
    body = node.handlers[0].body
    return any(_warns(candidate, item) for item in body) and all(
        _warns(candidate, item) or _gives_nothing(item) for item in body
    )


def _warns(candidate: Candidate, item: ast.stmt) -> bool:
    return (
        isinstance(item, ast.Expr)
        and isinstance(item.value, ast.Call)
        and candidate.names.of(item.value.func) == {WARN}
    )


def _gives_nothing(item: ast.stmt) -> bool:
    if isinstance(item, ast.Assign):
        return all(isinstance(target, ast.Name) for target in item.targets) and isinstance(item.value, ast.Constant)
    if isinstance(item, ast.Return):
        return item.value is None or isinstance(item.value, ast.Constant)
    return isinstance(item, ast.Pass)


def without_forgoing(candidate: Candidate, source: str) -> str:
    """Return a source in which every such handler raises; all lines keep their numbers."""
    found = [
        node
        for node in ast.walk(candidate.tree)
        if isinstance(node, ast.Try) and candidate.reaches_kernel(node.body) and forgoes(candidate, node)
    ]
    if not found:
        return source
    lines = [line.encode() for line in _LINES.findall(source)]
    places = {node.handlers[0].lineno for node in found}
    for node in found:
        first, last = node.handlers[0].body[0], node.handlers[0].body[-1]
        begin, end = first.lineno - 1, (last.end_lineno or last.lineno) - 1
        rest = lines[end][last.end_col_offset or 0 :]
        lines[begin] = lines[begin][: first.col_offset] + b"raise" + (b"\n" if begin < end else rest)
        for number in range(begin + 1, end + 1):
            lines[number] = b"\n"
    text = b"".join(lines).decode()
    wanted = syntax_tree(source)
    for item in ast.walk(wanted):
        if isinstance(item, ast.ExceptHandler) and item.lineno in places:
            item.body = [ast.Raise()]
    try:
        if ast.dump(syntax_tree(text)) == ast.dump(wanted):
            return text
    except SyntaxError:
        pass
    # Written in a way that lines do not tell; what it means counts more than its line numbers.
    return ast.unparse(ast.fix_missing_locations(wanted))
