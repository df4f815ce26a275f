"""What all kernels share in a file of the package, `_stark_kernels.py`, in place of each file that has kernels.

A relative import works where a file is imported as a part of its package. A folder's `__init__.py` does not tell that:
files beside it may be run, or be imported by their names alone. So the file or the `__init__.py` has one already, or
everything stays in one file.
"""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass, replace
from pathlib import Path

from stark_lsp.core.editing import newline_of
from stark_lsp.discovery.imports import arranged
from stark_lsp.discovery.slicing import Definition
from stark_lsp.discovery.syntax import check_compiles, parse
from stark_lsp.proposals.bindings import Bindings
from stark_lsp.proposals.insertion import plan_insertion
from stark_lsp.proposals.pieces import Piece, Pieces, joined
from stark_lsp.proposals.scopes import declared_global
from stark_lsp.proposals.shared import is_shared

MODULE = "_stark_kernels"
_TITLE = '"""Builds and loads the kernels of this package. Written by STARK; classes that it optimized import it."""'


@dataclass(frozen=True)
class SharedFile:
    """The file of a package that its kernels share."""

    path: str
    before: str | None
    """Its text, None if it is not there."""
    text: str
    """The text it is to have: that of before, and what comes behind it."""

    @property
    def added(self) -> str:
        """What comes at its end."""
        return self.text[len(self.before or "") :]

    @property
    def changes(self) -> bool:
        """Whether something has to be written."""
        return self.text != self.before


def shared_path(path: str) -> str:
    """Return the file that the kernels of the file at `path` share, if that is in a package."""
    return os.fspath(Path(path).with_name(f"{MODULE}.py"))


def split(pieces: Pieces, path: str, document_text: str, opened: str | None = None) -> tuple[Pieces, SharedFile | None]:
    """Take what kernels share out of a candidate for the file at `path`, where that has a place of its own.

    Parameters
    ----------
    opened
        The text of that place in an editor, None if it is not open.

    Returns
    -------
    tuple
        The candidate, which imports what was taken out, and the file that has it; the candidate as it is and None if
        the file is not known to be imported as a part of a package, nothing is shared, or the file has something else
        under one of the names.
    """
    shared = _shared(pieces)
    if not shared or not _in_package(Path(path), document_text) or Path(path).stem == MODULE:
        return pieces, None
    file = _file(shared_path(path), opened, pieces, shared)
    if file is None:
        return pieces, None
    rest = tuple(piece for piece in pieces.definitions if piece not in shared)
    used = {name for piece in (*rest, pieces.new_class) for name in piece.definition.uses}
    names = sorted(used & {name for piece in shared for name in piece.definition.binds})
    (statement,) = parse(f"from .{MODULE} import {', '.join(names)}").body
    assert isinstance(statement, ast.ImportFrom)
    return replace(pieces, imports=(*pieces.imports, statement), definitions=rest), file


def _in_package(path: Path, text: str) -> bool:
    """Return whether a file of this text is imported by relative imports, or has some of its own."""
    if not path.parent.name.isidentifier() or path.with_name(MODULE).is_dir():
        return False
    try:
        trees = parse(text), parse(path.with_name("__init__.py").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, SyntaxError):
        return False
    return any(isinstance(node, ast.ImportFrom) and node.level for tree in trees for node in ast.walk(tree))


def _shared(pieces: Pieces) -> list[Piece]:
    """Return the definitions that work in a file of their own: all they need is shared, and nobody else changes it."""
    shared = [piece for piece in pieces.definitions if is_shared(piece.definition.node)]
    while True:
        others = [piece for piece in (*pieces.definitions, pieces.new_class) if piece not in shared]
        foreign = {
            name for piece in others for name in (*piece.definition.binds, *declared_global(piece.definition.node))
        }
        left = [piece for piece in shared if not (piece.definition.uses | piece.definition.binds) & foreign]
        if len(left) == len(shared):
            return shared
        shared = left


def _file(path: str, opened: str | None, pieces: Pieces, shared: list[Piece]) -> SharedFile | None:
    try:
        before = opened
        if before is None and os.path.exists(path):
            before = Path(path).read_bytes().decode()
        there = {ast.dump(node): node for node in parse(before or "").body}
    except (OSError, UnicodeDecodeError, SyntaxError):
        return None
    missing = [piece for piece in shared if piece.meaning not in there]
    if not missing:
        return SharedFile(path, before, before or "")
    bound = {name for node in there.values() for name in Definition(node).binds}
    if bound & {name for piece in missing for name in piece.definition.binds}:
        return None
    body = joined([(piece, piece.text) for piece in missing])
    own = replace(pieces, definitions=tuple(missing[:-1]), new_class=missing[-1])
    imports = list(plan_insertion(own, Bindings(), {}, replaced=None).imports)
    if not before:
        text = "\n".join([_TITLE, "", *arranged(imports)]) + f"\n\n{body}"
    else:
        known = {ast.unparse(node) for node in there.values() if isinstance(node, (ast.Import, ast.ImportFrom))}
        new = [line for line in imports if line not in known]
        newline, end = newline_of(before), before[len(before.rstrip("\r\n")) :]
        room = "\n" * max(0, 3 - end.count(newline))
        added = room + "".join(f"{line}\n" for line in new) + body
        text = before + added.replace("\n", newline)
    check_compiles(text)
    return SharedFile(path, before, text)
