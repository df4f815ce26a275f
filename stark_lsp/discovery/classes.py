"""Every `nn.Module` class of a file, found without running it.

1. Parse the text; of a very long one only its outline, see `outline`.
2. Walk the statements, scope by scope, noting what each name stands for (`names`).
3. A class is a module if one of its bases is: a class of `torch.nn`, a class of this file that is one, an
   imported class that is called like one, or an imported class nobody knows when the class defines `forward`
   and the file imports torch.

Classes inside functions cannot be reached by name from outside, so they are found but not offered.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from stark_lsp.core.problem import InputSpec, Span
from stark_lsp.discovery.inputs import InputRules
from stark_lsp.discovery.names import FILE, Scope, is_module_path, is_unknown_class
from stark_lsp.discovery.outline import mask, outline
from stark_lsp.discovery.syntax import BOM, blocks, first_line, parse, split_lines

OUTLINE_FROM = 1500
"""Lines from which a text is read by its outline: below, a full parse is fast enough."""

_NAME = re.compile(r"\s*class\s+(\w+)")


@dataclass(frozen=True)
class ModuleClass:
    """One `nn.Module` class of a document."""

    qualname: str
    """Dotted name; classes inside functions have `<locals>` in it, as in Python's own `__qualname__`."""
    span: Span
    """Lines of the class, decorators included."""
    name_line: int
    """0-based line of the name in the `class` statement."""
    name_start: int
    """0-based column of the name's first character, in code points."""
    name_end: int
    """0-based column after the name's last character."""
    inputs: InputSpec = field(default_factory=InputSpec)
    """Where its inputs come from."""

    @property
    def reachable(self) -> bool:
        """Whether the class can be reached by name from outside; one inside a function cannot."""
        return "<locals>" not in self.qualname


def find_modules(text: str, path: str | None = None) -> tuple[ModuleClass, ...]:
    """Return the module classes of a text that can be optimized, in source order.

    Parameters
    ----------
    text
        The document, saved or not.
    path
        Its absolute path, used to find `[[tool.stark.input]]` tables; without it there are none.

    Raises
    ------
    SyntaxError
        The text is not Python. Beyond `OUTLINE_FROM` lines errors inside a function body go unnoticed.
    """
    return tuple(found for found in find_all(text, path) if found.reachable)


def find_all(text: str, path: str | None = None) -> tuple[ModuleClass, ...]:
    """Return every module class as `find_modules` does, those inside functions included."""
    if not re.search(r"\bclass\b", text):
        parse(text)
        return ()
    lines = split_lines(text)
    masked = mask(text.removeprefix(BOM))
    tree, ends = _tree(text, masked, len(lines))
    walk = _Walk(ends)
    walk.statements(tree.body, walk.scope, "")
    rules = InputRules(
        path=path,
        functions=walk.functions,
        bound=frozenset(walk.scope.names) | frozenset(walk.functions),
        classes={found.qualname: found.span for found in walk.found if "<locals>" not in found.qualname},
        masked=masked,
    )
    return tuple(_finished(found, lines, rules) for found in walk.found)


def _tree(text: str, masked: str, count: int) -> tuple[ast.Module, dict[int, int]]:
    if count >= OUTLINE_FROM:
        short = outline(masked)
        try:
            return parse(short.text), short.ends
        except SyntaxError:
            pass  # the outline does not decide what is wrong: the text itself does
    return parse(text), {}


@dataclass(frozen=True)
class _Found:
    qualname: str
    span: Span
    line: int


class _Walk:
    """One pass over the statements of a file."""

    def __init__(self, ends: dict[int, int]) -> None:
        self.scope = Scope()
        self.found: list[_Found] = []
        self.functions: dict[str, Span] = {}
        """Functions at module level and their lines."""
        self._ends = ends
        self._modules: set[str] = set()
        self._torch = False

    def statements(self, statements: list[ast.stmt], scope: Scope, prefix: str) -> None:
        """Visit the statements of one block."""
        for statement in statements:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                scope.bind_import(statement)
                self._torch = self._torch or _imports_torch(statement)
            elif isinstance(statement, ast.ClassDef):
                self._class(statement, scope, prefix)
            elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                scope.bind(statement.name, ())
                if not prefix:
                    self.functions[statement.name] = Span(first_line(statement), self._end(statement) - 1)
                self.statements(statement.body, Scope(scope), f"{prefix}{statement.name}.<locals>.")
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                scope.bind_assignment(statement)
                for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                    if isinstance(target, ast.Name):
                        scope.bind(target.id, ())
            else:
                for block in blocks(statement):
                    self.statements(block, scope, prefix)

    def _class(self, node: ast.ClassDef, scope: Scope, prefix: str) -> None:
        qualname = f"{prefix}{node.name}"
        if self._is_module(node, scope):
            self._modules.add(f"{FILE}.{qualname}")
            self.found.append(_Found(qualname, Span(first_line(node), self._end(node) - 1), node.lineno - 1))
        scope.bind(node.name, {f"{FILE}.{qualname}"})
        self.statements(node.body, Scope(scope), f"{qualname}.")

    def _is_module(self, node: ast.ClassDef, scope: Scope) -> bool:
        unknown = False
        for base in node.bases:
            for path in scope.resolve(base):
                if path in self._modules or is_module_path(path):
                    return True
                unknown = unknown or is_unknown_class(path)
        return (
            unknown
            and self._torch
            and any(isinstance(statement, ast.FunctionDef) and statement.name == "forward" for statement in node.body)
        )

    def _end(self, node: ast.stmt) -> int:
        """Return the 1-based last line, looking through blanked function bodies."""
        end = node.end_lineno or node.lineno
        return self._ends.get(end, end)


def _imports_torch(statement: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(statement, ast.Import):
        return any(alias.name.partition(".")[0] == "torch" for alias in statement.names)
    return statement.level == 0 and (statement.module or "").partition(".")[0] == "torch"


def _finished(found: _Found, lines: list[str], rules: InputRules) -> ModuleClass:
    line = lines[found.line]
    name = _NAME.match(line.removeprefix(BOM))
    shift = 1 if line.startswith(BOM) else 0
    start, end = (name.start(1) + shift, name.end(1) + shift) if name else (0, len(line))
    inputs = rules.inputs_of(found.qualname) if "<locals>" not in found.qualname else InputSpec()
    return ModuleClass(found.qualname, found.span, found.line, start, end, inputs)
