"""A run killed at any moment, amid a sweep too, goes on without repeating a finished attempt."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stark_lsp.core.run import Node
from stark_lsp.core.status import RunState
from stark_lsp.store import RunStore

SCRIPT = Path(__file__).with_name("killed_run.py")


def start(folder: Path, moment: str) -> int:
    """Run to the moment and return the exit status."""
    command = [sys.executable, str(SCRIPT), str(folder / "state" / "runs.sqlite3"), str(folder / "evaluated"), moment]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def result(folder: Path) -> tuple[RunState, str, dict[int, Node], str]:
    store = RunStore(folder / "state" / "runs.sqlite3")
    stored = store.load("r1")
    store.close()
    return stored.run.state, stored.run.message, stored.nodes, stored.rng_state


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    assert start(folder, "none") == 0
    return folder


@pytest.mark.parametrize(
    "moment",
    [
        "before-open:3",
        "after-open:1",
        "evaluated:4",
        "before-verdict:2",
        "after-verdict:5",
        "in-transaction:9",
        "glanced:1",
        "glanced:6",
        "glanced:9",
    ],
)
def test_a_killed_run_ends_as_the_uninterrupted_one(moment: str, uninterrupted: Path, tmp_path: Path) -> None:
    assert start(tmp_path, moment) == -signal.SIGKILL
    state, _, nodes, _ = result(tmp_path)
    assert state is RunState.RUNNING
    finished = [repr(one.candidate.source) for one in nodes.values() if one.verdict is not None]
    log = tmp_path / "evaluated"
    before = log.read_text().splitlines() if log.exists() else []
    assert start(tmp_path, "none") == 0
    assert result(tmp_path) == result(uninterrupted)
    again = log.read_text().splitlines()[len(before) :]
    assert not set(again) & set(finished)
    assert list(dict.fromkeys(before + again)) == (uninterrupted / "evaluated").read_text().splitlines()


def test_a_run_killed_again_and_again_still_comes_to_its_end(uninterrupted: Path, tmp_path: Path) -> None:
    for moment in ("after-open:2", "glanced:2", "after-verdict:1", "before-open:2", "glanced:3", "evaluated:1"):
        assert start(tmp_path, moment) == -signal.SIGKILL
    assert start(tmp_path, "none") == 0
    assert result(tmp_path) == result(uninterrupted)
