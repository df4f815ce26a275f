"""What the names of a file stand for, and which of a candidate's are missing or taken there."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from dataclasses import dataclass, field

from stark_lsp.discovery.slicing import definition_of
from stark_lsp.discovery.syntax import blocks

_BUILTINS = frozenset(dir(builtins))


@dataclass
class Bindings:
    """The module level of a document, as far as names go."""

    imports: dict[str, set[str]] = field(default_factory=dict)
    """What imported names stand for, by `import_paths`."""
    modules: set[str] = field(default_factory=set)
    """Dotted modules that an import statement loads."""
    statements: dict[str, list[ast.stmt]] = field(default_factory=dict)
    """The statements that bind or change each name, imports apart."""
    futures: set[str] = field(default_factory=set)
    """Features imported from `__future__`."""
    words: frozenset[str] = frozenset()
    """Every word the document mentions."""
    star: bool = False
    """Whether something is imported with `*`."""

    def meanings(self, name: str) -> set[str]:
        """Return the statements, without formatting, that bind or change a name, imports apart."""
        return {ast.dump(node) for node in self.statements.get(name, ())}

    def has(self, node: ast.stmt, names: Iterable[str]) -> bool:
        """Say whether the document has the same statement among those that change one of `names`."""
        meaning = ast.dump(node)
        return any(
            type(other) is type(node) and ast.dump(other) == meaning
            for name in names
            for other in self.statements.get(name, ())
        )

    def taken(self, name: str) -> bool:
        """Say whether giving `name` a meaning would change what the document means."""
        if name in self.imports or name in self.statements:
            return True
        return name in self.words and (name in _BUILTINS or self.star)

    def fresh(self, name: str, also: Iterable[str] = (), suffix: str = "_stark") -> str:
        """Return a name near `name` that is neither taken nor in `also`."""
        avoid = {*also, *self.words, *self.imports, *self.statements, *_BUILTINS}
        if name not in avoid:
            return name
        candidate = f"{name}{suffix}"
        number = 2
        while candidate in avoid:
            candidate = f"{name}{suffix}{number}"
            number += 1
        return candidate


def bindings_of(statements: Iterable[ast.stmt], words: frozenset[str] = frozenset()) -> Bindings:
    """Return the bindings of a module's statements; `words` are those of its text."""
    found = Bindings(words=words)
    for statement in statements:
        _imports_in(statement, found)
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        for name in definition_of(statement).binds:
            found.statements.setdefault(name, []).append(statement)
    return found


def import_paths(node: ast.Import | ast.ImportFrom) -> list[tuple[ast.alias, str, str, str]]:
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


def _imports_in(statement: ast.stmt, found: Bindings) -> None:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            found.futures.update(alias.name for alias in statement.names)
            return
        for alias, name, path, module in import_paths(statement):
            if alias.name == "*":
                found.star = True
                found.imports.setdefault(f"{module}.*", set()).add(path)
                continue
            found.imports.setdefault(name, set()).add(path)
            found.modules.update((module, path))
        return
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    for block in blocks(statement):
        for inner in block:
            _imports_in(inner, found)
