"""Process trees: staying in reach of one's children, and ending all of them."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

THREADS = 17
"""Place of `num_threads` in /proc/<pid>/stat after the command, see proc(5)."""


def parents(*, dead: bool = False) -> dict[int, int]:
    """Return the parent of every live process; with `dead`, of every zombie instead.

    A zombie whose other threads go on lives: only its main thread has ended, and what is below it is still its own.
    """
    found: dict[int, int] = {}
    if os.path.isdir("/proc/self"):
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with contextlib.suppress(OSError):
                fields = fields_of(int(name))
                if (fields[0] in (b"Z", b"X") and int(fields[THREADS]) <= 1) is dead:
                    found[int(name)] = int(fields[1])
        return found
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat="], stdout=subprocess.PIPE, text=True, check=False
    ).stdout
    for line in listing.splitlines():
        pid, ppid, state = line.split(None, 2)
        if state.startswith("Z") is dead:
            found[int(pid)] = int(ppid)
    return found


def fields_of(pid: int) -> list[bytes]:
    """Return what /proc/<pid>/stat says after the command, from the state on; see proc(5).

    Raises
    ------
    OSError
        There is no such process, or no /proc.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The command in parentheses may itself hold spaces and parentheses.
        return file.read().rpartition(b")")[2].split()


def descendants(root: int, table: dict[int, int] | None = None) -> list[int]:
    """Return the live processes below `root`, nearest first."""
    table = parents() if table is None else table
    children: dict[int, list[int]] = {}
    for pid, ppid in table.items():
        children.setdefault(ppid, []).append(pid)
    return _closure(root, lambda pid: children.get(pid, []))


def below(root: int) -> list[int]:
    """Return the processes below `root`, those that have ended but were not waited for too, as their parents list them.

    Takes no longer the more else runs, unlike `descendants`. While some of them end it may leave out others (proc(5)):
    for measuring, not for killing. Where the system has no such lists it is `descendants`.
    """
    if not _lists():
        return descendants(root)
    return _closure(root, _children)


def _closure(root: int, children: Callable[[int], list[int]]) -> list[int]:
    """Return all below `root`, nearest first."""
    found: list[int] = []
    queue = [root]
    while queue:
        below = children(queue.pop())
        found.extend(below)
        queue.extend(below)
    return found


def _children(pid: int) -> list[int]:
    """Return what /proc/<pid>/task/<tid>/children say of all threads of a process."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found: list[int] = []
    for thread in threads:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
            found += map(int, file.read().split())
    return found


@functools.lru_cache(maxsize=1)
def _lists() -> bool:
    """Whether the kernel lists the children of each thread; not all are built so."""
    return os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


def kill(pid: int) -> None:
    """Send SIGKILL to a process that may already be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def kill_below(
    root: int,
    *,
    spare: set[int] | None = None,
    foreign: Callable[[int], bool] | None = None,
    seconds: float = 0.8,
) -> bool:
    """Kill every process below `root`, again and again until none is left.

    A compiler started by ninja sits in a process group of its own, so killing the group of `root` is not enough.

    Parameters
    ----------
    root
        Its descendants are killed, not itself.
    spare
        Processes to leave alone, with all that is below them.
    foreign
        Says which of the others are to be killed; all of them by default.
    seconds
        How long to try.

    Returns
    -------
    bool
        Whether all of them are gone.
    """
    deadline = time.monotonic() + seconds
    while True:
        table = parents()
        for pid in spare or ():
            table.pop(pid, None)
        below = [pid for pid in descendants(root, table) if foreign is None or foreign(pid)]
        if not below:
            return True
        for pid in below:
            kill(pid)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)


def kill_tree(root: int, seconds: float = 5.0) -> bool:
    """Kill `root`, its group and everything below it; returns whether all below is gone.

    It is kept, stopped, until nothing is left below it: it can start no more then, and if it adopts orphans, what it
    would adopt cannot escape.

    Parameters
    ----------
    seconds
        How long to go on; it takes some milliseconds unless the machine is very busy or the kernel holds on
        to a process, as a hung driver does.
    """
    _signal([root], signal.SIGSTOP)
    gone = kill_below(root, seconds=seconds)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(root, signal.SIGKILL)
    kill(root)
    return gone


def of_another_session(pid: int) -> bool:
    """Whether a process is in another session than this one; a process can leave a session, but never join one."""
    try:
        return os.getsid(pid) != os.getsid(0)
    except (ProcessLookupError, PermissionError):
        return False


def reap(spare: set[int]) -> None:
    """Collect dead children of this process, adopted ones too, but not those in `spare`."""
    me = os.getpid()
    for pid, ppid in parents(dead=True).items():
        if ppid == me and pid not in spare and of_another_session(pid):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


@contextlib.contextmanager
def stopped(root: int) -> Iterator[None]:
    """Stop a process and all below it in the block; what they start at this very moment runs on."""
    _signal([root, *below(root)], signal.SIGSTOP)
    try:
        yield
    finally:
        _signal([*reversed(below(root)), root], signal.SIGCONT)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
