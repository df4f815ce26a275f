"""The cache that torch.compile keeps of its own, bounded.

torch itself never removes anything from it. Which entry belongs to which is its own affair: whole top-level entries go,
those written longest ago first, and only while no other judge may be reading them. What is missing it makes anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from typing import IO

from ..device.turns import lock_file
from ..processes import copies

BYTES = 4 << 30
"""Bytes kept."""


def folder(cache_dir: str) -> str:
    """Return where torch.compile keeps it."""
    return os.path.join(cache_dir, "inductor")


class InductorCache:
    """The right to use it, from now until `close` or the end of the process.

    Where nobody else uses it at this moment, it is cut down to `size` bytes.
    """

    def __init__(self, cache_dir: str, size: int = BYTES) -> None:
        self._root = folder(cache_dir)
        self._lock: IO[bytes] | None = None
        os.makedirs(self._root, mode=0o700, exist_ok=True)
        # A file system without locks: then nobody knows who else is there, and nothing is removed.
        with contextlib.suppress(OSError):
            self._lock = lock_file(self._root + ".lock")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                with contextlib.suppress(OSError):
                    self._prune(size)
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    def close(self) -> None:
        """Give the right back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _prune(self, limit: int) -> None:
        found = []
        for name in os.listdir(self._root):
            path = os.path.join(self._root, name)
            own = list(copies.files(path)) if os.path.isdir(path) else []
            with contextlib.suppress(OSError):
                changed = max((changed for _, _, changed in own), default=os.lstat(path).st_mtime)
                found.append((changed, sum(size for _, size, _ in own) or os.lstat(path).st_size, path))
        total = 0
        for _, size, path in sorted(found, reverse=True):
            total += size
            if total > limit:
                shutil.rmtree(path, ignore_errors=True)
                with contextlib.suppress(OSError):
                    os.unlink(path)
