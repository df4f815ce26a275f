"""A real scheduler and real workers: one is killed in the middle, and the results are the same."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
from bench_cases import cell
from scripted_cells import begun, row_of, until

from stark_lsp.bench.cells import Cell
from stark_lsp.bench.cluster import Cluster
from stark_lsp.bench.crew import Result
from stark_lsp.bench.remote import unpack
from stark_lsp.core.errors import BadInput

pytest.importorskip("distributed")

HERE = Path(__file__).parent
CELLS = [cell(f"1/{number}") for number in range(1, 5)]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Workers:
    """A scheduler with two workers, each in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.marks = folder / "marks"
        self.marks.mkdir()
        self._folder = folder
        port = free_port()
        self.address = f"tcp://127.0.0.1:{port}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self._start("scheduler", "--host", "127.0.0.1", "--port", str(port))
        for name in ("one", "two"):
            local = folder / f"local-{name}"
            self._start(
                *("worker", self.address, "--no-nanny", "--nthreads", "1", "--resources", "GPU=1"),
                *("--name", name, "--preload", str(HERE / "scripted_cells.py"), "--local-directory", str(local)),
            )

    def _start(self, *arguments: str) -> None:
        environment = {
            **os.environ,
            "SCRIPTED_MARKS": str(self.marks),
            "SCRIPTED_S": "5",
            "STARK_STATE_DIR": str(self._folder / f"state-{len(self.processes)}"),
            "PYTHONPATH": str(HERE),
        }
        command = [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], "--no-dashboard", *arguments[1:]]
        with (self._folder / "log.txt").open("ab") as log:
            self.processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    monkeypatch.setattr("stark_lsp.bench.cluster.WORKERS_S", 60.0)
    started = Workers(tmp_path)
    try:
        yield started
    finally:
        started.end()


async def collect(crew: Cluster, cells: list[Cell], told: list[str] | None = None) -> list[Result]:
    def say(key: str, text: str) -> None:
        if told is not None:
            told.append(f"{key} {text}")

    async with aclosing(crew.results(cells, say)) as results:
        return [result async for result in results]


@pytest.mark.slow
async def test_a_worker_is_killed_and_the_results_are_the_same(workers: Workers, tmp_path: Path) -> None:
    told: list[str] = []

    async def kill() -> None:
        pids = [process.pid for process in workers.processes[1:]]
        await until(lambda: any(pid in pids for one in CELLS for pid in begun(workers.marks, one.key)))
        victim = next(pid for one in CELLS for pid in begun(workers.marks, one.key))
        os.kill(victim, signal.SIGKILL)

    results, _ = await asyncio.gather(collect(Cluster(workers.address), CELLS, told), kill())
    rows = sorted((replace(result.row, host="") for result in results), key=lambda row: row.key)
    assert rows == sorted((replace(row_of(one), host="") for one in CELLS), key=lambda row: row.key)
    assert sum(len(begun(workers.marks, one.key)) for one in CELLS) == len(CELLS) + 1, "one cell was begun twice"
    assert f"{CELLS[-1].key} working" in told
    unpack(results[0].files, tmp_path / "kept")
    assert (tmp_path / "kept" / "log.txt").read_text() == f"{results[0].row.key} is done\n"


@pytest.mark.slow
@pytest.mark.ci
async def test_when_it_is_stopped_a_cell_under_way_is_stopped_on_its_worker(workers: Workers) -> None:
    long = [replace(one, text=f"other {index}") for index, one in enumerate(CELLS[:1])]
    work = asyncio.ensure_future(collect(Cluster(workers.address), long))
    await until(lambda: begun(workers.marks, long[0].key))
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    await until(lambda: (workers.marks / f"{long[0].key}.stopped").exists())


@pytest.mark.slow
@pytest.mark.ci
async def test_where_no_scheduler_answers_the_error_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stark_lsp.bench.cluster.CONNECT_S", 1)
    with pytest.raises(BadInput, match="No scheduler answers") as caught:
        await collect(Cluster(f"tcp://127.0.0.1:{free_port()}"), CELLS)
    assert "dask scheduler" in caught.value.cure


@pytest.mark.slow
@pytest.mark.ci
async def test_without_dask_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(BadInput, match="not installed") as caught:
        await collect(Cluster("tcp://127.0.0.1:1"), CELLS)
    assert "pip install distributed" in caught.value.cure
