"""`stark-lsp runs`: list, show, apply, delete, by the first characters of an id."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from cli_cases import CHAIN, begin, here, write
from cli_runs import finished_run

from stark_lsp.core.status import Decision, DeviceChoice
from stark_lsp.discovery.problems import make_problem
from stark_lsp.store import RunStore

Place = tuple[Path, Path]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A state directory with two runs on one file."""
    path = write(tmp_path, "model.py", CHAIN)
    store = RunStore(tmp_path / "state" / "runs.sqlite3")
    for run_id, best in (("1f3a77c0", 1), ("1f99aa00", None)):
        run, nodes = finished_run(path, run_id, best=best)
        store.create(run)
        for node in nodes.values():
            store.put_node(run.id, node)
        store.update(run)
    return path, tmp_path / "state"


def test_without_runs_the_list_says_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = here(capsys, "runs", state=tmp_path / "state")
    assert done.returncode == 0
    assert "stark-lsp optimize" in done.stdout


def test_the_list_has_a_line_for_each_run(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path, state = place
    for command in (("runs",), ("runs", "list")):
        done = here(capsys, *command, state=state, cwd=path.parent)
        lines = done.stdout.splitlines()
        assert done.returncode == 0
        assert len(lines) == 3
        assert any("1f3a77c0" in line and "2.00x" in line and "model.py::Model" in line for line in lines)
        assert any("1f99aa00" in line and "finished" in line for line in lines)
    rows = json.loads(here(capsys, "runs", "--json", state=state).stdout)
    assert {row["id"]: row["speedup_vs_eager"] for row in rows} == {"1f3a77c0": 2.0, "1f99aa00": None}
    assert len(json.loads(here(capsys, "runs", "list", "--json", "--limit", "1", state=state).stdout)) == 1


def test_a_run_is_shown_with_tree_numbers_and_patch(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path, state = place
    done = here(capsys, "runs", "show", "1f3", state=state, cwd=path.parent)
    assert done.returncode == 0, done.stderr
    for fragment in (
        "Fuse the gate",
        "threads 2, width 16",
        "did not compile",
        "Repair",
        "proposal",
        "15.0 ms",
        "2.00x (1.96–2.04)",
        "1.50x (1.47–1.53)",
        "each call with empty caches",
        '+        return torch.nn.functional.gelu(x, approximate="tanh")',
        "stark-lsp runs apply 1f3a77c0",
    ):
        assert fragment in done.stdout
    assert "\n@@ " not in done.stdout, "it tells how the class changes"
    assert "\n@@ " in here(capsys, "runs", "show", "1f3", "--diff", state=state, cwd=path.parent).stdout
    report = json.loads(here(capsys, "runs", "show", "1f3", "--json", state=state).stdout)
    assert report["best"]["node"] == 1
    assert [attempt["status"] for attempt in report["attempts"]] == ["OK", "COMPILE_ERROR", "OK"]


def test_a_run_whose_class_changed_says_so(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path, state = place
    path.write_text(CHAIN.replace("0.5 * x", "0.25 * x"))
    done = here(capsys, "runs", "show", "1f3a", state=state)
    assert done.returncode == 0, done.stderr
    assert '+        return torch.nn.functional.gelu(x, approximate="tanh")' in done.stdout
    assert "edited since the run began" in done.stdout
    assert "runs apply" not in done.stdout


def test_an_applied_proposal_decides_on_the_class(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path, state = place
    store = RunStore(state / "runs.sqlite3")
    other, nodes = finished_run(path, "2222aaaa")
    store.create(other)
    for node in nodes.values():
        store.put_node(other.id, node)
    store.update(other)
    assert here(capsys, "runs", "apply", "1f3a", state=state, cwd=path.parent).returncode == 0
    held = {run.id: run.decision for run in store.list()}
    assert (held["1f3a77c0"], held["2222aaaa"]) == (Decision.ACCEPTED, Decision.KEPT)


def test_a_run_of_a_later_version_is_passed_over_and_deleted(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path, state = place
    with sqlite3.connect(state / "runs.sqlite3") as connection:
        connection.execute("UPDATE runs SET wire = json_set(wire, '$.later', 1), state = 'cancelled'")
    store = RunStore(state / "runs.sqlite3")
    problem = make_problem(str(path), CHAIN, "Model", device=DeviceChoice.CPU)
    assert store.list() == []
    assert store.latest_resumable(problem) is None
    assert "Deleted 1 run." in here(capsys, "runs", "delete", "1f3a", state=state).stdout
    assert "Deleted 1 run." in here(capsys, "runs", "delete", "--all", "--yes", state=state).stdout
    assert store.ids() == ()


@pytest.mark.parametrize("mode", ["beside", "replace", "module"])
def test_a_proposal_is_applied_later(place: Place, mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    path, state = place
    done = here(capsys, "runs", "apply", "1f3a", "--write", mode, state=state, cwd=path.parent)
    assert done.returncode == 0, done.stderr
    assert "Written: " in done.stdout
    text = path.read_text()
    if mode == "module":
        assert text == CHAIN
        (new,) = [entry for entry in path.parent.glob("*.py") if entry != path]
        text = new.read_text()
        assert str(new.name) in done.stdout
    compile(text, "model.py", "exec")
    assert "# Optimized by STARK" in text
    assert text.count('approximate="tanh"') == 1
    assert ("class ModelNew(nn.Module)" in text) == (mode != "replace")
    (run,) = [run for run in RunStore(state / "runs.sqlite3").list() if run.id == "1f3a77c0"]
    assert run.decision is Decision.ACCEPTED
    assert ("ModelNew is used nowhere yet" in done.stdout) == (mode != "replace")


def test_a_proposal_that_the_file_has_already_is_not_written_again(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = place
    assert here(capsys, "runs", "apply", "1f3a", state=state).returncode == 0
    text = path.read_text()
    again = here(capsys, "runs", "apply", "1f3a", state=state)
    assert (again.returncode, path.read_text()) == (0, text)
    assert "has it already" in again.stdout
    assert "Written" not in again.stdout


def test_what_was_edited_by_hand_stays_when_a_proposal_is_applied_again(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    path, state = place
    assert here(capsys, "runs", "apply", "1f3a", state=state).returncode == 0
    edited = path.read_text().replace("class ModelNew(nn.Module):\n", "class ModelNew(nn.Module):\n    mine = True\n\n")
    path.write_text(edited)
    done = here(capsys, "runs", "apply", "1f3a", state=state)
    assert done.returncode == 0, done.stderr
    assert "ModelNew was edited since it was accepted, so it stays as it is." in done.stdout
    kept = iter(path.read_text().splitlines())
    assert all(line in kept for line in edited.splitlines())
    assert "class ModelNew2(nn.Module):\n" in path.read_text()


def test_a_stale_proposal_is_not_applied(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path, state = place
    changed = CHAIN.replace("0.5 * x", "0.25 * x")
    path.write_text(changed)
    done = here(capsys, "runs", "apply", "1f3a", state=state)
    assert done.returncode == 2
    assert "Optimize it again" in done.stderr
    assert path.read_text() == changed


def test_a_proposal_goes_to_where_its_file_was_moved(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path, state = place
    moved = path.rename(path.with_name("moved.py"))
    done = here(capsys, "runs", "apply", "1f3a", state=state)
    assert done.returncode == 2
    assert "If it was moved: stark-lsp runs apply 1f3a77c0 FILE" in done.stderr
    assert here(capsys, "runs", "apply", "1f3a", str(moved), state=state).returncode == 0
    assert "class ModelNew(nn.Module)" in moved.read_text()


def test_a_comment_written_since_is_not_replaced(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    path, state = place
    changed = CHAIN.replace("    def forward", "    # ann: why half?\n    def forward", 1)
    assert changed != CHAIN
    path.write_text(changed)
    done = here(capsys, "runs", "apply", "1f3a", "--write", "replace", state=state)
    assert done.returncode == 2
    assert "comments in Model were written since the run began (# ann" in done.stderr
    assert path.read_text() == changed
    assert here(capsys, "runs", "apply", "1f3a", state=state).returncode == 0
    assert path.read_text().count("# ann") == 1


def test_a_run_without_proposal_cannot_be_applied(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    _, state = place
    done = here(capsys, "runs", "apply", "1f99", state=state)
    assert done.returncode == 2
    assert "no proposal" in done.stderr


def test_an_id_must_be_known_and_clear(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    _, state = place
    unknown = here(capsys, "runs", "show", "77", state=state)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "no run '77'" in unknown.stderr
    unclear = here(capsys, "runs", "delete", "1f", state=state)
    assert unclear.returncode == 2
    assert "1f3a77c0" in unclear.stderr
    assert "1f99aa00" in unclear.stderr


def test_runs_are_deleted_one_by_one_or_all(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    _, state = place

    def left() -> set[str]:
        return {run.id for run in RunStore(state / "runs.sqlite3").list()}

    assert here(capsys, "runs", "delete", "1f3a", "77", state=state).returncode == 2
    assert len(left()) == 2, "a typing error deletes nothing"
    assert here(capsys, "runs", "delete", "--all", state=state).returncode == 2
    assert len(left()) == 2, "all of them only with --yes"
    assert "Deleted 1 run." in here(capsys, "runs", "delete", "1f3a", state=state).stdout
    assert left() == {"1f99aa00"}
    assert here(capsys, "runs", "delete", "--all", "--yes", state=state).returncode == 0
    assert left() == set()


def test_a_reader_that_leaves_early_is_no_error(place: Place) -> None:
    process = begin("runs", "show", "1f3a", state=place[1])
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors
