"""The warm pool: starts the judge's children, confined ones ahead of time, and knows and ends every one of them.

On a GPU a process that comes up takes the device for half a second; a timing has to wait for that, or is disturbed. So
those that were used are replaced while a compiler is at work, or once nothing has been judged for a moment; when the
last is taken, the next begins to come up at once, beside whoever took it, and rests while that one is timed.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch

from ...contract import process_trees
from ...contract.errors import Broken
from ..building.cache import lead_here
from ..device.turns import Turns
from ..transport.handover import Gpu
from . import copies
from .ahead import DRIVER
from .confinement import Confinement, Tool
from .failures import RunnerFailure
from .folders import Folder
from .limits import Limits
from .runners import RunnerProcess
from .spawning import BUILDER, COMPILER, RUNNER, Started

AT_ONCE = 4
"""Children that are started ahead, or ended behind a verdict, at the same time."""
DRIVER_LIMIT = 64 << 20
"""Bytes of what Triton compiles for itself."""
CALM_S = 1.0
"""On a GPU: after so long without a candidate, those that were used are replaced."""
FEW = 3
"""On a GPU: with no more than so many left, they are replaced while a compiler is at work."""


MOST_SPARES = 5
"""Each holds a context on the GPU, half a gigabyte of its memory."""
LARGE_GPU = 32 << 30
"""Bytes of memory from which on that many contexts are no burden."""
FEWER_SPARES = 3


@dataclass(eq=False)
class Pool:
    """All children of one judge; safe to use from several threads."""

    environment: dict[str, str]
    """Environment of every child."""
    folder: str
    """Private folder that holds theirs."""
    log_limit: int
    """Characters of a child's output that are kept."""
    confinement: Confinement
    """What candidates and compilers are kept in."""
    limits: Limits | None
    """What a confined child may take."""
    turns: Turns
    """Keep the start of spares apart from timing, which it would disturb."""
    spares: int = 1
    """How many runners, and as many builders, are to be ready."""
    early: tuple[Started, ...] = ()
    """Runners that came up before there was a pool."""

    def __post_init__(self) -> None:
        self._driver = os.path.join(self.folder, DRIVER)
        self._growing = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="stark-spare")
        self._ending = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="stark-ending")
        self._ended: list[Future[None]] = []
        self._spares: dict[str, list[Future[RunnerProcess]]] = {RUNNER: [], BUILDER: []}
        self._on_gpu = self.confinement.gpu
        self.gpu: Future[Gpu | None] = Future()
        """What a runner shares with the judge, None on a CPU; until it is known, spares on a GPU wait."""
        self._ahead: dict[str, list[RunnerProcess]] = {RUNNER: [], COMPILER: []}
        """Unconfined runners that nobody has taken yet."""
        self._wanted = {RUNNER, BUILDER} if self._on_gpu else {RUNNER}
        """Roles of which some are started ahead; on a CPU most candidates have nothing built."""
        self._under_way = 0
        self._calm: threading.Timer | None = None
        self._lock = threading.Lock()
        self._kept: list[RunnerProcess] = []
        self._strangers = set(process_trees.descendants(os.getpid()))
        """What runs below this process and is none of these; left alone."""
        self._strangers -= {started.process.pid for started in self.early}
        self._keeping = threading.RLock()

    def begin(self, *roles: str) -> None:
        """See that these runners for the user's own code come up before they are wanted; of `early` what is of use."""
        for started in self.early:
            if (started.socket is not None) != self._on_gpu or (started.confinement and self.confinement.read):
                # torch does not see the GPU, or candidates may import what this one cannot.
                self.end(self._start(started.role, None, started=started))
            elif started.confinement:
                self._spares[started.role].append(self._growing.submit(self._grow, started.role, started))
            else:
                self._ahead[started.role].append(self._start(started.role, None, started=started))
        for role, ahead in self._ahead.items():
            ahead += [self._start(role, None) for _ in range(roles.count(role) - len(ahead))]

    def end_ahead(self, role: str) -> None:
        """End those that nobody has taken."""
        while self._ahead[role]:
            self.end(self._ahead[role].pop())

    def reference_runner(self, role: str = RUNNER) -> RunnerProcess:
        """Return a runner for the user's own code; a `COMPILER` has imported Inductor."""
        with self._lock:
            while self._ahead[role]:
                begun = self._ahead[role].pop()
                if begun.alive:
                    return begun
                self.end(begun)
        return self._start(role, None)

    def watched_runner(self, tool: Tool) -> RunnerProcess:
        """Start a confined runner under a tool, such as a memory checker."""
        return self._start(RUNNER, self.confinement, tool)

    def take(self, role: str) -> RunnerProcess:
        """Return a confined child of a role that is ready and has loaded nothing yet.

        Raises
        ------
        Broken
            None can be started.
        """
        with self._lock:
            spares = self._spares[role]
            # The first that is done, or the first to be.
            spares.sort(key=lambda spare: not spare.done())
            spare = spares.pop(0) if spares else None
            last = spare is not None and not spares and self._on_gpu and role == RUNNER
        if last:
            self.keep_spares(RUNNER, 1)
        # Before a builder in the queue there may be those that wait for a timing that itself waits for this builder.
        if spare is not None and not (role == BUILDER and spare.cancel()):
            # What kept a spare from being started may be over.
            with contextlib.suppress(Broken, OSError):
                child = spare.result()
                if child.alive:
                    return child
                self.end(child)
        return self._grow(role)

    def fill(self, count: int = 0) -> None:
        """See that so many of each role that is wanted, by default as many as are to be ready, are under way."""
        for role in tuple(self._wanted):
            self.keep_spares(role, count or self.spares)

    def prepared(self, gpu: Gpu | None, files: list[str]) -> None:
        """Go on once the reference was run, before there is any candidate.

        Parameters
        ----------
        gpu
            What a runner shares with the judge; None on a CPU.
        files
            What of the project is imported by now, which candidates may import as well.
        """
        with self._keeping:
            ours = [pid for child in self._kept for pid in (child.pid, *process_trees.descendants(child.pid))]
        # What the user's code has started is left alone.
        self._strangers = set(process_trees.descendants(os.getpid())).difference(ours)
        self.gpu.set_result(gpu)
        if files != self.confinement.read:
            self.confinement.read = files
            with self._lock:
                old, self._spares[RUNNER] = self._spares[RUNNER], []
            for spare in old:
                spare.add_done_callback(self._end_spare)
            self.fill(1)

    def _end_spare(self, spare: Future[RunnerProcess]) -> None:
        # Why one could not be started is told to whoever wants one.
        if spare.exception() is None:
            self.end(spare.result())

    def keep_spares(self, role: str, count: int) -> None:
        """See that so many children of a role are under way before they are wanted."""
        with self._lock:
            self._wanted.add(role)
            spares = self._spares[role]
            while len(spares) < count:
                spares.append(self._growing.submit(self._grow, role))

    def await_spares(self, role: str, seconds: float) -> None:
        """Wait until the spares of a role are ready, or for so long; what fails is told to whoever wants one."""
        with self._lock:
            spares = list(self._spares[role])
        futures.wait(spares, timeout=seconds)

    @contextlib.contextmanager
    def judging(self) -> Iterator[None]:
        """Judge a candidate in the block; afterwards those that were used are replaced in good time."""
        with self._lock:
            self._under_way += 1
            if self._calm is not None:
                self._calm.cancel()
                self._calm = None
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                patient = self._on_gpu and bool(self._spares[RUNNER])
                if patient and self._under_way == 0:
                    self._calm = threading.Timer(CALM_S, self._fill_late)
                    self._calm.daemon = True
                    self._calm.start()
            if not patient:
                self.fill()

    def building(self) -> None:
        """Take note that a compiler is at work, so that nothing is timed for a while."""
        # On a CPU new processes would get in the way of the timing that follows; so would they before there is anything
        # to judge, where what is built are headers.
        if self._on_gpu and self._under_way and len(self._spares[RUNNER]) <= FEW:
            self.fill()

    def _fill_late(self) -> None:
        # Python may be ending, when no thread can be started any more.
        with contextlib.suppress(RuntimeError):
            self.fill()

    def busy(self) -> list[RunnerProcess]:
        """Return the children that come up, or are at work: on other cores they make launches slower as well."""
        with self._keeping:
            return [child for child in self._kept if child.busy]

    def stuck(self) -> list[int]:
        """Return the processes that SIGKILL did not end; one that ended meanwhile is forgotten."""
        with self._keeping:
            self._kept = [child for child in self._kept if not child.stuck or child.alive]
            return [child.pid for child in self._kept if child.stuck]

    def end(self, child: RunnerProcess) -> None:
        """Kill a child with all that is below it, and remove its folder."""
        self.kill(child)
        child.files.remove()

    def kill(self, child: RunnerProcess) -> None:
        """Kill a child, and orphans of it that this process has adopted."""
        child.kill()
        with self._keeping:
            if child in self._kept and not child.stuck:
                self._kept.remove(child)
            spare = self._strangers | {kept.pid for kept in self._kept}
            # Tools that the judge runs itself share its session; every child was started in one of its own.
            process_trees.kill_below(os.getpid(), spare=spare, foreign=process_trees.of_another_session)
            process_trees.reap(spare)

    def end_behind(self, end: Callable[[], None]) -> None:
        """Have `end` called while somebody reads a verdict; a context on a GPU takes a tenth of a second to go."""
        with self._lock:
            self._ended.append(self._ending.submit(end))

    def await_ends(self, seconds: float | None = None) -> None:
        """Wait until nothing that was ended is in the way any more, or for so long.

        Raises
        ------
        Exception
            What one of them raised, once.
        """
        with self._lock:
            ended, self._ended = self._ended, []
        for one in futures.wait(ended, timeout=seconds).done:
            one.result()

    def _grow(self, role: str, started: Started | None = None) -> RunnerProcess:
        """Start a child and have it do ahead what can be done; the parts that disturb a timing wait for it.

        Raises `Broken` where it fails before it has met any candidate, `OSError` where it cannot be started.
        """
        with contextlib.ExitStack() as working:
            if role == RUNNER:
                # Those who want a builder may be working themselves, and who works must not wait to work.
                working.enter_context(self.turns.working())
            child = self._start(role, self.confinement, started=started)
            try:
                if self._on_gpu:
                    working.close()
                child.wait_ready()
                if self._on_gpu and role == RUNNER:
                    gpu = self.gpu.result()
                    working.enter_context(self.turns.working())
                    child.warm_up(gpu)
                    self._keep_driver(child)
            except RunnerFailure as error:
                self.kill(child)
                log = child.log()
                child.files.remove()
                raise Broken(f"A process for the candidate could not be started: {error}.", details=log) from error
        return child

    def _keep_driver(self, child: RunnerProcess) -> None:
        """Keep what Triton compiled for itself in a child that has met no candidate yet, for those that follow."""
        made = os.path.join(child.files.temporary, DRIVER)
        with self._lock, contextlib.suppress(OSError, copies.TooLarge):
            if not os.path.exists(self._driver):
                copies.copy_tree(made, f"{self._driver}.new", DRIVER_LIMIT)
                os.rename(f"{self._driver}.new", self._driver)

    def _start(
        self,
        role: str,
        confinement: Confinement | None,
        tool: Tool | None = None,
        started: Started | None = None,
    ) -> RunnerProcess:
        folder = Folder(self.folder) if started is None else started.files
        if role == RUNNER and confinement is not None and started is None:
            with contextlib.suppress(OSError, copies.TooLarge):
                driver = os.path.join(folder.temporary, DRIVER)
                copies.copy_tree(self._driver, driver, DRIVER_LIMIT)
                lead_here(driver)
        try:
            # Kept before anybody could take it for an orphan.
            with self._keeping:
                child = RunnerProcess(
                    self.environment,
                    folder,
                    self.log_limit,
                    role=role,
                    confinement=confinement,
                    limits=self.limits if confinement is not None else None,
                    tool=tool,
                    # A tool may not know memory that processes share.
                    on_gpu=self._on_gpu and role != BUILDER and tool is None,
                    started=started,
                )
                self._kept.append(child)
        except BaseException:
            folder.remove()
            raise
        return child


def spares(device: str) -> int:
    """Return how many runners are started ahead of the candidates that will want them."""
    if device != "cuda":
        return 1
    most = MOST_SPARES if torch.cuda.mem_get_info()[1] >= LARGE_GPU else FEWER_SPARES
    return max(1, min(most, (os.cpu_count() or 1) // 3))
