"""Turns on a device: one at a time, in order, and nothing is left of those who died."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from stark_lsp.judge.device import turns as turns_module
from stark_lsp.judge.device.turns import VARIABLE, Turns, living, user_folder

HOLD = """
import sys, time
sys.path.insert(0, {root!r})
from stark_lsp.judge.device.turns import Turns
def waiting(text):
    print(text, flush=True)
with Turns({folder!r}, "gpu").measuring(waiting):
    print("holds", flush=True)
    sys.stdin.readline()
print("over", flush=True)
"""
ROOT = str(Path(__file__).resolve().parents[2])


class Other:
    """Another process that wants the slot, and keeps it until told."""

    def __init__(self, folder: Path) -> None:
        script = HOLD.format(root=ROOT, folder=str(folder))
        self.process = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def release(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def others() -> Iterator[list[Other]]:
    started: list[Other] = []
    yield started
    for other in started:
        other.process.kill()
        other.process.communicate()


def test_those_who_wait_are_told_how_many_are_ahead_and_come_in_order(tmp_path: Path, others: list[Other]) -> None:
    for expected in ("holds", "GPU busy: queued, 1 ahead", "GPU busy: queued, 2 ahead"):
        others.append(Other(tmp_path))
        assert others[-1].says() == expected
    first, second, third = others
    first.release()
    assert first.says() == "over"
    assert second.says() == "holds"
    assert third.says() == "GPU busy: queued, 1 ahead"
    second.release()
    assert third.says() == "holds"


def test_killing_the_holder_gives_the_slot_to_the_next(tmp_path: Path, others: list[Other]) -> None:
    others += [Other(tmp_path)]
    assert others[0].says() == "holds"
    others += [Other(tmp_path)]
    assert others[1].says() == "GPU busy: queued, 1 ahead"
    others[0].kill()
    assert others[1].says() == "holds"


def test_one_who_died_while_waiting_does_not_count(tmp_path: Path, others: list[Other]) -> None:
    for expected in ("holds", "GPU busy: queued, 1 ahead", "GPU busy: queued, 2 ahead"):
        others.append(Other(tmp_path))
        assert others[-1].says() == expected
    others[1].kill()
    assert others[2].says() == "GPU busy: queued, 1 ahead"
    assert len(living(str(tmp_path / "gpu.tickets"))) == 2
    others[0].release()
    assert others[2].says() == "holds"


def test_threads_of_one_process_take_turns_too(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        with Turns(str(tmp_path), "cpu").measuring():
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 6
    assert living(str(tmp_path / "cpu.tickets")) == []


def test_a_key_is_no_path(tmp_path: Path) -> None:
    with Turns(str(tmp_path), "../MIG 1/2").measuring():
        assert {path.stem for path in tmp_path.iterdir()} == {".._MIG_1_2"}


def until_locked(file: IO[str]) -> None:
    """Wait until somebody has a lock on a file that keeps all others away."""
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(0.001)
    raise AssertionError("nobody locks it")


def test_many_work_at_the_same_time_but_nobody_while_one_measures(tmp_path: Path) -> None:
    turns = Turns(str(tmp_path), "cpu")
    events: list[str] = []
    both, begun, waits = threading.Barrier(2, timeout=10), threading.Event(), threading.Event()

    def work() -> None:
        with turns.working():
            # Passed only if both are inside together.
            both.wait()
            begun.set()
            waits.wait(10)
            events.append("worked")

    def measure() -> None:
        begun.wait(10)
        with turns.measuring():
            events.append("measures")
            time.sleep(0.05)
            events.append("measured")

    def late() -> None:
        with open(tmp_path / "cpu.gate", "w") as gate:
            until_locked(gate)
        # The one who measures waits already and goes first.
        waits.set()
        with turns.working():
            events.append("worked late")

    threads = [threading.Thread(target=run) for run in (work, work, measure, late)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert events == ["worked", "worked", "measures", "measured", "worked late"]


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user's folder is made."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(turns_module, "SHARED", str(tmp_path))
    return tmp_path


def test_all_runs_of_a_user_share_one_folder_that_only_the_user_may_enter(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for state in ("state", "another state"):
        monkeypatch.setenv("STARK_STATE_DIR", state)
        folder = user_folder(str(shared / state / "slots"))
        assert folder == str(shared / f"stark-lsp-{os.geteuid()}")
        assert os.stat(folder).st_mode & 0o777 == 0o700
    assert not (shared / "state").exists()


def test_a_folder_that_others_could_enter_is_closed_to_them(shared: Path) -> None:
    folder = shared / f"stark-lsp-{os.geteuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert user_folder(str(shared / "slots")) == str(folder)
    assert os.stat(folder).st_mode & 0o777 == 0o700


def test_what_somebody_else_put_in_its_place_is_not_used(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instead, place = str(shared / "state" / "slots"), shared / f"stark-lsp-{os.geteuid()}"
    (shared / "elsewhere").mkdir()
    place.symlink_to(shared / "elsewhere")
    assert user_folder(instead) == instead
    assert (shared / "elsewhere").stat().st_mode & 0o077, "and what it leads to is left as it is"
    place.unlink()
    place.write_text("a file")
    assert user_folder(instead) == instead
    place.unlink()
    place.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(place).st_uid + 1)
    other = shared / f"stark-lsp-{os.geteuid()}"
    other.mkdir()
    assert user_folder(instead) == instead


def test_a_folder_can_be_named(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = shared / "some" / "where"
    monkeypatch.setenv(VARIABLE, str(named))
    assert user_folder(str(shared / "slots")) == str(named)
    assert named.is_dir()


def test_a_folder_that_was_cleared_away_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    turns = Turns(str(folder), "gpu")
    shutil.rmtree(folder)
    with turns.measuring():
        assert len(living(str(folder / "gpu.tickets"))) == 1


PRESENT = """
import sys
sys.path.insert(0, {root!r})
from stark_lsp.judge.device.turns import Turns
mine = Turns({folder!r}, "gpu")
print("there", flush=True)
sys.stdin.readline()
"""


def test_judges_of_one_user_know_of_each_other_as_long_as_they_live(tmp_path: Path) -> None:
    mine = Turns(str(tmp_path), "gpu")
    assert mine.judges() == set()
    script = PRESENT.format(root=ROOT, folder=str(tmp_path))
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "there\n"
        assert mine.judges() == {other.pid}
        assert Turns(str(tmp_path), "another").judges() == set()
        other.kill()
        other.wait()
        assert mine.judges() == set()
    (tmp_path / "gpu.judges" / "what-is-this").write_text("")
    assert mine.judges() == set()


def test_without_a_folder_for_locks_nobody_is_known(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert Turns(str(tmp_path / "file"), "gpu").judges() == set()
