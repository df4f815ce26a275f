"""Child processes as the judge sees them: start, ask with a deadline, kill with all that is below."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...contract import process_trees
from ...contract.frames import Channel, ChannelClosed, ChannelDamaged, DeadlinePassed
from ..transport import claims, tensorfile
from ..transport.exchange import Exchange, Overflow
from ..transport.handover import Gpu
from . import spawning
from .capture import Capture
from .confinement import Confinement, Tool
from .failures import RunnerDied, RunnerError, RunnerExceeded, RunnerFlooded, RunnerForged, RunnerTimedOut
from .folders import Folder
from .limits import Exceeded, Limits

TICK_S = 0.05
WATCH_S = 0.2
"""How often the size of the process tree and of its folder is looked at."""
REST_S = 1.0
"""A child that nothing was asked of for so long is looked at while it rests; between timed rounds there is less."""
TREE_S = 0.8
"""So long those below one are looked for, to be killed before it."""
KILL_S = 5.0
"""A process that has not ended so long after SIGKILL sits in the kernel, as with a driver that hangs."""
SIGNALLED = 128
"""Exit codes above it tell of a signal."""
DRAIN_S = 0.2
"""Longest wait for what has been printed to be read."""
START_S = 120.0
"""A runner that has not imported torch after this long never will."""

Builder = Callable[[dict[str, Any]], dict[str, Any]]
"""Answers a runner's request to build something: `{"library": path}` or `{"error": text}`."""


