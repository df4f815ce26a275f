"""Starts the judge's children, confined ones ahead of time so that torch is imported when they are wanted."""

from __future__ import annotations

import contextlib
import os
import threading
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor

from ...contract.errors import Broken
from ..device.slots import Quiet
from ..transport.handover import Gpu
from . import copies
from .ahead import DRIVER
from .confinement import Confinement, Tool
from .folders import Folder
from .household import Household
from .limits import Limits
from .runners import RUNNER_FAILURES, RunnerProcess
from .spawner import Spawner

RUNNER = "runner"
BUILDER = "builder"
AT_ONCE = 4
"""Spares that are started at the same time."""
DRIVER_LIMIT = 64 << 20
"""Bytes of what Triton compiles for itself."""


class _NotGrown(Exception):
    """A child failed before it had met any candidate; `log` is what it printed."""

    def __init__(self, text: str, log: str) -> None:
        super().__init__(text)
        self.log = log


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
    quiet
        Keeps the start of spares apart from timing, which it would disturb.
    """

    def __init__(
        self,
        environment: dict[str, str],
        folder: str,
        log_limit: int,
        confinement: Confinement,
        limits: Limits | None,
        gpu: Gpu | None = None,
        *,
        quiet: Quiet,
    ) -> None:
        self._environment = environment
        self._folder = folder
        self._log_limit = log_limit
        self._confinement = confinement
        self._limits = limits
        self._gpu = gpu
        self._driver = os.path.join(folder, DRIVER)
        self._spawner = Spawner()
        self._quiet = quiet
        self._growing = ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="stark-spare")
        self._spares: dict[str, list[Future[RunnerProcess]]] = {RUNNER: [], BUILDER: []}
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
        """See that so many children of a role are under way before they are wanted."""
        with self._lock:
            spares = self._spares[role]
            while len(spares) < count:
                spares.append(self._growing.submit(self._grow, role))

    def left(self) -> int:
        """Return how many spare runners stand ready or are under way."""
        with self._lock:
            return len(self._spares[RUNNER])

    def replenish(self, count: int) -> None:
        """See that so many runners and builders are under way before they are wanted."""
        self.keep_spares(RUNNER, count)
        self.keep_spares(BUILDER, count)

    def await_spares(self, role: str, seconds: float) -> None:
        """Wait until the spares of a role are ready, or for so long; what fails is told to whoever wants one."""
        with self._lock:
            spares = list(self._spares[role])
        futures.wait(spares, timeout=seconds)

    def end(self, child: RunnerProcess | None) -> None:
        """Kill a child and remove its folder."""
        if child is None:
            return
        self.household.end(child)
        child.files.remove()

    def _ready(self, role: str) -> RunnerProcess:
        with self._lock:
            spares = self._spares[role]
            # The first that is done, or the first to be.
            spares.sort(key=lambda spare: not spare.done())
            spare = spares.pop(0) if spares else None
        if spare is not None and role == BUILDER and spare.cancel():
            # Those before it in the queue may wait for a timing that itself waits for this builder.
            spare = None
        failure = log = ""
        for kept in (spare, None):
            try:
                child = kept.result() if kept is not None else self._grow(role)
                if child.alive:
                    return child
                failure, log = "it ended at once", child.log()
                self.end(child)
            except _NotGrown as error:
                failure, log = str(error), error.log
            except OSError:
                # What kept a spare from being started may be over.
                if kept is None:
                    raise
        raise Broken(f"A process for the candidate could not be started: {failure}.", details=log)

    def _grow(self, role: str) -> RunnerProcess:
        """Start a child and have it do ahead what can be done; the parts that disturb a timing wait for it.

        Raises
        ------
        _NotGrown
            It failed.
        OSError
            It could not be started.
        """
        on_gpu = self._gpu is not None
        # Those who want a builder may be working themselves, and who works must not wait to work.
        with self._quiet.working() if role == RUNNER else contextlib.nullcontext():
            child = self._start(role, self._confinement)
            try:
                if not on_gpu:
                    child.wait_ready()
            except RUNNER_FAILURES as error:
                raise self._not_grown(child, error) from error
        try:
            child.wait_ready()
            if on_gpu and role == RUNNER:
                with self._quiet.working():
                    child.warm_up()
                self._keep_driver(child)
        except RUNNER_FAILURES as error:
            raise self._not_grown(child, error) from error
        return child

    def _not_grown(self, child: RunnerProcess, error: Exception) -> _NotGrown:
        self.household.end(child)
        log = child.log()
        child.files.remove()
        return _NotGrown(str(error), log)

    def _keep_driver(self, child: RunnerProcess) -> None:
        """Keep what Triton compiled for itself in a child that has met no candidate yet, for those that follow."""
        made = os.path.join(child.files.temporary, DRIVER)
        with self._lock:
            if self._gpu is None or os.path.exists(self._driver) or not os.path.isdir(made):
                return
            with contextlib.suppress(OSError, copies.TooLarge):
                copies.copy_tree(made, f"{self._driver}.new", DRIVER_LIMIT)
                os.rename(f"{self._driver}.new", self._driver)

    def _start(self, role: str, confinement: Confinement | None, tool: Tool | None = None) -> RunnerProcess:
        folder = Folder(self._folder)
        if role == RUNNER and confinement is not None and os.path.isdir(self._driver):
            with contextlib.suppress(OSError, copies.TooLarge):
                copies.copy_tree(self._driver, os.path.join(folder.temporary, DRIVER), DRIVER_LIMIT)
        try:
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
        except BaseException:
            folder.remove()
            raise
