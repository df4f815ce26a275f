"""Ctrl-C ends everything below the program and keeps what was done; `--resume` goes on from there."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from cli_cases import CHAIN, LINEAR, QUICK, begin, command, environment, stark, write

OPTIONS = (*QUICK, "--budget", "2")

IN_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Runs a command whose terminal is its standard input."""


def search(folder: Path, *more: str | Path) -> subprocess.Popen[str]:
    """Start a search on `gate.py`."""
    return begin("optimize", "gate.py", *OPTIONS, *more, state=folder / "state", cwd=folder)


def told_to_end(process: subprocess.Popen[str]) -> str:
    """Tell a search to end once its worker has begun; return what it said."""
    parent, deadline = psutil.Process(process.pid), time.monotonic() + 240
    while not parent.children() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert parent.children(), "the worker has begun"
    process.send_signal(signal.SIGTERM)
    rest, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM, errors
    return rest


def stopped_after_one(folder: Path, out: Path) -> dict[str, Any]:
    """Stop a search by Ctrl-C once its second plan is there; return its report."""
    path = write(folder, "gate.py", CHAIN)
    process = search(folder, "--json", out)
    assert process.stdout is not None
    for text in process.stdout:
        if text.lstrip().startswith("2 "):
            break
    below = psutil.Process(process.pid).children(recursive=True)
    assert below, "the worker is at work"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole foreground group
    rest, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert "Traceback" not in rest + errors
    stopped: dict[str, Any] = json.loads(out.read_text())
    # The second is listed without a status, unless it was judged while the signal was on its way.
    kept = sum(attempt["status"] is not None for attempt in stopped["attempts"])
    assert kept in (1, 2), rest
    assert ("Stopped. 1 attempt is kept." if kept == 1 else "Stopped. 2 attempts are kept.") in rest, rest
    assert "To go on: stark-lsp optimize gate.py" in rest
    assert "--resume\n" in rest
    _, alive = psutil.wait_procs(below, timeout=5)
    assert not alive
    assert path.read_text() == CHAIN
    assert stopped["run"]["state"] == "cancelled"
    assert stopped["best"] is None
    return stopped


def plans(report: dict[str, Any]) -> dict[int, Any]:
    """Return the plans of a report by node."""
    return {attempt["node"]: attempt["plan"] for attempt in report["attempts"]}


@pytest.mark.slow
@pytest.mark.ci
def test_a_stopped_search_leaves_no_process_is_gone_on_with_and_can_be_told_to_end(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    stopped = stopped_after_one(tmp_path, out)
    process = search(tmp_path, "--json", out, "--resume")
    assert process.stdout is not None
    assert any(f"Going on with run {stopped['run']['id']}" in text for text in process.stdout)
    assert "Stopped." in told_to_end(process), "being told to end counts as stopping"
    again = json.loads(out.read_text())
    assert again["run"]["id"] == stopped["run"]["id"]
    assert plans(stopped).items() <= plans(again).items()
    assert len(json.loads(stark("runs", "--json", state=tmp_path / "state").stdout)) == 1


# In every run of the tests a benchmark is gone on with to its end, see tests/bench/test_bench_command.py.
@pytest.mark.slow
def test_a_stopped_search_is_gone_on_with_to_its_end(tmp_path: Path) -> None:
    out, state = tmp_path / "out.json", tmp_path / "state"
    stopped = stopped_after_one(tmp_path, out)
    again = stark("optimize", "gate.py", *OPTIONS, "--json", out, "--resume", state=state, cwd=tmp_path)
    assert again.returncode in (0, 3), again.stdout + again.stderr  # 3 where nothing was faster, on a busy machine
    assert f"Going on with run {stopped['run']['id']}" in again.stdout
    report = json.loads(out.read_text())
    assert report["run"]["id"] == stopped["run"]["id"]
    assert report["run"]["state"] == "finished"
    assert plans(stopped).items() <= plans(report).items()


@pytest.mark.slow
def test_resuming_where_nothing_is_unfinished_begins_anew_and_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, "linear.py", LINEAR)
    done = stark("optimize", path, *QUICK, "--resume", state=tmp_path / "state")
    assert done.returncode == 3, done.stderr
    assert "There is no unfinished run on this class" in done.stdout


@pytest.mark.slow
def test_being_told_to_end_before_anything_was_finished_says_so(tmp_path: Path) -> None:
    write(tmp_path, "gate.py", CHAIN)
    assert "Stopped. No attempt was finished." in told_to_end(search(tmp_path))


def test_a_terminal_that_is_closed_ends_a_search_as_a_hang_up(tmp_path: Path) -> None:
    write(tmp_path, "gate.py", CHAIN)
    out, state = tmp_path / "out.json", tmp_path / "state"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL, *command("optimize", "gate.py", *OPTIONS, "--json", out)],
        cwd=tmp_path,
        env=environment(state),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    while b"Importing torch" not in shown:
        shown += os.read(ours, 65536)
    os.close(ours)
    assert process.wait(timeout=30) == 128 + signal.SIGHUP
    assert json.loads(out.read_text())["run"]["state"] == "cancelled"
    assert "Traceback" not in (state / "cli.log").read_text()


def test_a_hang_up_that_is_ignored_ends_nothing(tmp_path: Path) -> None:
    """As `nohup` has it."""
    program = (
        "import asyncio, signal, sys\n"
        "from stark_lsp.cli.terminal import driver\n"
        "async def work():\n    print('begun', flush=True)\n    await asyncio.sleep(1.0)\n"
        "    return 'came to its end'\n"
        "print(driver.until_stopped(work()).value)\n"
    )
    process = subprocess.Popen(
        ["nohup", sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGHUP)
    assert process.communicate(timeout=30)[0] == "came to its end\n"
