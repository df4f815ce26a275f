"""What of a candidate file is needed, as statements with their text."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import Fault
from stark_lsp.discovery.layout import LineEdit
from stark_lsp.discovery.slicing import Definition, NoSuchClass, needed_statements
from stark_lsp.discovery.syntax import BOM, Import, first_line, import_paths, is_python, last_line, parse, split_lines
from stark_lsp.proposals.accepted import cut, find_accepted
from stark_lsp.proposals.provenance import is_ours
from stark_lsp.proposals.scopes import own_nodes, reads, stored, without


@dataclass(frozen=True)
class Piece:
    """One statement of a candidate's module level."""

    definition: Definition
    text: str
    """Its lines with the comments right above it; ends with a newline."""
    blank_before: int
    """Empty lines above it in the candidate."""
    late: bool = False
    """Whether it must come after the class, such as `ModelNew.forward = f`."""

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
    """Everything else that is needed, in order, without the class itself. An import is here if something else binds its
    name, too."""
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
        lines = split_lines(candidate.source.removeprefix(BOM))
        tree, dropped = _without_accepted(tree, lines)
        needed = needed_statements(tree, candidate.class_name)
    except (SyntaxError, NoSuchClass) as error:
        raise Fault(
            f"the proposal's source has no class {candidate.class_name} that can be read.", details=str(error)
        ) from error
    futures: list[str] = []
    imports: list[Import] = []
    definitions: list[Piece] = []
    new_class: Piece | None = None
    shared_lines = _shared_lines(tree)
    apart = _apart([definition.node for definition in needed])
    for definition in needed:
        node = definition.node
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            futures.extend(alias.name for alias in node.names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)) and not definition.binds & apart:
            imports.append(node)
        else:
            piece = _piece(definition, lines, shared_lines, dropped)
            if isinstance(node, ast.ClassDef) and node.name == candidate.class_name:
                if new_class is not None:
                    definitions.append(new_class)
                new_class = piece
            elif new_class is not None and _must_follow(piece, candidate.class_name, definitions):
                definitions.append(replace(piece, late=True))
            else:
                definitions.append(piece)
    if new_class is None:
        raise Fault(f"the proposal defines {candidate.class_name} inside another statement, which cannot be moved.")
    return Pieces(tuple(futures), tuple(imports), tuple(definitions), new_class)


def _apart(statements: Sequence[ast.stmt]) -> set[str]:
    """Return names that are imported and bound in another way, too: their order counts."""
    paths: dict[str, set[str]] = {}
    apart: set[str] = set()
    imports: list[frozenset[str]] = []
    for node in statements:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(stored([node]))
            for alias, name, path, _ in import_paths(node):
                if alias.name != "*":
                    paths.setdefault(name, set()).add(path)
        else:
            apart |= stored([node])
    apart |= {name for name, found in paths.items() if len(found) > 1}
    while more := {name for names in imports if names & apart for name in names} - apart:
        apart |= more
    return apart


def _without_accepted(tree: ast.Module, lines: list[str]) -> tuple[ast.Module, set[int]]:
    """Return a candidate without what the user's document had from earlier proposals inside its other statements.

    The second part is the lines that are left out. A candidate that leans on such a thing keeps it all.
    """
    inside = [found for found in find_accepted(tree, lines) if found.inside]
    gone = [node for found in inside for node in (found.place.node, *found.kernels)]
    rest = ast.Module(without(tree.body, set(map(id, gone))), [])
    missing = stored(own_nodes(tree.body)) - stored(own_nodes(rest.body))
    if any(reads(node) & missing for node in rest.body):
        return tree, set()
    cuts = [cut(lines, node) for found in inside for node in found.kernels]
    cuts += [LineEdit(found.start, found.end, ()) for found in inside]
    return rest, {number for edit in cuts for number in range(edit.start, edit.end)}


def _must_follow(piece: Piece, name: str, before: list[Piece]) -> bool:
    """Whether a statement behind the new class cannot stand before it."""
    node = piece.definition.node
    if name in piece.definition.binds or name in reads(node, later=False):
        return True
    earlier = any(other.late or piece.definition.binds & other.definition.binds for other in before)
    return not piece.is_block and earlier


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


def _piece(definition: Definition, lines: list[str], shared_lines: set[int], dropped: set[int]) -> Piece:
    first, last = first_line(definition.node), last_line(definition.node)
    blank = 0
    top = first
    if shared_lines & set(range(first, last + 1)):
        text = ast.unparse(definition.node) + "\n"
    else:
        while top > 0 and lines[top - 1].startswith("#") and not is_ours(lines[top - 1]):
            top -= 1
        text = "".join(f"{lines[number]}\n" for number in range(top, last + 1) if number not in dropped)
        if dropped & set(range(first, last + 1)) and not is_python(text):
            text = ast.unparse(definition.node) + "\n"  # nothing else stood in a block
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
