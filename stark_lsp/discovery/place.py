"""Where a class stands in its file, and so where what comes with it goes."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from stark_lsp.discovery.layout import indent_of
from stark_lsp.discovery.syntax import blocks, first_line, last_line

_ENCODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+")
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Place:
    """The way from the module level down to a class."""

    chain: tuple[ast.stmt, ...]
    """The statement at module level, each compound statement and class inside it, and the class itself."""
    block: tuple[ast.stmt, ...]
    """The statements of the block in which the class, or the outermost class around it, stands."""
    above: tuple[ast.stmt, ...] = ()
    """Statements that have been executed when that block is entered."""

    @property
    def node(self) -> ast.ClassDef:
        """The class itself."""
        node = self.chain[-1]
        assert isinstance(node, ast.ClassDef)
        return node

    @property
    def outer(self) -> ast.ClassDef:
        """The outermost class around it, or itself."""
        return next(node for node in self.chain if isinstance(node, ast.ClassDef))

    @property
    def nested(self) -> bool:
        """Whether it stands in another class."""
        return self.outer is not self.node

    @property
    def prefix(self) -> str:
        """`Outer.` for `Outer.Block`, empty for a class that is not nested."""
        return "".join(f"{node.name}." for node in self.chain[:-1] if isinstance(node, ast.ClassDef))

    @property
    def parent(self) -> ast.ClassDef | None:
        """The class it stands in directly, or None."""
        around = [node for node in self.chain[:-1] if isinstance(node, ast.ClassDef)]
        return around[-1] if around else None

    def before(self, line: int) -> list[ast.stmt]:
        """Return the statements that have been executed when a line of the block is reached."""
        return [*self.above, *(node for node in self.block if first_line(node) < line)]


def places(tree: ast.Module) -> list[Place]:
    """Return the place of every class that is not inside a function, in source order."""
    found: list[Place] = []

    def visit(
        statements: list[ast.stmt], chain: tuple[ast.stmt, ...], block: list[ast.stmt], above: tuple[ast.stmt, ...]
    ) -> None:
        inside_class = any(isinstance(node, ast.ClassDef) for node in chain)
        for index, statement in enumerate(statements):
            if isinstance(statement, ast.ClassDef):
                found.append(Place((*chain, statement), tuple(block), above))
                visit(statement.body, (*chain, statement), block, above)
            elif not isinstance(statement, _Function) and (inner := blocks(statement)):
                upper = above if inside_class else (*above, *statements[:index])
                for part in inner:
                    visit(part, (*chain, statement), block if inside_class else part, upper)

    visit(tree.body, (), tree.body, ())
    return found


def comment_top(lines: Sequence[str], node: ast.stmt) -> int:
    """Return the first line of the comment block right above a statement, or of the statement itself."""
    top = first_line(node)
    indent = indent_of(lines[top])
    while top > 0 and lines[top - 1].startswith(indent + "#"):
        top -= 1
    return top


def end_with_comments(lines: Sequence[str], node: ast.stmt) -> int:
    """Return the last line of a block statement, comments inside its body that follow its last statement included."""
    last = last_line(node)
    indent = len(indent_of(lines[first_line(node)]).expandtabs())
    for number in range(last + 1, len(lines)):
        line = lines[number]
        if not line.strip():
            continue
        if not line.lstrip().startswith("#") or len(indent_of(line).expandtabs()) <= indent:
            break
        last = number
    return last


def import_line(tree: ast.Module, lines: Sequence[str], before: int) -> int:
    """Return the line before which new imports go: behind the imports at the head of the file."""
    line = future_line(tree, lines)
    for node in tree.body:
        if first_line(node) >= before or isinstance(node, (*_Function, ast.ClassDef)):
            break
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            line = max(line, line_after(tree, node))
    return line


def future_line(tree: ast.Module, lines: Sequence[str]) -> int:
    """Return the first line at which imports may stand: behind the docstring and imports from `__future__`."""
    line: int | None = None
    for index, node in enumerate(tree.body):
        docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        docstring = docstring and isinstance(node.value.value, str)  # type: ignore[attr-defined]
        if not docstring and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        line = line_after(tree, node)
    if line is not None:
        return line
    line = 0  # behind the comments a file opens with: interpreter, encoding, licence
    while line < len(lines) and lines[line].removeprefix("\ufeff").startswith("#"):
        line += 1
    first = comment_top(lines, tree.body[0]) if tree.body else line
    encoding = [number for number, text in enumerate(lines[:2]) if _ENCODING.match(text)]  # elsewhere it says nothing
    return max(first if 0 < first < line else line, *(number + 1 for number in encoding), 0)


def line_after(tree: ast.Module, node: ast.stmt) -> int:
    """Return the first line behind a statement that no other statement reaches into (`import a; b = (`)."""
    end = last_line(node)
    for other in tree.body:
        if first_line(other) <= end < last_line(other):
            end = last_line(other)
    return end + 1
