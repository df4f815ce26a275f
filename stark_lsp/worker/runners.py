"""Runner processes as the judge sees them: start, ask with a deadline, kill with all that is below."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import Any

from . import processes
from .capture import Capture
from .frames import Channel, ChannelClosed, ChannelDamaged, DeadlinePassed

TICK_S = 0.05
START_S = 120.0
"""A runner that has not imported torch after this long never will."""


class RunnerError(Exception):
    """The runner's module raised; `report` is what `runner.report` returned."""

    def __init__(self, report: dict[str, Any]) -> None:
        super().__init__(str(report.get("text", "")))
        self.report = report


class RunnerDied(Exception):
    """The runner's process ended by itself.

    Parameters
    ----------
    code
        Its exit code; negative for a signal.
    """

    def __init__(self, code: int) -> None:
        super().__init__(exit_text(code))
        self.code = code


class RunnerTimedOut(Exception):
    """A deadline passed and the process tree was killed.

    Parameters
    ----------
    building
        Whether compilers were at work when it passed.
    seconds
        The limit that was passed.
    """

    def __init__(self, building: bool, seconds: float) -> None:
        super().__init__("building" if building else "running")
        self.building = building
        self.seconds = seconds


class RunnerFlooded(Exception):
    """The runner printed without end and was killed."""


class RunnerForged(Exception):
    """Something other than our code wrote to the judge's pipe."""


def exit_text(code: int) -> str:
    """Return how a process ended, for a person."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class RunnerProcess:
    """One runner.

    Parameters
    ----------
    environment
        Its environment, complete.
    folder
        Its working directory.
    log_limit
        Bytes of its output that are kept.
    """

    def __init__(self, environment: dict[str, str], folder: str, log_limit: int) -> None:
        main = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
        # Started from the worker's main thread only: the parent-death signal is tied to the thread.
        self._process = subprocess.Popen(
            [sys.executable, "-u", main, "runner"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=environment,
            cwd=folder,
        )
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        write_fd, read_fd, log_fd = (os.dup(stream.fileno()) for stream in streams if stream is not None)
        for stream in streams:
            if stream is not None:
                stream.close()
        self._channel = Channel(read_fd, write_fd)
        self._capture = Capture(log_fd, log_limit)
        self._ready = False
        self.build_s = 0.0
        """Seconds during which compilers were at work, over all requests."""

    @property
    def pid(self) -> int:
        """Process id, also of its session and group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def log(self) -> str:
        """Return the output captured so far; all of it once the process is dead."""
        return self._capture.text(0.0 if self.alive else 0.5)

    def wait_ready(self) -> None:
        """Wait until torch is imported.

        Raises
        ------
        RunnerDied, RunnerTimedOut
        """
        if not self._ready:
            self._receive(START_S, START_S)
            self._ready = True

    def ask(self, command: str, *, run_s: float, build_s: float = 0.0, **params: Any) -> Any:
        """Send one request and return its result.

        Parameters
        ----------
        run_s
            Seconds it may take while no compiler is at work.
        build_s
            Seconds it may take in addition while processes below it (compilers) are.

        Raises
        ------
        RunnerError, RunnerDied, RunnerTimedOut, RunnerFlooded, RunnerForged
        """
        self.wait_ready()
        try:
            self._channel.send({"command": command, **params})
        except ChannelClosed:
            raise self._death() from None
        answer = self._receive(run_s, build_s)
        if "error" in answer and isinstance(answer["error"], dict):
            raise RunnerError(answer["error"])
        if not isinstance(answer.get("result"), dict):
            self.kill()
            raise RunnerForged(str(answer)[:200])
        return answer["result"]

    def _receive(self, run_s: float, build_s: float) -> dict[str, Any]:
        """Wait for one frame, and charge the time to running or to building, whichever went on."""
        spent = {False: 0.0, True: 0.0}
        limits = {False: run_s, True: build_s or run_s}
        while True:
            begin = time.monotonic()
            try:
                return self._channel.receive(begin + TICK_S)
            except ChannelClosed:
                raise self._death() from None
            except ChannelDamaged as error:
                self.kill()
                raise RunnerForged(str(error)) from error
            except DeadlinePassed:
                building = bool(build_s) and bool(processes.descendants(self.pid))
            took = time.monotonic() - begin
            spent[building] += took
            self.build_s += took if building else 0.0
            if self._capture.flooded:
                self.kill()
                raise RunnerFlooded
            if spent[building] > limits[building]:
                self.kill()
                raise RunnerTimedOut(building, limits[building])

    def _death(self) -> RunnerDied:
        """Collect a process that closed its pipe."""
        try:
            code = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            # It closed the pipe and lives on: no longer of use to anybody.
            code = 0
        self.kill()
        return RunnerDied(code)

    def kill(self) -> None:
        """Kill the process and all below it, and wait until it is gone."""
        if self._process.poll() is None:
            # Stopped first, it cannot start more while those below it are found.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGSTOP)
            processes.kill_below(self.pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if self._process.poll() is None:
            processes.kill(self.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        self._channel.close()


class Household:
    """Knows every process the judge keeps, and ends those that a dead runner left behind."""

    def __init__(self) -> None:
        self._kept: list[RunnerProcess] = []
        self._known = set(processes.descendants(os.getpid()))

    def add(self, runner: RunnerProcess) -> RunnerProcess:
        """Keep a runner."""
        self._kept.append(runner)
        return runner

    def end(self, runner: RunnerProcess | None) -> None:
        """Kill a runner, and orphans of it that this process has adopted."""
        if runner is None:
            return
        runner.kill()
        if runner in self._kept:
            self._kept.remove(runner)
        self.sweep()

    def settle(self) -> None:
        """Take the processes that now exist for the user's own, to be left alone."""
        mine = {runner.pid for runner in self._kept}
        self._known = {pid for pid in processes.descendants(os.getpid()) if pid not in mine}

    def sweep(self) -> None:
        """Kill what no one here keeps."""
        spare = self._known | {runner.pid for runner in self._kept}
        processes.kill_below(os.getpid(), spare=spare)
        processes.reap(spare)

    def end_all(self) -> None:
        """Kill every runner."""
        for runner in list(self._kept):
            runner.kill()
        self._kept.clear()
