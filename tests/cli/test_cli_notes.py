"""`stark-lsp notes`: list, show, edit, forget, by ids that begin as runs do."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cli_cases import CHAIN, here, write
from cli_runs import finished_run
from cli_stored import HOSTILE

from stark_lsp.store import RunStore


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with a run whose plans say what they like."""
    run, nodes = finished_run(write(tmp_path, "model.py", CHAIN))
    store = RunStore(tmp_path / "state" / "runs.sqlite3")
    store.create(run)
    for node in nodes.values():
        if node.id == 2 and node.plan is not None:
            node = replace(node, plan=replace(node.plan, title=f"Unroll {HOSTILE}"))
        store.put_node(run.id, node, "a state")
    return tmp_path / "state"


def test_without_runs_the_list_says_where_notes_come_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = here(capsys, "notes", state=tmp_path / "state")
    assert (done.returncode, done.stdout) == (0, "No notes yet. Runs leave them when they end.\n")


def test_notes_are_listed_and_shown(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (("notes",), ("notes", "list")):
        done = here(capsys, *command, state=state)
        helped, failed = done.stdout.splitlines()
        assert helped.startswith("1f3a77c0.1  Model [")
        assert helped.endswith("float32, 512x2048]: Fuse the gate: 2x (1.96 to 2.04) as fast as eager")
        assert failed.startswith("1f3a77c0.2  Model [")
        assert failed.endswith("did not compile (kernel.cpp:3: error: expected ';')")
        assert "\x1b" not in done.stdout
        assert "\u202e" not in done.stdout
    assert len(here(capsys, "notes", "--limit", "1", state=state).stdout.splitlines()) == 1
    shown = here(capsys, "notes", "show", "1f3a.1", state=state).stdout
    assert "Attempt 1 of run 1f3a77c0" in shown
    assert "model.py::Model, Example CPU." in shown
    one = json.loads(here(capsys, "notes", "show", "1f3a.1", "--json", state=state).stdout)
    assert one == json.loads(here(capsys, "notes", "--json", state=state).stdout)[0]
    assert (one["id"], one["title"], one["gain"]["value"]) == ("1f3a77c0.1", "Fuse the gate", 2.0)


def test_notes_are_edited_and_forgotten(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here(capsys, "notes", "edit", "1f3a.1", "Only for long rows.", state=state).stdout == "Kept as 1f3a77c0.1.\n"
    assert "1f3a77c0.1  Only for long rows.\n" in here(capsys, "notes", state=state).stdout
    assert "it was about: Fuse the gate" in here(capsys, "notes", "show", "1f3a.1", state=state).stdout
    wrong = here(capsys, "notes", "forget", "1f3a.1", "1f3a.9", state=state)
    assert wrong.returncode != 0
    assert "There is no note '1f3a.9'" in wrong.stderr
    assert len(here(capsys, "notes", state=state).stdout.splitlines()) == 2, "a typing error drops nothing"
    assert here(capsys, "notes", "forget", "1f3a.1", "1f3a77c0.2", "1f3a.1", state=state).stdout == "Forgot 2 notes.\n"
    assert "No notes" in here(capsys, "notes", state=state).stdout
    assert "Fuse the gate" in here(capsys, "runs", "show", "1f3a", state=state).stdout, (
        "the run keeps what was recorded"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "1f3a"), "is no id of a note"),
        (("show", "beef.1"), "There is no run 'beef'"),
        (("edit", "1f3a.1", " "), "stark-lsp notes forget 1f3a77c0.1"),
        (("edit", "1f3a.1", "x" * 401), "1 to 400 characters, not 401"),
    ],
)
def test_a_mistake_is_told_with_its_cure(
    state: Path, arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = here(capsys, "notes", *arguments, state=state)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
