"""Finding and removing what an earlier proposal put into the file.

A class is recognised by its name and by the provenance comment right above it; its kernels by the comment that
opens them. What the user added between them, or uses elsewhere, stays.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from stark_lsp.discovery.slicing import definition_of
from stark_lsp.discovery.syntax import first_line, last_line
from stark_lsp.proposals.layout import LineEdit
from stark_lsp.proposals.place import Place, comment_top, places
from stark_lsp.proposals.provenance import FIRST_WORDS


def kernels_comment(name: str) -> str:
    """Return the comment above the kernels of a class that a proposal brings."""
    return f"# Kernels of {name}, written by STARK."


@dataclass(frozen=True)
class Earlier:
    """What an earlier proposal put into a document."""

    removed: tuple[ast.stmt, ...]
    """Statements that go away."""
    edits: tuple[LineEdit, ...]
    """The lines that go away."""


def find_earlier(tree: ast.Module, lines: Sequence[str], name: str) -> Earlier:
    """Return what an earlier proposal for a class called `name` (`ModelNew`, or `ModelNew2` where that was taken) left.

    `lines` are those of the document. Nothing is removed that other code uses.
    """
    removed: list[ast.stmt] = []
    for place in places(tree):
        node = place.node
        if not re.fullmatch(re.escape(name) + r"\d*", node.name):
            continue
        comment = lines[comment_top(lines, node) : first_line(node)]
        if any(line.strip().startswith(FIRST_WORDS) for line in comment):
            removed.append(node)
            removed.extend(_kernels(tree, lines, place))
    return Earlier(tuple(removed), tuple(_cut(lines, node) for node in removed))


def find_replaced(tree: ast.Module, lines: Sequence[str], place: Place) -> tuple[Earlier, int]:
    """Return what goes with a class that is itself an earlier proposal, and the first line that is replaced.

    For any other class it is nothing, and the first line of the class.
    """
    top = first_line(place.node)
    for number in range(comment_top(lines, place.node), top):
        if lines[number].strip().startswith(FIRST_WORDS):
            kernels = _kernels(tree, lines, place)
            return Earlier(tuple(kernels), tuple(_cut(lines, node) for node in kernels)), number
    return Earlier((), ()), top


def _kernels(tree: ast.Module, lines: Sequence[str], place: Place) -> list[ast.stmt]:
    """Return the statements between the opening comment and the class that the class alone uses."""
    wanted = kernels_comment(place.node.name)
    region: list[ast.stmt] | None = None
    for statement in place.block:
        if statement is place.outer:
            break
        comment = lines[comment_top(lines, statement) : first_line(statement)]
        if any(line.strip() == wanted for line in comment):
            region = []
        if region is not None:
            region.append(statement)
    reached: list[ast.stmt] = []
    uses = set(definition_of(place.node).uses)
    pending = list(region or ())
    progress = True
    while progress:
        progress = False
        for statement in list(pending):
            definition = definition_of(statement)
            if definition.binds & uses:
                pending.remove(statement)
                reached.append(statement)
                uses |= definition.uses
                progress = True
    while True:
        own = {id(place.node), *(id(statement) for statement in reached)}
        elsewhere = _uses_outside(tree.body, own)
        kept = [statement for statement in reached if not definition_of(statement).binds & elsewhere]
        if len(kept) == len(reached):
            return reached
        reached = kept


def _uses_outside(statements: Sequence[ast.stmt], own: set[int]) -> set[str]:
    """Return the names used by everything but the statements whose ids are in `own`."""
    names: set[str] = set()
    pending: list[ast.AST] = list(statements)
    while pending:
        node = pending.pop()
        if id(node) in own:
            continue
        if isinstance(node, ast.Name):
            names.add(node.id)
        pending.extend(ast.iter_child_nodes(node))
    return names


def _cut(lines: Sequence[str], node: ast.stmt) -> LineEdit:
    """Return the edit that takes a statement away, with its comments and the empty lines above."""
    top = comment_top(lines, node)
    while top > 0 and not lines[top - 1].strip():
        top -= 1
    return LineEdit(top, last_line(node) + 1, ())
