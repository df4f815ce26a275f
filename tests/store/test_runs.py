"""The store gives back what it was given, and knows what can be gone on with."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from scripted import PROBLEM, ROOT, failed, node, ok
from store_cases import exchange

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.errors import BadInput, Fault
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Budget, Rejection, Run
from stark_lsp.core.status import Decision, DeviceChoice, RunState
from stark_lsp.store import RunStore, rows
from stark_lsp.store.owner import start_time
from stark_lsp.store.paths import default_store_path, state_dir


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    made = RunStore(tmp_path / "state" / "runs.sqlite3")
    yield made
    made.close()


def run(run_id: str = "r1", state: RunState = RunState.RUNNING, problem: Problem = PROBLEM, **rest: object) -> Run:
    return Run(run_id, problem, 0, "playbook", Budget(), state, created=f"2026-01-01T00:00:{run_id[1:]:>02}", **rest)  # type: ignore[arg-type]


def raw(store: RunStore) -> sqlite3.Connection:
    return sqlite3.connect(store.path)


def set_owner(store: RunStore, **columns: object) -> None:
    with raw(store) as connection:
        for name, value in columns.items():
            connection.execute(f"UPDATE runs SET {name} = ?", (value,))


# --- what is stored comes back ---------------------------------------------------------------------


def test_a_run_and_its_nodes_come_back_as_they_were(store: RunStore) -> None:
    nodes = {0: ROOT, 1: node(1, 0, ok(3.0)), 2: node(2, 1, failed()), 3: node(3, 1)}
    store.create(run())
    for one in nodes.values():
        store.put_node("r1", replace(one, verdict=None), "first")
        store.put_node("r1", one, f"after {one.id}")
    again = RunStore(store.path).load("r1")
    assert again.run == run()
    assert again.nodes == nodes
    assert list(again.nodes) == [0, 1, 2, 3]
    assert again.rng_state == "after 3"


def test_a_stored_verdict_and_state_are_not_lost_to_a_later_write_without_them(store: RunStore) -> None:
    store.create(run())
    store.put_node("r1", ROOT)
    store.put_node("r1", node(1, 0, ok(3.0)), "state")
    store.put_node("r1", node(1, 0))
    stored = store.load("r1")
    assert stored.nodes[1].verdict == ok(3.0)
    assert stored.rng_state == "state"


def test_a_verdict_can_be_confirmed_by_a_newer_one(store: RunStore) -> None:
    store.create(run())
    store.put_node("r1", node(1, 0, ok(3.0)))
    store.put_node("r1", node(1, 0, ok(3.5)))
    assert store.load("r1").nodes[1].verdict == ok(3.5)


def test_text_that_utf8_cannot_encode_comes_back(store: RunStore) -> None:
    odd = replace(PROBLEM, text="# \udc80", inputs=replace(PROBLEM.inputs, table={"value": "\ud800"}))
    store.create(run(problem=odd, message="half \ud800 \0 é"))
    broken = replace(failed(), log="\udcff\0")
    written = replace(node(1, 0, broken), candidate=Candidate("x = '\ud800'"))
    written = replace(written, plan=replace(written.plan, title="\ud800"))  # type: ignore[type-var]
    store.put_node("r1", written)
    stored = store.load("r1")
    assert stored.run.message == "half \ud800 \0 é"
    assert stored.run.problem == odd
    assert stored.nodes[1] == written


def test_runs_are_listed_newest_first(store: RunStore) -> None:
    other = replace(PROBLEM, path="/project/other.py")
    for number in range(1, 6):
        store.create(run(f"r{number}", problem=other if number == 3 else PROBLEM))
    assert [one.id for one in store.list()] == ["r5", "r4", "r3", "r2", "r1"]
    assert [one.id for one in store.list(limit=2)] == ["r5", "r4"]
    assert [one.id for one in store.list(key=other.key)] == ["r3"]


def test_a_run_that_cannot_be_read_does_not_hide_the_others(store: RunStore, caplog: pytest.LogCaptureFixture) -> None:
    store.create(run("r1"))
    store.create(run("r2"))
    with raw(store) as connection:
        connection.execute("UPDATE runs SET wire = '{}' WHERE id = 'r2'")
    assert [one.id for one in store.list()] == ["r1"]
    assert "run r2" in caplog.text
    with pytest.raises(Fault, match=r"runs\.sqlite3: Run r2 cannot be read.*stark-lsp runs delete r2"):
        store.load("r2")
    store.update(run("r2", RunState.CANCELLED))
    store.delete("r2")


def test_an_unknown_run_is_bad_input(store: RunStore) -> None:
    for call in (store.load, store.delete, lambda run_id: store.update(run(run_id))):
        with pytest.raises(BadInput, match="no run r9 in the store"):
            call("r9")
    with pytest.raises(BadInput, match="no run r9 in the store"):
        store.put_node("r9", ROOT)
    store.create(run())
    with pytest.raises(ValueError, match="r1 is already stored"):
        store.create(run())


def test_deleting_a_run_deletes_its_nodes_and_keeps_rejections(store: RunStore) -> None:
    store.create(run())
    store.put_node("r1", node(1, 0, ok(3.0)), "state")
    with pytest.raises(BadInput, match=r"Run r1 is under way\. Cancel it first"):
        store.delete("r1")
    store.update(run(state=RunState.CANCELLED))
    store.add_rejection(PROBLEM.key, Rejection("r1", 1, "too long"))
    store.delete("r1")
    with raw(store) as connection:
        counts = [
            connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("nodes", "verdicts", "states")
        ]
    assert counts == [0, 0, 0]
    assert store.rejections(PROBLEM.key) == (Rejection("r1", 1, "too long"),)


def test_rejections_come_back_in_order_for_their_problem_alone(store: RunStore) -> None:
    first, second = Rejection("r1", 1, "too long", "t", "s", "w"), Rejection("r2", 4, "too clever")
    store.add_rejection("a::Model", first)
    store.add_rejection("a::Model", second)
    store.add_rejection("b::Model", first)
    assert store.rejections("a::Model") == (first, second)
    assert store.rejections("c::Model") == ()


def test_columns_can_be_queried_without_reading_json(store: RunStore) -> None:
    store.create(run(state=RunState.FINISHED, best=1, decision=Decision.ACCEPTED))
    store.put_node("r1", node(1, 0, ok(3.0)))
    with raw(store) as connection:
        assert connection.execute("SELECT key, state, decision, best FROM runs").fetchall() == [
            (PROBLEM.key, "finished", "accepted", 1)
        ]
        assert connection.execute("SELECT status, runtime_ms FROM verdicts").fetchall() == [("OK", 3.0)]
        assert json.loads(connection.execute("SELECT wire FROM nodes").fetchone()[0])["id"] == 1


# --- what can be gone on with ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "begun", "expected"),
    [
        (RunState.CANCELLED, False, True),
        (RunState.INTERRUPTED, False, True),
        (RunState.FAILED, True, True),
        (RunState.FAILED, False, False),
        (RunState.FINISHED, True, False),
        (RunState.RUNNING, True, False),
    ],
)
def test_which_runs_can_be_gone_on_with(store: RunStore, state: RunState, begun: bool, expected: bool) -> None:
    store.create(run())
    store.put_node("r1", ROOT)
    if begun:
        store.put_node("r1", node(1, 0))
    store.update(run(state=state))
    found = store.latest_resumable(PROBLEM, "playbook")
    assert (found is not None) == expected
    if found is not None:
        assert found.run.id == "r1"


def test_a_failed_run_for_which_something_was_paid_is_gone_on_with(store: RunStore) -> None:
    store.create(run())
    store.put_node("r1", ROOT)
    store.exchanges.keep("r1", exchange())
    store.update(run(state=RunState.FAILED))
    assert store.latest_resumable(PROBLEM, "playbook") is not None


def test_only_the_unchanged_problem_is_gone_on_with(store: RunStore) -> None:
    store.create(run("r1", RunState.CANCELLED))
    store.create(run("r2", RunState.CANCELLED))
    assert store.latest_resumable(PROBLEM).run.id == "r2"  # type: ignore[union-attr]
    assert store.latest_resumable(PROBLEM, run_id="r1").run.id == "r1"  # type: ignore[union-attr]
    assert store.latest_resumable(PROBLEM, "another model") is None
    for changed in (
        replace(PROBLEM, text=PROBLEM.text.replace("pass", "dim = 3")),
        replace(PROBLEM, device=DeviceChoice.CUDA),
        replace(PROBLEM, inputs=replace(PROBLEM.inputs, table={"args": []})),
    ):
        assert store.latest_resumable(changed) is None


def test_a_run_whose_process_is_gone_is_marked_as_interrupted(store: RunStore, tmp_path: Path) -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from test_runs import run; from stark_lsp.store import RunStore\n"
        "RunStore(sys.argv[1]).create(run('r1'))\n"
    )
    here = Path(__file__).parent
    subprocess.run(
        [sys.executable, "-c", code, str(store.path), str(here), str(here.parent / "search")], check=True, timeout=60
    )
    store.create(run("r2"))
    assert store.load("r1").run.state is RunState.RUNNING
    assert store.latest_resumable(PROBLEM).run.id == "r1"  # type: ignore[union-attr]
    assert store.mark_interrupted() == ("r1",)
    assert store.mark_interrupted() == ()
    interrupted = store.load("r1").run
    assert interrupted.state is RunState.INTERRUPTED
    assert "process ended" in interrupted.message
    assert store.load("r2").run.state is RunState.RUNNING


def test_a_process_id_given_out_again_is_not_taken_for_the_owner(store: RunStore) -> None:
    store.create(run())
    set_owner(store, owner_started="1")
    assert store.mark_interrupted() == ("r1",)


def test_a_run_of_another_living_process_is_left_alone(store: RunStore) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        store.create(run())
        set_owner(store, owner_pid=sleeper.pid, owner_started=start_time(sleeper.pid))
        assert store.mark_interrupted() == ()
        assert store.latest_resumable(PROBLEM) is None
        with pytest.raises(BadInput, match=rf"r1 is under way in another process \({sleeper.pid}\)"):
            store.update(run())
        with pytest.raises(BadInput, match="r1 is under way"):
            store.delete("r1")
    finally:
        sleeper.communicate(b"\n")
    assert store.latest_resumable(PROBLEM) is not None
    store.update(run())


def test_a_run_of_another_host_is_given_up_after_a_day_of_silence(store: RunStore) -> None:
    store.create(run())
    set_owner(store, owner_place="another-host/boot/ns")
    assert store.mark_interrupted() == ()
    store.touch("r1")
    assert store.latest_resumable(PROBLEM) is None
    with pytest.raises(BadInput, match="r1 is under way in another process"):
        store.update(run())
    with pytest.raises(BadInput, match="r1 is under way"):
        store.delete("r1")
    with raw(store) as connection:
        connection.execute("UPDATE states SET touched = touched - ?", (rows.SILENT_S + 1,))
    assert store.latest_resumable(PROBLEM) is not None  # whoever asks for it may have it
    with raw(store) as connection:
        connection.execute("UPDATE states SET touched = touched - ?", (rows.STALE_AFTER_S + 1,))
    assert store.mark_interrupted() == ("r1",)


# --- the file --------------------------------------------------------------------------------------


def test_the_file_is_the_users_alone(store: RunStore) -> None:
    mask = os.umask(0)
    try:
        store.create(run())
        for name in os.listdir(store.path.parent):
            assert stat.S_IMODE(os.stat(store.path.parent / name).st_mode) == 0o600, name
        assert stat.S_IMODE(os.stat(store.path.parent).st_mode) == 0o700
    finally:
        os.umask(mask)


def test_a_file_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    path.touch(0o644)
    RunStore(path).create(run())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_making_a_store_touches_nothing(tmp_path: Path) -> None:
    RunStore(tmp_path / "state" / "runs.sqlite3")
    assert not list(tmp_path.iterdir())


def test_the_state_directory_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STARK_STATE_DIR", str(tmp_path / "mine"))
    assert default_store_path() == tmp_path / "mine" / "runs.sqlite3"
    monkeypatch.setenv("STARK_STATE_DIR", " ")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_dir().name == "stark-lsp"


def test_threads_of_one_process_can_share_a_store(store: RunStore) -> None:
    store.create(run())
    errors: list[BaseException] = []

    def write(start: int) -> None:
        try:
            for node_id in range(start, start + 25):
                store.put_node("r1", node(node_id, 0, ok(1.0 + node_id)), str(node_id))
                store.list()
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=write, args=(start,)) for start in (0, 100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(store.load("r1").nodes) == 100


def test_processes_can_write_different_runs_of_a_new_store_at_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / "runs.sqlite3"
    code = (
        "import sys; sys.path[:0] = sys.argv[3:]\n"
        "from test_runs import run; from scripted import node, ok; from stark_lsp.store import RunStore\n"
        "store = RunStore(sys.argv[1]); print('ready', flush=True); input()\n"
        "store.create(run(sys.argv[2]))\n"
        "for i in range(40): store.put_node(sys.argv[2], node(i, 0, ok(1.0)), str(i))\n"
    )
    here = Path(__file__).parent
    folders = [str(here), str(here.parent / "search")]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), f"r{number}", *folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number in range(1, 5)
    ]
    for one in started:
        assert one.stdout is not None
        assert one.stdout.readline() == b"ready\n"
    for one in started:
        assert one.stdin is not None
        one.stdin.write(b"\n")
        one.stdin.flush()
    for one in started:
        _, errors = one.communicate(timeout=60)
        assert one.returncode == 0, errors.decode()
    store = RunStore(path)
    assert {r.id: len(store.load(r.id).nodes) for r in store.list()} == {f"r{n}": 40 for n in range(1, 5)}
