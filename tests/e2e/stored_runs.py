"""Runs in the store as earlier sittings would have left them, made by its own means: nothing is judged."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from e2e_editor import MODULE

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Anchor, Plan
from stark_lsp.core.problem import Problem, Span
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.settings import SearchSettings
from stark_lsp.core.status import AgentRole, Decision, DeviceChoice, Dialect, Limit, RunState, VerdictStatus
from stark_lsp.core.verdict import Baselines, Environment, Interval, Reference, Timing, Verdict
from stark_lsp.core.wire import to_wire
from stark_lsp.discovery.problems import make_problem
from stark_lsp.store import RunStore

CANDIDATE = """import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(x, approximate="tanh")
"""
ANCHOR = next(number for number, line in enumerate(MODULE.split("\n")) if "torch.pow" in line)
"""The line of `MODULE` that the plan is about."""


def store_in(state: Path) -> RunStore:
    return RunStore(state / "runs.sqlite3")


def problem_in(file: Path, text: str = MODULE) -> Problem:
    return make_problem(str(file), text, "Model", device=DeviceChoice.CPU)


def leave(
    state: Path,
    file: Path,
    run_id: str,
    how: RunState = RunState.FINISHED,
    *,
    gain: float | None = 2.0,
    decision: Decision = Decision.OPEN,
    attempts: int = 2,
    created: str = "2026-01-01T00:00:00+00:00",
    device: str = "a CPU",
    text: str = MODULE,
) -> Run:
    """Store a run on `MODULE` with one verified attempt, which is its proposal if the run has finished."""
    environment = Environment(device, "cpu", "3.11", "/usr/bin/python", "2.13")
    problem = problem_in(file, text)
    timing = Timing(1.0, 0.9, 1.1, 9)
    root = Verdict(VerdictStatus.OK, runtime=timing, environment=environment)
    ratio = Interval(gain or 1.0, (gain or 1.0) * 0.98, (gain or 1.0) * 1.02)
    good = Verdict(VerdictStatus.OK, runtime=timing, speedup_vs_eager=ratio, environment=environment)
    anchor = next(number for number, line in enumerate(text.split("\n")) if "torch.pow" in line)
    line = problem.text.split("\n")[anchor]
    plan = Plan("One pass", "Read it once.", (Anchor(Span(anchor, anchor), line),))
    nodes = (
        Node(0, None, AgentRole.ROOT, Candidate(problem.slice.text, Dialect.TORCH, "Model"), verdict=root),
        Node(1, 0, AgentRole.CODE, Candidate(CANDIDATE, Dialect.TORCH), plan, good),
    )
    run = Run(
        run_id,
        problem,
        0,
        "playbook",
        Budget(attempts),
        how,
        message=f"{gain:.2f}x as fast as eager." if how is RunState.FINISHED else "",
        created=created,
        reference=Reference(environment, Baselines(timing)),
        best=1 if how is RunState.FINISHED and gain is not None else None,
        decision=decision,
        ended_by=Limit.ATTEMPTS if how is RunState.FINISHED else None,
        settings=to_wire(SearchSettings(attempts=attempts)),
    )
    store = store_in(state)
    store.create(run, nodes)
    store.close()
    return run


def leave_killed(state: Path, file: Path, run_id: str) -> None:
    """Store a run that counts as under way in a process that is gone."""
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "from stored_runs import RunState, leave\n"
        "leave(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], RunState.RUNNING)\n"
    )
    here = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", code, here, str(state), str(file), run_id], check=True, timeout=60)


def decided(state: Path, run_id: str) -> Decision:
    store = store_in(state)
    found = store.get(run_id).decision
    store.close()
    return found


def stored(state: Path, run_id: str) -> Run:
    store = store_in(state)
    found = store.get(run_id)
    store.close()
    return replace(found)
