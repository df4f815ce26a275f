"""Diagnostics for a client that pulls them, also for the whole workspace: each is told in one way alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from e2e_editor import MODULE, Editor, everything, published, session
from lsprotocol import types
from stored_runs import ANCHOR, leave

pytestmark = [pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "model.py"
    path.parent.mkdir()
    path.write_text(MODULE)
    return path


async def pull_all(editor: Editor, known: dict[str, str]) -> dict[str, tuple[list[int], str]]:
    """Return the lines of the diagnostics and the result's id, by document."""
    ids = [types.PreviousResultId(uri, value) for uri, value in known.items()]
    report = await editor.client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams(ids, "STARK"))
    found = {}
    for each in report.items:
        assert isinstance(each, types.WorkspaceFullDocumentDiagnosticReport)
        found[each.uri] = ([item.range.start.line for item in each.items], each.result_id or "")
    return found


async def test_a_pull_for_the_workspace_is_answered_when_there_is_something_new(tmp_path: Path, file: Path) -> None:
    state = tmp_path / "state"
    leave(state, file, "r1")
    async with session(everything(), state) as editor:
        first = asyncio.ensure_future(pull_all(editor, {}))
        await asyncio.sleep(0.3)
        assert not first.done(), "nothing is known yet"
        uri = editor.open(file)
        lines, known = (await asyncio.wait_for(first, 20))[uri]
        assert lines == [ANCHOR]

        again = asyncio.ensure_future(pull_all(editor, {uri: known}))
        await asyncio.sleep(0.5)
        assert not again.done(), "nothing is new"
        editor.type(uri, 0, 0, "# above\n")
        moved, known = (await asyncio.wait_for(again, 20))[uri]
        assert moved == [ANCHOR + 1]

        gone = asyncio.ensure_future(pull_all(editor, {uri: known}))
        await editor.execute("stark.dismiss", {"run": "r1"})
        assert (await asyncio.wait_for(gone, 20))[uri][0] == []
        assert editor.client.diagnostics == {}, "a client that pulls is published nothing"


async def test_a_client_that_is_published_to_is_offered_no_pull(tmp_path: Path, file: Path) -> None:
    leave(tmp_path / "state", file, "r1")
    async with session(published(), tmp_path / "state") as editor:
        uri = editor.open(file)
        await editor.until(lambda: editor.diagnostics(uri), "published plans")
        with pytest.raises(Exception, match="textDocument/diagnostic"):
            await editor.pull(uri)
