"""Runs with exchanges in a store of their own, as a run with a language model leaves them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cli_runs import finished_run, node, plan

from stark_lsp.core.conversation import Answer, Exchange, Question, Tool, Usage
from stark_lsp.core.status import ModelRole, RunState, StopReason, VerdictStatus
from stark_lsp.core.verdict import Verdict
from stark_lsp.store import RunStore

HOSTILE = "\x1b]0;title\x07 \x1b[2J [bold red]markup[/] \u202e \x9b31m"
"""Text that would take a terminal over, or its reader in."""

TOOL = Tool("submit_plan", "Hand the plan in.", {"type": "object"})


def exchange(attempt: int, role: ModelRole, *, text: str = "", code: str = "x = 1", **rest: Any) -> Exchange:
    """Return a question with its answer."""
    question = Question(attempt, role, "You write fast code.", f"The class.\n{text}", f"Question {attempt}", TOOL)
    answer = Answer(
        StopReason.COMPLETE,
        f"I thought about {attempt}.{text}",
        {"title": f"Idea {attempt}", "code": f"import torch\n{code}", "certain": True},
        Usage(1000, 200, 8000, 300),
        "claude-x",
        21.4,
    )
    return replace(Exchange(question, answer, 0.0425, "2026-01-02T03:04:30+00:00"), **rest)


def stored_run(folder: Path, path: Path, run_id: str = "1f3a77c0", state: RunState = RunState.FINISHED) -> RunStore:
    """Store a run with exchanges for attempts 1, 2 and 5, of which the last has no node yet.

    A run under way belongs to this process. Attempt 4 gave nothing to judge.
    """
    run, nodes = finished_run(path, run_id, best=1 if state is RunState.FINISHED else None)
    nodes[4] = node(4, 1, Verdict(VerdictStatus.NO_CANDIDATE, "The model declined."), plan())
    made = [
        exchange(1, ModelRole.PLAN),
        exchange(1, ModelRole.CODE),
        exchange(2, ModelRole.PLAN, text=HOSTILE, code=HOSTILE),
        exchange(5, ModelRole.PLAN, dollars=None),
    ]
    store = RunStore(folder / "runs.sqlite3")
    store.create(replace(run, state=state, model="anthropic"), nodes.values(), made)
    return store
