"""Decisions about one finished run in an editor: accept, reject, review, and what may have changed meanwhile."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e_editor import MODULE, Editor, neovim, published, session
from lsprotocol import types
from pytest_lsp import client_capabilities
from stored_runs import leave, problem_in

from stark_lsp.core.problem import Problem
from stark_lsp.core.status import Decision
from stark_lsp.store import RunStore

pytestmark = pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")


def store_in(state: Path) -> RunStore:
    return RunStore(state / "runs.sqlite3")


@dataclass(frozen=True)
class Finished:
    """A run with an open proposal, made once; each test gets its own copy of the state."""

    file: Path
    state: Path
    run: str
    problem: Problem


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("finished")
    file = folder / "project" / "model.py"
    file.parent.mkdir()
    file.write_text(MODULE)

    async def make() -> str:
        async with session(client_capabilities("emacs"), folder / "state") as editor:
            started = await editor.execute("stark.optimize", editor.open(file), "Model")
            # This client has no messages with buttons.
            await editor.until_message("Review, accept or reject it with the code actions")
            return str(started["run"])

    run = asyncio.run(make())
    return Finished(file, folder / "state", run, store_in(folder / "state").load(run).run.problem)


@pytest.fixture
def finished(made: Finished, tmp_path: Path) -> Finished:
    shutil.copytree(made.state, tmp_path / "state")
    shutil.rmtree(made.file.parent)
    made.file.parent.mkdir()
    made.file.write_text(MODULE)
    return Finished(made.file, tmp_path / "state", made.run, made.problem)


async def accept(editor: Editor, run: str, part: str) -> str:
    answer = await editor.execute("stark.accept", {"run": run})
    assert answer == {"status": "applying", "run": run}
    return await editor.until_message(part)


@pytest.mark.slow
@pytest.mark.timing
async def test_an_edit_that_the_editor_refuses_leaves_the_proposal_open(finished: Finished) -> None:
    async with session(published(), finished.state) as editor:
        uri = editor.open(finished.file)
        editor.policy = "refuse"
        assert "the user said no" in await accept(editor, finished.run, "did not apply")
        editor.policy = "stale"
        editor.client.messages.clear()
        assert "the document changed" in await accept(editor, finished.run, "did not apply")
        assert editor.texts[uri] == MODULE
        assert "Accept" in await editor.titles(uri)
        editor.policy = "accept"
        await accept(editor, finished.run, "was accepted")
        assert "class ModelNew" in editor.texts[uri]
        await editor.until(lambda: editor.client.shown_documents, "the caret at the new class")
        (shown,) = editor.client.shown_documents
        assert (shown.uri, shown.selection is not None) == (uri, True)
        assert shown.selection is not None
        line = editor.texts[uri].splitlines()[shown.selection.start.line]
        assert line[shown.selection.start.character : shown.selection.end.character] == "ModelNew"
    assert store_in(finished.state).load(finished.run).run.decision is Decision.ACCEPTED


@pytest.mark.slow
@pytest.mark.timing
async def test_an_edit_that_became_something_else_is_noticed(finished: Finished) -> None:
    async with session(published(), finished.state) as editor:
        uri = editor.open(finished.file)
        editor.policy = "garble"
        await accept(editor, finished.run, "is not what was proposed")
        assert editor.diagnostics(uri) == [] or "Accept" in await editor.titles(uri)
    assert store_in(finished.state).load(finished.run).run.decision is Decision.OPEN


@pytest.mark.slow
@pytest.mark.timing
async def test_an_editor_that_tells_late_of_an_edit_is_believed(finished: Finished) -> None:
    async with session(published(), finished.state) as editor:
        uri = editor.open(finished.file)
        editor.policy = "silent"
        started = await editor.execute("stark.accept", {"run": finished.run})
        assert started["status"] == "applying"
        await editor.until(lambda: editor.edits, "the edit")
        # Another decision while the server looks whether the edit arrives changes nothing.
        await editor.execute("stark.reject", {"run": finished.run, "reason": "too late"})
        await editor.until_message("is being accepted")
        await editor.until_message("was accepted")
        assert not any("is not what was proposed" in text for text in editor.messages)
        editor.tell(uri)
        await editor.until(lambda: not editor.diagnostics(uri), "no diagnostics")
        assert await editor.titles(uri) == ["Optimize with STARK"]
    store = store_in(finished.state)
    assert store.load(finished.run).run.decision is Decision.ACCEPTED
    assert store.rejections(finished.problem.key) == ()


@pytest.mark.slow
@pytest.mark.timing
async def test_what_was_accepted_right_before_the_end_stays_accepted(finished: Finished) -> None:
    async with session(published(), finished.state) as editor:
        editor.open(finished.file)
        editor.policy = "silent"
        await editor.execute("stark.accept", {"run": finished.run})
        await editor.until(lambda: editor.edits, "the edit")
    assert store_in(finished.state).load(finished.run).run.decision is Decision.ACCEPTED


async def test_a_stale_class_is_never_overwritten_and_edits_elsewhere_are_fine(tmp_path: Path) -> None:
    file = tmp_path / "project" / "model.py"
    file.parent.mkdir()
    file.write_text(MODULE)
    leave(tmp_path / "state", file, "r1")
    finished = Finished(file, tmp_path / "state", "r1", problem_in(file))
    async with session(neovim(), finished.state) as editor:
        uri = editor.open(finished.file)
        editor.type(uri, 9, 8, "x = x * 2\n        ")
        assert "Optimize it again" in await accept(editor, finished.run, "Nothing was changed")
        assert editor.edits == []
        editor.type(uri, 9, 8, "", until=(10, 8))
        editor.type(uri, 12, 0, "def helper():\n    return 1\n\n\n")
        await accept(editor, finished.run, "was accepted")
        assert "def helper()" in editor.texts[uri]
        assert "class ModelNew" in editor.texts[uri]
        (edit,) = editor.edits
        assert edit.edit.document_changes is None
        assert list(edit.edit.changes or {}) == [uri]


@pytest.mark.slow
@pytest.mark.timing
async def test_a_file_that_is_not_open_is_edited_through_the_editor(finished: Finished) -> None:
    async with session(published(), finished.state) as editor:
        await accept(editor, finished.run, "was accepted")
        assert "class ModelNew" in finished.file.read_text()
        assert editor.client.shown_documents == []  # no file is opened that the user did not open


@pytest.mark.slow
@pytest.mark.timing
async def test_a_new_module_is_created_by_the_editor(finished: Finished) -> None:
    before = set(finished.file.parent.iterdir())
    async with session(published(), finished.state, {"writeMode": "module"}) as editor:
        uri = editor.open(finished.file)
        await accept(editor, finished.run, "was accepted in")
        (created,) = set(finished.file.parent.iterdir()) - before
        assert isinstance((editor.edits[0].edit.document_changes or ())[0], types.CreateFile)
        assert "class ModelNew" in created.read_text() or "class ModelNew" in editor.texts.get(f"file://{created}", "")
        assert editor.texts[uri] == MODULE or "class ModelNew" not in editor.texts[uri]
        # The new file is shown: what the user undoes next is it, not something typed before.
        await editor.until(lambda: editor.client.shown_documents, "the new file")
        (shown,) = editor.client.shown_documents
        assert (shown.uri, shown.take_focus) == (created.as_uri(), True)
        assert shown.selection is not None
        (line,) = [n for n, text in enumerate(created.read_text().splitlines()) if text.startswith("class ModelNew")]
        assert shown.selection.start.line == line


@pytest.mark.slow
@pytest.mark.timing
async def test_a_new_module_is_written_for_an_editor_that_cannot_and_overwrites_nothing(finished: Finished) -> None:
    capabilities = published()
    assert capabilities.workspace is not None
    assert capabilities.workspace.workspace_edit is not None
    capabilities.workspace.workspace_edit.resource_operations = None
    settings = {"writeMode": "module", "diffView": True}
    async with session(capabilities, finished.state, settings) as editor:
        editor.open(finished.file)
        review = await editor.execute("stark.review", {"run": finished.run})
        assert review["original"] == ""
        target = Path(str(review["uri"]).removeprefix("file://"))
        target.write_text("mine\n")
        before = set(finished.file.parent.iterdir())
        await accept(editor, finished.run, "was accepted in")
        assert target.read_text() == "mine\n"
        (written,) = set(finished.file.parent.iterdir()) - before
        assert "class ModelNew" in written.read_text()


@pytest.mark.slow
@pytest.mark.timing
async def test_a_client_that_applies_no_edits_is_given_a_diff(finished: Finished) -> None:
    async with session(types.ClientCapabilities(), finished.state, {"writeMode": "module"}) as editor:
        editor.open(finished.file)
        await editor.execute("stark.accept", {"run": finished.run})
        await editor.until(lambda: editor.messages, "a message")
        # This client applies no edits at all, so the change is written as a diff to look at.
        assert "applies no edits" in editor.messages[-1]
    assert [path.name for path in finished.file.parent.iterdir()] == [finished.file.name]


@pytest.mark.slow
@pytest.mark.timing
async def test_the_review_goes_to_the_editors_own_diff_where_it_has_one(finished: Finished) -> None:
    async with session(published(), finished.state, {"diffView": True}) as editor:
        uri = editor.open(finished.file)
        answer = await editor.execute("stark.review", {"run": finished.run})
        assert set(answer) == {"title", "run", "node", "next", "uri", "original", "proposed"}
        assert (answer["uri"], answer["original"]) == (uri, MODULE)
        assert "class ModelNew" in answer["proposed"]
        assert editor.client.shown_documents == []


@pytest.mark.slow
@pytest.mark.timing
async def test_a_client_without_show_document_is_told_where_the_review_is(finished: Finished) -> None:
    async with session(client_capabilities("emacs"), finished.state) as editor:
        editor.open(finished.file)
        answer = await editor.execute("stark.review", finished.run)
        assert editor.messages[-1] == f"STARK: {answer['path']} has the review of Model"
        text = Path(answer["path"]).read_text()
        assert text.startswith("# STARK proposal for Model")
        assert "+class ModelNew" in text


@pytest.mark.slow
@pytest.mark.timing
async def test_a_deleted_file_gets_no_edit(finished: Finished) -> None:
    finished.file.unlink()
    async with session(published(), finished.state) as editor:
        assert "deleted or renamed" in await accept(editor, finished.run, "Nothing was changed")
        assert editor.edits == []
    assert not finished.file.exists()


@pytest.mark.slow
@pytest.mark.timing
async def test_a_change_on_disk_of_a_file_that_is_not_open_is_noticed(finished: Finished) -> None:
    async with session(published(), finished.state) as editor:
        await editor.execute("stark.review", finished.run)
        uri = f"file://{finished.file}"
        await editor.until(lambda: editor.diagnostics(uri), "plans")
        before = [item.range.start.line for item in editor.diagnostics(uri)]
        finished.file.write_text("# one\n# two\n" + MODULE)
        await editor.until(
            lambda: [item.range.start.line for item in editor.diagnostics(uri)] == [line + 2 for line in before],
            "moved diagnostics",
        )


@pytest.mark.slow
@pytest.mark.timing
async def test_decided_runs_are_not_offered_again(finished: Finished) -> None:
    async with session(published(), finished.state) as editor:
        editor.open(finished.file)
        await editor.execute("stark.reject", finished.run, "no")
        await editor.until_message("was rejected")
        answer = await editor.execute("stark.accept", finished.run)
        assert answer["status"] == "error"


async def test_a_project_has_none_of_its_programs_run_by_a_file_that_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its formatter among them; at a decision that is run, without what the environment keeps secret."""
    file = tmp_path / "project" / "model.py"
    file.parent.mkdir()
    file.write_text(MODULE)
    (file.parent / "pyproject.toml").write_text("[tool.black]\n")
    seen, tools = tmp_path / "seen", tmp_path / "tools"
    tools.mkdir()
    (tools / "black").write_text(f"#!/bin/sh\nenv > {seen}\ncat\n")
    (tools / "black").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-user")
    leave(tmp_path / "state", file, "r1")
    async with session(published(), tmp_path / "state") as editor:
        editor.open(file)
        await editor.until_question()
        assert not seen.exists()
        await editor.execute("stark.accept", {"run": "r1"})
        await editor.until_message("was accepted")
    assert "PATH=" in seen.read_text()
    assert "sk-of-the-user" not in seen.read_text()


