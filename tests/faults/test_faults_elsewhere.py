"""A finalist whose calls are short is timed in several processes: it must be right, and judged, in all of them."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fault_watch import MARK, marked

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

HERE = Path(__file__).resolve().parent
EXPECTED = {"raises": "LOAD_ERROR", "wrong": "WRONG_RESULT", "dies": "CRASHED", "writes": "MUTATED_INPUT"}
"""What is said of a candidate that does this in another process only, see `several_driver.OTHERS`."""


@pytest.mark.slow
def test_a_finalist_is_judged_by_all_of_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = secrets.token_hex(8)
    monkeypatch.setenv(MARK, mark)
    done = subprocess.run(
        [sys.executable, str(HERE / "several_driver.py"), str(tmp_path)],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    honest = told["honest"]
    assert honest["status"] == "OK", honest
    [note] = [note for note in honest["notes"] if "processes" in note]
    assert note.startswith("Its calls are short, so it was timed in 3 processes, where one took ")
    runtime, speedup = honest["runtime"], honest["speedup_vs_eager"]
    assert runtime["low_ms"] <= runtime["median_ms"] <= runtime["high_ms"]
    assert speedup["low"] <= speedup["value"] <= speedup["high"]
    assert honest["said"].count("Timing the candidate in another process") == 2
    # Where others are timed, nothing of the first is left that could disturb them.
    assert honest["alive"] == [False, False]
    stages = [name for name, _ in honest["stages_s"]]
    assert sorted(stages) == sorted(set(stages)), stages
    # What it is in another process counts as what it is.
    for name, status in EXPECTED.items():
        assert told[name]["status"] == status, told[name]
        assert told[name]["message"].endswith("(in another process of it)"), told[name]
        assert told[name]["failed_in"] == "time", told[name]
    assert "not here" in told["raises"]["message"]
    assert "last words" in told["dies"]["log"]
    # A kernel that is built at the first call is there before anything is timed.
    builds = told["builds"]
    assert builds["status"] == "OK", builds
    assert not [note for note in builds["notes"] if "built a kernel" in note]
    assert told["under a tool"] == "seen ", "the pass that tools for finalists are put around"
    assert not marked(mark), "something is left running"
