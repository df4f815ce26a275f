"""Runs with verdicts that were made up, to see how they are shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Anchor, Plan
from stark_lsp.core.problem import Span
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.status import AgentRole, Dialect, RunState, VerdictStatus
from stark_lsp.core.verdict import Baselines, Environment, Interval, Reference, Timing, Verdict
from stark_lsp.discovery.problems import make_problem

ENVIRONMENT = Environment(
    device="Example CPU",
    device_type="cpu",
    python="3.11.7",
    interpreter="/usr/bin/python3",
    torch="2.13.0",
    threads=2,
    dtypes=("float32",),
    shapes=("512x2048",),
)
EAGER = Timing(30.0, 29.8, 30.4, 40)

SOURCE = """import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x, approximate="tanh")
"""


def reference(*, compile_ms: float | None = 20.0) -> Reference:
    """Return a prepared reference: eager takes 30 ms."""
    timed = Timing(compile_ms, compile_ms * 0.99, compile_ms * 1.01, 40) if compile_ms is not None else None
    return Reference(ENVIRONMENT, Baselines(EAGER, timed, "" if timed else "Switched off."))


def verified(ms: float, *, vs_compile: float | None = 1.5) -> Verdict:
    """Return the verdict of a candidate that takes `ms`."""
    ratio = EAGER.median_ms / ms
    return Verdict(
        VerdictStatus.OK,
        runtime=Timing(ms, ms * 0.99, ms * 1.01, 40),
        speedup_vs_eager=Interval(ratio, ratio * 0.98, ratio * 1.02),
        speedup_vs_compile=Interval(vs_compile, vs_compile * 0.98, vs_compile * 1.02) if vs_compile else None,
        environment=ENVIRONMENT,
    )


def plan(title: str = "Fuse the gate", **parameters: str) -> Plan:
    """Return a plan with an advice of two paragraphs."""
    return Plan(
        title,
        "Six passes over memory become **one**.\n\nMore for those who want it.",
        anchors=(Anchor(Span(15, 16), "..."),),
        parameters=tuple(parameters.items()),
    )


def node(number: int, parent: int, verdict: Verdict | None, made: Plan | None = None, *, repair: bool = False) -> Node:
    """Return an attempt."""
    role = AgentRole.DEBUG if repair else AgentRole.CODE
    return Node(number, parent, role, Candidate(SOURCE, Dialect.TORCH), made or plan(), verdict)


def finished_run(path: Path, run_id: str = "1f3a77c0", *, best: int | None = 1) -> tuple[Run, dict[int, Node]]:
    """Return a run on `path` with three attempts, of which the first won."""
    problem = make_problem(str(path), path.read_text(), None)
    run = Run(
        run_id,
        problem,
        seed=0,
        model="playbook",
        budget=Budget(3),
        state=RunState.FINISHED,
        message="2.00x as fast as eager." if best else "Nothing verified is faster than eager PyTorch beyond doubt.",
        created="2026-01-02T03:04:05+00:00",
        finished="2026-01-02T03:05:05+00:00",
        reference=reference(),
        best=best,
    )
    root = Node(0, None, AgentRole.ROOT, Candidate(problem.slice.text, Dialect.TORCH), verdict=verified(30.0))
    failed = Verdict(VerdictStatus.COMPILE_ERROR, "kernel.cpp:3: error: expected ';'")
    nodes = {
        0: root,
        1: node(1, 0, verified(15.0), plan(threads="2", width="8")),
        2: node(2, 0, failed, plan(threads="2", width="16")),
        3: node(3, 2, verified(16.0), plan(threads="1"), repair=True),
    }
    if best is None:
        nodes[1] = replace(nodes[1], verdict=verified(31.0))
    return run, nodes
