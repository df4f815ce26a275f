"""Several processes of one machine: a lost one costs nothing but time, and all end with whoever started them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import aclosing
from pathlib import Path

import pytest
from bench_cases import cell
from scripted_cells import begun, row_of, until

from stark_lsp.bench.cells import Cell
from stark_lsp.bench.crew import PROGRAM, Processes
from stark_lsp.bench.rows import Outcome, Row
from stark_lsp.core.wire import to_wire

SCRIPT = (sys.executable, str(Path(__file__).with_name("scripted_cells.py")))
MODULE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.exp()


def get_inputs():
    return [torch.randn(64)]


def get_init_inputs():
    return []
"""
CELLS = [cell(f"1/{number}") for number in range(1, 5)]


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "marks"
    folder.mkdir()
    monkeypatch.setenv("SCRIPTED_MARKS", str(folder))
    return folder


async def collect(crew: Processes, cells: list[Cell]) -> list[Row]:
    async with aclosing(crew.results(cells, lambda key, text: None)) as results:
        return [result.row async for result in results]


@pytest.mark.slow
@pytest.mark.ci
async def test_each_process_runs_one_cell_at_a_time_and_all_rows_come(tmp_path: Path, marks: Path) -> None:
    crew = Processes(tmp_path, None, [{"SCRIPTED_S": "0.1"}] * 2, SCRIPT)
    rows = await collect(crew, CELLS)
    assert sorted(rows, key=lambda row: row.key) == sorted(map(row_of, CELLS), key=lambda row: row.key)
    assert crew.running == {}


@pytest.mark.slow
@pytest.mark.ci
async def test_a_cell_whose_process_is_killed_is_run_again_and_the_rows_are_the_same(
    tmp_path: Path, marks: Path
) -> None:
    crew = Processes(tmp_path, None, [{"SCRIPTED_S": "2"}] * 2, SCRIPT)
    victim = CELLS[1].key

    async def kill() -> None:
        await until(lambda: begun(marks, victim))
        os.kill(crew.running[victim], signal.SIGKILL)

    rows, _ = await asyncio.gather(collect(crew, CELLS), kill())
    assert sorted(rows, key=lambda row: row.key) == sorted(map(row_of, CELLS), key=lambda row: row.key)
    assert len(begun(marks, victim)) == 2


@pytest.mark.slow
@pytest.mark.ci
async def test_a_cell_that_kills_every_process_is_given_up(tmp_path: Path) -> None:
    crew = Processes(
        tmp_path, None, [{}], (sys.executable, "-c", "import os; os.write(2, b'why it broke'); os.abort()")
    )
    (row,) = await collect(crew, CELLS[:1])
    assert row.outcome is Outcome.FAULT
    assert "lost 3 times" in row.reason
    (log,) = tmp_path.rglob("log.txt")
    assert str(log) in row.reason
    assert "why it broke" in log.read_text()


@pytest.mark.slow
@pytest.mark.ci
async def test_when_it_is_stopped_the_cells_under_way_are_stopped_too(tmp_path: Path, marks: Path) -> None:
    crew = Processes(tmp_path, None, [{"SCRIPTED_S": "600"}] * 2, SCRIPT)
    work = asyncio.ensure_future(collect(crew, CELLS))
    await until(lambda: all(begun(marks, one.key) for one in CELLS[:2]))
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert {path.stem for path in marks.glob("*.stopped")} == {one.key for one in CELLS[:2]}


@pytest.mark.slow
@pytest.mark.ci
def test_the_end_of_a_terminal_is_told_by_whoever_started_a_process(tmp_path: Path) -> None:
    text = f"open({str(tmp_path / 'begun')!r}, 'w').close()\nimport time\ntime.sleep(60)\n"
    request = {"cell": to_wire(cell(text=text + MODULE)), "folder": str(tmp_path), "interpreter": sys.executable}
    with subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as child:
        assert child.stdin is not None
        child.stdin.write(json.dumps(request) + "\n")
        child.stdin.flush()
        while not (tmp_path / "begun").exists():
            assert child.poll() is None
            time.sleep(0.05)
        child.send_signal(signal.SIGHUP)
        child.stdin.close()
        assert child.wait(60) == 130


def test_a_folder_in_which_a_benchmark_is_begun_gives_its_processes_no_code(tmp_path: Path) -> None:
    for name in ("asyncio", "json", "stark_lsp", "statistics"):
        (tmp_path / f"{name}.py").write_text("import os\nos.write(1, b'run')\n")
    ended = subprocess.run(PROGRAM, cwd=tmp_path, input=b"{}\n", capture_output=True, timeout=60, check=False)
    assert b"run" not in ended.stdout
    assert b"KeyError: 'cell'" in ended.stderr  # it came to reading its request
