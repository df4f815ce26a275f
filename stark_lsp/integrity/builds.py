"""Builds that may fail: where a file goes on without the kernel, and where it builds another one in its place.

Users keep an accepted file and run it on machines without a compiler too; PyTorch's operators are better there than an
error, said with a warning. What is judged is the kernel: a candidate whose build failed is not taken for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from stark_lsp.integrity.facts import Note
from stark_lsp.integrity.source import Source
from stark_lsp.integrity.texts import HOLE

WITHOUT = "Where its kernel cannot be built, it goes on without it; the kernel was judged."


def alternatives(source: Source) -> tuple[str, ...]:
    """Return names of extensions that take each other's place when one does not build, `*` for what is made.

    Those that a `try` and its handlers build, and those that a `try` in a loop builds one after the other.
    """
    found: list[str] = []
    for node in _tries(source):
        built = _reached(source, node.body)
        instead = _reached(source, [item for handler in node.handlers for item in handler.body])
        loop = source.names.parents.get(node)
        if (built and instead) or (built and isinstance(loop, ast.For) and loop.body == [node]):
            found += [_name(source, call) for call in [*built, *instead]]
    return tuple(dict.fromkeys(found))


def notes(source: Source) -> Iterator[Note]:
    """Going on without a kernel that does not build."""
    for node in _tries(source):
        handled = [item for handler in node.handlers for item in handler.body]
        raises = any(isinstance(part, ast.Raise) for item in handled for part in ast.walk(item))
        if raises or any(_warns(source, item) for item in handled):
            continue
        if _reached(source, node.body) and not _reached(source, handled):
            loop = source.names.parents.get(node)
            if not (isinstance(loop, ast.For) and loop.orelse):
                yield Note(WITHOUT, node.handlers[0].lineno if node.handlers else node.lineno)


def _tries(source: Source) -> list[ast.Try]:
    if not source.builds:
        return []
    return [node for node in source.names.nodes if isinstance(node, ast.Try)]


def _reached(source: Source, statements: Iterable[ast.stmt]) -> list[ast.Call]:
    """Return the builds in statements and in the functions of the file that they call by name."""
    seen: set[str] = set()
    stack: list[ast.AST] = list(statements)
    found: list[ast.Call] = []
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call):
            if node in source.builds:
                found.append(node)
            elif isinstance(node.func, ast.Name) and node.func.id in source.functions and node.func.id not in seen:
                seen.add(node.func.id)
                stack.append(source.functions[node.func.id])
        stack += ast.iter_child_nodes(node)
    return found


def _name(source: Source, call: ast.Call) -> str:
    """Return the pattern of an extension's name."""
    given = next((word.value for word in call.keywords if word.arg == "name"), call.args[0] if call.args else None)
    text = source.folder.fold(given) if given is not None else None
    return re.sub(r"([*?[])", r"[\1]", text.value).replace(HOLE, "*") if text is not None else "*"


def _warns(source: Source, item: ast.stmt) -> bool:
    return (
        isinstance(item, ast.Expr)
        and isinstance(item.value, ast.Call)
        and source.names.of(item.value.func) == {"warnings.warn"}
    )
