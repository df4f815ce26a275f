"""Inlay hints: the time of a class as its newest run measured it, in an editor that wants them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from e2e_editor import MODULE, Editor, heard, session
from lsprotocol import types
from pytest_lsp import client_capabilities
from stored_runs import leave

CLASS_LINE = 6


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "model.py"
    path.parent.mkdir()
    path.write_text(MODULE)
    return path


def client(*, dynamic: bool) -> types.ClientCapabilities:
    rich = client_capabilities("visual-studio-code")
    assert rich.text_document is not None
    assert rich.workspace is not None
    rich.text_document.inlay_hint = types.InlayHintClientCapabilities(dynamic_registration=dynamic)
    rich.workspace.inlay_hint = types.InlayHintWorkspaceClientCapabilities(refresh_support=True)
    return rich


async def hints(editor: Editor, uri: str, last: int = 100) -> list[tuple[int, int, Any]]:
    place = types.Range(types.Position(0, 0), types.Position(last, 0))
    params = types.InlayHintParams(types.TextDocumentIdentifier(uri), place)
    found = await editor.client.text_document_inlay_hint_async(params) or ()
    return [(each.position.line, each.position.character, each.label) for each in found]


async def test_a_class_shows_its_time_as_long_as_it_is_what_was_measured(tmp_path: Path, file: Path) -> None:
    leave(tmp_path / "state", file, "r1")
    async with session(client(dynamic=False), tmp_path / "state", {"inlayHints": True}) as editor:
        uri = editor.open(file)
        assert await hints(editor, uri) == [(CLASS_LINE, len("class Model(nn.Module):"), "1.00 ms")]
        assert await hints(editor, uri, CLASS_LINE - 1) == [], "a part of the document without the class"
        editor.type(uri, 0, 0, "# a line above changes nothing\n")
        assert [line for line, *_ in await hints(editor, uri)] == [CLASS_LINE + 1]
        editor.type(uri, CLASS_LINE + 3, 8, "x = x + 1; ")
        assert await hints(editor, uri) == []


async def test_hints_are_off_unless_asked_for(tmp_path: Path, file: Path) -> None:
    leave(tmp_path / "state", file, "r1")
    async with session(client(dynamic=False), tmp_path / "state") as editor:
        refreshes = heard(editor, types.WORKSPACE_INLAY_HINT_REFRESH)
        uri = editor.open(file)
        assert await hints(editor, uri) == []
        editor.client.set_configuration({"inlayHints": True}, section="stark")
        editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams({}))
        await editor.until(lambda: refreshes, "to be told to ask again")
        assert len(await hints(editor, uri)) == 1


async def test_a_client_that_takes_registrations_is_told_while_the_setting_is_on(tmp_path: Path, file: Path) -> None:
    leave(tmp_path / "state", file, "r1")
    async with session(client(dynamic=True), tmp_path / "state") as editor:
        came = heard(editor, types.CLIENT_REGISTER_CAPABILITY)
        went = heard(editor, types.CLIENT_UNREGISTER_CAPABILITY)
        uri = editor.open(file)

        def methods() -> list[str]:
            return [each.method for params in came for each in params.registrations]

        for wanted in (True, False):
            editor.client.set_configuration({"inlayHints": wanted}, section="stark")
            editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams({}))
            if wanted:
                await editor.until(lambda: types.TEXT_DOCUMENT_INLAY_HINT in methods(), "the registration")
                assert len(await hints(editor, uri)) == 1
        await editor.until(lambda: went, "the end of it")
        assert came[-1].registrations[0].id == went[-1].unregisterations[0].id