async def test_an_action_whose_class_was_edited_since_says_so(tmp_path: Path) -> None:
    file = tmp_path / "project" / "model.py"
    file.parent.mkdir()
    file.write_text(MODULE)
    leave(tmp_path / "state", file, "r1")
    async with session(published(), tmp_path / "state") as editor:
        uri = editor.open(file)
        await editor.until_question()
        for line, edited in ((None, True), (8, False)):
            if line is not None:
                editor.type(uri, line, 0, "        x = x + 1\n")
            action = next(each for each in await editor.actions(uri, 6) if each.title.startswith("Accept"))
            resolved = await editor.resolve(action)
            assert (resolved.edit is not None) == edited
        await editor.run(resolved.command)
        await editor.until_message("The class Model was edited since the run began.")


async def test_a_file_with_a_byte_order_mark_that_is_not_open_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "project" / "model.py"
    file.parent.mkdir()
    file.write_bytes(b"\xef\xbb\xbf" + MODULE.encode())
    leave(tmp_path / "state", file, "r1", text="\ufeff" + MODULE)
    async with session(published(), tmp_path / "state") as editor:
        uri = editor.open(file, MODULE)
        await editor.until_question()
        editor.close(uri)

        def opened(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
            # An editor opens the file without its mark to edit it, and tells of it.
            editor.open(file, MODULE)
            return type(editor)._apply(editor, params)

        editor._apply = opened  # type: ignore[method-assign]
        await editor.execute("stark.accept", {"run": "r1"})
        await editor.until_message("was accepted")
        assert "class ModelNew" in editor.texts[uri]
