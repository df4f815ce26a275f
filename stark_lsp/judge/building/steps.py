"""Runs the commands of a build that torch has written for ninja: every source in a quicker way, or as torch wrote it.

A source that fails in the quicker way is compiled exactly as torch wrote it, and what that says is what is reported.
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
from dataclasses import dataclass
from typing import IO

POLL_S = 0.01
STOCK = "stock"
"""Torch's own way."""
LOG = 4 << 20
"""Bytes of what a command printed that are read."""


class Run:
    """A command under way."""

    def __init__(self, command: list[str], folder: str) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        self._process = subprocess.Popen(
            command,
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
        self._process.wait()
        self._log.seek(0)
        return self._log.read(LOG).decode("utf-8", "replace")


@dataclass(eq=False)
class Step:
    """One source to compile."""

    folder: str
    """Where it is compiled."""
    target: str
    """What it makes there."""
    ways: dict[str, list[str]]
    """Commands by the names of the ways, in the order in which they are tried; the last one is torch's own."""
    final: Callable[[str], bool]
    """Says of what a failed way printed whether every other way would fail as well."""

    def __post_init__(self) -> None:
        self.how = ""
        """The way that decided."""
        self.log = ""
        self.failed = False

    def start(self) -> None:
        """Start the next way."""
        self.how = next(iter(self.ways))
        self._run = Run(self.ways.pop(self.how), self.folder)

    def done(self) -> bool:
        """See how it is getting on; returns whether that is decided."""
        code = self._run.code()
        if code is None:
            return False
        text = self._run.text()
        if code != 0 and self.ways and not self.final(text):
            self.start()
            return False
        self.failed = code != 0
        # Warnings about headers of ours would only puzzle.
        self.log = text if self.failed or self.how == STOCK else ""
        return True

    def kill(self) -> None:
        """End what is under way."""
        self._run.kill()


def run_all(steps: list[Step], cores: int) -> Step | None:
    """Run steps side by side; return the first one that failed, None if all are done."""
    waiting = list(steps)
    active: list[Step] = []
    try:
        while waiting or active:
            while waiting and len(active) < cores:
                active.append(waiting.pop(0))
                active[-1].start()
            for step in list(active):
                if step.done():
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
    asked = ["ninja", "-t", "commands"]
    text = subprocess.check_output(
        asked, cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, encoding="utf-8"
    )
    found = [shlex.split(line) for line in text.splitlines() if line.strip()]
    for words in found:
        if any(word in ("&&", "||", ";", "|", ">", "<", "&") for word in words):
            raise ValueError("a command is more than words")
    return found
