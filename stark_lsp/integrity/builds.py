"""Builds that may fail: where a file goes on without the kernel, and where it builds another one in its place.

Users keep an accepted file and run it on machines without a compiler too; PyTorch's operators are better there than an
error, said with a warning. What is judged must be the kernel, so a candidate is run with `raise` in the place of such a
handler.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Iterator

from stark_lsp.core.editing import keep_ends
from stark_lsp.core.parsing import parse
from stark_lsp.integrity.facts import Note
from stark_lsp.integrity.source import Source
from stark_lsp.integrity.texts import HOLE

WITHOUT = "Where its kernel cannot be built, it goes on without it."


def to_be_judged(source: Source) -> str:
    """Return what is run in place of a source: where it would warn and go on without its kernel, it raises.

    All lines keep their numbers.
    """
    found = [node for node in _tries(source) if _forgoes(source, node)]
    if not found:
        return source.text
    lines = [line.encode() for line in keep_ends(source.text)]
    places = {node.handlers[0].lineno for node in found}
    for node in found:
        first, last = node.handlers[0].body[0], node.handlers[0].body[-1]
        begin, end = first.lineno - 1, (last.end_lineno or last.lineno) - 1
        rest = lines[end][last.end_col_offset or 0 :]
        lines[begin] = lines[begin][: first.col_offset] + b"raise" + (b"\n" if begin < end else rest)
        for number in range(begin + 1, end + 1):
            lines[number] = b"\n"
    wanted = parse(source.text)
    for item in ast.walk(wanted):
        if isinstance(item, ast.ExceptHandler) and item.lineno in places:
            item.body = [ast.Raise()]
    with contextlib.suppress(SyntaxError, UnicodeDecodeError):
        text = b"".join(lines).decode()
        if ast.dump(parse(text)) == ast.dump(wanted):
            return text
    # Written in a way that lines do not tell.
    return ast.unparse(ast.fix_missing_locations(wanted))


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
        if raises or _forgoes(source, node) or not (node.handlers or _leaves(node.finalbody)):
            continue
        if _reached(source, node.body) and not _reached(source, handled):
            loop = source.names.parents.get(node)
            if not (isinstance(loop, ast.For) and loop.orelse):
                yield Note(WITHOUT, node.handlers[0].lineno if node.handlers else node.lineno)


def _leaves(statements: Iterable[ast.stmt]) -> bool:
    """Whether statements of a `finally` end what was raised, as a `return` there does."""
    return any(
        isinstance(part, (ast.Return, ast.Break, ast.Continue, ast.Yield))
        for item in statements
        for part in ast.walk(item)
    )


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


def _forgoes(source: Source, node: ast.Try) -> bool:
    """Whether a `try` builds one kernel and does nothing else, and its handler warns and does nothing else.

    A launch does not count: where that fails, the error must come out.
    """
    *before, build = node.body
    if not all(isinstance(item, (ast.Import, ast.ImportFrom)) for item in before):
        return False
    if not isinstance(build, (ast.Assign, ast.Return)) or build.value not in source.builds:
        return False
    if len(node.handlers) != 1 or node.finalbody:
        return False
    body = node.handlers[0].body
    return any(_warns(source, item) for item in body) and all(
        _warns(source, item) or _gives_nothing(item) for item in body
    )


def _warns(source: Source, item: ast.stmt) -> bool:
    return (
        isinstance(item, ast.Expr)
        and isinstance(item.value, ast.Call)
        and source.names.of(item.value.func) == {"warnings.warn"}
    )


def _gives_nothing(item: ast.stmt) -> bool:
    if isinstance(item, ast.Assign):
        return all(isinstance(target, ast.Name) for target in item.targets) and isinstance(item.value, ast.Constant)
    if isinstance(item, ast.Return):
        return item.value is None or isinstance(item.value, ast.Constant)
    return isinstance(item, ast.Pass)
