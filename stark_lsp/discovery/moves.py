"""Most edits leave what a text says of its classes as it was, and move their lines at most.

Then nothing is looked up again: of hundreds of classes only the lines are new, or nothing at all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from stark_lsp.core.problem import Span
from stark_lsp.discovery.classes import ModuleClass
from stark_lsp.discovery.pieces import ClassFact, Definition, Fact, FunctionFact, Piece


def moved(
    classes: tuple[ModuleClass, ...], old: Sequence[Piece], new: Sequence[Piece], start: int, defined: frozenset[str]
) -> tuple[ModuleClass, ...] | None:
    """Return the classes of a text after an edit, None if the edit may have changed more than their lines.

    Parameters
    ----------
    classes
        Those before the edit.
    old
        The pieces that it changed.
    new
        What became of these.
    start
        Their first line in the text, 0-based.
    defined
        Names of all classes and functions of the text: which of them another one uses decides on its inputs.
    """
    if any(piece.broken for piece in chain(old, new)) or _said(old) != _said(new):
        return None
    places: dict[int, tuple[int, ClassFact]] = {}
    pairs = zip(_definitions(old, start), _definitions(new, start), strict=True)
    for (line, piece, before), (new_line, new_piece, now) in pairs:
        if not defined.isdisjoint(piece.words(before) ^ new_piece.words(now)):
            return None
        if isinstance(before, ClassFact) and isinstance(now, ClassFact):
            places[line + before.line] = new_line, now
    further = sum(piece.count for piece in new) - sum(piece.count for piece in old)

    def follow(cls: ModuleClass) -> ModuleClass:
        if cls.name_line < start:
            return cls
        if cls.name_line not in places:
            if not further:
                return cls
            span = Span(cls.span.start + further, cls.span.end + further)
            return replace(cls, span=span, name_line=cls.name_line + further)
        line, fact = places[cls.name_line]
        span = Span(line + fact.first, line + fact.last)
        return replace(cls, span=span, name_line=line + fact.line, name_start=fact.start, name_end=fact.end)

    found = tuple(map(follow, classes))
    # Some objections name lines.
    return None if found != classes and any(cls.objection for cls in classes) else found


def names_of(pieces: Iterable[Piece]) -> frozenset[str]:
    """Return the names of all classes and functions of a text."""
    return frozenset(definition.name for _, _, definition in _definitions(pieces, 0))


def _definitions(pieces: Iterable[Piece], line: int) -> Iterator[tuple[int, Piece, Definition]]:
    """Yield each definition, with its piece and that one's first line."""
    for piece in pieces:
        for definition in _inside(piece.facts):
            yield line, piece, definition
        line += piece.count


def _inside(facts: Iterable[Fact]) -> Iterator[Definition]:
    for fact in facts:
        if isinstance(fact, (ClassFact, FunctionFact)):
            yield fact
            yield from _inside(fact.body)


def _said(pieces: Sequence[Piece]) -> tuple[object, ...]:
    """Return what pieces say, their lines aside, as something to compare."""
    return any(piece.torch for piece in pieces), *(_outline(fact) for piece in pieces for fact in piece.facts)


def _outline(fact: Fact) -> tuple[object, ...]:
    if isinstance(fact, ClassFact):
        bases = tuple(map(ast.dump, fact.bases))
        return "class", fact.name, bases, fact.forward, fact.typing, tuple(map(_outline, fact.body))
    if isinstance(fact, FunctionFact):
        return "def", fact.name, tuple(map(_outline, fact.body))
    return (ast.dump(fact),)
