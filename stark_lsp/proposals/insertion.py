"""Which pieces of a candidate a document lacks, and under which names they go in.

1. What the document has already, statement for statement, is used and not inserted again, unless it comes too late.
2. What it lacks is inserted; a name that has another meaning there is changed in what is inserted.
3. The same for imports: one that is certain to have been executed, under any name, is used under that name. Others
   come along, under a name of their own where the document does anything else with theirs.
4. A built-in name to which the document gives a meaning is taken from `builtins`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stark_lsp.core.errors import Fault
from stark_lsp.discovery.syntax import BUILTINS, Import, import_paths
from stark_lsp.proposals.bindings import Bindings
from stark_lsp.proposals.pieces import Piece, Pieces
from stark_lsp.proposals.scopes import FUNCTION, changes, declared_global, reads, walk

_IMPORT_WIDTH = 100


@dataclass(frozen=True)
class InsertionPlan:
    """What goes into a document."""

    imports: tuple[str, ...]
    """Import statements, one line each."""
    inserted: tuple[Piece, ...]
    names: Mapping[str, str]
    """New names, by the candidate's."""


def plan_insertion(
    pieces: Pieces, bindings: Bindings, class_names: Mapping[str, str], *, replaced: str | None
) -> InsertionPlan:
    """Decide what of a candidate is inserted and how it is called.

    Parameters
    ----------
    pieces
        The candidate.
    bindings
        The document, without what will be removed from it.
    class_names
        The new name of the candidate's class, by its name in the candidate.
    replaced
        Name of the class that is taken out of the document, or None: a copy of it in the candidate is inserted
        under another name if the new class needs it.
    """
    imports = [*pieces.imports, *_parsed("import builtins")]
    imported = {name for node in pieces.imports for _, name, _, _ in import_paths(node)}
    reserved = {*class_names.values(), *_own_names(pieces)} | ({replaced} if replaced else set())
    everything = {module for node in imports for module, _ in star_imports(node)}
    foreign = bool(bindings.stars - everything)  # who knows what these bind
    aliases = _import_names(imports, bindings, reserved, foreign)
    binders: dict[str, list[str]] = {}
    for piece in pieces.definitions:
        for name in piece.definition.binds - imported:
            binders.setdefault(name, []).append(piece.meaning)
    own = {*imported, *binders, *pieces.new_class.definition.binds}
    builtin = {
        name: f"{aliases.get('builtins', 'builtins')}.{name}"
        for name in _unbound([*pieces.definitions, pieces.new_class], own)
        if bindings.bound(name) or name in bindings.hidden or foreign
    }

    def known(piece: Piece) -> bool:
        names = piece.definition.binds - imported
        if (replaced is not None and replaced in names) or names & (bindings.hidden | bindings.state):
            return False
        if not names:
            return bindings.has(piece.definition.node, piece.definition.binds)
        return all(bindings.meanings(name) == binders[name] for name in names)

    shared = [piece for piece in pieces.definitions if known(piece)]
    while True:
        inserted = [piece for piece in pieces.definitions if piece not in shared]
        fresh = {name for piece in inserted for name in piece.definition.binds - imported}
        touched = fresh | aliases.keys() | builtin.keys()
        too_late = _at_once([*inserted, pieces.new_class], pieces.definitions) - bindings.before
        written = {name for piece in inserted for name in _written(piece.definition.node)}
        still = [
            piece
            for piece in shared
            if not (piece.definition.binds | reads(piece.definition.node)) & touched
            and not piece.definition.binds & (too_late | written)
        ]
        if len(still) == len(shared):
            break
        shared = still
    needed = {name for piece in [*inserted, pieces.new_class] for name in piece.definition.uses}
    if builtin.keys() & needed:
        needed.add("builtins")
    names = {**aliases, **builtin, **class_names}
    for name in sorted(fresh - names.keys()):
        if bindings.taken(name) or name in BUILTINS or name in class_names.values() or name == replaced:
            suffix = "Original" if name == replaced else "_stark"
            names[name] = bindings.fresh(name, {*reserved, *names.values()}, suffix)
    missing = _missing_imports(imports, bindings, needed, names, foreign)
    return InsertionPlan(imports=missing, inserted=tuple(inserted), names=names)


def star_imports(node: Import) -> list[tuple[str, str]]:
    """Return the module of which an import takes everything, with the statement."""
    return [(module, ast.unparse(node)) for alias, _, _, module in import_paths(node) if alias.name == "*"]


