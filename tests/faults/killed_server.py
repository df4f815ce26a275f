"""A run in a process of its own that is killed by SIGKILL while its first attempt is judged.

Arguments: folder with `model.py`. The state directory comes from the environment.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from fault_cases import settings

from stark_lsp.core.events import Event, Progress
from stark_lsp.core.problem import Problem
from stark_lsp.core.run import Budget
from stark_lsp.core.status import DeviceChoice
from stark_lsp.discovery.problems import make_problem
from stark_lsp.runs.options import RunOptions
from stark_lsp.runs.session import RunSession
from stark_lsp.store import RunStore

OPTIONS = RunOptions(budget=Budget(attempts=1), evaluation=settings(), interpreter=sys.executable)


def problem_in(folder: Path) -> Problem:
    """Return the problem of the file there."""
    path = folder / "model.py"
    return make_problem(str(path), path.read_text(), None, device=DeviceChoice.CPU)


class Death:
    """Kills this process as soon as the worker says what it does with the first attempt."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, Progress):
            if self.asked and event.text != "Checking attempt 1":
                os.kill(os.getpid(), signal.SIGKILL)
            self.asked = self.asked or event.text == "Checking attempt 1"


def main(folder: Path) -> None:
    store = RunStore(Path(os.environ["STARK_STATE_DIR"]) / "runs.sqlite3")
    session = RunSession(problem_in(folder), OPTIONS, store=store, emit=Death(), log=lambda line: None)
    asyncio.run(session.execute())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
