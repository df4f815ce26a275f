"""Runs the steps of a build that torch has written for ninja: every source in ways that are tried one after another
or side by side, then the link.

A step that fails in every quicker way is run exactly as torch wrote it, and what that says is what is reported.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import IO, Any

POLL_S = 0.01
MANY_CORES = 8
"""From so many cores on, quicker ways and torch's own are started together."""


class Way:
    """One way to carry out a step.

    Parameters
    ----------
    name
        For the record, `stock` for torch's own.
    command
        Shell words.
    prepare
        Called before it starts; writes what it needs.
    """

    def __init__(self, name: str, command: list[str], prepare: Callable[[], None] | None = None) -> None:
        self.name = name
        self.command = command
        self.prepare = prepare


class Run:
    """A way under way."""

    def __init__(self, way: Way, folder: str) -> None:
        if way.prepare is not None:
            way.prepare()
        self.way = way
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `text`
        self._process = subprocess.Popen(
            way.command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def code(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End it with all that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def text(self) -> str:
        """Return what it printed."""
        self._log.seek(0)
        return self._log.read(4 << 20).decode("utf-8", "replace")


class Step:
    """One source to compile, or the link.

    Parameters
    ----------
    name
        For the record.
    target
        What it makes.
    ways
        In the order of preference; the last one is torch's own.
    final
        Says of what a failed way printed whether every other way would fail as well.
    """

    def __init__(
        self, name: str, target: str, ways: list[Way], final: Callable[[str], bool] = lambda text: False
    ) -> None:
        self.name = name
        self.target = target
        self.how = ""
        self.seconds = 0.0
        self.printed = ""
        self.log = ""
        self.failed = False
        self.done = False
        self._waiting = list(ways)
        self._final = final
        self._runs: list[Run] = []
        self._begin = time.monotonic()

    def start(self, folder: str, together: bool) -> None:
        """Start the first way, or with `together` torch's own beside it."""
        self._folder = folder
        self._begin = time.monotonic()
        self._next()
        if together and len(self._waiting) >= 1:
            self._runs.append(Run(self._waiting.pop(), folder))

    def _next(self) -> None:
        self._runs.insert(0, Run(self._waiting.pop(0), self._folder))

    def look(self) -> None:
        """See how its ways are getting on, and decide."""
        for run in list(self._runs):
            code = run.code()
            if code is None:
                continue
            text = run.text()
            if code == 0 or run.way.name == "stock" or self._final(text):
                self._end(run, text, code != 0)
                return
            self._runs.remove(run)
            if self._waiting:
                self._next()

    def _end(self, run: Run, text: str, failed: bool) -> None:
        self._runs.remove(run)
        self.kill()
        self.printed = text
        if not failed and run.way.name != "stock":
            # Every way writes a file of its own, so that one that was killed cannot spoil another's.
            target = os.path.join(self._folder, self.target)
            os.replace(f"{target}.{run.way.name}", target)
            # Warnings about headers of ours would only puzzle.
            text = ""
        self.how, self.log, self.failed, self.done = run.way.name, text, failed, True
        self.seconds = time.monotonic() - self._begin

    def kill(self) -> None:
        """End all its ways."""
        for run in self._runs:
            run.kill()
        self._runs.clear()

    def record(self) -> dict[str, Any]:
        """Return how it was done."""
        return {"name": self.name, "how": self.how, "seconds": round(self.seconds, 3)}


def run_all(steps: list[Step], folder: str, jobs: int, together: bool) -> Step | None:
    """Run steps side by side; return the first one that failed, None if all are done."""
    waiting = list(steps)
    active: list[Step] = []
    try:
        while waiting or active:
            while waiting and len(active) < max(1, jobs):
                step = waiting.pop(0)
                step.start(folder, together)
                active.append(step)
            for step in list(active):
                step.look()
                if step.done:
                    active.remove(step)
                    if step.failed:
                        return step
            time.sleep(POLL_S)
    finally:
        for step in active:
            step.kill()
    return None


def commands(folder: str) -> list[list[str]]:
    """Return the commands that ninja would run in a folder, in an order that works, as shell words.

    Raises
    ------
    OSError, subprocess.CalledProcessError, ValueError
        Ninja does not tell, or a command is more than words.
    """
    text = subprocess.run(
        ["ninja", "-t", "commands"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
    ).stdout.decode("utf-8")
    found = [shlex.split(line) for line in text.splitlines() if line.strip()]
    for words in found:
        if any(word in ("&&", "||", ";", "|", ">", "<", "&") for word in words):
            raise ValueError("a command is more than words")
    return found
