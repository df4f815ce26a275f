"""Which pieces of a candidate a document lacks, and under which names they go in.

1. What the document has already, statement for statement, is used and not inserted again.
2. What it lacks is inserted; a name that has another meaning there is changed in what is inserted.
3. The same for imports: one that the document has under any name is used under that name.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from stark_lsp.core.errors import Fault
from stark_lsp.proposals.bindings import Bindings, import_paths
from stark_lsp.proposals.pieces import Piece, Pieces

_IMPORT_WIDTH = 100


@dataclass(frozen=True)
class InsertionPlan:
    """What goes into a document."""

    futures: tuple[str, ...]
    imports: tuple[str, ...]
    """Import statements, one line each."""
    inserted: tuple[Piece, ...]
    shared: tuple[Piece, ...]
    """Pieces the document has already."""
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
    own = {name for piece in [*pieces.definitions, pieces.new_class] for name in piece.definition.uses}
    own |= {name for piece in pieces.definitions for name in piece.definition.binds}
    reserved = {*class_names.values(), *own} | ({replaced} if replaced else set())
    aliases = _import_names(pieces, bindings, reserved)
    imported = {name for node in pieces.imports for _, name, _, _ in import_paths(node)}
    binders: dict[str, set[str]] = {}
    for piece in pieces.definitions:
        for name in piece.definition.binds - imported:
            binders.setdefault(name, set()).add(piece.meaning)

    def known(piece: Piece) -> bool:
        names = piece.definition.binds - imported
        if replaced is not None and replaced in names:
            return False
        if not names:
            return bindings.has(piece.definition.node, piece.definition.binds)
        return all(bindings.meanings(name) == binders[name] for name in names)

    shared = [piece for piece in pieces.definitions if known(piece)]
    while True:
        inserted = [piece for piece in pieces.definitions if piece not in shared]
        fresh = {name for piece in inserted for name in piece.definition.binds - imported} | aliases.keys()
        still = [piece for piece in shared if not (piece.definition.binds | piece.definition.uses) & fresh]
        if len(still) == len(shared):
            break
        shared = still
    names = {**aliases, **class_names}
    for name in sorted(fresh - names.keys()):
        if bindings.taken(name) or name in class_names.values() or name == replaced:
            suffix = "Original" if name == replaced else "_stark"
            names[name] = bindings.fresh(name, {*reserved, *names.values()}, suffix)
    needed = {name for piece in [*inserted, pieces.new_class] for name in piece.definition.uses}
    return InsertionPlan(
        futures=tuple(dict.fromkeys(name for name in pieces.futures if name not in bindings.futures)),
        imports=_missing_imports(pieces, bindings, needed, names),
        inserted=tuple(inserted),
        shared=tuple(shared),
        names=names,
    )


def _import_names(pieces: Pieces, bindings: Bindings, reserved: set[str]) -> dict[str, str]:
    """Return new names for imports that the document has under another name, or whose name it uses otherwise."""
    names: dict[str, str] = {}
    for node in pieces.imports:
        for alias, name, path, _ in import_paths(node):
            if alias.name == "*" or path in bindings.imports.get(name, ()):
                continue
            same = next((known for known, paths in bindings.imports.items() if paths == {path}), None)
            if same is not None and same not in bindings.statements and same.isidentifier() and same not in reserved:
                names[name] = same
            elif bindings.taken(name):
                if isinstance(node, ast.Import) and alias.asname is None and "." in alias.name:
                    raise Fault(
                        f"the proposal imports {alias.name}, but {name} means something else in this file.",
                        cure="Write it to a module of its own.",
                    )
                names[name] = bindings.fresh(name, {*reserved, *names.values()})
    return names


def _missing_imports(pieces: Pieces, bindings: Bindings, needed: set[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the import statements the document lacks, without repetition."""
    lines: list[str] = []
    seen: set[tuple[str, str]] = set()
    for node in pieces.imports:
        missing: list[ast.alias] = []
        for alias, name, path, module in import_paths(node):
            if alias.name == "*":
                if f"{module}.*" not in bindings.imports:
                    missing.append(alias)
                continue
            bound = names.get(name, name)
            plain = isinstance(node, ast.Import) and alias.asname is None
            key = (bound, alias.name if plain else path)
            if name not in needed or key in seen:
                continue
            if path in bindings.imports.get(bound, ()) and (not plain or _loaded(alias.name, bindings)):
                continue
            seen.add(key)
            last = alias.name if isinstance(node, ast.ImportFrom) or plain else ""
            missing.append(ast.alias(name=alias.name, asname=None if bound == last.partition(".")[0] else bound))
        lines.extend(_import_lines(node, missing))
    return tuple(dict.fromkeys(lines))


def _loaded(module: str, bindings: Bindings) -> bool:
    return any(known == module or known.startswith(f"{module}.") for known in bindings.modules)


def _import_lines(node: ast.Import | ast.ImportFrom, aliases: list[ast.alias]) -> list[str]:
    if not aliases:
        return []
    if isinstance(node, ast.Import):
        return [ast.unparse(ast.Import(names=[alias])) for alias in aliases]
    whole = ast.unparse(ast.ImportFrom(module=node.module, names=aliases, level=node.level))
    if len(whole) <= _IMPORT_WIDTH:
        return [whole]
    return [ast.unparse(ast.ImportFrom(module=node.module, names=[alias], level=node.level)) for alias in aliases]
