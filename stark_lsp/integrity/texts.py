"""Texts that a Python file puts together from constants: f-strings, `+`, `join`, `replace` and their like."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from stark_lsp.core.parsing import LONGEST
from stark_lsp.integrity.names import Names

HOLE = "\x1a"
"""Stands for a part that is only known at run time."""
_DEEPEST = 40
_SAME = ("strip", "lstrip", "rstrip", "format", "encode", "decode", "substitute", "safe_substitute")
"""Methods whose result is for a reader the text that they are called on."""


@dataclass(frozen=True)
class Piece:
    """Where a part of a text is written."""

    offset: int
    first: int
    last: int


@dataclass(frozen=True)
class Text:
    """A text, and the lines of the file that its parts are written on, by their offset."""

    value: str
    pieces: tuple[Piece, ...]

    def line(self, offset: int) -> int:
        """Return the 1-based line of the file for a place in the text."""
        piece = self.pieces[max(bisect_right(self._offsets, offset) - 1, 0)]
        lines = bisect_left(self._ends, offset) - bisect_left(self._ends, piece.offset)
        return min(piece.first + lines, piece.last)

    @cached_property
    def _ends(self) -> list[int]:
        return [found.start() for found in re.finditer("\n", self.value)]

    @cached_property
    def _offsets(self) -> list[int]:
        return [piece.offset for piece in self.pieces]

    @property
    def whole(self) -> bool:
        """Whether all of it is known."""
        return HOLE not in self.value


class Folder:
    """Evaluates texts of one file."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known: dict[ast.AST, Text | None] = {}

    def fold(self, node: ast.AST, depth: int = 0) -> Text | None:
        """Return the text of an expression with holes for what cannot be told, None if it is none."""
        if node not in self._known:
            if depth > _DEEPEST:
                return None
            self._known[node] = None
            self._known[node] = self._fold(node, depth + 1)
        return self._known[node]

    def said(self, node: ast.AST) -> str | None:
        """Return the text of an expression if all of it is known."""
        text = self.fold(node)
        return text.value if text is not None and text.whole else None

    def _fold(self, node: ast.AST, depth: int) -> Text | None:
        if isinstance(node, ast.Constant):
            value = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            return Text(value, (_piece(node),)) if isinstance(value, str) else None
        if isinstance(node, ast.JoinedStr):
            return _joined(node, [self._inserted(part, depth) for part in node.values])
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._sum(node, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return self.fold(node.left, depth)
        if isinstance(node, ast.Name):
            stands = self._value(node)
            return self.fold(stands, depth) if stands is not None else None
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        return None

    def _value(self, node: ast.Name) -> ast.expr | None:
        """Return what a name stands for, if that is one expression."""
        found = self._names.scopes[node].find(node.id) if node in self._names.scopes else None
        value = found[1][0] if found and len(found[1]) == 1 else None
        return value if isinstance(value, ast.expr) else None

    def _inserted(self, node: ast.expr, depth: int) -> Text | None:
        if not isinstance(node, ast.FormattedValue):
            return self.fold(node, depth)
        value = self._value(node.value) if isinstance(node.value, ast.Name) else node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, int):
            return Text(str(value.value), (_piece(node),))
        return self.fold(node.value, depth)

    def _sum(self, node: ast.BinOp, depth: int) -> Text | None:
        parts: list[ast.expr] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
            # The beginning of a sum is no text of its own, so that each sum is read once.
            self._known[left] = None
            parts.append(left.right)
            left = left.left
        parts.append(left)
        texts = [self.fold(part, depth) for part in reversed(parts)]
        return _joined(node, texts) if any(text is not None for text in texts) else None

    def _call(self, node: ast.Call, depth: int) -> Text | None:
        if self._names.of(node.func) & {"textwrap.dedent", "string.Template"} and node.args:
            return self.fold(node.args[0], depth)
        if not isinstance(node.func, ast.Attribute):
            return None
        base = self.fold(node.func.value, depth)
        if base is None or node.func.attr in _SAME:
            return base
        if node.func.attr == "join" and len(node.args) == 1 and isinstance(node.args[0], (ast.List, ast.Tuple)):
            texts: list[Text | None] = []
            for element in node.args[0].elts:
                texts += [base, self.fold(element, depth)] if texts else [self.fold(element, depth)]
            return _joined(node, texts)
        if node.func.attr == "replace" and len(node.args) >= 2:
            old, new = (self.said(argument) for argument in node.args[:2])
            value = f"{base.value}{HOLE}"
            if old and base.value.count(old) * len(new or HOLE) <= LONGEST:
                value = base.value.replace(old, HOLE if new is None else new)
            return Text(value, (Piece(0, base.pieces[0].first, base.pieces[-1].last),))
        return None


def _piece(node: ast.expr) -> Piece:
    return Piece(0, node.lineno, node.end_lineno or node.lineno)


def _joined(node: ast.expr, texts: Iterable[Text | None]) -> Text | None:
    """Put parts together; None if that is too long."""
    values: list[str] = []
    pieces = [_piece(node)]
    at = 0
    for text in texts:
        values.append(HOLE if text is None else text.value)
        pieces += [Piece(at + one.offset, one.first, one.last) for one in (text.pieces if text else ())]
        at += len(values[-1])
        if at > LONGEST or len(pieces) > 20_000:
            return None
    return Text("".join(values), tuple(pieces))