def _own_names(pieces: Pieces) -> set[str]:
    """Return every name that a candidate has anywhere, local ones included."""
    names: set[str] = set()
    for piece in [*pieces.definitions, pieces.new_class]:
        names |= piece.definition.binds
        for part in ast.walk(piece.definition.node):
            if isinstance(part, ast.Name):
                names.add(part.id)
            elif isinstance(part, ast.arg):
                names.add(part.arg)
            elif isinstance(part, (*FUNCTION, ast.ClassDef)):
                names.add(part.name)
    return names


def _unbound(pieces: Iterable[Piece], own: set[str]) -> set[str]:
    """Return the built-in names that pieces read. `super` stays: without an argument it works under that name only."""
    names = {name for piece in pieces for name in reads(piece.definition.node)}
    return {name for name in (names & BUILTINS) - own if not name.startswith("__")} - {"super"}


def _written(node: ast.stmt) -> set[str]:
    """Return the names of the module level that a piece's functions bind or whose objects they change."""
    return {*declared_global(node), *changes(node)}


def _at_once(pieces: Sequence[Piece], definitions: Sequence[Piece]) -> set[str]:
    """Return what pieces read while they are executed, in functions that they call included."""
    names: set[str] = set()
    called: set[str] = set()
    for piece in pieces:
        names |= reads(piece.definition.node, later=False)
        for part, hidden in walk(piece.definition.node, later=False):
            functions = [part.func] if isinstance(part, ast.Call) else getattr(part, "decorator_list", [])
            called |= {function.id for function in functions if isinstance(function, ast.Name)} - hidden
    bodies: dict[str, list[ast.stmt]] = {}
    for piece in definitions:
        for name in piece.definition.binds:
            bodies.setdefault(name, []).append(piece.definition.node)
    seen: set[str] = set()
    while called:
        name = called.pop()
        if name not in seen:
            seen.add(name)
            inside = {used for body in bodies.get(name, ()) for used in reads(body)}
            names |= inside
            called |= inside
    return names


def _import_names(imports: Sequence[Import], bindings: Bindings, reserved: set[str], foreign: bool) -> dict[str, str]:
    """Return new names for imports that the document has under another name, or whose name it uses otherwise."""
    names: dict[str, str] = {}
    for node in imports:
        for alias, name, path, module in import_paths(node):
            if alias.name == "*":
                if module not in bindings.stars:
                    raise Fault(
                        f"the proposal imports everything of {module}, which could change what names mean here.",
                        cure="Write it to a module of its own.",
                    )
                continue
            if name in names or (not foreign and bindings.stands_for(name, path)):
                continue
            same = next((other for other in bindings.imports if bindings.stands_for(other, path)), None)
            if same is not None and same not in reserved and not foreign:
                names[name] = same
            elif foreign or not bindings.free(name, path):
                names[name] = bindings.fresh(name, {*reserved, *names.values()})
    return names


def _missing_imports(
    imports: Sequence[Import], bindings: Bindings, needed: set[str], names: Mapping[str, str], foreign: bool
) -> tuple[str, ...]:
    """Return the import statements the document lacks, without repetition."""
    lines: list[str] = []
    for node in imports:
        missing: list[ast.alias] = []
        for alias, name, path, _ in import_paths(node):
            if alias.name == "*" or name not in needed:
                continue
            bound = names.get(name, name)
            there = bindings.stands_for(bound, path) and not foreign
            if isinstance(node, ast.ImportFrom) or alias.asname is not None or "." not in alias.name:
                if not there:
                    missing.append(ast.alias(name=alias.name, asname=None if bound == alias.name else bound))
            elif bound == name:
                if not there or not _loaded(alias.name, bindings):
                    missing.append(ast.alias(name=alias.name, asname=None))
            else:
                if not there:
                    missing.append(ast.alias(name=name, asname=bound))
                if not _loaded(alias.name, bindings):  # `import a.b` would bind `a`
                    whole = bindings.fresh(alias.name.replace(".", "_"), names.values())
                    missing.append(ast.alias(name=alias.name, asname=whole))
        lines.extend(_import_lines(node, missing))
    return tuple(dict.fromkeys(lines))


def _loaded(module: str, bindings: Bindings) -> bool:
    return any(known == module or known.startswith(f"{module}.") for known in bindings.modules)


def _import_lines(node: Import, aliases: list[ast.alias]) -> list[str]:
    if not aliases:
        return []
    if isinstance(node, ast.Import):
        return [ast.unparse(ast.Import(names=[alias])) for alias in aliases]
    whole = ast.unparse(ast.ImportFrom(module=node.module, names=aliases, level=node.level))
    if len(whole) <= _IMPORT_WIDTH:
        return [whole]
    return [ast.unparse(ast.ImportFrom(module=node.module, names=[alias], level=node.level)) for alias in aliases]


def _parsed(text: str) -> list[Import]:
    return [node for node in ast.parse(text).body if isinstance(node, (ast.Import, ast.ImportFrom))]
