"""End a process tree from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time


def _parents() -> dict[int, int]:
    """Return the parent of every live process, zombies left out."""
    found: dict[int, int] = {}
    if sys.platform.startswith("linux"):
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The command in parentheses may itself hold spaces and parentheses.
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] not in (b"Z", b"X"):
                found[int(name)] = int(fields[1])
        return found
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=False).stdout
    for line in listing.splitlines():
        pid, ppid, state = line.split(None, 2)
        if not state.startswith("Z"):
            found[int(pid)] = int(ppid)
    return found


def descendants(root: int) -> list[int]:
    """Return the live processes below `root`."""
    children: dict[int, list[int]] = {}
    for pid, ppid in _parents().items():
        children.setdefault(ppid, []).append(pid)
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found.extend(below)
        queue.extend(below)
    return found


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def kill_tree(root: int, seconds: float = 0.8) -> bool:
    """Kill `root` and everything below it; returns whether all below is gone.

    `root` adopts orphans (it is a child subreaper), so it is kept, stopped, until nothing is left below it:
    otherwise what it would adopt could escape.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(root, signal.SIGSTOP)
    deadline = time.monotonic() + seconds
    while True:
        below = descendants(root)
        if not below or time.monotonic() > deadline:
            break
        for pid in below:
            _kill(pid)
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(root, signal.SIGKILL)
    _kill(root)
    return not below
