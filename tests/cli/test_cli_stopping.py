"""Ctrl-C ends everything below the program and keeps what was done; `--resume` goes on from there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from cli_cases import CHAIN, LINEAR, QUICK, command, environment, stark, write


def test_a_stopped_search_leaves_no_process_and_is_gone_on_with(tmp_path: Path) -> None:
    path, out, state = write(tmp_path, "gate.py", CHAIN), tmp_path / "out.json", tmp_path / "state"
    options = [*QUICK, "--budget", "2", "--json", str(out)]
    process = subprocess.Popen(
        command("optimize", "gate.py", *options),
        cwd=tmp_path,
        env=environment(state),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
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
    stopped = json.loads(out.read_text())
    # The second is listed without a status, unless it was judged while the signal was on its way.
    kept = sum(attempt["status"] is not None for attempt in stopped["attempts"])
    assert kept in (1, 2), rest
    assert ("Stopped. 1 attempt is kept." if kept == 1 else "Stopped. 2 attempts are kept.") in rest, rest
    assert "To go on: stark-lsp optimize gate.py" in rest
    assert rest.rstrip().endswith("--resume")
    _, alive = psutil.wait_procs(below, timeout=5)
    assert not alive
    assert path.read_text() == CHAIN
    assert stopped["run"]["state"] == "cancelled"
    assert stopped["best"] is None

    again = stark("optimize", "gate.py", *options, "--resume", state=state, cwd=tmp_path)
    assert again.returncode in (0, 3), again.stdout + again.stderr  # 3 where nothing was faster, on a busy machine
    assert f"Going on with run {stopped['run']['id']}" in again.stdout
    report = json.loads(out.read_text())
    assert report["run"]["id"] == stopped["run"]["id"]
    assert report["run"]["state"] == "finished"
    first = {attempt["node"]: attempt["plan"] for attempt in stopped["attempts"]}
    assert first.items() <= {attempt["node"]: attempt["plan"] for attempt in report["attempts"]}.items()
    assert len(json.loads(stark("runs", "--json", state=state).stdout)) == 1


@pytest.mark.slow
def test_resuming_where_nothing_is_unfinished_begins_anew_and_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, "linear.py", LINEAR)
    done = stark("optimize", path, *QUICK, "--resume", state=tmp_path / "state")
    assert done.returncode == 3, done.stderr
    assert "There is no unfinished run on this class" in done.stdout


def test_being_told_to_end_counts_as_stopping(tmp_path: Path) -> None:
    path = write(tmp_path, "gate.py", CHAIN)
    process = subprocess.Popen(
        command("optimize", path, *QUICK), env=environment(tmp_path / "state"), stdout=subprocess.PIPE, text=True
    )
    parent, deadline = psutil.Process(process.pid), time.monotonic() + 240
    while not parent.children() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert parent.children(), "the worker has begun"
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Stopped. No attempt was finished." in rest