@dataclass(eq=False)
class RunnerProcess:
    """One child: a runner, or a builder; whatever waits for it may raise `RunnerFailure`."""

    environment: dict[str, str]
    """Its environment, complete."""
    files: Folder
    """Its private folder."""
    log_limit: int
    """Bytes of its output that are kept."""
    role: str = "runner"
    """As in `__main__`."""
    confinement: Confinement | None = None
    """What it is kept in; None for the user's own code."""
    limits: Limits | None = None
    """What its process tree may take."""
    tool: Tool | None = None
    """Runs it under a tool; only for a confined one."""
    on_gpu: bool = False
    """Whether it shares memory on the GPU with the judge, see `warm_up`."""
    started: spawning.Started | None = None
    """What there is of it already; else it is started."""

    def __post_init__(self) -> None:
        self.exchange: Exchange | None = None
        """GPU memory that it shares with the judge."""
        self.device = "cuda" if self.on_gpu else "cpu"
        """Where its outputs are compared."""
        self._gpu: Gpu | None = None
        started = self.started or spawning.start(
            self.role, self.environment, self.files, on_gpu=self.on_gpu, confinement=self.confinement, tool=self.tool
        )
        self._process, self._socket = started.process, started.socket
        """By the socket that memory is handed over."""
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        write_fd, read_fd, log_fd = (os.dup(stream.fileno()) for stream in streams if stream is not None)
        for stream in streams:
            if stream is not None:
                stream.close()
        self._channel = Channel(read_fd, write_fd)
        self._capture = Capture(log_fd, self.log_limit)
        self._ready = self._stopped = self._collected = False
        self._asked = True
        self._looked = 0.0
        self._rests: float | None = None
        self._exceeded: Exceeded | None = None
        self._wrapped = self.confinement is not None and self.confinement.wraps
        self.builds: Builder | None = None
        """Answers its requests to build; without one they fail."""
        self.build_s = 0.0
        """Seconds during which compilers were at work, over all requests."""
        self.stuck = False
        """Whether it could not be killed."""

    def give(self, path: str) -> str:
        """Hand a file over for the next request; returns the path under which the child can read it until then."""
        loaded = self._gpu.resident.get(path) if self._gpu is not None and self.exchange is not None else None
        if loaded is None or self.exchange is None:
            # The user's own code is trusted with the judge's files; a candidate only where it cannot write to them.
            links = self.confinement is None or self.confinement.separates_files
            return self.files.give(path, link=links)
        if self._asked:
            # What was handed over before the last request has been read.
            self.exchange.reset()
            self._asked = False
        place = self.files.place(path)
        tensorfile.write(place, loaded.skeleton, loaded.tensors, self.exchange, loaded.heads)
        return place

    @property
    def pid(self) -> int:
        """Process id, also of its session and group."""
        return self._process.pid

    @property
    def busy(self) -> bool:
        """Whether it comes up, or is at work on a request."""
        return self._rests is None and self.alive

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Stop it and all below it in the block, so that others are timed alone; its limits of time wait as well."""
        self._stopped = True
        try:
            with process_trees.stopped(self.pid):
                yield
        finally:
            self._stopped = False

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def log(self) -> str:
        """Return the output so far; all of it once the process is dead, or was struck."""
        self._capture.drain(DRAIN_S)
        return self._capture.text(0.0 if self.alive else 0.5)

    def wait_ready(self) -> None:
        """Wait until torch is imported."""
        if not self._ready:
            self._receive(START_S)
            self._ready = True
            self._rests = time.monotonic()

    def warm_up(self, gpu: Gpu | None) -> None:
        """Have it start using the GPU, and share memory there; to be called once, before anything is loaded."""
        if self._socket is None or gpu is None:
            return
        self.exchange, self._gpu = gpu.exchange(), gpu
        with self._socket as channel:
            if self.exchange is not None:
                socket.send_fds(channel, [b"\0"], [self.exchange.fd])
                self.exchange.close_descriptor()
            nbytes = self.exchange.nbytes if self.exchange is not None else 0
            shares = self.ask("warm_up", nbytes=nbytes, run_s=START_S).get("shares")
        if shares is not True:
            self._unshare()

    def ask(self, command: str, *, run_s: float, build_s: float = 0.0, timed: bool = False, **params: Any) -> Any:
        """Send one request and return its result.

        Parameters
        ----------
        run_s
            Seconds it may take while no compiler is at work.
        build_s
            Seconds it may take in addition while processes below it (compilers) are.
        timed
            Whether it matters when the answer comes. What it takes of the machine is then not looked at meanwhile,
            which takes up to 30 ms on a large machine: see `look`. Who watches it at rest does so after `REST_S`.
        """
        self.wait_ready()
        self._rests = time.monotonic() if timed else None
        self._channel.nonce = secrets.token_hex(16)
        if self.exchange is not None:
            self.exchange.forget()
        self._send({"command": command, **params}, run_s)
        answer = self._receive(run_s, build_s)
        self._rests = time.monotonic()
        self._asked = True
        if "error" in answer and isinstance(answer["error"], dict):
            raise RunnerError(claims.report(answer["error"]))
        if not isinstance(answer.get("result"), dict):
            self.kill()
            raise RunnerForged(str(answer)[:200])
        return answer["result"]

    def _send(self, message: dict[str, Any], seconds: float) -> None:
        """Send a message; one who does not read it is out of time."""
        try:
            self._channel.send(message, time.monotonic() + seconds)
        except ChannelClosed:
            raise self._death() from None
        except DeadlinePassed:
            self.kill()
            raise RunnerTimedOut(False, seconds) from None

    def _receive(self, run_s: float, build_s: float = 0.0) -> dict[str, Any]:
        """Wait for one answer, and charge the time to running or to building, whichever went on."""
        spent = {False: 0.0, True: 0.0}
        limits = {False: run_s, True: build_s}
        while True:
            begin = time.monotonic()
            message: dict[str, Any] | None = None
            building = False
            try:
                message = self._channel.receive(begin + TICK_S)
                if message.pop("nonce", "") != self._channel.nonce:
                    raise ChannelDamaged("an answer to another request than the last one")
                if not any(isinstance(message.get(wish), dict) for wish in ("pour", "build")):
                    return message
            except ChannelClosed:
                raise self._death() from None
            except ChannelDamaged as error:
                self.kill()
                raise RunnerForged(str(error)) from error
            except DeadlinePassed:
                # While it rests others are timed, and to look for compilers is to look at everything that runs.
                building = bool(build_s) and not self._stopped and bool(self._compilers())
            took = 0.0 if self._stopped else time.monotonic() - begin
            spent[building] += took
            self.build_s += took if building else 0.0
            self._watch()
            if spent[building] > limits[building]:
                self.kill()
                raise RunnerTimedOut(building, limits[building])
            if message is not None and isinstance(message.get("pour"), dict):
                self._take_piece(message["pour"], run_s)
            elif message is not None:
                self._build(message["build"], run_s)

    def _compilers(self) -> list[int]:
        """Return the processes it started itself, such as those of a just-in-time compiler."""
        if self.tool is not None:
            # Those of the tool, which are there all the time, cannot be told from them.
            return []
        # A sandbox stands around it as two processes: one outside of the new namespaces, one inside.
        own = 2 if self._wrapped else 0
        return process_trees.descendants(self.pid)[own:]

    def _build(self, request: dict[str, Any], run_s: float) -> None:
        """Answer one request to build; whoever builds keeps to a limit of its own."""
        begin = self._rests = time.monotonic()
        answer = {"error": "Nothing can be built here."} if self.builds is None else self.builds(request)
        self._rests = None
        self.build_s += time.monotonic() - begin
        self._send({"built": answer}, run_s)

    def _take_piece(self, piece: dict[str, Any], run_s: float) -> None:
        """Take a piece of a tensor that is larger than the memory that is shared with it."""
        try:
            if self.exchange is None:
                raise Overflow("there is no shared memory")
            taken = self.exchange.pour(piece.get("place"), piece.get("nbytes"), piece.get("left"))
        except Overflow as error:
            self.kill()
            raise RunnerForged(f"a piece of a tensor that is none: {error}") from error
        self._send({"poured": taken}, run_s)

    def _watch(self) -> None:
        """Kill it when it floods its log or passes a limit."""
        if self._capture.flooded:
            self.kill()
            raise RunnerFlooded
        if self._rests is None:
            self.look()

    def look(self) -> None:
        """Kill it when it passes a limit; looks no more often than each `WATCH_S`.

        Raises
        ------
        RunnerExceeded
            It did.
        """
        now = time.monotonic()
        if self.limits is None or now - self._looked < WATCH_S:
            return
        self._looked = now
        exceeded = self.limits.check(self.pid, self.files.out)
        if exceeded is not None:
            self.kill()
            raise RunnerExceeded(exceeded)

    def watch_rest(self) -> None:
        """Kill it when it passes a limit although nothing is asked of it; the next request tells.

        Called from another thread while it waits for a turn or a build: what it has started goes on meanwhile.
        """
        rests = self._rests
        if self.limits is None or rests is None or self._exceeded is not None or time.monotonic() - rests < REST_S:
            return
        self._exceeded = self.limits.check(self.pid, self.files.out)
        if self._exceeded is not None:
            self._kill_tree()

    def _death(self) -> RunnerDied | RunnerExceeded:
        """Collect a process that closed its pipe."""
        if self._exceeded is not None:
            self.kill()
            return RunnerExceeded(self._exceeded)
        try:
            code = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            # It closed the pipe and lives on: no longer of use to anybody.
            code = 0
        self.kill()
        if self._wrapped and code > SIGNALLED:
            # What stands around it passes a signal on as shells do.
            code = SIGNALLED - code
        return RunnerDied(code)

    def finish(self, seconds: float) -> None:
        """Let it end by itself, so that a tool around it has its last words; kill it when that takes too long."""
        self._channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()

    def _unshare(self) -> None:
        """Give back the memory that is shared with it."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.close()

    def kill(self) -> None:
        """Kill the process and all below it, and wait until it is gone; safe to call twice."""
        if not self._collected:
            self._kill_tree()
            try:
                # One that is stuck is waited for once: each further end of it would take as long.
                self._process.wait(0.0 if self.stuck else KILL_S)
                self._collected = True
            except subprocess.TimeoutExpired:
                self.stuck = True
        self._channel.close()
        if self._socket is not None:
            self._socket.close()
        self._unshare()

    def strike(self) -> None:
        """Send SIGKILL to the process and all below it, and wait for none of them.

        Whoever waits for an answer in another thread is told that the child died. Some that were being started may be
        left, which `kill` finds.
        """
        if self.alive:
            process_trees.kill_tree(self.pid, seconds=0.0)

    def _kill_tree(self) -> None:
        """Send SIGKILL to the process and all below it; once it has ended, to what is left of its group."""
        if self.alive:
            process_trees.kill_tree(self.pid, TREE_S)
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
