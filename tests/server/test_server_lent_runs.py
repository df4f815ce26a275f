"""Runs in a real server whose editor lends a model or a key: real stdio, real worker, real torch on the CPU.

Only the model is scripted. Nothing here depends on what is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import psutil
import pytest
from lending_editor import NAME, Lender, lending, texts
from lsprotocol import types

pytestmark = pytest.mark.filterwarnings("error::pytest_lsp.LspSpecificationWarning")

CLASS_LINE = 6


@pytest.fixture(autouse=True)
def _no_keys_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    from e2e_editor import MODULE

    path = tmp_path / "model.py"
    path.write_text(MODULE)
    return path


async def status(lender: Lender) -> dict[str, Any]:
    """Return what the server says of the one run that it shows."""
    answer = await lender.editor.execute("stark.status")
    (run,) = answer["runs"]
    return dict(run._asdict()) if hasattr(run, "_asdict") else dict(run)


async def over(lender: Lender) -> str:
    """Wait until the run has ended and return the message that says so."""
    editor = lender.editor

    def said() -> list[str]:
        return [q.message for q in editor.questions] + [m for m in editor.messages if f"{NAME}" in m or " (" in m]

    await editor.until(lambda: editor.progress_ended() and said(), "the end of the run")
    return said()[-1]


@pytest.mark.slow
async def test_the_editors_model_answers_a_run_that_is_steered_while_it_goes_on(tmp_path: Path, file: Path) -> None:
    async with lending(tmp_path / "state", {"model": "auto", "attempts": 4}, ["model", "input"]) as lender:
        editor = lender.editor
        uri = editor.open(file)
        lender.gate.clear()
        started = await editor.execute("stark.optimize", uri, "Model")
        await editor.until(lambda: lender.questions, "the first question")
        first = lender.questions[0]
        assert first["tool"]["name"] == "submit_plan"
        assert "STARK" in first["justification"]

        # Paused while the first attempt is under way: it is finished, and no other one is begun.
        assert (await editor.execute("stark.pause"))["effect"] == "now"
        (lens,) = await editor.lenses(uri)
        assert lens.command is not None
        assert (lens.command.title, lens.command.command) == ("STARK is paused: go on", "stark.resume")
        assert (await editor.execute("stark.hint", {"text": "keep it short"}))["status"] == "told"
        assert (await editor.execute("stark.budget", {"attempts": 2}))["status"] == "told"
        await editor.until(lambda: any(text.startswith("Paused. ") for text in texts(editor)), "a paused progress")
        lender.gate.set()
        await editor.until(lambda: editor.diagnostics(uri), "a plan")
        # Judged: its verdict and the new budget stand in the progress.
        await editor.until(lambda: len(lender.questions) == 2, "the question for the code")
        await editor.until(lambda: "Attempt 1 of 2" in texts(editor)[-1] and "2.2k" in texts(editor)[-1], "the verdict")
        asked = len(lender.questions)
        assert (await status(lender))["paused"] is True

        # What can be told about an attempt is offered at its plan.
        (item, *_) = editor.diagnostics(uri)
        actions = await editor.actions(uri, item.range.start.line, only=["quickfix"], diagnostics=[item])
        commands = [action.command.command for action in actions if action.command]
        assert commands == ["stark.pin", "stark.prune", "stark.hint", "stark.cancel", "stark.resume"]
        await editor.run(actions[0].command)
        assert (await status(lender))["pinned"] == 1
        assert len(lender.questions) <= asked + 1

        await editor.run(lens.command)
        await over(lender)
        assert (await editor.titles(uri))[0] == "Optimize with STARK"
        shown = await status(lender)
        assert (shown["attempts"], shown["model"], shown["paused"]) == (2, "editor", False)
        assert any("keep it short" in message["content"] for message in lender.questions[-1]["messages"])
        assert any("the editor's model" in text for text in texts(editor))
        assert any("price unknown" in text for text in texts(editor))
        seen: list[str | None] = []
        await editor.until(lambda: editor.diagnostics(uri), "the plans")
        for found in editor.diagnostics(uri):
            seen.append(await editor.hover(uri, found.range.start.line))
        assert any(NAME in str(text) for text in seen)

        from stark_lsp.store import RunStore

        store = RunStore(tmp_path / "state" / "runs.sqlite3")
        kinds = [told.kind.value for _, told in store.steerings.since(str(started["run"]), 0)]
        assert kinds == ["pause", "hint", "budget", "pin", "resume"]
        assert store.exchanges.spend(str(started["run"])).calls == len(lender.questions)


@pytest.mark.slow
async def test_a_refusal_ends_the_run_in_words_and_a_cancel_withdraws_the_question(tmp_path: Path, file: Path) -> None:
    async with lending(tmp_path / "state", {"model": "editor"}, ["model"]) as lender:
        editor = lender.editor
        uri = editor.open(file)
        lender.refusal = {"error": "the user said no", "kind": "no_consent"}
        await editor.execute("stark.optimize", uri, "Model")
        message = await editor.until_message("may not be used")
        assert "Allow it" in message
        await editor.until(editor.progress_ended, "the end of the progress")

        lender.refusal = None
        lender.gate.clear()
        before = len(lender.questions)
        await editor.execute("stark.optimize", uri, "Model")
        await editor.until(lambda: len(lender.questions) > before, "a question")
        workers = editor.workers()
        assert workers
        await editor.execute("stark.cancel")
        await editor.until(lambda: lender.withdrawn, "that the question is withdrawn")
        await editor.until_message("was cancelled")

        lender.consent = "refused"
        answer = await editor.execute("stark.optimize", uri, "Model")
        assert answer["status"] == "error"
        assert "may not use the editor's language model" in answer["message"]
        editor.client.set_configuration({"model": "auto", "provides": ["model"]}, section="stark")
        editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=None))
        # The server asks for its settings once it is told that they changed.
        while (await editor.execute("stark.status"))["model"] != "auto":
            await asyncio.sleep(0.02)
        assert (await editor.execute("stark.optimize", uri, "Model"))["status"] == "started"
        await editor.until(lambda: any(text.endswith("· playbook") for text in texts(editor)), "the playbook")
        await editor.execute("stark.cancel")


async def test_a_key_from_the_editor_pays_for_a_run_and_is_written_nowhere(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from messages_api import replies
    from messages_api.server import TEST_KEY, MessagesServer

    # What is paid for need not be judged.
    service = MessagesServer(lambda request: replies.refusal("cyber", "The request was declined.")).start()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", service.url)
    # Python then shows tasks and futures that take long, with what they hold.
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")
    try:
        async with lending(tmp_path / "state", {"model": "auto", "attempts": 1}, ["key"]) as lender:
            lender.key = TEST_KEY
            editor = lender.editor
            uri = editor.open(file)
            await editor.execute("stark.optimize", uri, "Model")
            await editor.until(lambda: service.requests, "a question")
            for process in editor.workers():
                with contextlib.suppress(psutil.Error):  # some last a moment only
                    assert "ANTHROPIC" not in str(process.environ())
            assert "claude" in (await over(lender)).lower()
            assert lender.keys_asked == [{"service": "anthropic", "ask": False}]
            told = editor.messages + texts(editor) + [entry.message for entry in editor.client.log_messages]
            assert not [text for text in told if TEST_KEY in text]
            assert any("claude" in text.lower() for text in texts(editor))
    finally:
        service.close()
    written = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert written
    assert not [path for path in written if TEST_KEY.encode() in path.read_bytes()]
    assert TEST_KEY not in "".join(capfd.readouterr())
