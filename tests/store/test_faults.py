"""A disk that is full, closed or damaged is named with its cure, and costs nothing that was stored."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from scripted import PROBLEM, node, ok

from stark_lsp.core.errors import Fault
from stark_lsp.core.run import Budget, Run
from stark_lsp.core.status import RunState
from stark_lsp.store import RunStore, faults, schema
from stark_lsp.store.owner import Liveness, Owner, liveness, start_time_linux, start_time_posix, this_process

RUN = Run("r1", PROBLEM, 0, "playbook", Budget(), RunState.RUNNING)
LONG = "# " + "x" * 40_000


def fill(store: RunStore, count: int = 10_000) -> int:
    """Write nodes until it fails and return how many were stored."""
    for node_id in range(count):
        try:
            store.put_node("r1", node(node_id, 0, ok(1.0), source=f"{LONG}{node_id}"), str(node_id))
        except Fault as fault:
            told = str(fault)
            assert str(store.path) in told
            assert "What was stored before is kept." in told
            assert "STARK_STATE_DIR" in told
            return node_id
    raise AssertionError("it never became full")


def check_kept(path: Path, count: int) -> None:
    stored = RunStore(path).load("r1")
    assert list(stored.nodes) == list(range(count))
    assert stored.rng_state == str(count - 1)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_full_database_is_a_fault_that_costs_nothing(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs.sqlite3")
    store.create(RUN)
    with store._database.read() as connection:
        connection.execute("PRAGMA max_page_count = 200")
    count = fill(store)
    assert count > 1
    check_kept(store.path, count)
    with store._database.read() as connection:
        connection.execute("PRAGMA max_page_count = 100000")
    store.put_node("r1", node(count, 0, ok(1.0)), str(count))  # room again: it goes on
    check_kept(store.path, count + 1)


def test_a_full_disk_is_a_fault_that_costs_nothing() -> None:
    folder = Path(tempfile.mkdtemp())
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "stark-test", str(folder)]
    mounted = shutil.which("mount") and subprocess.run(command, capture_output=True, check=False).returncode == 0
    if not mounted:
        folder.rmdir()
        pytest.skip("a small file system may not be mounted here")
    try:
        store = RunStore(folder / "state" / "runs.sqlite3")
        store.create(RUN)
        count = fill(store)
        assert count > 1
        store.close()
        elsewhere = Path(tempfile.mkdtemp())
        shutil.copytree(folder / "state", elsewhere / "state")
        check_kept(elsewhere / "state" / "runs.sqlite3", count)
        shutil.rmtree(elsewhere)
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


def test_a_limit_on_file_size_is_a_fault_that_costs_nothing(tmp_path: Path) -> None:
    code = (
        "import resource, sys; sys.path[:0] = sys.argv[2:]\n"
        "from test_faults import RUN, fill; from stark_lsp.store import RunStore\n"
        "store = RunStore(sys.argv[1]); store.create(RUN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))\n"
        "print(fill(store))\n"
    )
    here = Path(__file__).parent
    path = tmp_path / "runs.sqlite3"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(here), str(here.parent / "search")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1
    check_kept(path, int(done.stdout))


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder, seen without the rights of the superuser."""
    folder = Path(tempfile.mkdtemp())
    user = os.geteuid()
    if user == 0:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if user == 0:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_a_directory_that_may_not_be_written_is_a_fault(unprivileged: Path) -> None:
    unprivileged.chmod(0o500)
    store = RunStore(unprivileged / "state" / "runs.sqlite3")
    with pytest.raises(
        Fault, match=r"runs\.sqlite3: The store of runs may not be written\. Give yourself write permission"
    ):
        store.list()
    unprivileged.chmod(0o700)
    assert store.list() == []  # mended while the program runs


def test_a_file_that_may_not_be_written_is_a_fault_and_keeps_its_runs(unprivileged: Path) -> None:
    path = unprivileged / "runs.sqlite3"
    store = RunStore(path)
    store.create(RUN)
    store.close()
    path.chmod(0o400)
    with pytest.raises(Fault, match=r"runs\.sqlite3: The store of runs may not be written"):
        store.create(replace(RUN, id="r2"))
    path.chmod(0o600)
    assert [run.id for run in store.list()] == ["r1"]


