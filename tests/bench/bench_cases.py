"""Cells and rows made by hand, and a cheap way to run the command."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from stark_lsp.bench.cells import Cell
from stark_lsp.bench.rows import Attempt, Best, Gain, Outcome, Row, of_failure
from stark_lsp.core.run import Budget
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import AgentRole, DeviceChoice, VerdictStatus
from stark_lsp.core.verdict import Baselines, Environment, Timing

SUITE = Path(__file__).parent.parent / "data" / "suite"
"""Two problems of ours, one that is degenerate, one that is not Python."""

ENVIRONMENT = Environment("A device", "cuda", "3.11", "/usr/bin/python", "2.9")
MS = Timing(1.0, 0.9, 1.1, 20)

CHEAP = (
    *("--device", "cpu", "--baselines", "eager", "--budget", "2", "--python", sys.executable),
    *("--set", "seeds=1", "--set", "warmup=1", "--set", "rounds=3", "--set", "final_rounds=3", "--set", "round_ms=1"),
    *("--set", "profile=false", "--set", "special_inputs=false", "--set", "gradients=false"),
)
"""Options under which a cell is about verdicts, never about times."""


def cell(problem: str = "1/7", system: str = "stark", seed: int = 0, text: str = "text") -> Cell:
    level, _, number = problem.partition("/")
    return Cell(
        level=int(level),
        id=number,
        file=f"{number}_problem.py",
        text=text,
        model="playbook",
        search=SearchSettings(system=system, seed=seed, attempts=2),
        budget=Budget(2),
        evaluation=EvaluationSettings(),
        device=DeviceChoice.CPU,
    )


def row(
    problem: str = "1/7",
    system: str = "stark",
    seed: int = 0,
    *,
    gains: dict[str, tuple[float, float, float] | float] | None = None,
    attempts: str = "OK",
    baselines: Baselines | None = None,
    device: str = "A device",
) -> Row:
    """Return a measured row.

    Parameters
    ----------
    gains
        By baseline, with interval or without; None for a problem that was not solved.
    attempts
        Verdicts, separated by spaces.
    """
    best = None
    if gains is not None:
        found = {name: Gain(*value) if isinstance(value, tuple) else Gain(value) for name, value in gains.items()}
        best = Best(1, MS, found, confirmed=True)
    made = tuple(
        Attempt(number, 0, AgentRole.CODE, VerdictStatus(status)) for number, status in enumerate(attempts.split(), 1)
    )
    return replace(
        of_failure(cell(problem, system, seed), Outcome.MEASURED, ""),
        environment=replace(ENVIRONMENT, device=device),
        baselines=baselines or Baselines(MS, MS, "", MS),
        best=best,
        attempts=made,
        answered_by="playbook",
    )


def failed(problem: str, outcome: Outcome, reason: str = "It gives the same result for different inputs.") -> Row:
    return of_failure(cell(problem), outcome, reason)


def environment(state: Path) -> dict[str, str]:
    """Return the environment of a command with a state directory of its own and no key."""
    env = {**os.environ, "STARK_STATE_DIR": str(state), "COLUMNS": "160"}
    env.pop("ANTHROPIC_API_KEY", None)
    return env


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "stark_lsp", "bench", *map(str, arguments)]


def bench(*arguments: str | Path, state: Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run `stark-lsp bench` to its end."""
    return subprocess.run(
        command(*arguments),
        env=environment(state),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
