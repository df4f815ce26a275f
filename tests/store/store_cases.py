"""Runs, exchanges and steering that were made up."""

from __future__ import annotations

from typing import Any

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.conversation import Answer, Exchange, Loss, Question, Tool, Usage
from stark_lsp.core.plan import Plan
from stark_lsp.core.problem import InputSpec, Problem, SourceSlice, Span
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.status import AgentRole, Dialect, ModelRole, RunState, StopReason, VerdictStatus
from stark_lsp.core.steering import Steering, SteeringKind
from stark_lsp.core.verdict import Baselines, Environment, Interval, Reference, Timing, Verdict

TEXT = "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n"
PROBLEM = Problem(
    path="/home/ada/code/net/model.py",
    qualname="Model",
    text=TEXT,
    slice=SourceSlice(TEXT, (0, 1, 2, 3, 4)),
    class_span=Span(3, 4),
    inputs=InputSpec(),
)
ENVIRONMENT = Environment("a CPU", "cpu", "3.11", "/home/ada/code/.venv/bin/python", "2.13")
REFERENCE = Reference(ENVIRONMENT, Baselines(Timing(10.0, 9.9, 10.1, 100)))
TOOL = Tool("submit_plan", "Hand the plan in.", {"type": "object", "properties": {"title": {"type": "string"}}})
SYSTEM = "You write fast code. " * 40


def run(run_id: str = "r1", state: RunState = RunState.RUNNING, **rest: Any) -> Run:
    """Return a run on `PROBLEM`."""
    return Run(run_id, PROBLEM, 0, "claude", Budget(5), state, created="2026-01-02T03:04:05+00:00", **rest)


def tree() -> tuple[Node, ...]:
    """Return a root, a verified attempt and one that did not compile."""
    timing = Timing(5.0, 4.9, 5.1, 100)
    root = Verdict(VerdictStatus.OK, "the reference", runtime=Timing(10.0, 9.9, 10.1, 100), environment=ENVIRONMENT)
    good = Verdict(VerdictStatus.OK, runtime=timing, speedup_vs_eager=Interval(2.0, 1.9, 2.1), environment=ENVIRONMENT)
    bad = Verdict(
        VerdictStatus.COMPILE_ERROR, "expected ';'", log="-I/home/ada/include /home/ada/code/net/k.cpp:3: error"
    )
    plan = Plan("Fuse the gate", "Six passes become one.")
    return (
        Node(0, None, AgentRole.ROOT, Candidate(TEXT, Dialect.TORCH, "Model"), verdict=root),
        Node(1, 0, AgentRole.CODE, Candidate("class ModelNew: ...\n", Dialect.TORCH), plan, good),
        Node(2, 1, AgentRole.DEBUG, Candidate("# repair\n"), plan, bad),
    )


def exchange(
    attempt: int = 1,
    role: ModelRole = ModelRole.PLAN,
    ordinal: int = 0,
    *,
    body: str = "",
    dollars: float | None = 0.25,
    usage: Usage | None = None,
    **answer: Any,
) -> Exchange:
    """Return a question with its answer; the parts that are alike in all questions are so here too."""
    question = Question(
        attempt, role, SYSTEM, "The class: " + TEXT, body or f"Attempt {attempt}", TOOL, "claude", 0.8, ordinal=ordinal
    )
    told = {"text": f"answer {attempt}", "tool_input": {"title": f"idea {attempt}"}, **answer}
    return Exchange(
        question,
        Answer(StopReason.COMPLETE, usage=usage or Usage(100, 20, 300, 50), model="claude-x", latency_s=1.5, **told),
        dollars,
        "2026-01-02T03:05:00+00:00",
    )


def loss(attempt: int = 2, *, dollars: float | None = 0.125, usage: Usage | None = None) -> Loss:
    """Return what a call that was cancelled has cost."""
    used = usage or Usage(90, 10, 200, 30)
    return Loss(attempt, ModelRole.CODE, 0, "claude", used, dollars, "2026-01-02T03:06:00+00:00", "cancelled")


def steerings() -> tuple[Steering, ...]:
    """Return one of several kinds."""
    return (
        Steering(SteeringKind.PIN, 1, attempt=1, when="2026-01-02T03:05:00+00:00"),
        Steering(SteeringKind.HINT, text="x is contiguous"),
        Steering(SteeringKind.BUDGET, budget=Budget(8, dollars=2.0)),
        Steering(SteeringKind.PAUSE),
    )
