"""A judge in this process that takes all calls for short, so that a finalist is timed in three processes.

Arguments: folder. On a CPU, processes are not expected to differ; here they are said to. Prints what came of an honest
candidate, and of candidates that are something else in their second process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fault_cases import RAW, problem_at, settings

from stark_lsp.contract import process_trees
from stark_lsp.core.candidate import Candidate
from stark_lsp.core.wire import to_wire
from stark_lsp.judge.correctness.verify import Verifier
from stark_lsp.judge.service.attempt import Attempt
from stark_lsp.judge.service.judging import Judge
from stark_lsp.judge.timing import elsewhere, rounds, timing
from stark_lsp.judge.timing.loadable import Loadable
from stark_lsp.judge.tools import watched

HONEST = """import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))

    def forward(self, x):
        return (x * self.weight + 1.0).clamp_min(0.0)
"""
OTHERS = {
    "honest": HONEST,
    "raises": HONEST.replace("        super()", "        raise ValueError('not here')\n        super()"),
    "wrong": HONEST.replace("+ 1.0", "+ 1.5"),
    "dies": HONEST.replace(
        "        return", "        print('last words')\n        __import__('os')._exit(3)\n        return"
    ),
    "writes": HONEST.replace("return ", "result = ") + "        x.zero_()\n        return result\n",
}
"""What the candidate is in its further processes."""
KEYS = ("status", "message", "notes", "log", "failed_in", "runtime", "speedup_vs_eager", "stages_s")
"""Of a verdict."""


def under_a_tool(judge: Judge) -> str:
    """Return what a candidate prints in a pass under a program that only starts it."""
    attempt = Attempt(
        judge,
        to_wire(Candidate(HONEST.replace("        return", "        print('seen')\n        return"))),
        True,
        print,
    )
    candidate = attempt._loadable()
    inputs = judge.reference.cases[0].inputs_path
    printed, report = watched.run(candidate, lambda command, folder: ["/usr/bin/env", *command], "forward", inputs)
    return f"{printed.strip()} {report}"


def main(folder: Path) -> None:
    process_trees.adopt_orphans()
    private = folder / "private"
    private.mkdir()
    problem = to_wire(problem_at(folder))
    judge = Judge(problem, to_wire(settings()), str(private), str(folder / "cache"), lambda text, seconds: None)
    rounds.apart_ms = lambda device, launch_ms: 0.01  # type: ignore[assignment]
    timing.PROCESSES = 3  # type: ignore[misc]
    loaded: Callable[..., AbstractContextManager[Any]] = elsewhere.loaded
    told = {}
    for name, source in {**OTHERS, "builds": RAW}.items():
        said: list[str] = []
        alive: list[bool] = []

        def become(mine: Loadable, verified: Verifier, *rest: Any, other=source, alive=alive) -> Any:  # type: ignore[no-untyped-def]
            alive.append(verified._runner.alive)
            return loaded(replace(mine, source=other), verified, *rest)

        elsewhere.loaded = become  # type: ignore[assignment]
        candidate = Candidate(RAW if name == "builds" else HONEST)
        verdict = judge.judge(to_wire(candidate), True, lambda text, seconds, said=said: said.append(text))
        told[name] = {key: verdict[key] for key in KEYS} | {"said": said, "alive": alive}
    told["under a tool"] = under_a_tool(judge)
    judge.children.household.end_all()
    process_trees.kill_below(os.getpid(), seconds=30.0)
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
