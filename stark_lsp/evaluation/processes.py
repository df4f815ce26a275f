"""End what a process tree left behind."""

from __future__ import annotations

import contextlib
import os
import sys
import time

from stark_lsp.contract.process_trees import THREADS, fields_of, kill

_MEMORY, _ENVIRONMENT_END = 20, 48
"""Places of `vsize` and `env_end` in /proc/<pid>/stat after the command, see proc(5)."""
SECONDS = 5.0
"""How long to go on killing."""


def kill_marked(name: str, value: str) -> bool:
    """Kill every process whose environment holds a variable with a value; returns whether none is left.

    For what a tree leaves behind whose root was killed and could adopt no orphan any more. Linux only; elsewhere there
    is no telling. One that is being started while others are looked for is found the next time.
    """
    if not sys.platform.startswith("linux"):
        return True
    mark = f"{name}={value}".encode()
    deadline = time.monotonic() + SECONDS
    while True:
        everywhere = {pid: _carries(pid, mark) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))}
        suspects = [pid for pid, carries in everywhere.items() if carries is not False]
        if not suspects or time.monotonic() > deadline:
            return not suspects
        for pid in suspects:
            if everywhere[pid]:
                kill(pid)
        time.sleep(0.005)


def _carries(pid: int, mark: bytes) -> bool | None:
    """Whether another process has `mark` in its environment, None where that cannot be told yet.

    One that has ended has none. While exec(2) puts a program in place there is none to be read either.
    """
    if pid == os.getpid():
        return False
    try:
        # Where the environment ends is said as soon as it can be read, so it is read after that.
        fields = fields_of(pid)
        environment = _environment(f"/proc/{pid}")
        if not environment and int(fields[THREADS]) > 1:
            # Once its main thread has ended, only the others can tell.
            environment = b"".join(_environment(f"/proc/{pid}/task/{one}") for one in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return False
    if environment:
        return mark in environment.split(b"\0")
    # The kernel's own threads, and what has ended, have no memory.
    return None if int(fields[_MEMORY]) and not int(fields[_ENVIRONMENT_END]) else False


def _environment(folder: str) -> bytes:
    """Return that of a thread; nothing if it has ended or begins only now."""
    with contextlib.suppress(ProcessLookupError), open(f"{folder}/environ", "rb") as file:
        return file.read()
    return b""
