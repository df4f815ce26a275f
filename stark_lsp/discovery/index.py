"""The classes of one open document, from keystroke to keystroke."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from stark_lsp.core.problem import Span
from stark_lsp.discovery.classes import ModuleClass, classes_of, may_hold_classes
from stark_lsp.discovery.moves import moved, names_of
from stark_lsp.discovery.pieces import Piece, recut
from stark_lsp.discovery.syntax import LONGEST, split_lines

logger = logging.getLogger(__name__)


class DocumentIndex:
    """Reads again what was edited, and keeps what it knew of a part that does not parse.

    Parameters
    ----------
    path
        Absolute path of the document, or None if it was never saved.
    """

    def __init__(self, path: str | None = None) -> None:
        self.path = path
        self.classes: tuple[ModuleClass, ...] = ()
        """The module classes of the last text; the same object as long as they are the same."""
        self.valid = True
        """Whether all of the last text parsed."""
        self._text: str | None = None
        self._pieces: list[Piece] = []
        self._defined: frozenset[str] | None = None
        """Names of the classes and functions of the last text; None if it must be looked at as if it were new."""

    def update(self, text: str) -> tuple[ModuleClass, ...]:
        """Return the classes of `text`.

        While a part of it does not parse, classes that were known stay, with the inputs they had, where their `class`
        line is now. A text that was just seen is not read again; `forget` makes it so, for instance when a
        `pyproject.toml` changed.
        """
        if text == self._text:
            return self.classes
        if len(text) > LONGEST and (self._text is None or len(self._text) <= LONGEST):
            logger.warning("%s has %d characters, more than %d: it is not looked into", self.path, len(text), LONGEST)
        self._text = text
        before = self._pieces
        found: tuple[ModuleClass, ...] = ()
        if len(text) > LONGEST or not may_hold_classes(text):
            self.valid, self._pieces, self._defined = True, [], None
        else:
            valid = self.valid
            self._pieces, head, tail = recut(text, before)
            self.valid = not any(piece.broken for piece in self._pieces)
            now = self._moved(before, head, tail) if valid and self._defined is not None else None
            if now is None:
                now = tuple(cls for cls in classes_of(self._pieces, self.path) if cls.reachable)
                self._defined = names_of(self._pieces)
            found = now
            if not self.valid:
                found = _kept(self.classes, found, _Edit.between(before, self._pieces, head, tail))
        if found != self.classes:
            self.classes = found
        return self.classes

    def forget(self) -> None:
        """Look at the text again at the next update, even if it is the same."""
        self._text = self._defined = None

    def _moved(self, before: Sequence[Piece], head: int, tail: int) -> tuple[ModuleClass, ...] | None:
        start = sum(piece.count for piece in before[:head])
        old, new = before[head : len(before) - tail], self._pieces[head : len(self._pieces) - tail]
        return moved(self.classes, old, new, start, self._defined or frozenset())


@dataclass(frozen=True)
class _Edit:
    """What became of the lines of a text: those before `start` stayed, those of the end moved."""

    start: int
    old_end: int
    new_end: int
    new: Sequence[str]
    """The lines from `start` to `new_end`."""

    @staticmethod
    def between(old: Sequence[Piece], new: Sequence[Piece], head: int, tail: int) -> _Edit:
        """Return the edit between two texts whose first and last pieces are the same."""
        start = sum(piece.count for piece in old[:head])
        before = split_lines("".join(piece.text for piece in old[head : len(old) - tail]))
        after = split_lines("".join(piece.text for piece in new[head : len(new) - tail]))
        shortest = min(len(before), len(after))
        same = next((n for n in range(shortest) if before[n] != after[n]), shortest)
        shortest -= same
        end = next((n for n in range(shortest) if before[-1 - n] != after[-1 - n]), shortest)
        return _Edit(start + same, start + len(before) - end, start + len(after) - end, after[same : len(after) - end])

    def moved(self, line: int) -> int | None:
        """Return where a line is now, None if it was edited."""
        if line < self.start:
            return line
        return line - self.old_end + self.new_end if line >= self.old_end else None

    def follow(self, cls: ModuleClass) -> ModuleClass | None:
        """Return a class where its `class` line is now, None if that is gone."""
        line, columns = self.moved(cls.name_line), (cls.name_start, cls.name_end)
        if line is None:
            header = re.compile(rf"\s*class\s+({re.escape(cls.qualname.rpartition('.')[2])})\b")
            for number, text in enumerate(self.new, self.start):
                if name := header.match(text):
                    line, columns = number, name.span(1)
                    break
            else:
                return None
        first, last = self.moved(cls.span.start), self.moved(cls.span.end)
        span = Span(line if first is None else min(first, line), max(line, self.new_end - 1 if last is None else last))
        return replace(cls, span=span, name_line=line, name_start=columns[0], name_end=columns[1])


def _kept(known: Sequence[ModuleClass], found: Sequence[ModuleClass], edit: _Edit) -> tuple[ModuleClass, ...]:
    """Return what was found in a text of which a part does not parse, and what was known before of that part."""
    inputs = {cls.qualname: cls.inputs for cls in known}
    names = {cls.qualname for cls in found}
    result = [
        cls if inputs.get(cls.qualname, cls.inputs) == cls.inputs else replace(cls, inputs=inputs[cls.qualname])
        for cls in found
    ]
    result += [now for cls in known if cls.qualname not in names and (now := edit.follow(cls)) is not None]
    return tuple(sorted(result, key=lambda cls: (cls.span.start, cls.name_line)))
