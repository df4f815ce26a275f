"""What a process asks the kernel about itself (prctl(2)); off Linux nothing comes of it."""

from __future__ import annotations

import ctypes
import errno
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36


def prctl(option: int, value: int = 0) -> int:
    """Call prctl(2); returns what it returned, or minus errno."""
    if not sys.platform.startswith("linux"):
        return -errno.ENOSYS
    zero = ctypes.c_ulong(0)
    result = ctypes.CDLL(None, use_errno=True).prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero)
    return int(result) if result >= 0 else -ctypes.get_errno()


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent has died."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(sig: int = signal.SIGKILL) -> None:
    """Have the kernel send `sig` to this process when the thread that started it ends."""
    prctl(PR_SET_PDEATHSIG, sig)


def hide_memory() -> bool:
    """Make this process's memory and environment unreadable for other processes of the user; returns whether they are.

    A key lies in the server's, expected outputs in the worker's. Code that runs under the same account could read both,
    through `/proc/<pid>/environ` or ptrace(2), even where a sandbox gives it no key of its own. A process that may not
    be dumped belongs to root there. What we start afterwards is not affected: execve(2) sets it back.

    Called right before the first foreign code could run: a process that only prints help, or is inspected by a test,
    stays as it is.
    """
    return prctl(PR_SET_DUMPABLE, 0) == 0
