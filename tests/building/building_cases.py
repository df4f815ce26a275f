"""Real builder processes, started as the judge starts them but without a sandbox."""

from __future__ import annotations

import os
from pathlib import Path

from stark_lsp.judge.processes.confinement import private_environment
from stark_lsp.judge.processes.folders import Folder
from stark_lsp.judge.processes.runners import RunnerProcess

LOG = 1 << 20


class Builders:
    """Starts builders below a folder, and knows those it started."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.started: list[RunnerProcess] = []

    def __call__(self) -> RunnerProcess:
        folder = Folder(str(self._root))
        environment = private_environment({**os.environ, "MAX_JOBS": "2", "PYTHONDONTWRITEBYTECODE": "1"}, folder)
        builder = RunnerProcess(environment, folder, LOG, role="builder")
        self.started.append(builder)
        builder.wait_ready()
        return builder

    def end(self) -> None:
        for builder in self.started:
            builder.kill()
