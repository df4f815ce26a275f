"""Every `nn.Module` class of a file, found without running it.

1. Cut the text at its top-level statements and read each piece, see `pieces`.
2. Walk the statements, scope by scope, noting what each name stands for (`names`).
3. A class is a module if one of its bases is: a class of `torch.nn`, a class of this file that is one, an
   imported class that is called like one or is one in its own file of the project (`bases`), or an imported class
   nobody knows when the class defines `forward` and the file imports torch.

Classes inside functions cannot be reached by name from outside, so they are found but not offered.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from stark_lsp.core.problem import InputSpec, Span
from stark_lsp.discovery.bases import imported_from, pieces_of
from stark_lsp.discovery.inputs import InputRules
from stark_lsp.discovery.names import FILE, Scope, is_module_path, is_unknown_class
from stark_lsp.discovery.pieces import ClassFact, Definition, Fact, FunctionFact, Piece, cut, read, read_whole
from stark_lsp.discovery.syntax import parse

MOST_FILES = 8
"""So many files of the project are looked into for the bases of one file's classes."""


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
    objection: str = ""
    """Why it cannot be imported by its name, to be read after it; empty if it can."""

    @property
    def reachable(self) -> bool:
        """Whether the class can be reached by name from outside; one inside a function cannot."""
        return "<locals>" not in self.qualname


def find_modules(text: str, path: str | None = None) -> tuple[ModuleClass, ...]:
    """Return the module classes of a text that can be optimized, in source order.

    Parameters
    ----------
    path
        Its absolute path, used to find `[[tool.stark.input]]` tables and imported bases; without it there are none.

    Raises
    ------
    SyntaxError
        The text is not Python. Errors inside a function body may go unnoticed.
    """
    return tuple(found for found in find_all(text, path) if found.reachable)


def find_all(text: str, path: str | None = None) -> tuple[ModuleClass, ...]:
    """Return every module class as `find_modules` does, those inside functions included."""
    if not may_hold_classes(text):
        parse(text)
        return ()
    pieces = [read(piece) for piece in cut(text)]
    if any(piece.broken for piece in pieces):
        # The cut does not decide what is wrong.
        pieces = [read_whole(text)]
    return classes_of(pieces, path)


def may_hold_classes(text: str) -> bool:
    """Whether it is worth while to look for classes in a text."""
    return "class" in text


def classes_of(pieces: Sequence[Piece], path: str | None) -> tuple[ModuleClass, ...]:
    """Return every module class of a text that was cut."""
    walk = _Walk(pieces, path, {})
    walk.all()
    places: dict[str, list[ModuleClass]] = {}
    for cls in walk.found:
        if cls.reachable and not cls.objection:
            places.setdefault(cls.qualname, []).append(cls)
    rules = InputRules(
        path=path,
        functions=frozenset(walk.functions),
        bound=frozenset(walk.scope.names) | frozenset(walk.functions),
        classes={qualname: found[-1].span for qualname, found in places.items()},
        words=walk.words,
    )

    def finished(cls: ModuleClass) -> ModuleClass:
        if not cls.reachable:
            return cls
        lines = [str(found.name_line + 1) for found in places.get(cls.qualname, ())]
        twice = f"is defined more than once, on lines {' and '.join(lines)}" if len(lines) > 1 else ""
        return replace(cls, inputs=rules.inputs_of(cls.qualname), objection=cls.objection or twice)

    return tuple(map(finished, walk.found))


class _Walk:
    """One pass over the statements of a file."""

    def __init__(self, pieces: Sequence[Piece], path: str | None, others: dict[str, _Walk]) -> None:
        self.scope = Scope()
        self.found: list[ModuleClass] = []
        self.functions: dict[str, tuple[Piece, Definition]] = {}
        """Functions at module level."""
        self._class_facts: dict[str, tuple[Piece, Definition]] = {}
        self._modules: set[str] = set()
        self._torch = any(piece.torch for piece in pieces)
        self._pieces = pieces
        self._path = path
        self._others = others
        self._offset = 0
        self._piece = Piece("")

    def all(self) -> None:
        """Visit each piece."""
        for piece in self._pieces:
            self._piece = piece
            self._facts(piece.facts, self.scope, "")
            self._offset += piece.count

    def words(self, name: str) -> frozenset[str]:
        """Return the names that are used in a function or class."""
        piece, definition = self._class_facts.get(name) or self.functions[name]
        return piece.words(definition)

    def _facts(self, facts: Iterable[Fact], scope: Scope, prefix: str) -> None:
        for fact in facts:
            if isinstance(fact, ClassFact):
                self._class(fact, scope, prefix)
            elif isinstance(fact, FunctionFact):
                scope.bind(fact.name, ())
                if not prefix:
                    self.functions[fact.name] = self._piece, fact
                if fact.body:
                    self._facts(fact.body, Scope(scope), f"{prefix}{fact.name}.<locals>.")
            elif isinstance(fact, (ast.Import, ast.ImportFrom)):
                scope.bind_import(fact)
            else:
                scope.bind_assignment(fact)

    def _class(self, fact: ClassFact, scope: Scope, prefix: str) -> None:
        qualname = f"{prefix}{fact.name}"
        if self._is_module(fact, scope):
            self._modules.add(f"{FILE}.{qualname}")
            span = Span(self._offset + fact.first, self._offset + fact.last)
            why = "exists for type checkers only" if fact.typing else ""
            line = self._offset + fact.line
            self.found.append(ModuleClass(qualname, span, line, fact.start, fact.end, objection=why))
            self._class_facts[qualname] = self._piece, fact
        scope.bind(fact.name, {f"{FILE}.{qualname}"})
        if fact.body:
            self._facts(fact.body, Scope(scope), f"{qualname}.")

    def _is_module(self, fact: ClassFact, scope: Scope) -> bool:
        paths = set[str]().union(*(scope.resolve(base) for base in fact.bases))
        if any(path in self._modules or is_module_path(path) for path in paths):
            return True
        unknown = [path for path in paths if is_unknown_class(path)]
        return bool(unknown) and ((self._torch and fact.forward) or any(map(self._is_module_elsewhere, unknown)))

    def _is_module_elsewhere(self, path: str, levels: int = MOST_FILES) -> bool:
        """Whether a name that this file imports is a module class of another file of the project."""
        found = imported_from(path, self._path) if self._path and levels else None
        if found is None:
            return False
        file, name = found
        if file not in self._others and len(self._others) < MOST_FILES:
            # Known before it is visited: files may import each other.
            self._others[file] = _Walk(pieces_of(file), file, self._others)
            self._others[file].all()
        if (other := self._others.get(file)) is None:
            return False
        there = other.scope.resolve(ast.parse(name, mode="eval").body)
        modules = other._modules
        return any(p in modules or is_module_path(p) or other._is_module_elsewhere(p, levels - 1) for p in there)
