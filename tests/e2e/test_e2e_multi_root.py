"""Several folders in one window: each has its own settings."""

from __future__ import annotations

import asyncio
from pathlib import Path

from e2e_editor import MODULE, Editor, published, session
from lsprotocol import types
from stored_runs import leave

from stark_lsp.server.text.positions import uri_of


def project(folder: Path) -> Path:
    folder.mkdir()
    file = folder / "model.py"
    file.write_text(MODULE)
    return file


async def looks_for(editor: Editor, file: Path, interpreter: Path) -> None:
    """Optimize the class of a file until that is refused for want of this interpreter: settings take a moment."""
    uri = editor.open(file)
    for _ in range(100):
        editor.questions.clear()
        await editor.execute("stark.optimize", uri, "Model")
        if f"no Python interpreter at {interpreter}." in (await editor.until_question()).message:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(editor.questions[-1].message)


async def test_each_folder_has_its_own_python(tmp_path: Path) -> None:
    one, two, outside = (project(tmp_path / name) for name in ("one", "two", "outside"))
    folders = {one.parent: {"interpreter": "./first"}, two.parent: {"interpreter": "./second"}}
    async with session(published(), tmp_path / "state", {"interpreter": "./any"}, folders) as editor:
        await looks_for(editor, one, one.parent / "first")
        await looks_for(editor, two, two.parent / "second")
        # A folder that is added is asked for, one that is gone counts no longer.
        editor.client.set_configuration({"interpreter": "./third"}, section="stark", scope_uri=uri_of(outside.parent))
        added, removed = ([types.WorkspaceFolder(uri_of(file.parent), "x")] for file in (outside, two))
        event = types.WorkspaceFoldersChangeEvent(added, removed)
        editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
        await looks_for(editor, outside, outside.parent / "third")
        await looks_for(editor, two, one.parent / "any")


async def test_a_proposal_goes_where_its_folder_says(tmp_path: Path) -> None:
    one, two = project(tmp_path / "one"), project(tmp_path / "two")
    leave(tmp_path / "state", two, "r2")
    folders = {one.parent: {}, two.parent: {"writeMode": "replace"}}
    async with session(published(), tmp_path / "state", {}, folders) as editor:
        uri = editor.open(two)
        await editor.until_question()
        await editor.execute("stark.accept", {"run": "r2"})
        await editor.until_message("was accepted")
        assert "class ModelNew" not in editor.texts[uri]
        assert "approximate=" in editor.texts[uri]


async def test_what_stands_in_the_status_is_of_the_folder_of_the_file(tmp_path: Path) -> None:
    one, two = project(tmp_path / "one"), project(tmp_path / "two")
    folders = {one.parent: {"device": "cpu"}, two.parent: {"device": "cuda"}}
    async with session(published(), tmp_path / "state", {}, folders) as editor:
        await editor.execute("stark.dismiss")  # answered once the settings are there
        told = [await editor.own("stark/status", uri=uri_of(file)) for file in (one, two)]
        assert [each["device"] for each in told] == ["cpu", "cuda"]
