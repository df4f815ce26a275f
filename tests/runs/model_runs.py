"""Runs on a language model that a test server plays: the real SDK, worker, compiler and store."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from messages_api.replies import Reply
from messages_api.server import MessagesServer, Request

from stark_lsp.core.agent_settings import AgentSettings
from stark_lsp.core.events import Event
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Budget
from stark_lsp.core.settings import EvaluationSettings, SearchSettings
from stark_lsp.core.status import DeviceChoice
from stark_lsp.discovery.problems import make_problem
from stark_lsp.runs.options import RunOptions
from stark_lsp.runs.session import RunSession
from stark_lsp.store import RunStore

Serve = Callable[[Callable[[Request], Reply]], MessagesServer]
"""Starts a server with what answers it; the fixture `serve`."""
SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "new_gelu.py"
QUICK = EvaluationSettings(
    seeds=1,
    warmup=1,
    rounds=3,
    final_rounds=3,
    round_ms=2.0,
    compile_baseline=False,
    profile=False,
    sanitizer=False,
    special_inputs=False,
    gradients=False,
)


def problem_in(folder: Path) -> Problem:
    """Write a small version of a sample that the test server's expert knows, and return it."""
    text = SAMPLE.read_text().replace("torch.randn(2048, 4096)", "torch.randn(64, 256)")
    path = folder / "model.py"
    path.write_text(text)
    return make_problem(str(path), text, None, device=DeviceChoice.CPU)


def options(attempts: int, *, model: str = "anthropic", **search: object) -> RunOptions:
    """Return options of a quick run."""
    return RunOptions(
        model=model,
        budget=Budget(attempts),
        search=SearchSettings(attempts=attempts, **search),  # type: ignore[arg-type]
        evaluation=QUICK,
        agents=AgentSettings(playbook=False),
        interpreter=sys.executable,
    )


def session(problem: Problem, wanted: RunOptions, store: RunStore, events: list[Event]) -> RunSession:
    """Return a session that collects its events."""
    return RunSession(problem, wanted, store=store, emit=events.append, log=lambda line: None)
