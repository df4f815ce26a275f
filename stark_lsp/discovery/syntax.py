"""Parsing that fails in one way only, and finding classes and statements."""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Iterator

from stark_lsp.core.editing import keep_ends, split_lines
from stark_lsp.core.parsing import BOM, LONGEST, ONE_AT_A_TIME, parse

__all__ = [
    "BOM",
    "BUILTINS",
    "LONGEST",
    "Import",
    "blocks",
    "check_compiles",
    "class_names",
    "find_class",
    "first_line",
    "import_paths",
    "is_python",
    "keep_ends",
    "last_line",
    "parse",
    "split_lines",
    "targets",
]

BUILTINS = frozenset(dir(builtins))

Import = ast.Import | ast.ImportFrom


def check_compiles(text: str) -> None:
    """Check what the syntax tree does not tell: `return` outside a function, `from __future__` behind code.

    Raises
    ------
    SyntaxError
        Python would not take the text as a file.
    """
    try:
        with ONE_AT_A_TIME, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text.removeprefix(BOM), "<document>", "exec", dont_inherit=True)
    except SyntaxError:
        raise
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise SyntaxError(f"not readable as Python: {error}") from error


def is_python(text: str) -> bool:
    """Whether a text can be parsed."""
    try:
        parse(text)
    except SyntaxError:
        return False
    return True


def first_line(node: ast.stmt) -> int:
    """Return the 0-based first line of a statement, decorators included."""
    line = node.lineno
    for decorator in getattr(node, "decorator_list", ()):
        line = min(line, decorator.lineno)
    return line - 1


def last_line(node: ast.stmt) -> int:
    """Return the 0-based last line of a statement."""
    return (node.end_lineno or node.lineno) - 1


def blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """Return the statement lists directly inside a compound statement, in source order."""
    found: list[list[ast.stmt]] = []
    for field in ("body", "handlers", "cases", "orelse", "finalbody"):
        inner = getattr(statement, field, None)
        if not isinstance(inner, list) or not inner:
            continue
        if isinstance(inner[0], ast.stmt):
            found.append(inner)
        else:
            found.extend(part.body for part in inner)
    return found


def targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    """Return what an assignment assigns to."""
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _classes(statements: list[ast.stmt]) -> Iterator[ast.ClassDef]:
    """Yield the classes among statements and in their blocks, those inside functions and other classes left out."""
    for statement in statements:
        if isinstance(statement, ast.ClassDef):
            yield statement
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for block in blocks(statement):
                yield from _classes(block)


def class_names(tree: ast.Module) -> list[str]:
    """Return the names of the classes at module level, in source order, each once."""
    return list(dict.fromkeys(cls.name for cls in _classes(tree.body)))


def find_class(tree: ast.Module, qualname: str) -> list[ast.ClassDef]:
    """Return the definitions of `qualname`, in source order; classes inside functions are not found."""
    found: list[ast.ClassDef] = []
    bodies = [tree.body]
    for name in qualname.split("."):
        found = [cls for body in bodies for cls in _classes(body) if cls.name == name]
        bodies = [cls.body for cls in found]
    return found


def import_paths(node: Import) -> list[tuple[ast.alias, str, str, str]]:
    """Return, for each alias of an import: itself, the name it binds, the path that stands for, the module loaded."""
    found: list[tuple[ast.alias, str, str, str]] = []
    for alias in node.names:
        if isinstance(node, ast.Import):
            top = alias.name.partition(".")[0]
            found.append((alias, alias.asname or top, alias.name if alias.asname else top, alias.name))
        else:
            package = "." * node.level + (node.module or "")
            joint = "" if package.endswith(".") else "."
            found.append((alias, alias.asname or alias.name, f"{package}{joint}{alias.name}", package))
    return found
