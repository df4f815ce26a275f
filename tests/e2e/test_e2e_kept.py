"""Nothing is lost: open proposals and interrupted runs after a reload, a rename, a checkout, in a second window."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from e2e_editor import MODULE, Editor, neovim, published, session
from lsprotocol import types
from pytest_lsp import client_capabilities
from stored_runs import ANCHOR, decided, leave, leave_killed, store_in, stored

from stark_lsp.core.status import Decision, RunState
from stark_lsp.judge.device.fingerprint import device_name
from stark_lsp.server.text.positions import uri_of

pytestmark = [pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")]

OFFERED = ["Optimize with STARK", "Review", "Accept", "Reject"]
CLASS_LINE = 6
EDITED = MODULE.replace("0.5 * x", "0.25 * x")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "model.py"
    path.parent.mkdir()
    path.write_text(MODULE)
    return path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


async def settled() -> None:
    """Wait longer than the server does before it looks into the store."""
    await asyncio.sleep(1.0)


async def offered(editor: Editor, uri: str) -> None:
    await editor.until_question()
    assert await editor.titles(uri) == OFFERED


async def accept(editor: Editor, run: str, part: str = "was accepted") -> str:
    await editor.execute("stark.accept", {"run": run})
    return await editor.until_message(part)


async def told_of_the_one_before(editor: Editor) -> str:
    """Wait for what is said of a proposal from before, with buttons or without."""

    def texts() -> list[str]:
        said = editor.messages + [question.message for question in editor.questions]
        return [text for text in said if "proposal from before" in text or "proposal that is open" in text]

    await editor.until(texts, "what is said of the proposal from before")
    return texts()[-1]


def buttons(editor: Editor) -> list[tuple[str, ...]]:
    """Return the buttons of all questions so far."""
    return [tuple(action.title for action in question.actions or ()) for question in editor.questions]


def lines_of(editor: Editor, uri: str) -> list[int]:
    return [item.range.start.line for item in editor.diagnostics(uri)]


# --- an open proposal -------------------------------------------------------------------------------


@pytest.mark.parametrize("above", [pytest.param(0, marks=pytest.mark.slow), 2])
async def test_an_open_proposal_is_there_again_after_a_reload(above: int, file: Path, state: Path) -> None:
    leave(state, file, "r1")
    file.write_text("# a line above\n" * above + MODULE)
    async with session(published(), state) as editor:
        uri = editor.open(file)
        question = await editor.until_question()
        assert "2.00x as fast as eager" in question.message
        assert [action.title for action in question.actions or ()] == ["Review", "Accept", "Reject"]
        assert await editor.titles(uri) == OFFERED
        await editor.until(lambda: lines_of(editor, uri) == [ANCHOR + above], "the plan at its line")
        status = await editor.execute("stark.status")
        assert "Model" in editor.messages[-1]
        assert len(status["runs"]) == 1
        editor.type(uri, 0, 0, "\n\n")
        await editor.until(lambda: lines_of(editor, uri) == [ANCHOR + above + 2], "the plan lower")
        editor.close(uri)
        await editor.until(lambda: lines_of(editor, uri) == [ANCHOR + above], "the plan where it is on the disk")
        editor.client.diagnostics.pop(uri)  # some clients forget what was told of a closed document
        editor.open(file)
        await editor.until(lambda: lines_of(editor, uri) == [ANCHOR + above], "the plan once more")
        await settled()
        assert len(editor.questions) == 1, "asked once in a window"
        await accept(editor, "r1")
        assert "class ModelNew" in editor.texts[uri]
    assert decided(state, "r1") is Decision.ACCEPTED


async def test_without_a_store_nothing_is_asked_and_no_store_is_made(file: Path, state: Path) -> None:
    async with session(published(), state) as editor:
        uri = editor.open(file)
        await settled()
        assert editor.questions == []
        assert await editor.titles(uri) == ["Optimize with STARK"]
        assert not (state / "runs.sqlite3").exists()


async def test_of_several_proposals_the_best_is_shown_and_decides_for_all(file: Path, state: Path) -> None:
    leave(state, file, "r1", gain=3.0, created="2026-01-01T00:00:00+00:00")
    leave(state, file, "r2", gain=2.0, created="2026-01-02T00:00:00+00:00")
    leave(state, file, "r3", gain=9.0, created="2026-01-03T00:00:00+00:00", decision=Decision.KEPT)
    async with session(published(), state) as editor:
        editor.open(file)
        assert "3.00x" in (await editor.until_question()).message
        await accept(editor, "r1")
    assert decided(state, "r2") is Decision.KEPT


async def test_what_is_dismissed_is_kept_and_not_shown_again(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    async with session(published(), state) as editor:
        uri = editor.open(file)
        await offered(editor, uri)
        await editor.execute("stark.dismiss", {"run": "r1"})
        assert await editor.titles(uri) == ["Optimize with STARK"]
        await editor.until(lambda: decided(state, "r1") is Decision.KEPT, "the record")
    async with session(published(), state) as editor:
        uri = editor.open(file)
        await settled()
        assert editor.questions == []
        await accept(editor, "r1")
        assert "class ModelNew" in editor.texts[uri]


# --- renames, links ---------------------------------------------------------------------------------


def rename(editor: Editor, old: Path, new: Path) -> None:
    """Rename a file as editors do: on the disk, the document closed and opened, and told."""
    old.rename(new)
    editor.close(uri_of(old))
    editor.open(new)
    told = types.RenameFilesParams([types.FileRename(uri_of(old), uri_of(new))])
    editor.client.workspace_did_rename_files(told)


@pytest.mark.parametrize("back", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_a_proposal_follows_its_file_through_renames(back: bool, file: Path, state: Path) -> None:
    leave(state, file, "r1")
    async with session(published(), state) as editor:
        await offered(editor, editor.open(file))
        new = file.with_name("renamed.py")
        rename(editor, file, new)
        if back:
            rename(editor, new, file)
        uri = uri_of(file if back else new)
        await editor.until(lambda: lines_of(editor, uri) == [ANCHOR], "the plan under its new name")
        assert await editor.titles(uri) == OFFERED
        await accept(editor, "r1")
        assert "class ModelNew" in editor.texts[uri]
        assert len(editor.questions) == 1


async def test_a_file_renamed_outside_the_editor_is_followed_when_it_is_opened(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    async with session(neovim(), state) as editor:
        await offered(editor, editor.open(file))
        new = file.rename(file.with_name("renamed.py"))
        editor.close(uri_of(file))
        uri = editor.open(new)
        await editor.until(lambda: lines_of(editor, uri) == [ANCHOR], "the plan under its new name")
        await accept(editor, "r1")
        assert "class ModelNew" in editor.texts[uri]


async def test_a_file_renamed_while_no_editor_runs_is_followed(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    file.parent.rename(file.parent.with_name("moved"))
    async with session(published(), state) as editor:
        uri = editor.open(file.parent.with_name("moved") / "model.py")
        await offered(editor, uri)
        await accept(editor, "r1")
        assert "class ModelNew" in editor.texts[uri]


async def test_a_new_module_is_made_where_the_file_is_now(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    moved = file.parent.with_name("moved")
    file.parent.rename(moved)
    file.parent.mkdir()  # another project of that name
    async with session(published(), state, {"writeMode": "module"}) as editor:
        await offered(editor, editor.open(moved / "model.py"))
        await accept(editor, "r1", "was accepted in")
        assert [path.name for path in moved.iterdir()] != ["model.py"]
    assert not list(file.parent.iterdir())


async def test_a_document_opened_by_a_link_is_the_file_and_its_buffer_gets_the_edit(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    link = file.parent.parent / "link.py"
    link.symlink_to(file)
    async with session(published(), state) as editor:
        await editor.execute("stark.review", {"run": "r1"})  # shown by its own path, before the link is opened
        uri = editor.open(link)
        editor.type(uri, 0, 0, "# not saved\n")
        await editor.until(lambda: lines_of(editor, uri) == [ANCHOR + 1], "the plan in the buffer")
        assert await editor.titles(uri) == OFFERED
        await accept(editor, "r1")
        assert editor.texts[uri].startswith("# not saved\n")
        assert "class ModelNew" in editor.texts[uri]
        assert file.read_text() == MODULE, "the disk is the editor's to write"


# --- checkouts, reverts -----------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


async def test_a_proposal_of_another_branch_waits_until_that_is_checked_out(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    git(file.parent, "init", "-b", "main")
    git(file.parent, "add", ".")
    git(file.parent, "commit", "-m", "one")
    git(file.parent, "checkout", "-b", "other")
    file.write_text(EDITED)
    git(file.parent, "commit", "-am", "two")
    async with session(published(), state) as editor:
        uri = editor.open(file)
        await settled()
        assert editor.questions == []
        assert await editor.titles(uri) == ["Optimize with STARK"]
        git(file.parent, "checkout", "main")
        editor.texts[uri] = file.read_text()  # the editor takes the file from the disk
        editor.tell(uri)
        await offered(editor, uri)
        git(file.parent, "checkout", "other")
        editor.texts[uri] = file.read_text()
        editor.tell(uri)
        assert "was edited since" in await accept(editor, "r1", "Nothing was changed")
        git(file.parent, "checkout", "main")
        editor.texts[uri] = file.read_text()
        editor.tell(uri)
        await accept(editor, "r1")
    assert decided(state, "r1") is Decision.ACCEPTED


async def test_a_file_that_is_deleted_and_restored_keeps_its_proposal(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    async with session(published(), state) as editor:
        uri = editor.open(file)
        await offered(editor, uri)
        file.unlink()
        assert "deleted or renamed" in await accept(editor, "r1", "Nothing was changed")
        file.write_text(MODULE)
        await accept(editor, "r1")
        assert "class ModelNew" in editor.texts[uri]


@pytest.mark.parametrize("name", ["model.py", "moved.py"])
async def test_a_file_that_is_away_when_its_run_ends_has_its_proposal_once_it_is_there(
    name: str, file: Path, state: Path
) -> None:
    leave(state, file, "r1")
    away = file.rename(file.with_name("away"))
    async with session(published(), state) as editor:
        uri = editor.open(file, MODULE)
        assert "once the file is there" in await editor.until_message("was deleted or renamed")
        assert await editor.titles(uri) == ["Optimize with STARK"]
        editor.close(uri)
        there = away.rename(file.with_name(name))
        uri = editor.open(there)
        for _ in range(200):  # one that was renamed is looked for a moment later
            if await editor.titles(uri) == OFFERED:
                break
            await asyncio.sleep(0.02)
        await accept(editor, "r1")
        assert "class ModelNew" in editor.texts[uri]


# --- two windows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", ["accept", pytest.param("reject", marks=pytest.mark.slow)])
async def test_what_is_decided_in_one_window_cannot_be_decided_in_another(
    decision: str, file: Path, state: Path
) -> None:
    leave(state, file, "r1")
    async with session(published(), state) as one, session(published(), state) as two:
        uris = [editor.open(file) for editor in (one, two)]
        await offered(one, uris[0])
        await offered(two, uris[1])
        await one.execute(f"stark.{decision}", {"run": "r1"})
        await one.until_message(f"was {decision}ed")
        for late in ("accept", "reject"):
            two.client.messages.clear()
            await two.execute(f"stark.{late}", {"run": "r1"})
            await two.until(lambda: two.messages, "a word")
        assert two.edits == []
        assert two.texts[uris[1]] == MODULE
        assert await two.titles(uris[1]) == ["Optimize with STARK"]
    assert decided(state, "r1") is (Decision.ACCEPTED if decision == "accept" else Decision.REJECTED)
    assert len(store_in(state).rejections(f"{file}::Model")) == (decision == "reject")


async def test_a_run_of_another_window_is_not_announced_before_it_was_interrupted(file: Path, state: Path) -> None:
    leave(state, file, "r1", RunState.RUNNING)  # by this process, which lives
    async with session(published(), state) as editor:
        uri = editor.open(file)
        await settled()
        assert editor.questions == []
        assert stored(state, "r1").state is RunState.RUNNING
        # The window closes in good order; then this one asks, although the document was open all the time.
        store = store_in(state)
        with store._database.write() as connection:
            connection.execute("UPDATE runs SET owner_pid = 999999999")
        question = await editor.until_question()
        assert "interrupted" in question.message
        assert await editor.titles(uri) == ["Optimize with STARK"]


# --- interrupted runs -------------------------------------------------------------------------------


async def test_a_run_whose_server_was_killed_is_asked_about_once(file: Path, state: Path) -> None:
    leave_killed(state, file, "r1")
    file.write_text("# a line above\n" + MODULE)
    async with session(published(), state) as editor:
        editor.answer = "Not now"
        uri = editor.open(file)
        question = await editor.until_question()
        assert "the run on Model was interrupted; 1 attempt of 2 kept" in question.message
        assert [action.title for action in question.actions or ()] == ["Go on", "Not now"]
        editor.close(uri)
        editor.open(file)
        await settled()
        assert len(editor.questions) == 1
        titles = [action.title for action in await editor.actions(uri, CLASS_LINE + 1)]
        assert titles == ["Go on with the STARK run on Model", "Optimize with STARK: Model"]
        await editor.execute("stark.status")
        assert "was interrupted; 1 attempt of 2 kept (run r1)" in editor.messages[-1]
    assert stored(state, "r1").state is RunState.INTERRUPTED
    async with session(client_capabilities("emacs"), state) as editor:
        editor.open(file)
        message = await editor.until_message("was interrupted")
        assert "code action on the class" in message, "this client has no messages with buttons"


async def test_an_interrupted_run_on_a_class_that_was_edited_waits_for_it(file: Path, state: Path) -> None:
    leave_killed(state, file, "r1")
    async with session(published(), state) as editor:
        uri = editor.open(file, EDITED)
        await settled()
        assert editor.questions == []
        editor.texts[uri] = MODULE
        editor.tell(uri)
        assert "interrupted" in (await editor.until_question()).message


async def test_a_run_that_cannot_go_on_any_more_is_not_offered(file: Path, state: Path) -> None:
    leave_killed(state, file, "r1")
    async with session(published(), state) as editor:
        uri = editor.open(file)
        await editor.until_question()

        async def goes_on() -> bool:
            await editor.execute("stark.status")
            told = "(run r1)" in editor.messages[-1]
            titles = [action.title for action in await editor.actions(uri, CLASS_LINE)]
            offered = "Go on with the STARK run on Model" in titles
            assert offered >= told
            return told

        assert await goes_on()
        editor.texts[uri] = EDITED
        editor.tell(uri)
        assert not await goes_on()
        editor.texts[uri] = MODULE
        editor.tell(uri)
        for _ in range(200):  # it is looked for once nothing changed for a second
            if await goes_on():
                break
            await asyncio.sleep(0.02)
        store_in(state).delete("r1")
        assert not await goes_on()


# --- Optimize with a proposal open ------------------------------------------------------------------


async def test_optimize_with_a_proposal_open_asks(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    async with session(published(), state) as editor:
        uri = editor.open(file)
        assert await editor.execute("stark.optimize", uri, "Model") == {"status": "asking", "run": "r1"}
        await editor.until(lambda: ("Keep it", "Search anew") in buttons(editor), "the question")
        assert "2.00x as fast as eager" in editor.questions[-1].message
        await settled()
        assert len(buttons(editor)) == len(set(buttons(editor))), "each question is asked once"
        assert await editor.titles(uri) == OFFERED
        assert editor.workers() == []
        titles = [(action.title, action.is_preferred) for action in await editor.actions(uri, CLASS_LINE)]
        assert titles == [
            ("Accept the STARK proposal for Model", True),
            ("Review the STARK proposal for Model", None),
            ("Reject the STARK proposal for Model", None),
            ("Dismiss the STARK plans for Model", None),
            ("Search for a better one than the STARK proposal for Model", None),
        ]


async def test_a_client_without_buttons_is_told_how_to_search_anew(file: Path, state: Path) -> None:
    leave(state, file, "r1")
    async with session(client_capabilities("emacs"), state) as editor:
        uri = editor.open(file)
        await editor.until_message("still open")
        answer = await editor.execute("stark.optimize", uri, "Model")
        assert answer == {"status": "asking", "run": "r1"}
        await editor.until_message("Accept it, or search anew, with the code actions")
        last = (await editor.actions(uri, CLASS_LINE))[-1]
        assert last.command is not None
        assert list(last.command.arguments or ()) == [{"uri": uri, "class": "Model", "again": True}]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_run_goes_on_after_a_kill_and_the_better_proposal_stays(file: Path, state: Path, where: str) -> None:
    device = device_name("cpu") if where == "here" else "another CPU"
    leave(state, file, "r1", gain=500.0, created="2026-01-01T00:00:00+00:00", device=device)
    leave(state, file, "r2", RunState.INTERRUPTED, created="2026-01-02T00:00:00+00:00")
    file.write_text("# a line above\n" + MODULE)
    async with session(published(), state) as editor:
        editor.answer = "Go on"
        uri = editor.open(file)
        assert "r2" in await editor.until_message("goes on with the earlier run r2")
        assert (await editor.titles(uri))[1:] == OFFERED[1:], "the proposal from before can be decided on"
        await editor.until(editor.progress_ended, "the end", limit_s=240)
        # Whether this machine proves a gain within two attempts is chance; whether it beats 500x is not.
        found = await told_of_the_one_before(editor)
        assert await editor.titles(uri) == OFFERED
        assert stored(state, "r2").problem.text.startswith("# a line above\n")
        gained = stored(state, "r2").best is not None
        if where == "elsewhere" and gained:
            assert "timed elsewhere" in found, "figures of two machines do not compare"
            assert (decided(state, "r1"), decided(state, "r2")) == (Decision.KEPT, Decision.OPEN)
            return
        assert " stays" in found
        assert (decided(state, "r1"), decided(state, "r2")) == (
            Decision.OPEN,
            Decision.KEPT if gained else Decision.OPEN,
        )
        await accept(editor, "r1")
        assert "class ModelNew" in editor.texts[uri]


@pytest.mark.slow
@pytest.mark.timing
async def test_with_a_larger_budget_a_finished_run_goes_on_and_its_proposal_stays_until_then(
    file: Path, state: Path
) -> None:
    leave(state, file, "r1", attempts=1)
    async with session(published(), state, {"attempts": 2}) as editor:
        editor.held = asyncio.Event()
        uri = editor.open(file)
        await offered(editor, uri)
        again = {"uri": uri, "class": "Model", "again": True}
        assert (await editor.execute("stark.optimize", again))["status"] == "started"
        await editor.until_message("goes on with the earlier run r1")
        assert (await editor.titles(uri))[1:] == OFFERED[1:]
        assert editor.withdrawn == 0
        await editor.until(editor.progress_ended, "the end", limit_s=240)
        await editor.until(lambda: editor.withdrawn == 1, "the question about the earlier figures to be taken back")
        run = stored(state, "r1")
        assert (run.state, run.budget.attempts, run.decision) == (RunState.FINISHED, 2, Decision.OPEN)
        if run.best is None:  # timed again, on this machine, it did not hold
            assert await editor.titles(uri) == ["Optimize with STARK"]
        else:
            await editor.until(lambda: len(editor.questions) == 2, "the question about the new ones")
            await accept(editor, "r1")
            assert decided(state, "r1") is Decision.ACCEPTED
        editor.held.set()