def test_a_directory_in_the_way_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(Fault, match=r"cannot be opened\. Check that its directory exists"):
        RunStore(tmp_path / "state" / "runs.sqlite3").list()


def test_a_file_that_is_no_database_is_a_fault_and_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    path.write_bytes(b"not a database, surely" * 100)
    with pytest.raises(Fault, match=r"not a store of runs\. Move it away"):
        RunStore(path).list()
    assert path.read_bytes() == b"not a database, surely" * 100


def test_a_damaged_file_is_a_fault_and_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    store = RunStore(path)
    store.create(RUN)
    for node_id in range(30):
        store.put_node("r1", node(node_id, 0, ok(1.0), source=f"{LONG}{node_id}"))
    store.close()
    data = bytearray(path.read_bytes())
    data[4096 * 2 : 4096 * 40] = b"\xa5" * (4096 * 38)
    path.write_bytes(data)
    with pytest.raises(Fault, match=r"runs\.sqlite3: The store of runs is damaged\. Move the file away"):
        RunStore(path).load("r1")
    assert path.stat().st_size == len(data)


def test_another_programs_database_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (mine)")
    with pytest.raises(Fault, match="another program's database"):
        RunStore(path).list()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT sql FROM sqlite_master").fetchall() == [("CREATE TABLE runs (mine)",)]


def test_a_file_of_a_newer_version_is_a_fault(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs.sqlite3")
    store.create(RUN)
    store.close()
    with sqlite3.connect(store.path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(Fault, match=r"written by a newer stark-lsp \(format 99.*Update stark-lsp"):
        store.list()


def test_a_file_of_an_earlier_version_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RunStore(tmp_path / "runs.sqlite3")
    store.create(RUN)
    store.close()
    before = len(schema.MIGRATIONS)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("ALTER TABLE runs ADD COLUMN spent REAL",)))
    assert [run.id for run in store.list()] == ["r1"]
    with sqlite3.connect(store.path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (before + 1,)
        assert connection.execute("SELECT spent FROM runs").fetchall() == [(None,)]


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RunStore(tmp_path / "runs.sqlite3")
    store.create(RUN)
    store.close()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("CREATE TABLE spend (a)", "NOT SQL")))
        with pytest.raises(Fault, match="The store of runs failed"):
            store.list()
    assert [run.id for run in store.list()] == ["r1"]
    with sqlite3.connect(store.path) as connection:
        assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'spend'").fetchall()


def test_a_store_that_stays_locked_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stark_lsp.store.database.BUSY_TIMEOUT_S", 0.05)
    store = RunStore(tmp_path / "runs.sqlite3")
    store.create(RUN)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Fault, match="in use by another process"):
        store.put_node("r1", node(1, 0))
    assert [run.id for run in store.list()] == ["r1"]  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    store.put_node("r1", node(1, 0))


@pytest.mark.parametrize("text", sorted(faults._TEXTS))
def test_errors_without_a_code_are_known_by_sqlites_own_text(text: str) -> None:
    # Python 3.10 gives no code.
    assert faults.error_name(sqlite3.OperationalError(text)) in faults._KNOWN


# --- owners ----------------------------------------------------------------------------------------


def test_this_process_is_alive_and_an_ended_one_is_gone() -> None:
    me = this_process()
    assert liveness(me) is Liveness.ALIVE
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    owner = Owner(child.pid, start_time_linux(child.pid) or "", me.place)
    assert os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT) is not None
    assert liveness(owner) is Liveness.GONE  # a zombie does no work
    child.wait()
    assert liveness(owner) is Liveness.GONE
    assert liveness(replace(me, started="1")) is Liveness.GONE


def test_another_boot_of_this_host_is_gone_and_another_host_unknown() -> None:
    me = this_process()
    host, _, namespace = me.place.split("/", 2)
    assert liveness(replace(me, place=f"{host}/an-earlier-boot/{namespace}")) is Liveness.GONE
    assert liveness(replace(me, place=f"not-{host}/b/{namespace}")) is Liveness.UNKNOWN


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_without_proc_the_start_time_comes_from_ps() -> None:
    assert start_time_posix(os.getpid()) == start_time_posix(os.getpid()) != ""
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    assert start_time_posix(child.pid) is None
