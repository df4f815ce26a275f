"""`stark-lsp bench` as a user runs it: real problems, real verdicts; killed in the middle and gone on with."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench_cases import CHEAP, SUITE, bench, command, environment

from stark_lsp.bench.ledger import NAME, read
from stark_lsp.bench.rows import Outcome, Row
from stark_lsp.core.run import Node
from stark_lsp.core.status import Mode, VerdictStatus
from stark_lsp.store import RunStore

pytestmark = pytest.mark.slow

FEWER = ("--subset", "1/7,1/9,2/11")
"""One problem of each kind; a second one that can be measured would take as long as these together."""


@dataclass(frozen=True)
class Bench:
    out: Path
    state: Path
    before: dict[int, Node]
    """Nodes of the first cell when the command was killed."""
    rows: dict[str, Row]
    """By problem."""
    said: str


def judged(folder: Path) -> bool:
    """Whether an attempt of a cell has its verdict."""
    paths = list(folder.glob("cells/*/runs.sqlite3"))
    if not paths:
        return False
    try:
        with closing(sqlite3.connect(f"file:{paths[0]}?mode=ro", uri=True)) as connection:
            return bool(connection.execute("SELECT count(*) FROM verdicts WHERE node > 0").fetchone()[0])
    except sqlite3.OperationalError:  # not made yet
        return False


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The suite, killed once in the middle of its first cell and then run to its end."""
    folder = tmp_path_factory.mktemp("bench")
    out, state = folder / "out", folder / "state"
    process = subprocess.Popen(
        command(SUITE, *CHEAP, *FEWER, "--out", out),
        env=environment(state),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 180
    while not judged(out):
        assert process.poll() is None, "it ended before an attempt was judged"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (cell,) = out.glob("cells/*/runs.sqlite3")
    store = RunStore(cell)
    before = store.load(store.list()[0].id).nodes
    store.close()
    finished = bench(SUITE, *CHEAP, *FEWER, "--out", out, "--resume", state=state)
    assert finished.returncode == 0, finished.stderr
    return Bench(out, state, before, {row.problem: row for row in read(out / NAME)}, finished.stdout)


def test_every_problem_has_a_row_and_what_cannot_be_measured_has_its_reason(done: Bench) -> None:
    assert {name: row.outcome for name, row in done.rows.items()} == {
        "1/7": Outcome.MEASURED,
        "1/9": Outcome.UNUSABLE,
        "2/11": Outcome.DEGENERATE,
    }
    assert "not valid Python" in done.rows["1/9"].reason
    assert "any constant would pass" in done.rows["2/11"].reason


def test_a_measured_row_holds_the_evidence(done: Bench) -> None:
    row = done.rows["1/7"]
    assert row.best is not None
    assert row.best.gains["eager"].low is not None
    assert row.best.times["eager"].median_ms > 0
    assert [attempt.status for attempt in row.attempts] == [VerdictStatus.OK] * 2
    assert row.environment is not None
    assert row.environment.device_type == "cpu"
    assert (row.answered_by, row.search.system, row.search.seed) == ("playbook", "stark", 0)
    assert row.spend.calls == 0
    assert row.seconds > 0


def test_the_cell_that_was_under_way_goes_on_in_the_middle(done: Bench) -> None:
    row = done.rows["1/7"]
    assert row.resumed
    assert not done.rows["2/11"].resumed
    assert len(row.attempts) == 2
    kept = {number: node for number, node in done.before.items() if number and node.verdict is not None}
    assert kept, "it was killed after a verdict"
    with_store = RunStore(done.out / "cells" / row.key / "runs.sqlite3")
    stored = with_store.load(row.run_id)
    with_store.close()
    assert stored.run.problem.mode is Mode.AS_CONSTRUCTED
    for number, node in kept.items():
        assert stored.nodes[number].candidate == node.candidate, "what had been written was not written again"


def test_the_store_of_a_cell_can_be_looked_into(done: Bench) -> None:
    row = done.rows["1/7"]
    shown = subprocess.run(
        [*command()[:-1], "runs", "show", row.run_id, "--json"],
        env=environment(done.out / "cells" / row.key),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["run"]["id"] == row.run_id


def test_the_report_stands_beside_the_rows_and_can_be_written_again(done: Bench, tmp_path: Path) -> None:
    text = (done.out / "report.md").read_text()
    assert "1 cells on 1 problems were measured, 2 are left out." in text
    again = bench("report", done.out, "--out", tmp_path / "again", state=done.state)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again" / "report.md").read_text() == text
    assert (tmp_path / "again" / "summary.json").read_bytes() == (done.out / "summary.json").read_bytes()


def test_with_nothing_left_to_run_it_ends_at_once_and_without_resume_it_refuses(done: Bench) -> None:
    rows = (done.out / NAME).read_bytes()
    again = bench(SUITE, *CHEAP, *FEWER, "--out", done.out, "--resume", state=done.state)
    assert again.returncode == 0, again.stderr
    refused = bench(SUITE, *CHEAP, *FEWER, "--out", done.out, state=done.state)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    assert (done.out / NAME).read_bytes() == rows
