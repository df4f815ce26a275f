"""Giving names in a piece of Python other names, by scope and without touching anything else of the text.

Only names of the module level are renamed: where a function, lambda or comprehension has a variable of its own
with such a name, that one stays, and so do attributes, keyword arguments, methods and texts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

from stark_lsp.core.editing import Replacement, apply_edits
from stark_lsp.discovery.syntax import keep_ends, parse
from stark_lsp.proposals.scopes import (
    COMPREHENSION,
    FUNCTION,
    annotations_of,
    arguments_of,
    hidden_in,
    stored,
    variables_of,
)


def rename(text: str, names: Mapping[str, str]) -> str:
    """Return `text` with names of its module level renamed.

    Parameters
    ----------
    text
        Complete Python statements, not indented.
    names
        New name for each old one. A dotted new name (`Outer.BlockNew`) is used where the old one is referred to, its
        last part where it is defined.
    """
    if not names:
        return text
    tree = parse(text)
    renamer = _Renamer(text, names)
    for statement in tree.body:
        renamer.visit(statement, frozenset(), frozenset(), module=True)
    renamed = renamer.result()
    wanted = ast.unparse(tree)  # the visitor changed the tree, too: it says what the text must mean
    try:
        if ast.dump(parse(renamed)) == ast.dump(parse(wanted)):
            return renamed
    except SyntaxError:
        pass
    return wanted + "\n"  # positions inside f-strings are wrong before Python 3.12; the meaning counts more


class _Renamer:
    def __init__(self, text: str, names: Mapping[str, str]) -> None:
        self._lines = keep_ends(text)
        self._names = names
        self._edits: set[Replacement] = set()

    def result(self) -> str:
        return apply_edits("".join(self._lines), self._edits)

    def visit(self, node: ast.AST, shadow: frozenset[str], local: frozenset[str], *, module: bool = False) -> None:
        """Visit a node; `shadow` are variables of functions around it, `local` those of its class body."""
        if isinstance(node, ast.Name):
            if node.id in self._names and node.id not in shadow and node.id not in local:
                self._replace(node.lineno, self._column(node.lineno, node.col_offset), node.id, self._names[node.id])
                node.id = self._names[node.id]
        elif isinstance(node, FUNCTION):
            self._function(node, shadow, local, module)
        elif isinstance(node, ast.Lambda):
            self._each([*node.args.defaults, *node.args.kw_defaults], shadow, local)
            self.visit(node.body, shadow | arguments_of(node.args), frozenset())
        elif isinstance(node, ast.ClassDef):
            self._each([*node.decorator_list, *node.bases, *node.keywords], shadow, local)
            if module:
                self._define(node, "class")
            before: frozenset[str] = frozenset()
            for statement in node.body:
                own = stored([statement])
                if not isinstance(statement, ast.Assign):
                    self.visit(statement, shadow, before | own)
                else:  # `EPS = EPS` reads the module's name before the class has its own
                    self.visit(statement.value, shadow, before)
                    self._each(statement.targets, shadow, before | own)
                before |= own
        elif isinstance(node, COMPREHENSION):
            own, first = variables_of(node), node.generators[0].iter
            self.visit(first, shadow, local)
            for child in ast.iter_child_nodes(node):
                for part in ast.iter_child_nodes(child) if isinstance(child, ast.comprehension) else [child]:
                    if part is not first:
                        self.visit(part, shadow | own, local)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node, shadow | local)
        elif isinstance(node, ast.Global):
            for index, name in enumerate(node.names):
                if name in self._names:
                    self._words(node, name)
                    node.names[index] = self._last(name)
        else:
            if isinstance(node, ast.AnnAssign):
                self._annotation(node.annotation, shadow | local)
            for child in ast.iter_child_nodes(node):
                self.visit(child, shadow, local, module=module)

    def _each(self, nodes: Iterable[ast.AST | None], shadow: frozenset[str], local: frozenset[str]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node, shadow, local)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, shadow: frozenset[str], local: frozenset[str], module: bool
    ) -> None:
        arguments = node.args
        annotations = annotations_of(node)
        for annotation in annotations:
            self._annotation(annotation, shadow | local)
        self._each([*node.decorator_list, *arguments.defaults, *arguments.kw_defaults, *annotations], shadow, local)
        if module:
            self._define(node, "def")
        inner = hidden_in(node, shadow)
        for statement in node.body:
            self.visit(statement, inner, frozenset())

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, word: str) -> None:
        if node.name not in self._names:
            return
        found = re.compile(rf"\b{word}\s+({re.escape(node.name)})\b").search(self._lines[node.lineno - 1])
        if found is not None:
            self._replace(node.lineno, found.start(1), node.name, self._last(node.name))
        node.name = self._last(node.name)

    def _import(self, node: ast.Import | ast.ImportFrom, shadow: frozenset[str]) -> None:
        added: list[tuple[ast.alias, ast.alias]] = []
        for alias in node.names:
            bound = alias.asname or (alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name)
            if bound not in self._names or bound in shadow:
                continue
            new = self._last(bound)
            start = self._column(alias.lineno, alias.col_offset)
            line = self._lines[alias.lineno - 1]
            if alias.asname is None and bound != alias.name:  # `import a.b` binds `a` and loads `a.b`
                self._replace(alias.lineno, start, "", f"{bound} as {new}, ")
                place = start + len(alias.name)
                whole = f"{new}_{alias.name.partition('.')[2].replace('.', '_')}"
                self._replace(alias.lineno, place, "", f" as {whole}")
                added.append((alias, ast.alias(bound, new)))
                alias.asname = whole
                continue
            if alias.asname is None:
                place = start + len(alias.name)
                self._replace(alias.lineno, place, "", f" as {new}")
            else:
                found = re.compile(rf"\bas\s+({re.escape(bound)})\b").search(line, start)
                if found is not None:
                    self._replace(alias.lineno, found.start(1), bound, new)
            alias.asname = new
        for alias, other in added:
            node.names.insert(node.names.index(alias), other)

    def _annotation(self, annotation: ast.expr, shadow: frozenset[str]) -> None:
        """Rename inside a quoted annotation."""
        for part in ast.walk(annotation):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                for old in self._names:
                    if old not in shadow and re.search(rf"\b{re.escape(old)}\b", part.value):
                        self._words(part, old)
                        part.value = re.sub(rf"\b{re.escape(old)}\b", self._names[old], part.value)

    def _words(self, node: ast.stmt | ast.expr, name: str) -> None:
        """Rename a word wherever it stands on the lines of a node that has no finer positions."""
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            line = self._lines[number - 1]
            start = self._column(number, node.col_offset) if number == node.lineno else 0
            end = len(line)
            if number == node.end_lineno and node.end_col_offset is not None:
                end = self._column(number, node.end_col_offset)
            new = self._last(name) if isinstance(node, ast.Global) else self._names[name]
            for found in re.compile(rf"\b{re.escape(name)}\b").finditer(line, start, end):
                self._replace(number, found.start(), name, new)

    def _replace(self, line: int, column: int, old: str, new: str) -> None:
        self._edits.add(Replacement(line - 1, column, line - 1, column + len(old), new))

    def _last(self, name: str) -> str:
        return self._names[name].rpartition(".")[2]

    def _column(self, line: int, byte_column: int) -> int:
        """Return a column in code points; the syntax tree counts bytes of UTF-8."""
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        return byte_column if text.isascii() else len(text.encode()[:byte_column].decode(errors="ignore"))
