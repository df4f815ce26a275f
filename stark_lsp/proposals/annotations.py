"""Quoting annotations: what `from __future__ import annotations` does, without changing the rest of a file."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from stark_lsp.discovery.syntax import keep_ends, parse
from stark_lsp.proposals.scopes import FUNCTION, annotations_of


def quoted(text: str) -> str:
    """Return complete statements with every annotation that would be executed as a string."""
    lines = keep_ends(text)
    found = sorted(_executed(parse(text).body), key=lambda part: (part.lineno, part.col_offset), reverse=True)
    for part in found:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            continue
        first, last = part.lineno - 1, (part.end_lineno or part.lineno) - 1
        before = lines[first].encode()[: part.col_offset].decode()
        after = lines[last].encode()[part.end_col_offset :].decode()
        lines[first : last + 1] = [before + repr(ast.unparse(part)) + after]
    return "".join(lines)


def _executed(statements: Iterable[ast.stmt]) -> Iterable[ast.expr]:
    """Yield annotations; those of a function's own variables are never executed."""
    pending: list[tuple[ast.AST, bool]] = [(statement, False) for statement in statements]
    while pending:
        node, inside = pending.pop()
        if isinstance(node, FUNCTION) or (isinstance(node, ast.AnnAssign) and not inside):
            yield from annotations_of(node)
        inside = isinstance(node, FUNCTION) or (inside and not isinstance(node, ast.ClassDef))
        pending.extend((child, inside) for child in ast.iter_child_nodes(node))
