"""What of a candidate file is needed, as statements with their text."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault
from stark_lsp.discovery.slicing import Definition, NoSuchClass, needed_statements
from stark_lsp.discovery.syntax import BOM, first_line, last_line, parse, split_lines


@dataclass(frozen=True)
class Piece:
    """One statement of a candidate's module level."""

    definition: Definition
    text: str
    """Its lines with the comments right above it; ends with a newline."""
    blank_before: int
    """Empty lines above it in the candidate."""

    @property
    def meaning(self) -> str:
        """The statement without formatting and comments."""
        return ast.dump(self.definition.node)

    @property
    def is_block(self) -> bool:
        """Whether it is a function or a class, which get more room."""
        return isinstance(self.definition.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


@dataclass(frozen=True)
class Pieces:
    """A candidate, taken apart."""

    futures: tuple[str, ...]
    """Features imported from `__future__`."""
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    """The imports at module level that are needed, in order."""
    definitions: tuple[Piece, ...]
    """Everything else that is needed, in order, without the class itself."""
    new_class: Piece


def take_apart(candidate: Candidate) -> Pieces:
    """Return what the candidate's class needs.

    Raises
    ------
    Fault
        The candidate is not Python or lacks its class; it can never have been verified.
    """
    try:
        tree = parse(candidate.source)
        needed = needed_statements(tree, candidate.class_name)
    except (SyntaxError, NoSuchClass) as error:
        raise Fault(
            f"the proposal's source has no class {candidate.class_name} that can be read.", details=str(error)
        ) from error
    lines = split_lines(candidate.source.removeprefix(BOM))
    futures: list[str] = []
    imports: list[ast.Import | ast.ImportFrom] = []
    definitions: list[Piece] = []
    new_class: Piece | None = None
    shared_lines = _shared_lines(tree)
    for definition in needed:
        node = definition.node
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            futures.extend(alias.name for alias in node.names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
        else:
            piece = _piece(definition, lines, shared_lines)
            if isinstance(node, ast.ClassDef) and node.name == candidate.class_name:
                if new_class is not None:
                    definitions.append(new_class)
                new_class = piece
            else:
                definitions.append(piece)
    if new_class is None:
        raise Fault(f"the proposal defines {candidate.class_name} inside another statement, which cannot be moved.")
    return Pieces(tuple(futures), tuple(imports), tuple(definitions), new_class)


def joined(pieces: list[tuple[Piece, str]]) -> str:
    """Return the texts of pieces one below the other, with the room that Python code is given."""
    out = ""
    previous: Piece | None = None
    for piece, text in pieces:
        if previous is not None:
            out += "\n" * (2 if piece.is_block or previous.is_block else min(piece.blank_before, 1))
        out += text
        previous = piece
    return out


def _piece(definition: Definition, lines: list[str], shared_lines: set[int]) -> Piece:
    first, last = first_line(definition.node), last_line(definition.node)
    blank = 0
    top = first
    if shared_lines & set(range(first, last + 1)):
        text = ast.unparse(definition.node) + "\n"
    else:
        while top > 0 and lines[top - 1].startswith("#"):
            top -= 1
        text = "".join(f"{line}\n" for line in lines[top : last + 1])
    while top - blank > 0 and not lines[top - blank - 1].strip():
        blank += 1
    return Piece(definition, text, blank)


def _shared_lines(tree: ast.Module) -> set[int]:
    """Return the lines that hold more than one statement (`a = 1; b = 2`)."""
    shared: set[int] = set()
    previous = -1
    for node in tree.body:
        if first_line(node) <= previous:
            shared.add(previous)
        previous = last_line(node)
    return shared
