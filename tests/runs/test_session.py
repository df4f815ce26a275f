"""One run with everything real: worker, playbook, compiler, store."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stark_lsp.core.errors import BadInput
from stark_lsp.core.events import Ended, Event, Judged, Planned, Prepared
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Budget
from stark_lsp.core.settings import EvaluationSettings
from stark_lsp.core.status import DeviceChoice, RunState
from stark_lsp.discovery.problems import make_problem
from stark_lsp.runs.options import RunOptions
from stark_lsp.runs.session import RunSession
from stark_lsp.store import RunStore

# A chain that eager takes many passes for: its kernel is several times faster on any machine.
MODULE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        y = torch.tanh(0.8 * (x + 0.04 * x * x * x))
        y = torch.sigmoid(y) * x + torch.exp(-x * x)
        return 0.5 * x * (1.0 + y) - torch.abs(y) * 0.1


def get_inputs():
    return [torch.randn(512, 1024)]
"""
QUICK = EvaluationSettings(
    seeds=2, warmup=1, rounds=6, final_rounds=6, round_ms=5.0, compile_baseline=False, profile=False
)


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    path = tmp_path / "model.py"
    path.write_text(MODULE)
    return make_problem(str(path), MODULE, None, device=DeviceChoice.CPU)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunStore:
    monkeypatch.setenv("STARK_STATE_DIR", str(tmp_path / "state"))
    return RunStore(tmp_path / "state" / "runs.sqlite3")


OPTIONS = RunOptions(budget=Budget(attempts=2), evaluation=QUICK, interpreter=sys.executable)


def session(problem: Problem, options: RunOptions, store: RunStore, events: list[Event]) -> RunSession:
    """Return a session that collects its events."""
    return RunSession(problem, options, store=store, emit=events.append, log=lambda line: None)


@pytest.mark.slow
@pytest.mark.timing
async def test_a_run_ends_with_a_confirmed_proposal_and_is_stored(problem: Problem, store: RunStore) -> None:
    events: list[Event] = []
    run = await session(problem, OPTIONS, store, events).execute()
    assert run.state is RunState.FINISHED
    assert run.best is not None
    kinds = [type(event) for event in events if isinstance(event, (Prepared, Planned, Judged, Ended))]
    assert kinds[0] is Prepared
    assert kinds[1] is Planned
    assert kinds.count(Judged) == 2
    assert kinds[-1] is Ended
    stored = store.load(run.id)
    assert stored.run == run
    best = stored.nodes[run.best]
    assert best.verdict is not None
    assert best.verdict.speedup_vs_eager is not None
    assert best.verdict.speedup_vs_eager.low > 1
    assert "in place of" in best.candidate.source


@pytest.mark.slow
@pytest.mark.timing
async def test_a_cancelled_run_keeps_its_verdicts_and_goes_on_from_there(problem: Problem, store: RunStore) -> None:
    events: list[Event] = []
    first = session(problem, replace(OPTIONS, budget=Budget(attempts=3)), store, events)
    task = asyncio.create_task(first.execute())
    while not any(isinstance(event, Judged) for event in events):
        await asyncio.sleep(0.02)
        assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.load(first.id).run.state is RunState.CANCELLED
    kept = store.load(first.id).nodes[1].verdict
    assert kept is not None

    again: list[Event] = []
    second = session(problem, replace(OPTIONS, resume=True), store, again)
    run = await second.execute()
    assert second.resumed
    assert run.id == first.id
    assert run.state is RunState.FINISHED
    judged = [event.node.id for event in again if isinstance(event, Judged)]
    assert 1 not in judged, "a finished attempt was repeated"


@pytest.mark.slow
@pytest.mark.timing
async def test_a_time_limit_ends_the_search_and_still_proposes(problem: Problem, store: RunStore) -> None:
    events: list[Event] = []
    limited = session(problem, replace(OPTIONS, budget=Budget(attempts=30, seconds=0.01)), store, events)
    run = await limited.execute()
    assert run.state is RunState.FINISHED
    assert "time limit" in run.message
    assert all(node.verdict is not None for node in limited.nodes.values() if node.parent is not None)


HANGS = """import time

import torch._inductor.compile_fx

torch._inductor.compile_fx.compile_fx = lambda *given, **named: time.sleep(1000)
"""


@pytest.mark.slow
@pytest.mark.ci
async def test_behind_a_time_limit_torch_compile_is_not_waited_for_until_it_is_done(
    problem: Problem, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stark_lsp.runs.session.COMPILING_S", 1.0)
    text = MODULE.replace("import torch\n", f"import torch\n{HANGS}", 1)
    Path(problem.path).write_text(text)
    hanging = make_problem(problem.path, text, None, device=DeviceChoice.CPU)
    events: list[Event] = []
    options = replace(
        OPTIONS, budget=Budget(attempts=30, seconds=1.0), evaluation=replace(QUICK, compile_baseline=True)
    )
    run = await asyncio.wait_for(session(hanging, options, store, events).execute(), 120)
    assert run.state is RunState.FINISHED
    assert "time limit" in run.message
    told = [str(event) for event in events]
    assert any("torch.compile was still at work 1 s after the time limit" in text for text in told)


async def test_bad_input_is_recorded_and_raised(problem: Problem, store: RunStore) -> None:
    text = MODULE.replace("return [torch", "raise RuntimeError('no data'); return [torch")
    events: list[Event] = []
    broken = session(replace(problem, text=text), OPTIONS, store, events)
    with pytest.raises(BadInput, match="no data"):
        await broken.execute()
    assert store.load(broken.id).run.state is RunState.FAILED
    assert isinstance(events[-1], Ended)


def test_an_unknown_model_names_those_there_are(problem: Problem, store: RunStore) -> None:
    with pytest.raises(BadInput, match="playbook"):
        session(problem, replace(OPTIONS, model="oracle"), store, [])
