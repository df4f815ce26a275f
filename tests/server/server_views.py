"""Runs as the editor shows them, made by hand for the tests of this room."""

from __future__ import annotations

from stark_lsp.core.candidate import Candidate
from stark_lsp.core.plan import Anchor, Plan
from stark_lsp.core.problem import InputSpec, Problem, SourceSlice, Span
from stark_lsp.core.run import Budget, Node, Run
from stark_lsp.core.status import AgentRole, InputSource, VerdictStatus
from stark_lsp.core.verdict import Baselines, Environment, Interval, Reference, Timing, Verdict
from stark_lsp.server.features.hover import hover_at
from stark_lsp.server.runs.views import Phase, RunView
from stark_lsp.server.text.markup import unmarked

PATH = "/tmp/stark-server-tests/model.py"
URI = f"file://{PATH}"
TEXT = """import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        z = y + 1
        return z


def get_inputs():
    return [torch.randn(8, 8)]
"""

REFERENCE = Reference(
    Environment(
        "Some CPU", "cpu", "3.11", "/usr/bin/python", "2.13.0", threads=2, dtypes=("float32",), shapes=("8x8",)
    ),
    Baselines(Timing(2.0, 1.9, 2.1, 10), Timing(1.5, 1.4, 1.6, 10)),
)


def problem() -> Problem:
    lines = TEXT.count("\n")
    return Problem(
        PATH,
        "Model",
        TEXT,
        SourceSlice(TEXT, tuple(range(lines))),
        Span(4, 8),
        InputSpec(InputSource.FUNCTIONS, "get_inputs"),
    )


def plan(title: str, start: int = 6, end: int = 7, *, advice: str = "Read **once**.", strategy: str = "fuse") -> Plan:
    text = "\n".join(TEXT.split("\n")[start : end + 1])
    return Plan(title, advice, (Anchor(Span(start, end), text),), strategy=strategy, parameters=(("threads", "2"),))


def verified(speedup: float) -> Verdict:
    interval = Interval(speedup, speedup * 0.95, speedup * 1.05)
    return Verdict(
        VerdictStatus.OK, runtime=Timing(2 / speedup, 1 / speedup, 3 / speedup, 9), speedup_vs_eager=interval
    )


def failed(status: VerdictStatus, message: str) -> Verdict:
    return Verdict(status, message)


def node(number: int, parent: int, made: Plan, verdict: Verdict | None) -> Node:
    return Node(number, parent, AgentRole.CODE, Candidate(f"# {number}"), made, verdict)


def view(*nodes: Node, phase: Phase = Phase.RUNNING) -> RunView:
    run = Run("abcd1234", problem(), 0, "playbook", Budget(), reference=REFERENCE, message="2.00x faster than eager.")
    shown = RunView(run.id, URI, run.problem, run, phase)
    shown.nodes = {0: Node(0, None, AgentRole.ROOT, Candidate(TEXT)), **{node.id: node for node in nodes}}
    shown.best = nodes[0] if nodes else None
    for item in nodes:
        if item.plan is not None:
            shown.add_plan(item.id, item.plan, TEXT)
    return shown


def hovered(shown: RunView) -> tuple[str, str]:
    """Return what a hover over the lines of its plans says, as Markdown and as plain text."""
    found = hover_at([shown], 6)
    assert found is not None
    return found[0], unmarked(found[0])
