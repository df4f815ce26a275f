"""Lines, spans, positions and paths: the arithmetic between documents and the protocol. Pure functions.

Inside the server a column counts code points. A client counts in the units negotiated at
`initialize` (UTF-16 unless it says otherwise).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lsprotocol import types
from pygls.uris import from_fs_path

from stark_lsp.core.editing import Replacement, keep_ends
from stark_lsp.core.problem import Span

Place = tuple[int, int]
"""0-based line and column in code points."""


@dataclass(frozen=True)
class Units:
    """Converts columns between code points and the client's units."""

    encoding: str = "utf-16"
    """`utf-8`, `utf-16` or `utf-32`."""

    def width(self, text: str) -> int:
        """Return how many units `text` takes."""
        if self.encoding == "utf-32" or text.isascii():
            return len(text)
        if self.encoding == "utf-8":
            return len(text.encode("utf-8", "surrogatepass"))
        return len(text) + sum(1 for character in text if ord(character) > 0xFFFF)

    def place(self, lines: Sequence[str], position: types.Position) -> Place:
        """Return a client's position in code points; past the end of a line is its end, past the last line the end."""
        if position.line >= len(lines):
            if lines and not lines[-1].endswith(("\n", "\r")):
                return len(lines) - 1, len(lines[-1])
            return len(lines), 0
        line = lines[position.line].rstrip("\r\n")
        if self.encoding == "utf-32" or line.isascii():
            return position.line, min(position.character, len(line))
        units = 0
        for column, character in enumerate(line):
            if units >= position.character:
                return position.line, column
            units += self.width(character)
        return position.line, len(line)

    def position(self, lines: Sequence[str], place: Place) -> types.Position:
        """Return a place in the client's units."""
        line, column = place
        return types.Position(line, self.width(lines[line][:column]) if line < len(lines) else 0)

    def columns(self, line: str, start: int, end: int) -> tuple[int, int]:
        """Return two columns of a line in the client's units."""
        return (start, end) if line.isascii() else (self.width(line[:start]), self.width(line[:end]))

    def range(self, lines: Sequence[str], start: Place, end: Place) -> types.Range:
        """Return the range between two places in the client's units."""
        return types.Range(self.position(lines, start), self.position(lines, end))

    def edits(self, text: str, edits: Iterable[Replacement]) -> list[tuple[types.Range, str]]:
        """Return edits of a text, each as a range in the client's units and what comes there."""
        lines = keep_ends(text)
        return [
            (self.range(lines, (e.start_line, e.start_column), (e.end_line, e.end_column)), e.new_text) for e in edits
        ]


def path_of(uri: str) -> str | None:
    """Return the absolute path of a `file:` URI on this machine, None for any other URI."""
    try:
        parts = urlsplit(uri)
        path = unquote(parts.path, errors="strict")
    except (ValueError, UnicodeDecodeError):
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in path:
        return None
    return path if path.startswith("/") else None


def uri_of(path: str | Path) -> str:
    """Return the `file:` URI of a path."""
    uri = from_fs_path(str(path))
    if not isinstance(uri, str):
        raise ValueError(f"not a path: {path}")
    return uri


def key_of(uri: str) -> str:
    """Return what identifies a document; clients differ in what they percent-encode."""
    return unquote(uri)


def trimmed_range(lines: Sequence[str], span: Span, units: Units) -> types.Range:
    """Return the range of a span in the client's units, without the blanks around its text."""
    last = len(lines) - 1
    if last < 0:
        return types.Range(types.Position(0, 0), types.Position(0, 0))
    start, end = min(span.start, last), min(span.end, last)
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end].strip():
        end -= 1
    first, final = lines[start], lines[end].rstrip()
    return units.range(lines, (start, len(first) - len(first.lstrip())), (end, len(final)))
