"""A run whose worker is lost again and again stops with a diagnosis, keeps what was paid for, and can be resumed."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from stark_lsp.core.errors import Fault
from stark_lsp.core.events import Ended, Event, Judged, Progress
from stark_lsp.core.run import Budget, Run
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import DeviceChoice, RunState
from stark_lsp.discovery.problems import make_problem
from stark_lsp.runs.options import RunOptions
from stark_lsp.runs.session import RunSession
from stark_lsp.store import RunStore

MODULE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(0.8 * (x + 0.04 * x * x * x)))


def get_inputs():
    return [torch.randn(64, 256)]
"""
OPTIONS = RunOptions(
    budget=Budget(attempts=1),
    evaluation=EvaluationSettings(
        seeds=1,
        warmup=1,
        rounds=3,
        final_rounds=3,
        round_ms=2.0,
        compile_baseline=False,
        profile=False,
        sanitizer=False,
    ),
    interpreter=sys.executable,
)


def kill_workers() -> int:
    """Kill the workers' guards below this process; returns how many there were."""
    killed = 0
    for child in psutil.Process().children():
        try:
            if any(word.endswith("judge/__main__.py") for word in child.cmdline()):
                child.kill()
                killed += 1
        except psutil.NoSuchProcess:
            continue
    return killed


class Saboteur:
    """Kills the worker while an attempt is judged, so many times."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.events: list[Event] = []
        self.judging = False

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Progress):
            # From here on a request is under way, on this worker or on the one that replaces it.
            self.judging = self.judging or event.text == "Checking attempt 1"
            if self.judging and self.left and event.text != "Checking attempt 1" and kill_workers():
                self.left -= 1

    @property
    def told(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Progress)]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunStore:
    monkeypatch.setenv("STARK_STATE_DIR", str(tmp_path / "state"))
    return RunStore(tmp_path / "state" / "runs.sqlite3")


def session(folder: Path, store: RunStore, watcher: Saboteur, options: RunOptions = OPTIONS) -> RunSession:
    path = folder / "model.py"
    path.write_text(MODULE)
    problem = make_problem(str(path), MODULE, None, device=DeviceChoice.CPU)
    return RunSession(problem, options, store=store, emit=watcher, log=lambda line: None)


@pytest.mark.slow
async def test_one_lost_worker_costs_nothing_but_time(tmp_path: Path, store: RunStore) -> None:
    watcher = Saboteur(1)
    run = await session(tmp_path, store, watcher).execute()
    assert watcher.left == 0
    assert run.state is RunState.FINISHED
    assert sum(isinstance(event, Judged) for event in watcher.events) == 1
    assert any("The judge failed" in text and text.endswith("Trying again.") for text in watcher.told)
    assert "The worker was lost; starting another one" in watcher.told


@pytest.mark.slow
async def test_three_lost_workers_in_a_row_stop_the_run_and_the_candidate_is_judged_on_resuming(
    tmp_path: Path, store: RunStore
) -> None:
    watcher = Saboteur(3)
    stopped = session(tmp_path, store, watcher)
    with pytest.raises(Fault, match="The judge failed 3 times in a row"):
        await stopped.execute()
    assert isinstance(watcher.events[-1], Ended)
    kept = store.load(stopped.id)
    assert kept.run.state is RunState.FAILED
    assert "3 times in a row" in kept.run.message
    assert kept.nodes[1].candidate.source
    assert kept.nodes[1].verdict is None
    assert kill_workers() == 0, "a worker is left running"

    again = Saboteur(0)
    resumed = session(tmp_path, store, again, replace(OPTIONS, resume=True))
    run = await resumed.execute()
    assert resumed.resumed
    assert run.id == stopped.id
    assert run.state is RunState.FINISHED
    first = store.load(run.id).nodes[1]
    assert first.candidate == kept.nodes[1].candidate
    assert first.verdict is not None


async def test_a_run_that_is_cancelled_while_it_is_recorded_is_recorded_as_cancelled(tmp_path: Path) -> None:
    class Slow(RunStore):
        def create(self, run: Run) -> None:
            began.set()
            time.sleep(0.3)  # a busy disk
            super().create(run)

    began = threading.Event()
    problem = make_problem(str(tmp_path / "model.py"), MODULE, None, device=DeviceChoice.CPU)
    store = Slow(tmp_path / "slow" / "runs.sqlite3")
    run = RunSession(problem, RunOptions(), store=store, emit=lambda event: None, log=lambda line: None)
    task = asyncio.create_task(run.execute())
    await asyncio.to_thread(began.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.load(run.id).run.state is RunState.CANCELLED
