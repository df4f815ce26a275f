"""A file of an earlier format, as the version that had it wrote it, is brought up to date with all that it holds."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from store_cases import PROBLEM, REFERENCE, exchange, loss, run, steerings, tree

from stark_lsp.core.conversation import Spend, Usage
from stark_lsp.core.errors import Fault
from stark_lsp.core.run import Rejection
from stark_lsp.core.status import ModelRole, RunState, VerdictStatus
from stark_lsp.store import RunStore, schema
from stark_lsp.store.transcripts import Transcript, collect


def written_by_format(number: int, folder: Path) -> Path:
    """Return a file of an earlier format."""
    made = folder / "runs.sqlite3"
    connection = sqlite3.connect(made)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(Path(__file__).with_name(f"format_{number}.sql").read_text(encoding="utf-8"))
    connection.close()
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of format 1."""
    return written_by_format(1, tmp_path)


def version(path: Path) -> int:
    connection = sqlite3.connect(path)
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(number)


def test_a_file_of_format_1_keeps_its_runs_and_takes_what_is_new(path: Path) -> None:
    assert version(path) == 1
    store = RunStore(path)
    assert {run.id: run.state for run in store.list()} == {
        "v1run1": RunState.FINISHED,
        "v1run2": RunState.CANCELLED,
    }
    assert version(path) == len(schema.MIGRATIONS) == 4
    stored = store.load("v1run1")
    assert stored.rng_state == "state of v1run1"
    assert stored.nodes[1].candidate.source == "x = '\ud800'"
    assert [node.verdict.status for node in stored.nodes.values() if node.verdict] == [
        VerdictStatus.OK,
        VerdictStatus.OK,
        VerdictStatus.COMPILE_ERROR,
    ]
    assert store.rejections("/project/model.py::Model") == (
        Rejection("v1run1", 1, "too long", "Fuse", "", "2026-01-03T00:00:00+00:00"),
    )
    resumable = store.latest_resumable(stored.run.problem, "playbook")
    assert resumable is not None
    assert resumable.run.id == "v1run2"
    store.exchanges.keep("v1run2", exchange())
    store.steerings.add("v1run2", steerings()[0])
    assert store.exchanges.list("v1run2") == (exchange(),)
    store.delete("v1run2")
    assert [run.id for run in store.list()] == ["v1run1"]


def test_a_file_of_format_2_keeps_all_it_has_and_takes_what_was_lost(tmp_path: Path) -> None:
    path = written_by_format(2, tmp_path)
    assert version(path) == 2
    store = RunStore(path)
    finished = run("v2run1", RunState.FINISHED, reference=REFERENCE, best=1, message="2.00x as fast.")
    exchanges = (exchange(1), exchange(1, ModelRole.CODE, dollars=None))
    assert collect(store, "v2run1") == Transcript(finished, tree(), exchanges, steerings=steerings())
    odd = exchange(1, text="half \ud800")
    assert collect(store, "v2run2") == Transcript(run("v2run2", RunState.CANCELLED), tree()[:1], (odd,))
    assert version(path) == len(schema.MIGRATIONS) == 4
    assert store.load("v2run1").rng_state == "state of v2run1"
    assert store.exchanges.find("v2run2", 1, ModelRole.PLAN, 0) == odd.answer
    assert [number for number, _ in store.steerings.since("v2run1")] == [1, 2, 3, 4]
    assert store.rejections(PROBLEM.key) == (
        Rejection("v2run1", 1, "too long", "Fuse", "", "2026-01-03T00:00:00+00:00"),
    )
    assert store.exchanges.spend("v2run1") == Spend(2, Usage(200, 40, 600, 100), 0.25, unpriced=1)
    store.losses.keep("v2run2", loss())
    assert store.losses.list("v2run2") == (loss(),)
    assert store.steerings.add("v2run2", steerings()[0]) == 5, "numbers go on"
    store.delete("v2run2")
    assert [each.id for each in store.list()] == ["v2run1"]


def test_runs_of_a_file_of_format_3_leave_notes_that_can_be_rewritten(tmp_path: Path) -> None:
    path = written_by_format(3, tmp_path)
    assert version(path) == 3
    store = RunStore(path)
    finished = run("v3run1", RunState.FINISHED, reference=REFERENCE, best=1, message="2.00x as fast.")
    assert collect(store, "v3run1") == Transcript(finished, tree(), losses=(loss(),))
    assert version(path) == len(schema.MIGRATIONS) == 4
    (note,) = store.notes.of(finished)
    assert (note.id, note.title, note.helped) == ("v3run1.1", "Fuse the gate", True)
    store.notes.rewrite(note, "Six passes are one.")
    assert [each.text for each in store.notes.of(finished)] == ["Six passes are one."]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_migrated_file_has_the_tables_of_a_new_one(number: int, tmp_path: Path) -> None:
    path = written_by_format(number, tmp_path)

    def tables(file: Path) -> dict[str, str]:
        connection = sqlite3.connect(file)
        found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        connection.close()
        return found

    RunStore(path).list()
    RunStore(tmp_path / "new.sqlite3").list()
    assert tables(path) == tables(tmp_path / "new.sqlite3")


def test_a_migration_that_cannot_be_written_leaves_format_1(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS[:-1], (*schema.MIGRATIONS[-1], "NOT SQL")))
        with pytest.raises(Fault):
            RunStore(path).list()
    assert version(path) == 1
    assert len(RunStore(path).list()) == 2


def test_processes_that_open_an_old_file_at_once_all_find_it_up_to_date(path: Path) -> None:
    code = (
        "import sys; from stark_lsp.store import RunStore\n"
        "store = RunStore(sys.argv[1]); print('ready', flush=True); input()\n"
        "print(sorted(run.id for run in store.list()), flush=True)\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for one in started:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in started:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in started:
        told, _ = one.communicate(timeout=60)
        assert told == "['v1run1', 'v1run2']\n"
    assert version(path) == len(schema.MIGRATIONS)
