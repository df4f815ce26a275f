"""The main job in an editor: lens, run, plans, hover, proposal, decision. Real worker, real torch, the playbook."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from e2e_editor import MODULE, SMALL, connect, everything, gone, neovim, published, session
from lsprotocol import types

from stark_lsp.core.status import Decision, RunState
from stark_lsp.store import RunStore

pytestmark = pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")

CLASS_LINE = 6
ANCHORED = range(8, 10)
"""Lines of the forward pass."""


def store_in(state: Path) -> RunStore:
    return RunStore(state / "runs.sqlite3")


# --- a run from click to proposal, in three editors ---------------------------------------------------


@pytest.mark.timing
async def test_a_rich_client_from_lens_to_accepted_edit(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODULE)
    async with session(everything(), tmp_path / "state") as editor:
        uri = editor.open(file)
        (lens,) = await editor.lenses(uri)
        started = await editor.run(lens.command)
        assert started["status"] == "started"
        editor.held = asyncio.Event()
        again = await editor.run(lens.command)
        assert again == {"status": "running", "run": started["run"]}
        assert "already optimizing Model" in editor.messages[-1]

        # No plans yet, so the first thing to pull is the first plan.
        await editor.until(lambda: editor.client.diagnostic_refresh_count > 0, "a plan")
        found = await editor.pull(uri)
        assert found
        assert {(item.source, item.severity) for item in found} == {("STARK", types.DiagnosticSeverity.Information)}
        assert all(item.range.start.line in ANCHORED for item in found)
        assert await editor.titles(uri) == ["STARK is optimizing… (stop)"]
        # An edit above moves them, while the run goes on with its own copy.
        editor.type(uri, 0, 0, "# a line above\n")
        moved = await editor.pull(uri)
        assert [item.range.start.line for item in moved][: len(found)] == [i.range.start.line + 1 for i in found]
        assert await editor.titles(uri) == ["STARK is optimizing… (stop)"]

        question = await editor.until_question()
        assert "eager" in question.message
        assert [action.title for action in question.actions or ()] == ["Review", "Accept", "Reject"]
        reports = editor.reports()
        assert isinstance(reports[0], types.WorkDoneProgressBegin)
        assert reports[0].cancellable
        assert isinstance(reports[-1], types.WorkDoneProgressEnd)
        percentages = [value.percentage for value in reports[:-1]]
        assert None not in percentages
        assert percentages == sorted(percentages)
        assert editor.lens_refreshes > 0

        items = await editor.pull(uri)
        shown = await editor.hover(uri, items[0].range.start.line)
        assert shown is not None
        for part in ("STARK:", "Attempts", "Lineage", "Baselines", "eager", "Measured on", "torch"):
            assert part in shown
        assert await editor.hover(uri, 0) is None
        quick = await editor.actions(uri, items[0].range.start.line, only=["quickfix"], diagnostics=items[:1])
        assert [action.command.command for action in quick if action.command] == [
            "stark.accept",
            "stark.review",
            "stark.reject",
            "stark.dismiss",
        ]

        assert await editor.titles(uri) == ["Optimize with STARK", "Review", "Accept", "Reject"]
        review, accept = (await editor.lenses(uri))[1:3]
        await editor.run(review.command)
        await editor.until(lambda: editor.client.shown_documents, "the review")
        written = Path(editor.client.shown_documents[0].uri.removeprefix("file://"))
        assert "+class ModelNew" in written.read_text()
        await editor.run(accept.command)
        await editor.until_message("was accepted")
        await editor.until(lambda: editor.withdrawn, "that the question is taken back")
        (edit,) = editor.edits
        (change,) = edit.edit.document_changes or ()
        assert isinstance(change, types.TextDocumentEdit)
        assert (change.text_document.uri, change.text_document.version) == (uri, 2)
        assert edit.edit.change_annotations
        text = editor.texts[uri]
        assert text.startswith("# a line above\n")
        assert "class Model(nn.Module)" in text
        assert "class ModelNew(nn.Module)" in text
        assert started["run"] in text
        compile(text, "model.py", "exec")
        assert await editor.titles(uri) == ["Optimize with STARK"]
        assert await editor.pull(uri) == []
        assert gone(editor.workers())
    assert store_in(tmp_path / "state").load(str(started["run"])).run.decision is Decision.ACCEPTED


@pytest.mark.slow
@pytest.mark.timing
async def test_neovim_from_action_to_rejected_proposal(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODULE)
    async with session(neovim(), tmp_path / "state") as editor:
        uri = editor.open(file)
        (action,) = await editor.actions(uri, CLASS_LINE + 3)
        started = await editor.run(action.command)
        # Like most editors, this one goes on showing a question that is taken back.
        editor.held = asyncio.Event()
        editor.client.protocol._handle_cancel_notification = lambda msg_id: None
        editor.answer = "Accept"
        await editor.until_question()
        await editor.until(lambda: editor.diagnostics(uri), "published plans")
        items = editor.diagnostics(uri)
        shown = await editor.hover(uri, items[0].range.start.line)
        assert shown is not None
        assert "STARK:" in shown
        titles = [action.title for action in await editor.actions(uri, CLASS_LINE)]
        assert "Reject the STARK proposal for Model" in titles
        # Edits before the class go along, an edit inside an anchor keeps it, removing its text removes it.
        editor.type(uri, 0, 0, "\n")
        await editor.until(
            lambda: [i.range.start.line for i in editor.diagnostics(uri)] == [i.range.start.line + 1 for i in items],
            "moved diagnostics",
        )
        answer = await editor.execute("stark.reject", {"run": started["run"], "reason": "too hard to read"})
        assert answer["status"] == "rejecting"
        await editor.until_message("was rejected")
        await editor.until(lambda: not editor.diagnostics(uri), "no diagnostics")
        assert await editor.titles(uri) == ["Optimize with STARK"]
        editor.held.set()
        await editor.until_message("was already rejected. Nothing was changed.")
        assert editor.texts[uri] == "\n" + MODULE
        assert editor.edits == []
    (rejection,) = store_in(tmp_path / "state").rejections(f"{file}::Model")
    assert (rejection.run_id, rejection.reason) == (started["run"], "too hard to read")


async def test_a_cancelled_run_leaves_no_process_and_is_taken_up_again(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODULE)
    async with session(published(), tmp_path / "state", {"attempts": 3}) as editor:
        uri = editor.open(file)
        started = await editor.execute("stark.optimize", uri, "Model")
        await editor.until(lambda: editor.diagnostics(uri), "a plan")
        workers = editor.workers()
        assert workers
        told = await editor.own("stark/status", uri=uri)
        assert (told["state"], told["run"], told["model"]) == ("running", started["run"], "playbook")
        assert re.fullmatch(r"running [1-3]/3(, best \d.*x)?", told["text"])
        tree = await editor.own("stark/runs/tree", run=started["run"])
        assert (tree["run"]["state"], tree["run"]["can"]) == ("running", ["cancel", "pause", "original", "report"])
        assert tree["nodes"][0]["label"].startswith("1 ")
        (token,) = editor.client.progress_reports
        editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
        await editor.until_message("was cancelled")
        assert gone(workers)
        assert editor.progress_ended()
        stored = store_in(tmp_path / "state").load(str(started["run"]))
        assert stored.run.state is RunState.CANCELLED
        kept = {node.id for node in stored.nodes.values() if node.verdict is not None}
        assert await editor.titles(uri) == ["Optimize with STARK"]

        editor.client.progress_reports.clear()
        await editor.execute("stark.optimize", uri, "Model")
        message = await editor.until_message("goes on with the earlier run")
        assert str(started["run"]) in message
        # How a resumed run ends is seen where the terminal stops one.
        again = store_in(tmp_path / "state").load(str(started["run"]))
        assert all(again.nodes[number].candidate == stored.nodes[number].candidate for number in kept)
        assert len(store_in(tmp_path / "state").list()) == 1


def _hanging(folder: Path) -> dict[str, object]:
    """Return settings with which a run begins, and comes to nothing until it is stopped."""
    slow = folder / "python"
    slow.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then exec {sys.executable} "$@"; fi\nexec sleep 300\n')
    slow.chmod(0o755)
    return {"interpreter": str(slow), "isolation": "off"}


async def test_a_class_that_is_edited_while_its_run_goes_on_is_marked_once_it_is_saved(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODULE)
    async with session(published(), tmp_path / "state", _hanging(tmp_path)) as editor:
        uri = editor.open(file)
        await editor.execute("stark.optimize", uri, "Model")
        line = next(n for n, text in enumerate(MODULE.splitlines()) if "torch.pow" in text)
        for at, typed, told in (
            (0, "# beside it\n", ""),
            (line + 1, "        x = x + 1\n", " it as it was before your edit"),
        ):
            refreshed = editor.lens_refreshes
            editor.type(uri, at, 0, typed)
            file.write_text(editor.texts[uri])
            await editor.until(lambda before=refreshed: editor.lens_refreshes > before, "the save")
            titles = [f"STARK is optimizing{told}… (stop)"]
            for _ in range(100):
                if await editor.titles(uri) == titles:
                    break
                await asyncio.sleep(0.05)
            assert await editor.titles(uri) == titles
        (run,) = store_in(tmp_path / "state").list()
        await editor.execute("stark.cancel", {"run": run.id})


async def test_a_class_that_is_edited_while_it_waits_is_searched_for_as_it_is(tmp_path: Path) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    for file in (first, second):
        file.write_text(MODULE)
    async with session(published(), tmp_path / "state", _hanging(tmp_path)) as editor:
        uris = [editor.open(file) for file in (first, second)]
        runs = [await editor.execute("stark.optimize", uri, "Model") for uri in uris]
        assert [each["status"] for each in runs] == ["started", "queued"]
        line = next(n for n, text in enumerate(MODULE.splitlines()) if "torch.pow" in text)
        editor.type(uris[1], line, 8, "x = x + 1; ")
        await editor.execute("stark.cancel", {"run": runs[0]["run"]})
        store = store_in(tmp_path / "state")

        def begun() -> bool:
            found = [each for each in store.list() if each.problem.path == str(second)]
            return [("x = x + 1" in each.problem.text) for each in found] == [True]

        await editor.until(begun, "the run on the class as it is now")


@pytest.mark.slow
@pytest.mark.timing
async def test_runs_queue_and_files_that_change_meanwhile_are_never_overwritten(tmp_path: Path) -> None:
    names = ("deleted", "edited", "renamed")
    files = {name: tmp_path / f"{name}.py" for name in names}
    for file in files.values():
        file.write_text(MODULE)
    async with session(published(), tmp_path / "state", {"attempts": 1, "finalTimingRounds": 3}) as editor:
        uris = {name: editor.open(file) for name, file in files.items()}
        statuses = [(await editor.execute("stark.optimize", uri, "Model"))["status"] for uri in uris.values()]
        assert statuses == ["started", "queued", "queued"]
        await editor.until(lambda: editor.diagnostics(uris["deleted"]), "the first run")
        files["deleted"].unlink()
        files["renamed"].rename(tmp_path / "new_name.py")
        rename = types.FileRename(uris["renamed"], uris["renamed"].replace("renamed.py", "new_name.py"))
        editor.client.workspace_did_rename_files(types.RenameFilesParams([rename]))
        deleted = await editor.until_message("deleted.py was deleted or renamed")
        assert "kept as run" in deleted
        await editor.until(lambda: editor.diagnostics(uris["edited"]), "the second run")
        line = next(n for n, text in enumerate(MODULE.splitlines()) if "torch.pow" in text)
        # The run has its own copy.
        editor.type(uris["edited"], line, 8, "x = x + 1; ")
        edited = await editor.until_message("was edited since")
        assert "kept as run" in edited
        assert "Model is" in (await editor.until_question()).message, "it is offered under the file's new name"
        assert editor.edits == []
        assert not files["deleted"].exists()
        assert not files["renamed"].exists()
        # Only the edited one can still become good again: its edit may be undone.
        assert await editor.titles(uris["deleted"]) == ["Optimize with STARK"]
        assert await editor.titles(uris["renamed"]) == ["Optimize with STARK"]
        renamed = editor.open(tmp_path / "new_name.py")
        assert await editor.titles(renamed) == ["Optimize with STARK", "Review", "Accept", "Reject"]
        assert await editor.titles(uris["edited"]) == ["Optimize with STARK", "Review", "Accept", "Reject"]
        lenses = await editor.lenses(uris["edited"])
        await editor.run(lenses[2].command)
        stale = await editor.until_message("Nothing was changed")
        assert "was edited since" in stale
        assert editor.edits == []
        editor.type(uris["edited"], line, 8, "", until=(line, 8 + len("x = x + 1; ")))
        await editor.run(lenses[2].command)
        await editor.until_message("was accepted")


# --- ends that nobody wished for ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("editor killed", marks=pytest.mark.slow),
        "server killed",
        pytest.param("orderly shutdown", marks=pytest.mark.slow),
    ],
)
async def test_no_end_leaves_a_process_and_the_run_goes_on_later(end: str, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODULE)
    state = tmp_path / "state"
    editor = await connect(published(), state, SMALL)
    uri = editor.open(file)
    started = await editor.execute("stark.optimize", uri, "Model")
    await editor.until(lambda: len(editor.workers()) >= 1 and editor.reports(), "a worker")
    processes = [editor.server, *editor.workers()]
    server = editor.client._server
    assert server is not None
    assert server.stdin is not None
    if end == "editor killed":
        # What the system does to the pipes of a process that dies.
        server.stdin.close()
    elif end == "server killed":
        server.kill()
    else:
        await editor.client.shutdown_session()
    assert await asyncio.to_thread(gone, processes)
    await editor.client.stop()
    store = store_in(state)
    store.mark_interrupted()
    run = store.load(str(started["run"])).run
    assert run.state is RunState.INTERRUPTED
    resumable = store.latest_resumable(run.problem)
    assert resumable is not None
    assert resumable.run.id == run.id
    async with session(published(), state) as editor:
        editor.open(file)
        assert "was interrupted" in (await editor.until_question()).message


async def test_bad_input_is_told_with_its_place_and_no_process_stays(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODULE.replace("torch.randn(256, 1024)", "torch.randn(256, 'x')"))
    async with session(published(), tmp_path / "state") as editor:
        uri = editor.open(file)
        await editor.execute("stark.optimize", uri, "Model")
        await editor.until(editor.progress_ended, "the end")
        await editor.until(lambda: editor.messages, "a message")
        assert f"({file}" in editor.messages[-1]
        assert "get_inputs" in editor.messages[-1]
        assert await asyncio.to_thread(gone, editor.workers())
        assert await editor.titles(uri) == ["Optimize with STARK"]


def test_the_editor_dying_by_sigkill_takes_everything_with_it(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODULE)
    script = (
        "import asyncio, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from e2e_editor import SMALL, connect, published\n"
        "async def main():\n"
        "    editor = await connect(published(), Path(sys.argv[3]), SMALL)\n"
        "    await editor.execute('stark.optimize', editor.open(Path(sys.argv[2])), 'Model')\n"
        "    await editor.until(lambda: editor.workers() and editor.reports(), 'a worker')\n"
        "    print('running', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    arguments = [sys.executable, "-c", script, str(Path(__file__).parent), str(file), str(tmp_path / "state")]
    editor = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert editor.stdout is not None
    assert editor.stdout.readline() == b"running\n"
    below = psutil.Process(editor.pid).children(recursive=True)
    assert len(below) >= 2
    editor.kill()
    editor.wait()
    assert gone(below)
    runs = store_in(tmp_path / "state").list()
    assert [run.state for run in runs] == [RunState.INTERRUPTED]
