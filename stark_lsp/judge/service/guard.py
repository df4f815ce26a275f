"""The guard: a small process around the worker, so that nothing outlives the server.

The server starts the guard; the guard forks the worker and then only waits. It runs no foreign code,
so it always answers signals, however busy the worker is. It adopts every orphan below it, so a
compiler or a daemon that lost its parent stays in reach and is killed with the rest.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from ...contract import process_trees
from ...contract.prctl import adopt_orphans, die_with_parent


def run(worker: Callable[[], None]) -> None:
    """Fork, run `worker` in the child, and stay behind as its guard; returns in neither process."""
    adopt_orphans()
    guard = os.getpid()
    pid = os.fork()
    if pid == 0:
        die_with_parent(signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        worker()
        sys.stderr.flush()
        os._exit(0)
    _watch(pid)


def _watch(worker: int) -> None:
    """Wait for the worker, then end everything below and exit as it did."""

    def end(signum: int, _: FrameType | None) -> None:
        process_trees.kill_below(os.getpid())
        os._exit(128 + signum)

    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, end)
    die_with_parent(signal.SIGTERM)
    # The pipes belong to the worker: were they open here as well, nobody would see it end.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    code = 1
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            break
        if pid == worker:
            code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            break
    process_trees.kill_below(os.getpid())
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code)
