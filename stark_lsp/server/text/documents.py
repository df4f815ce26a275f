"""The open documents: their text as the editor has it, and the classes in them.

The server keeps the text itself instead of leaving it to pygls, for two reasons: pygls splits lines
where editors do not (at form feeds, for instance), and anchors must see each change in terms of the
text *before* it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from lsprotocol import types

from stark_lsp.core.editing import Replacement, apply_edits, keep_ends
from stark_lsp.core.errors import BadInput
from stark_lsp.core.parsing import BOM
from stark_lsp.core.status import InputSource
from stark_lsp.server.text.positions import Place, Units, key_of, path_of

if TYPE_CHECKING:
    from stark_lsp.discovery.classes import ModuleClass
    from stark_lsp.discovery.index import DocumentIndex


@dataclass(frozen=True)
class Change:
    """One edit of a document; `start` None means that the whole text was replaced."""

    text: str
    """The new text of the range, or of the document."""
    start: Place | None = None
    end: Place | None = None


@dataclass
class Document:
    """One open document."""

    uri: str
    path: str | None
    """None if the URI names no file on this machine."""
    version: int
    text: str
    real: str | None = field(init=False)
    """The path without symbolic links: what makes two documents one file."""
    lines: list[str] = field(init=False)
    _index: DocumentIndex | None = field(default=None, init=False)
    _indexed: str | None = field(default=None, init=False)
    """The text that the index is of."""
    _offered: tuple[str, tuple[ModuleClass, ...]] | None = field(default=None, init=False)
    """`offered` with the text that it is of."""

    def __post_init__(self) -> None:
        self.real = os.path.realpath(self.path) if self.path is not None else None
        self.lines = keep_ends(self.text)

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.start is None or change.end is None:
            self.text = change.text
            self.lines = keep_ends(self.text)
            return
        # Only the touched lines are split again; the line before and after take part, since an edit
        # can join or divide a CRLF pair.
        first = max(change.start[0] - 1, 0)
        last = min(change.end[0] + 2, len(self.lines))
        begin, touched = sum(map(len, self.lines[:first])), "".join(self.lines[first:last])
        (start, start_column), (end, end_column) = change.start, change.end
        edit = Replacement(start - first, start_column, end - first, end_column, change.text)
        middle = apply_edits(touched, [edit])
        self.text = self.text[:begin] + middle + self.text[begin + len(touched) :]
        self.lines = self.lines[:first] + keep_ends(middle) + self.lines[last:]

    @property
    def classes(self) -> tuple[ModuleClass, ...]:
        """The module classes in the text; known ones stay while a part of it does not parse."""
        if self._index is None:
            from stark_lsp.discovery.index import DocumentIndex

            self._index = DocumentIndex(self.path)
        if self._indexed is not self.text:
            self._index.update(self.text)
            self._indexed = self.text
        return self._index.classes

    @property
    def valid(self) -> bool:
        """Whether the text is Python."""
        _ = self.classes  # makes the index
        return self._index is not None and self._index.valid

    @property
    def offered(self) -> tuple[ModuleClass, ...]:
        """The classes that something can be done with: those that an import finds and no accepted proposal brought."""
        classes = self.classes
        if self._offered is None or self._offered[0] is not self.text:
            found = tuple(
                cls
                for cls in classes
                if not cls.objection and (cls.inputs.source is not InputSource.NONE or not self._ours(cls))
            )
            # The same object as long as they are the same, so that nobody makes anew what follows from them.
            same = self._offered is not None and self._offered[1] == found
            self._offered = self.text, self._offered[1] if self._offered and same else found
        return self._offered[1]

    def _ours(self, cls: ModuleClass) -> bool:
        from stark_lsp.proposals.provenance import FIRST_WORDS

        return any(line.lstrip().startswith(FIRST_WORDS) for line in self.comments_above(cls))

    def comments_above(self, cls: ModuleClass) -> Iterator[str]:
        """Yield the lines of comment right above a class, from below."""
        # Line by line: a copy of all that is above each class takes long where there are thousands of them.
        above = (self.lines[number] for number in range(cls.span.start - 1, -1, -1))
        return takewhile(lambda line: line.lstrip().startswith("#"), above)

    def reread(self) -> None:
        """Look for the classes again although the text is the same: an inputs table elsewhere changed."""
        if self._index is not None:
            self._index.forget()
        self._indexed = self._offered = None

    def find(self, qualname: str) -> ModuleClass | None:
        """Return the class of that name, None if there is none."""
        return next((cls for cls in self.classes if cls.qualname == qualname), None)


Watcher = Callable[[Document, Change], None]
"""Told of each change, before it is applied."""


class Documents:
    """All open documents."""

    def __init__(self) -> None:
        self.units = Units()
        self.on_change: Watcher = lambda document, change: None
        self._open: dict[str, Document] = {}

    def get(self, uri: str) -> Document | None:
        """Return the open document, None if it is not open."""
        return self._open.get(key_of(uri))

    def at(self, path: str) -> Document | None:
        """Return the open document of a file, by whatever link it was opened, None if it is not open."""
        real = os.path.realpath(path)
        return next((document for document in self._open.values() if document.real == real), None)

    def find(self, uri: str, path: str) -> Document | None:
        """Return the open document of a URI or a file."""
        return self.get(uri) or self.at(path)

    def text(self, uri: str, path: str | None = None) -> str | None:
        """Return today's text of a document, from the editor if it is open there; None if it cannot be read.

        Its file is that of the URI unless a path is given.
        """
        path = path or path_of(uri)
        document = self.get(uri) or (self.at(path) if path is not None else None)
        return document.text if document is not None else read_file(path) if path is not None else None

    def require(self, uri: str) -> str:
        """Return today's text of a document.

        Raises
        ------
        BadInput
            It cannot be read.
        """
        text = self.text(uri)
        if text is None:
            raise BadInput("The document is not open and cannot be read.", path=path_of(uri))
        return text

    def all(self) -> tuple[Document, ...]:
        """Return the open documents."""
        return tuple(self._open.values())

    def open(self, item: types.TextDocumentItem) -> Document:
        """Take a document in."""
        document = Document(item.uri, path_of(item.uri), item.version, item.text)
        self._open[key_of(item.uri)] = document
        return document

    def close(self, uri: str) -> Document | None:
        """Forget a document."""
        return self._open.pop(key_of(uri), None)

    def change(self, params: types.DidChangeTextDocumentParams) -> Document | None:
        """Apply the changes of one notification in order; None if the document is not open."""
        document = self.get(params.text_document.uri)
        if document is None:
            return None
        for event in params.content_changes:
            change = self.read(document, event)
            self.on_change(document, change)
            document.apply(change)
        document.version = params.text_document.version
        return document

    def read(self, document: Document, event: types.TextDocumentContentChangeEvent) -> Change:
        """Return a change as the client tells it."""
        if isinstance(event, types.TextDocumentContentChangePartial):
            start = self.units.place(document.lines, event.range.start)
            end = self.units.place(document.lines, event.range.end)
            return Change(event.text, start, end)
        return Change(event.text)


def read_file(path: str) -> str | None:
    """Return the text of a file on disk with its own line ends, None if it is not there or not UTF-8.

    A byte order mark is left out, as in an editor's document. Of a notebook that is the text of its code cells.
    """
    try:
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return None
    if not path.endswith(".ipynb"):
        return text.removeprefix(BOM)
    from stark_lsp.discovery.notebooks import text_of

    return text_of(text)
