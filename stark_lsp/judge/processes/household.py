"""Knows every process the judge keeps, and ends those that a dead child left behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from ...contract import process_trees
from .runners import RunnerProcess


class Household:
    """All children of the judge; safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: list[RunnerProcess] = []
        self._stuck: list[RunnerProcess] = []
        self._known = set(process_trees.descendants(os.getpid()))
        self._lock = threading.RLock()

    def stuck(self) -> list[int]:
        """Return the processes that SIGKILL did not end; one that ended meanwhile is forgotten."""
        with self._lock:
            self._stuck = [child for child in self._stuck if child.alive]
            return [child.pid for child in self._stuck]

    def start(self, make: Callable[[], RunnerProcess]) -> RunnerProcess:
        """Start a child and keep it; meanwhile nobody takes it for an orphan."""
        with self._lock:
            runner = make()
            self._kept.append(runner)
        return runner

    def end(self, runner: RunnerProcess | None) -> None:
        """Kill a child, and orphans of it that this process has adopted."""
        if runner is None:
            return
        runner.kill()
        with self._lock:
            if runner.stuck and runner not in self._stuck:
                self._stuck.append(runner)
            if runner in self._kept:
                self._kept.remove(runner)
        self.sweep()

    def settle(self) -> None:
        """Take the processes that now exist for the user's own, to be left alone."""
        with self._lock:
            mine = {runner.pid for runner in self._kept}
        self._known = {pid for pid in process_trees.descendants(os.getpid()) if pid not in mine}

    def sweep(self) -> None:
        """Kill what no one here keeps."""
        with self._lock:
            spare = self._known | {child.pid for child in [*self._kept, *self._stuck]}
            # Tools that the judge runs itself share its session; every child was started in one of its own.
            process_trees.kill_below(os.getpid(), spare=spare, foreign=process_trees.of_another_session)
            process_trees.reap(spare)

    def end_all(self) -> None:
        """Kill every child."""
        with self._lock:
            for runner in list(self._kept):
                runner.kill()
            self._kept.clear()
