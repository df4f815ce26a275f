"""What the names of a file stand for where something is inserted, and from there on."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from stark_lsp.discovery.slicing import Definition, is_main_block
from stark_lsp.discovery.syntax import BUILTINS, import_paths
from stark_lsp.proposals.scopes import declared_global, own_nodes, reads, stored, stored_by


@dataclass
class Bindings:
    """The module level of a document, as far as names go."""

    imports: dict[str, set[str]] = field(default_factory=dict)
    """What import statements anywhere at module level, however unlikely to be executed, let a name stand for."""
    others: set[str] = field(default_factory=set)
    """Names that are bound or unbound in any other way, in a function (`global`) included."""
    sure: dict[str, set[str]] = field(default_factory=dict)
    """Imports that are certain to have been executed where something is inserted."""
    modules: set[str] = field(default_factory=set)
    """Dotted modules that those load."""
    statements: dict[str, list[ast.stmt]] = field(default_factory=dict)
    """The statements that bind or change each name, imports apart."""
    before: set[str] = field(default_factory=set)
    """Names whose statements have all been executed where something is inserted."""
    reads: set[str] = field(default_factory=set)
    """Names that anything in the document reads, built-in ones included."""
    state: set[str] = field(default_factory=set)
    """Names of an accepted proposal's kernels that hold more than a constant; these are not shared."""
    stars: set[str] = field(default_factory=set)
    """Modules of which everything is imported."""
    futures: set[str] = field(default_factory=set)
    """Features imported from `__future__`."""
    hidden: set[str] = field(default_factory=set)
    """Names that mean something else in the class body in which the new class is put."""
    words: frozenset[str] = frozenset()
    """Every word the document mentions."""

    def meanings(self, name: str) -> list[str]:
        """Return the statements, without formatting, that bind or change a name, imports apart, in order."""
        return [ast.dump(node) for node in self.statements.get(name, ())]

    def has(self, node: ast.stmt, names: Iterable[str]) -> bool:
        """Say whether the document has the same statement among those that change one of `names`."""
        meaning = ast.dump(node)
        return any(
            type(other) is type(node) and ast.dump(other) == meaning
            for name in names
            for other in self.statements.get(name, ())
        )

    def stands_for(self, name: str, path: str) -> bool:
        """Say whether a name is certain to stand for what an import of `path` gives, there and ever after."""
        return (
            self.imports.get(name) == self.sure.get(name) == {path}
            and name not in self.others
            and name not in self.hidden
        )

    def free(self, name: str, path: str) -> bool:
        """Say whether importing `path` as `name` at the head of the file changes nothing of what the document means."""
        if name in self.others or name in self.hidden:
            return False
        if name in self.imports:
            return self.imports[name] == {path} and (name not in BUILTINS or name in self.sure)
        return name not in self.reads

    def bound(self, name: str) -> bool:
        """Say whether the document gives a name a meaning anywhere at module level."""
        return name in self.imports or name in self.others

    def taken(self, name: str) -> bool:
        """Say whether giving `name` a meaning would change what the document means."""
        return self.bound(name) or name in self.statements or name in self.reads or name in self.hidden

    def fresh(self, name: str, also: Iterable[str] = (), suffix: str = "_stark") -> str:
        """Return a name near `name` that is neither taken nor in `also`."""
        avoid = {*also, *self.words, *self.imports, *self.others, *self.statements, *self.hidden, *BUILTINS}
        if name not in avoid:
            return name
        candidate = f"{name}{suffix}"
        number = 2
        while candidate in avoid:
            candidate = f"{name}{suffix}{number}"
            number += 1
        return candidate


def bindings_of(
    statements: Sequence[ast.stmt],
    before: Sequence[ast.stmt],
    comparable: Sequence[ast.stmt],
    words: frozenset[str] = frozenset(),
) -> Bindings:
    """Return the bindings of a module.

    Parameters
    ----------
    statements
        Those of the module level.
    before
        Those, of whatever block, that have been executed where something is inserted.
    comparable
        `statements` as they are compared with a candidate's: without what accepted proposals put into them.
    words
        Every word of the text.
    """
    found = Bindings(words=words)
    for node in own_nodes(statements):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            found.futures.update(alias.name for alias in node.names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias, name, path, module in import_paths(node):
                if alias.name == "*":
                    found.stars.add(module)
                else:
                    found.imports.setdefault(name, set()).add(path)
        else:
            found.others |= stored_by(node)
    for statement in statements:
        found.reads |= reads(statement)
        found.others |= declared_global(statement) if "global" in words else frozenset()
    for statement in comparable:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        names = stored([statement])
        for name in names if is_main_block(statement) else names | Definition(statement).binds:
            found.statements.setdefault(name, []).append(statement)
    _settle(found, before)
    return found


def _settle(found: Bindings, before: Sequence[ast.stmt]) -> None:
    """Record what is certain once the statements `before` have been executed."""
    positions = {(node.lineno, node.col_offset) for node in before}
    certain = list(_certain(before))
    for node in certain:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias, name, path, module in import_paths(node):
                if alias.name != "*":
                    found.sure.setdefault(name, set()).add(path)
                    found.modules.update((module, path))
    done = stored(node for node in certain if not isinstance(node, (ast.Import, ast.ImportFrom)))
    for name, binders in found.statements.items():
        whole = all((node.lineno, node.col_offset) in positions for node in binders)
        if whole or (name in done and len(binders) == 1):  # a part of the block around the class has been executed
            found.before.add(name)


def _certain(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, and those in them that have been executed if nothing was raised."""
    for node in statements:
        yield node
        if isinstance(node, ast.Try) and all(isinstance(handler.body[-1], ast.Raise) for handler in node.handlers):
            yield from _certain(node.body)
