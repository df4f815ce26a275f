"""Relative paths in settings, with a real server and folders that are open in the editor."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from lending_editor import MODULE, Editor, environment
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities, make_test_lsp_client

from stark_lsp.server.text.positions import uri_of


def folder(path: Path) -> types.WorkspaceFolder:
    path.mkdir(exist_ok=True)
    (path / "model.py").write_text(MODULE)
    return types.WorkspaceFolder(uri_of(path), path.name)


async def refused(editor: Editor, path: Path) -> str:
    """Return why a class of the file in `path` is not optimized."""
    before = len(editor.messages)
    uri = editor.open(path / "model.py")
    await editor.execute("stark.optimize", uri, "Model")
    await editor.until(lambda: len(editor.messages) > before, "a message")
    editor.close(uri)
    return editor.messages[-1]


@pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")
async def test_a_relative_folder_of_prompts_is_that_of_the_documents_workspace(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    config = ClientServerConfig(
        server_command=[sys.executable, "-m", "stark_lsp", "serve"],
        client_factory=make_test_lsp_client,
        server_env=environment(tmp_path / "state"),
    )
    client = await config.start()
    assert isinstance(client, LanguageClient)
    editor = Editor(client)
    settings = {"promptsDirectory": "prompts", "model": "playbook"}
    client.set_configuration(settings, section="stark")
    folders = [folder(one), folder(two)]
    try:
        await client.initialize_session(
            types.InitializeParams(
                client_capabilities("visual-studio-code"),
                workspace_folders=folders,
                root_uri=None,
                initialization_options={"stark": settings},
            )
        )
        folder(three)
        assert f"names {two / 'prompts'}, which is not a folder" in await refused(editor, two)
        assert f"names {one / 'prompts'}, which is not a folder" in await refused(editor, three)
        event = types.WorkspaceFoldersChangeEvent(added=[folder(three)], removed=[])
        client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
        assert f"names {three / 'prompts'}, which is not a folder" in await refused(editor, three)
    finally:
        await client.shutdown_session()
        await client.stop()
