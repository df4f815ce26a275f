"""A class in a cell of a notebook, its inputs in another one: optimized, shown and accepted in the cell."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from e2e_editor import MODULE, Editor, published, session
from lsprotocol import types
from stored_runs import decided, leave

from stark_lsp.core.status import Decision
from stark_lsp.discovery.notebooks import joined
from stark_lsp.server.text.positions import uri_of

pytestmark = [pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")]

_start = MODULE.index("class Model")
_end = MODULE.index("def get_inputs")
CELLS = (
    "%matplotlib inline\nimport torch\nimport torch.nn as nn",
    MODULE[_start:_end].rstrip(),
    "!nvidia-smi\n" + MODULE[_end:],
    'model = Model()\nraise SystemExit("the notebook must not be run")',
)
CELL = 1
"""The one with the class."""
ANCHOR = next(number for number, line in enumerate(CELLS[CELL].split("\n")) if "torch.pow" in line)


class Notebook:
    """A notebook that is open in a client."""

    def __init__(self, editor: Editor, file: Path, cells: tuple[str, ...] = CELLS) -> None:
        self._editor = editor
        self.uri = uri_of(file)
        self.version = 1
        self.cells = [self.cell_uri(number) for number in range(len(cells))]
        editor.texts |= dict(zip(self.cells, cells, strict=True))
        editor.versions |= dict.fromkeys(self.cells, 1)
        told = [types.NotebookCell(types.NotebookCellKind.Code, uri) for uri in self.cells]
        document = types.NotebookDocument(self.uri, "jupyter-notebook", 1, told)
        editor.client.notebook_document_did_open(
            types.DidOpenNotebookDocumentParams(document, [self.item(uri) for uri in self.cells])
        )
        # The client tells of an edit of a cell in the notebook's words.
        editor._changed = self._cell_changed  # type: ignore[method-assign]

    def cell_uri(self, number: int) -> str:
        return f"vscode-notebook-cell:{self.uri.removeprefix('file:')}#W{number}"

    def item(self, uri: str) -> types.TextDocumentItem:
        return types.TextDocumentItem(uri, "python", self._editor.versions[uri], self._editor.texts[uri])

    def insert(self, at: int, text: str) -> None:
        """Put a new cell before another one."""
        uri = self.cell_uri(100)
        self._editor.texts[uri], self._editor.versions[uri] = text, 1
        cell = types.NotebookCell(types.NotebookCellKind.Code, uri)
        array = types.NotebookCellArrayChange(at, 0, [cell])
        structure = types.NotebookDocumentCellChangeStructure(array, did_open=[self.item(uri)])
        self._told(types.NotebookDocumentCellChanges(structure=structure))

    def _cell_changed(self, uri: str, events: list[types.TextDocumentContentChangeEvent]) -> None:
        self._editor.versions[uri] += 1
        identifier = types.VersionedTextDocumentIdentifier(self._editor.versions[uri], uri)
        content = types.NotebookDocumentCellContentChanges(identifier, events)
        self._told(types.NotebookDocumentCellChanges(text_content=[content]))

    def _told(self, cells: types.NotebookDocumentCellChanges) -> None:
        self.version += 1
        identifier = types.VersionedNotebookDocumentIdentifier(self.version, self.uri)
        event = types.NotebookDocumentChangeEvent(cells=cells)
        self._editor.client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(identifier, event))


def notebooks() -> types.ClientCapabilities:
    """Return the capabilities of a client with notebooks, to which diagnostics are published."""
    rich = published()
    rich.notebook_document = types.NotebookDocumentClientCapabilities(types.NotebookDocumentSyncClientCapabilities())
    return rich


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "try.ipynb"
    path.parent.mkdir()
    cells = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in CELLS]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": ["# Title"]}, *cells]}))
    return path


def published_lines(editor: Editor, uri: str) -> list[int]:
    return [item.range.start.line for item in editor.diagnostics(uri)]


async def test_a_proposal_is_shown_and_accepted_in_its_cell(file: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    leave(state, file, "r1", text=joined(CELLS))
    async with session(notebooks(), state) as editor:
        notebook = Notebook(editor, file)
        uri = notebook.cells[CELL]
        await editor.until_question()
        assert [await editor.titles(cell) for cell in notebook.cells] == [
            [],
            ["Optimize with STARK", "Review", "Accept", "Reject"],
            [],
            [],
        ]
        assert {lens.range.start.line for lens in await editor.lenses(uri)} == {0}
        await editor.until(lambda: published_lines(editor, uri) == [ANCHOR], "the plan in its cell")
        assert "One pass" in (await editor.hover(uri, ANCHOR) or "")
        assert await editor.hover(notebook.cells[2], 1) is None

        # A cell above, and a line above in the cell.
        notebook.insert(0, "# a new cell")
        editor.type(uri, 0, 0, "# a new line\n")
        await editor.until(lambda: published_lines(editor, uri) == [ANCHOR + 1], "the plan one line below")

        action = next(each for each in await editor.actions(uri, 1) if each.title.startswith("Accept"))
        await editor.choose(action)
        await editor.until_message("was accepted")
        assert editor.texts[uri].startswith("# a new line\n" + CELLS[CELL] + "\n\n\n")
        assert "class ModelNew(nn.Module)" in editor.texts[uri]
        assert [editor.texts[cell] for cell in notebook.cells[2:]] == list(CELLS[2:])
        await editor.until(lambda: not editor.diagnostics(uri), "no plans")
    assert decided(state, "r1") is Decision.ACCEPTED


@pytest.mark.slow
async def test_a_class_in_a_cell_is_optimized_without_running_the_notebook(file: Path, tmp_path: Path) -> None:
    async with session(notebooks(), tmp_path / "state") as editor:
        notebook = Notebook(editor, file)
        uri = notebook.cells[CELL]
        started = await editor.execute("stark.optimize", {"uri": uri, "line": 1})
        assert started["status"] == "started"
        await editor.until(lambda: editor.questions, "the proposal", 120)
        await editor.execute("stark.accept", {"run": started["run"]})
        await editor.until_message("was accepted")
        texts = [editor.texts[cell] for cell in notebook.cells]
        assert "class ModelNew(nn.Module)" in texts[CELL]
        compile(joined(texts), "joined", "exec")


def remove(notebook: Notebook, editor: Editor, at: int) -> str:
    """Take out a cell; return its URI."""
    uri = notebook.cells.pop(at)
    array = types.NotebookCellArrayChange(at, 1, [])
    structure = types.NotebookDocumentCellChangeStructure(array, did_close=[types.TextDocumentIdentifier(uri)])
    notebook._told(types.NotebookDocumentCellChanges(structure=structure))
    return uri


def close(notebook: Notebook, editor: Editor) -> None:
    params = types.DidCloseNotebookDocumentParams(
        types.NotebookDocumentIdentifier(notebook.uri), [types.TextDocumentIdentifier(uri) for uri in notebook.cells]
    )
    editor.client.notebook_document_did_close(params)


@contextlib.asynccontextmanager
async def planned(file: Path, state: Path) -> AsyncIterator[tuple[Editor, Notebook, str]]:
    """A notebook that is open, with a plan at one of its cells, whose URI comes last."""
    leave(state, file, "r1", text=joined(CELLS))
    async with session(notebooks(), state) as editor:
        notebook = Notebook(editor, file)
        uri = notebook.cells[CELL]
        await editor.until(lambda: published_lines(editor, uri) == [ANCHOR], "the plan")
        yield editor, notebook, uri


async def test_the_plan_of_a_cell_goes_with_it(file: Path, tmp_path: Path) -> None:
    async with planned(file, tmp_path / "state") as (editor, notebook, uri):
        assert remove(notebook, editor, CELL) == uri
        await editor.until(lambda: published_lines(editor, uri) == [], "no plan in a cell that is gone")


async def test_nothing_is_told_of_the_file_of_a_notebook_that_is_closed(file: Path, tmp_path: Path) -> None:
    async with planned(file, tmp_path / "state") as (editor, notebook, uri):
        close(notebook, editor)
        await editor.until(lambda: published_lines(editor, uri) == [], "no plan in a notebook that is closed")
        file.write_text(file.read_text())  # saved by Jupyter
        event = types.FileEvent(notebook.uri, types.FileChangeType.Changed)
        editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
        again = Notebook(editor, file)
        await editor.until(lambda: published_lines(editor, again.cells[CELL]) == [ANCHOR], "the plan again")
        assert published_lines(editor, notebook.uri) == []


async def test_a_cell_that_is_nested_too_deeply_stops_no_other(file: Path, tmp_path: Path) -> None:
    """Python 3.11 raises RecursionError for it; the text that an edit is placed in stayed as it was before."""
    leave(tmp_path / "state", file, "r1", text=joined(CELLS))
    async with session(notebooks(), tmp_path / "state", {"writeMode": "replace"}) as editor:
        notebook = Notebook(editor, file)
        uri, last = notebook.cells[CELL], notebook.cells[-1]
        await editor.until_question()
        editor.type(last, 1, 0, "total = " + " + ".join(map(str, range(3000))) + "\n")
        editor.type(uri, 0, 0, "SETTINGS = {\n    'lr': 1e-3,\n}\n\n")
        await editor.execute("stark.accept", {"run": "r1"})
        await editor.until(lambda: len(editor.messages) > 0, "what became of it")
        assert editor.texts[uri].startswith("SETTINGS = {\n    'lr': 1e-3,\n}\n")
