"""Locks between processes that go when their holder dies, however it dies (flock(2))."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import IO

POLL_S = 0.02


def try_lock(path: str) -> IO[str] | None:
    """Return an open file that holds an exclusive lock, None while another holds it.

    The lock belongs to the open file, so it also holds between threads, and closing the file gives it back.
    """
    while True:
        file = open(path, "w", opener=_private)  # noqa: SIM115 - stays open as long as the lock is held
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return None
        if _is_at(file, path):
            return file
        # Its last holder removed it after it was opened here: whoever comes now makes, and locks, another one.
        file.close()


def remove(held: IO[str], path: str) -> None:
    """Give a lock back and remove its file; nobody can hold it or come to hold it, see `try_lock`."""
    with contextlib.suppress(OSError):
        os.unlink(path)
    held.close()


def lock(path: str, seconds: float) -> IO[str] | None:
    """Wait for a lock; None if it could not be had in time."""
    deadline = time.monotonic() + seconds
    while True:
        held = try_lock(path)
        if held is not None or time.monotonic() > deadline:
            return held
        time.sleep(POLL_S)


def _is_at(file: IO[str], path: str) -> bool:
    """Whether an open file is the one that stands at `path` now."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except OSError:
        return False


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
