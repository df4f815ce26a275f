"""Ending a process tree: nothing of it is left, however its parts are dying at that moment; and stopping one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from stark_lsp.contract.process_trees import descendants, kill_tree, stopped

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

GUARD = """
import ctypes, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # adopts orphans, as the guard does
subprocess.Popen([sys.executable, "-c", sys.argv[1]])
time.sleep(600)
"""

HALF_DEAD = """
import ctypes, subprocess, threading, time
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
threading.Thread(target=time.sleep, args=(600,)).start()
print(child.pid, flush=True)
ctypes.CDLL(None).pthread_exit(None)  # the main thread ends, the process lives on in its other thread
"""


def start(child: str) -> tuple[subprocess.Popen[str], int]:
    """Start a guard with a child; return it with the process id that the child prints."""
    guard = subprocess.Popen(
        [sys.executable, "-c", GUARD, textwrap.dedent(child)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert guard.stdout is not None
    return guard, int(guard.stdout.readline())


def state(pid: int) -> str:
    """Return a process's state letter, empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_what_is_below_a_process_whose_main_thread_has_ended_is_found_and_killed() -> None:
    guard, grandchild = start(HALF_DEAD)
    try:
        parent = psutil.Process(grandchild).ppid()
        deadline = time.monotonic() + 30
        while state(parent) != "Z":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert set(descendants(guard.pid)) == {parent, grandchild}
        assert kill_tree(guard.pid)
        assert state(grandchild) in ("", "Z", "X")
        assert not descendants(guard.pid)
    finally:
        guard.kill()
        guard.wait()
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(grandchild).kill()


FOREST = """
import subprocess, sys, time
code = "import subprocess, sys, time; subprocess.Popen(['sleep', '600'], start_new_session=True); time.sleep(600)"
children = [subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True) for _ in range(20)]
print(children[0].pid, flush=True)
time.sleep(600)
"""


def test_a_forest_of_sessions_is_gone_when_killing_returns() -> None:
    guard, _ = start(FOREST)
    try:
        deadline = time.monotonic() + 60
        while len(below := descendants(guard.pid)) < 41:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert kill_tree(guard.pid)
        assert not [pid for pid in below if state(pid) not in ("", "Z", "X")]
        assert guard.wait(60) == -9
    finally:
        guard.kill()
        guard.wait()


def test_a_process_and_all_below_it_rest_in_the_turns_of_others(tmp_path: Path) -> None:
    beats = [tmp_path / "parent", tmp_path / "child"]
    code = """
import subprocess, sys, time
if len(sys.argv) > 2:
    subprocess.Popen([sys.executable, __file__, sys.argv[2]])
while True:
    open(sys.argv[1], "a").write(".")
    time.sleep(0.002)
"""
    script = tmp_path / "beats.py"
    script.write_text(code)

    def counts() -> list[int]:
        return [path.stat().st_size if path.exists() else 0 for path in beats]

    with subprocess.Popen([sys.executable, str(script), *map(str, beats)]) as process:
        try:
            deadline = time.monotonic() + 30.0
            while not all(counts()) and time.monotonic() < deadline:
                time.sleep(0.01)
            with stopped(process.pid):
                time.sleep(0.05)
                before = counts()
                assert all(before)
                time.sleep(0.2)
                assert counts() == before
            while counts() == before and time.monotonic() < deadline:
                time.sleep(0.01)
            assert all(now > then for now, then in zip(counts(), before, strict=True)) or counts() != before
        finally:
            kill_tree(process.pid)
