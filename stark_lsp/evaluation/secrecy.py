"""Keep other processes of the same user from reading this one."""

from __future__ import annotations

import sys

PR_SET_DUMPABLE = 4
"""prctl(2)."""


def hide_memory() -> bool:
    """Make this process's memory and environment unreadable for other processes of the user (Linux).

    A key lies in our environment and memory. Code that runs under the same account could read both, through
    `/proc/<pid>/environ` or ptrace(2), even where a sandbox gives it no key of its own. A process that may not be
    dumped belongs to root there. What we start afterwards is not affected: execve(2) sets it back.

    Called right before the first worker is started, since until then no foreign code runs: a process that only
    prints help, or is inspected by a test, stays as it is.

    Returns
    -------
    Whether it is hidden now.
    """
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    return bool(ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
