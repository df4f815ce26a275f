"""A folder of Triton's own for each candidate source, kept between runs.

A candidate writes there, so no two candidates share one. A folder counts only once it is marked as finished; one
without the mark was left by a candidate that was killed, and is thrown away.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from typing import IO

from .locks import try_lock

MARK = ".finished"
KEPT = 400
"""Folders kept; the ones used longest ago go first."""


class TritonFolder:
    """The folder that one judging may fill.

    Attributes
    ----------
    path
        Absolute path.
    cached
        Whether a finished one was found.
    """

    def __init__(self, path: str, lock: IO[str] | None, cached: bool) -> None:
        self.path = path
        self.cached = cached
        self._lock = lock

    def environment(self) -> dict[str, str]:
        """Return what makes Triton use it."""
        return {"TRITON_CACHE_DIR": self.path}

    def finish(self, keep: bool) -> None:
        """Release it; `keep` says that what is in it was compiled to the end."""
        if keep and self._lock is not None:
            with contextlib.suppress(OSError), open(os.path.join(self.path, MARK), "w") as file:
                file.write("")
        else:
            shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class TritonCache:
    """All such folders below `root`.

    Parameters
    ----------
    root
        Folder kept between runs; created when missing.
    toolchain
        What besides the source decides the result: torch, Triton, architecture.
    """

    def __init__(self, root: str, toolchain: list[str]) -> None:
        self._root = os.path.join(root, "triton")
        self._toolchain = toolchain
        os.makedirs(self._root, mode=0o700, exist_ok=True)
        self._prune()

    def open(self, source: str) -> TritonFolder:
        """Return the folder for a source, locked until `finish`.

        While another judging holds it, a private one is returned rather than waiting.
        """
        digest = hashlib.sha256("\0".join([source, *self._toolchain]).encode("utf-8", "backslashreplace")).hexdigest()
        path = os.path.join(self._root, digest[:32])
        lock = try_lock(path + ".lock")
        if lock is None:
            return TritonFolder(tempfile.mkdtemp(prefix="busy-", dir=self._root), None, False)
        cached = os.path.exists(os.path.join(path, MARK))
        if cached:
            with contextlib.suppress(OSError):
                os.utime(path)
        else:
            shutil.rmtree(path, ignore_errors=True)
            os.makedirs(path, mode=0o700, exist_ok=True)
        return TritonFolder(path, lock, cached)

    def _prune(self) -> None:
        """Drop unfinished folders and the oldest finished ones, unless someone is at work in them."""
        folders = []
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._root):
                if entry.is_dir(follow_symlinks=False):
                    folders.append((entry.stat().st_mtime, entry.path))
        folders.sort(reverse=True)
        for index, (_, path) in enumerate(folders):
            if index < KEPT and os.path.exists(os.path.join(path, MARK)):
                continue
            lock = try_lock(path + ".lock")
            if lock is None:
                continue
            if not os.path.basename(path).startswith("busy-"):
                shutil.rmtree(path, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.unlink(path + ".lock")
            lock.close()
