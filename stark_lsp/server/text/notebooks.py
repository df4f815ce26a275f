"""Notebooks: their code cells are one document to the rest of the server, which has the notebook's URI.

1. The client tells of cells; their text is joined (`discovery.notebooks`), and each change replaces the whole.
2. What a client asks about a cell is asked of the document at another line, and what is answered is moved back
   (`Place`). To a file that is no notebook the same holds with no lines between.
3. An edit of the document becomes edits of cells (`placed`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from stark_lsp.core.errors import BadInput
from stark_lsp.server.text.documents import Change, Document
from stark_lsp.server.text.positions import key_of

if TYPE_CHECKING:
    from stark_lsp.server.language_server import StarkServer

SYNC = types.NotebookDocumentSyncOptions(
    [
        types.NotebookDocumentFilterWithNotebook(
            types.NotebookDocumentFilterNotebookType("jupyter-notebook"), [types.NotebookCellLanguage("python")]
        )
    ]
)


@dataclass
class Cell:
    """One code cell."""

    uri: str
    version: int
    document: Document
    """Its text as the client has it; never looked at for classes."""


@dataclass
class Notebook:
    """One notebook that is open."""

    document: Document
    cells: list[Cell] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    """URIs of cells that were taken out: what was told of them is to be taken back."""

    def starts(self) -> Iterator[tuple[Cell, int]]:
        """Yield the cells, each with its first line."""
        from stark_lsp.discovery.notebooks import height

        line = 0
        for cell in self.cells:
            yield cell, line
            line += height(cell.document.text)


@dataclass(frozen=True)
class Place:
    """A document that a client asks about: one of its own, or a cell."""

    document: Document
    first: int = 0
    """Line at which it begins."""
    last: int | None = None
    """Its last line; None if there is no end."""

    def holds(self, line: int) -> bool:
        """Whether a line of the document is in it."""
        return self.first <= line and (self.last is None or line <= self.last)

    def out(self, place: types.Range) -> types.Range:
        """Return a range of the document as the client counts."""
        return _moved(place, -self.first)


class Notebooks:
    """The notebooks that are open."""

    def __init__(self, server: StarkServer) -> None:
        self._server = server
        self._open: dict[str, Notebook] = {}

    def place(self, uri: str) -> Place | None:
        """Return what a client means by a URI, None if it is not open."""
        for notebook in self._open.values():
            for cell, first in notebook.starts():
                if key_of(cell.uri) == key_of(uri):
                    return Place(notebook.document, first, first + cell.document.text.count("\n"))
        document = self._server.documents.get(uri)
        return Place(document) if document is not None else None

    def shown_at(self, uri: str) -> list[str]:
        """Return under which URIs the client shows a document, or did: its own, or those of its cells."""
        notebook = self._open.get(key_of(uri))
        if notebook is not None:
            return [*(cell.uri for cell in notebook.cells), *notebook.gone]
        return [] if uri.endswith(".ipynb") else [uri]  # lines of a notebook's cells are none of its file

    def location(self, uri: str, place: types.Range) -> types.Location:
        """Return a range of a document where the client shows it."""
        notebook = self._open.get(key_of(uri))
        for cell, first in reversed(list(notebook.starts())) if notebook is not None else ():
            if first <= place.start.line:
                return types.Location(cell.uri, _moved(place, -first))
        return types.Location(uri, place)

    # --- what the client tells -----------------------------------------------------------------------

    def opened(self, params: types.DidOpenNotebookDocumentParams) -> None:
        """Take a notebook in."""
        told = params.notebook_document
        document = self._server.documents.open(types.TextDocumentItem(told.uri, "python", told.version, ""))
        notebook = self._open[key_of(told.uri)] = Notebook(document)
        items = {key_of(item.uri): item for item in params.cell_text_documents}
        notebook.cells = _cells(told.cells, items)
        document.apply(Change(_text(notebook)))
        for hook in self._server.on_open:
            hook(document)

    def changed(self, params: types.DidChangeNotebookDocumentParams) -> None:
        """Follow cells that came and went, and their text."""
        notebook = self._open.get(key_of(params.notebook_document.uri))
        cells = params.change.cells
        if notebook is None or cells is None:
            return
        if (structure := cells.structure) is not None:
            items = {key_of(item.uri): item for item in structure.did_open or ()}
            # A cell that is moved is closed and opened in none of them: it is known.
            items |= {key_of(c.uri): types.TextDocumentItem(c.uri, "python", c.version, c.document.text)
                      for c in notebook.cells if key_of(c.uri) not in items}  # fmt: skip
            start, end = structure.array.start, structure.array.start + structure.array.delete_count
            notebook.gone |= {cell.uri for cell in notebook.cells[start:end]}
            notebook.cells[start:end] = _cells(structure.array.cells or (), items)
        for content in cells.text_content or ():
            for cell in notebook.cells:
                if key_of(cell.uri) == key_of(content.document.uri):
                    cell.version = content.document.version
                    for event in content.changes:
                        cell.document.apply(self._server.documents.read(cell.document, event))
        document = notebook.document
        document.version = params.notebook_document.version
        text = _text(notebook)
        if text != document.text:
            change = Change(text)
            self._server.documents.on_change(document, change)
            document.apply(change)
            for hook in self._server.on_changed:
                hook(document)

    def closed(self, params: types.DidCloseNotebookDocumentParams) -> None:
        """Forget a notebook."""
        document = self._server.documents.close(params.notebook_document.uri)
        if document is not None:
            for hook in self._server.on_close:
                hook(document)
        # Not before: what was told of its cells is taken back.
        self._open.pop(key_of(params.notebook_document.uri), None)

    # --- what the client is told ---------------------------------------------------------------------

    def placed(self, edit: types.WorkspaceEdit) -> types.WorkspaceEdit:
        """Return an edit in which those of notebooks are edits of their cells.

        Raises
        ------
        BadInput
            One of them is not within a cell.
        """
        if not self._open:
            return edit
        if edit.changes:
            changes: dict[str, Sequence[types.TextEdit]] = {}
            for uri, edits in edit.changes.items():
                for cell, its in self._split(uri, edits):
                    changes[cell.uri if cell is not None else uri] = its
            return types.WorkspaceEdit(changes=changes)
        operations: list[Any] = []
        for operation in edit.document_changes or ():
            if not isinstance(operation, types.TextDocumentEdit):
                operations.append(operation)
                continue
            for cell, its in self._split(operation.text_document.uri, operation.edits):
                identifier = operation.text_document
                if cell is not None:
                    identifier = types.OptionalVersionedTextDocumentIdentifier(cell.uri, cell.version)
                operations.append(types.TextDocumentEdit(identifier, its))
        return types.WorkspaceEdit(document_changes=operations, change_annotations=edit.change_annotations)

    def _split(self, uri: str, edits: Sequence[Any]) -> list[tuple[Cell | None, list[Any]]]:
        notebook = self._open.get(key_of(uri))
        if notebook is None:
            return [(None, list(edits))]
        left, found = list(edits), []
        for cell, first in notebook.starts():
            behind = first + cell.document.text.count("\n") + 1
            its = [each for each in left if first <= each.range.start.line and each.range.end.line <= behind]
            left = [each for each in left if each not in its]
            if its:
                found.append((cell, [self._in_cell(cell, each, first, behind) for each in its]))
        if left:
            raise BadInput("The change reaches from one cell into another.", cure="Put the class into one cell.")
        return [*found]

    def _in_cell(self, cell: Cell, edit: Any, first: int, behind: int) -> Any:
        lines = cell.document.text.split("\n")
        end = types.Position(len(lines) - 1, self._server.documents.units.width(lines[-1]))
        place, text = _moved(edit.range, -first), edit.new_text
        if edit.range.end.line == behind:
            # The line behind the cell is not there, and neither is the line end before it.
            text = text.removesuffix("\n")
            if edit.range.start.line == behind:
                text = f"\n{text}"
                place = types.Range(end, end)
            place = types.Range(place.start, end)
        if isinstance(edit, types.AnnotatedTextEdit):
            return types.AnnotatedTextEdit(edit.annotation_id, place, text)
        return types.TextEdit(place, text)


def _cells(told: Sequence[types.NotebookCell], items: dict[str, types.TextDocumentItem]) -> list[Cell]:
    found = [items[key_of(cell.document)] for cell in told if key_of(cell.document) in items]
    return [Cell(item.uri, item.version, Document(item.uri, None, item.version, item.text)) for item in found]


def _text(notebook: Notebook) -> str:
    from stark_lsp.discovery.notebooks import joined

    return joined(cell.document.text for cell in notebook.cells)


def _moved(place: types.Range, lines: int) -> types.Range:
    start, end = place.start, place.end
    return types.Range(
        types.Position(start.line + lines, start.character), types.Position(end.line + lines, end.character)
    )
