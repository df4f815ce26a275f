"""Starts the judge's children, confined ones ahead of time so that torch is imported when they are wanted."""

from __future__ import annotations

import contextlib
import os
import threading

from . import trees
from .ahead import DRIVER
from .confinement import Confinement, Tool
from .errors import Broken
from .folders import Folder
from .handover import Gpu
from .household import Household
from .limits import Limits
from .runners import RUNNER_FAILURES, RunnerProcess
from .spawner import Spawner

RUNNER = "runner"
BUILDER = "builder"
DRIVER_LIMIT = 64 << 20
"""Bytes of what Triton compiles for itself."""


class Children:
    """All children of one judge; safe to use from several threads.

    Parameters
    ----------
    environment
        Environment of every child.
    folder
        Private folder that holds theirs.
    log_limit
        Characters of a child's output that are kept.
    confinement
        What candidates and compilers are kept in.
    limits
        What a confined child may take.
    gpu
        What a runner shares with the judge; None on a CPU.
    """

    def __init__(
        self,
        environment: dict[str, str],
        folder: str,
        log_limit: int,
        confinement: Confinement,
        limits: Limits | None,
        gpu: Gpu | None = None,
    ) -> None:
        self._environment = environment
        self._folder = folder
        self._log_limit = log_limit
        self._confinement = confinement
        self._limits = limits
        self._gpu = gpu
        self._driver = os.path.join(folder, DRIVER)
        self._spawner = Spawner()
        self._spares: dict[str, list[RunnerProcess]] = {RUNNER: [], BUILDER: []}
        self._lock = threading.Lock()
        self.household = Household()

    def reference_runner(self) -> RunnerProcess:
        """Start a runner for the user's own code."""
        return self._start(RUNNER, None)

    def runner(self) -> RunnerProcess:
        """Return a confined runner that is ready and has loaded nothing yet.

        Raises
        ------
        Broken
            None can be started.
        """
        return self._ready(RUNNER)

    def watched_runner(self, tool: Tool) -> RunnerProcess:
        """Start a confined runner under a tool, such as a memory checker."""
        return self._start(RUNNER, self._confinement, tool)

    def builder(self) -> RunnerProcess:
        """Return a confined builder that is ready; it serves one build.

        Raises
        ------
        Broken
            None can be started.
        """
        return self._ready(BUILDER)

    def keep_spares(self, role: str, count: int) -> None:
        """See that so many children of a role are under way before they are wanted, as far as the machine can."""
        # What keeps one from being started is told to whoever wants it; it must not cost the verdict that is ready.
        with self._lock, contextlib.suppress(OSError):
            spares = self._spares[role]
            while len(spares) < count:
                spares.append(self._start(role, self._confinement))

    def end(self, child: RunnerProcess | None) -> None:
        """Kill a child and remove its folder."""
        if child is None:
            return
        self.household.end(child)
        child.files.remove()

    def _ready(self, role: str) -> RunnerProcess:
        with self._lock:
            spare = self._spares[role].pop(0) if self._spares[role] else None
        log = failure = ""
        for kept in (spare, None):
            child = kept or self._start(role, self._confinement)
            try:
                child.wait_ready()
                if child.alive:
                    self._keep_driver(child)
                    return child
                failure = "it ended at once"
            except RUNNER_FAILURES as error:
                failure = str(error)
            self.household.end(child)
            log = child.log()
            child.files.remove()
        raise Broken(f"A process for the candidate could not be started: {failure}.", details=log)

    def _keep_driver(self, child: RunnerProcess) -> None:
        """Keep what Triton compiled for itself in a child that has met no candidate yet, for those that follow."""
        made = os.path.join(child.files.temporary, DRIVER)
        with self._lock:
            if self._gpu is None or os.path.exists(self._driver) or not os.path.isdir(made):
                return
            with contextlib.suppress(OSError, trees.TooLarge):
                trees.copy_tree(made, f"{self._driver}.new", DRIVER_LIMIT)
                os.rename(f"{self._driver}.new", self._driver)

    def _start(self, role: str, confinement: Confinement | None, tool: Tool | None = None) -> RunnerProcess:
        folder = Folder(self._folder)
        if role == RUNNER and confinement is not None and os.path.isdir(self._driver):
            with contextlib.suppress(OSError, trees.TooLarge):
                trees.copy_tree(self._driver, os.path.join(folder.temporary, DRIVER), DRIVER_LIMIT)
        return self.household.start(
            lambda: RunnerProcess(
                self._spawner,
                self._environment,
                folder,
                self._log_limit,
                role=role,
                confinement=confinement,
                limits=self._limits if confinement is not None else None,
                tool=tool,
                # A tool may not know memory that processes share.
                gpu=self._gpu if role == RUNNER and tool is None else None,
            )
        )
