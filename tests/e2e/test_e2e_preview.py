"""A proposal is accepted by a code action whose edit the client asks for, shows and makes by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e_editor import MODULE, Editor, published, session
from lsprotocol import types
from pytest_lsp import client_capabilities
from stored_runs import decided, leave

from stark_lsp.core.status import Decision

pytestmark = [pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")]

CLASS_LINE = 6


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "model.py"
    path.parent.mkdir()
    path.write_text(MODULE)
    return path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


async def accepting(editor: Editor, uri: str) -> types.CodeAction:
    """Return the action that accepts the proposal, once there is one."""
    await editor.until_question()
    actions = await editor.actions(uri, CLASS_LINE)
    return next(action for action in actions if action.title.startswith("Accept"))


async def test_a_preview_shows_the_edit_and_changes_nothing(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    async with session(published(), state) as editor:
        uri = editor.open(file)
        action = await accepting(editor, uri)
        assert action.edit is None
        resolved = await editor.resolve(action)
        assert resolved.edit is not None
        assert "class ModelNew" in str(resolved.edit)
        assert resolved.command == action.command
        assert (editor.edits, editor.texts[uri]) == ([], MODULE)
        assert "Accept" in await editor.titles(uri)
        # The other ways to accept it are what they were.
        await editor.execute("stark.accept", {"run": "r1"})
        await editor.until_message("was accepted")
        assert editor.texts[uri].count("class ModelNew") == 1
    assert decided(state, "r1") is Decision.ACCEPTED


async def test_the_client_makes_the_edit_and_the_server_takes_note_of_it(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    async with session(published(), state) as editor:
        uri = editor.open(file)
        await editor.choose(await accepting(editor, uri))
        await editor.until_message("was accepted")
        assert len(editor.edits) == 1, "by the client alone"
        assert editor.texts[uri].count("class ModelNew") == 1
        await editor.until(lambda: not editor.diagnostics(uri), "no plans")
        assert await editor.titles(uri) == ["Optimize with STARK"]
    assert decided(state, "r1") is Decision.ACCEPTED


async def test_an_edit_that_became_something_else_leaves_the_proposal_open(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    async with session(published(), state) as editor:
        uri = editor.open(file)
        action = await accepting(editor, uri)
        editor.policy = "garble"
        await editor.choose(action)
        await editor.until_message("is not what was proposed. Undo the edit")
    assert decided(state, "r1") is Decision.OPEN


async def test_an_edit_that_the_client_did_not_make_is_told_as_that_and_can_be_accepted_again(
    file: Path, state: Path
) -> None:
    leave(state, file, "r1")
    async with session(published(), state) as editor:
        uri = editor.open(file)
        resolved = await editor.resolve(await accepting(editor, uri))
        # Some clients refuse the edit of an older version, and run the command all the same.
        editor.type(uri, 0, 0, "# typed meanwhile\n")
        await editor.run(resolved.command)
        said = await editor.until_message("Accept it again")
        assert "Nothing was changed" in said
        assert "Undo" not in said
        await editor.run(resolved.command)
        await editor.until_message("was accepted")
        assert editor.texts[uri].count("class ModelNew") == 1
    assert decided(state, "r1") is Decision.ACCEPTED


async def test_an_edit_that_needs_a_file_first_is_left_to_the_server(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    poor = published()
    assert poor.workspace is not None
    poor.workspace.workspace_edit = types.WorkspaceEditClientCapabilities(document_changes=True)
    async with session(poor, state, {"writeMode": "module"}) as editor:
        uri = editor.open(file)
        action = await accepting(editor, uri)
        assert (await editor.resolve(action)).edit is None
        await editor.run(action.command)
        await editor.until_message("was accepted")
        (new,) = set(file.parent.glob("*.py")) - {file}
        assert "class ModelNew" in new.read_text()


async def test_a_class_that_changed_has_no_edit_and_the_command_says_why(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    async with session(published(), state) as editor:
        uri = editor.open(file)
        action = await accepting(editor, uri)
        editor.type(uri, CLASS_LINE + 2, 8, "x = x + 1; ")
        assert (await editor.resolve(action)).edit is None
        await editor.run(action.command)
        await editor.until_message("Nothing was changed")
    assert decided(state, "r1") is Decision.OPEN


async def test_a_client_that_resolves_nothing_gets_the_command_alone(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    poor = client_capabilities("visual-studio-code")
    assert poor.text_document is not None
    assert poor.text_document.code_action is not None
    poor.text_document.code_action.resolve_support = None
    async with session(poor, state) as editor:
        action = await accepting(editor, editor.open(file))
        assert (action.data, action.command and action.command.arguments) == (None, ({"run": "r1"},))
