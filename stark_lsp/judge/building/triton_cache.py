"""What Triton compiled for each candidate source, kept between runs.

A candidate compiles into a folder of its own, which is copied here when it is done. A folder counts only once it is
marked as finished; one without the mark was left by a judge that was killed, and is thrown away.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable
from typing import IO

from ..processes import copies
from .locks import remove, try_lock

MARK = ".finished"
KEPT = 400
"""Folders kept; the ones used longest ago go first."""
BYTES = 4 << 30
"""Bytes kept in all of them."""
FOLDER_LIMIT = 256 << 20
"""Bytes of one candidate's folder that are kept."""
BUSY = "busy-"
LOCK = ".lock"


class TritonFolder:
    """The folder that one judging may fill.

    Parameters
    ----------
    path
        Absolute path.
    lock
        Held until `finish`.
    cached
        Whether a finished one was found.
    private
        Whether it is for this judging only.
    done
        Called after a folder was kept.
    """

    def __init__(self, path: str, lock: IO[str] | None, cached: bool, private: bool, done: Callable[[], None]) -> None:
        self.path = path
        """Absolute path."""
        self.cached = cached
        """Whether a finished one was found."""
        self._lock = lock
        self._private = private
        self._done = done

    def finish(self, keep: bool) -> None:
        """Release it; `keep` says that what is in it was compiled to the end. An empty one is never kept."""
        keep = keep and not self._private and self._lock is not None and _size(self.path) > 0
        if keep:
            with contextlib.suppress(OSError), open(os.path.join(self.path, MARK), "w") as file:
                file.write("")
        else:
            shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            remove(self._lock, self.path + LOCK)
            self._lock = None
        if keep and not self.cached:
            self._done()


class TritonCache:
    """All such folders below `root`; safe between threads, processes, and with whoever is killed.

    Parameters
    ----------
    root
        Folder kept between runs; created when missing.
    toolchain
        What besides the source decides the result: torch, Triton, architecture.
    kept, size
        How many folders and bytes are kept; the ones used longest ago go first.
    """

    def __init__(self, root: str, toolchain: list[str], kept: int = KEPT, size: int = BYTES) -> None:
        self._root = os.path.join(root, "triton")
        self._toolchain = toolchain
        self._kept = kept
        self._bytes = size
        os.makedirs(self._root, mode=0o700, exist_ok=True)
        self._prune()

    def open(self, source: str) -> TritonFolder:
        """Return the folder for a source, locked until `finish`.

        While another judging holds it, a private one is returned rather than waiting.
        """
        digest = hashlib.sha256("\0".join([source, *self._toolchain]).encode("utf-8", "backslashreplace")).hexdigest()
        path = os.path.join(self._root, digest[:32])
        lock = try_lock(path + LOCK)
        private = lock is None
        if private:
            path = os.path.join(self._root, f"{BUSY}{secrets.token_hex(8)}")
            lock = try_lock(path + LOCK)
        cached = os.path.exists(os.path.join(path, MARK))
        if cached:
            with contextlib.suppress(OSError):
                os.utime(path)
        else:
            shutil.rmtree(path, ignore_errors=True)
            os.makedirs(path, mode=0o700, exist_ok=True)
        return TritonFolder(path, lock, cached, private, self._prune)

    def _prune(self) -> None:
        """Drop what is unfinished, empty or beyond the bounds, unless someone is at work in it; then stray locks."""
        found: list[tuple[float, int, str]] = []
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._root):
                if entry.is_dir(follow_symlinks=False):
                    with contextlib.suppress(OSError):
                        found.append((entry.stat().st_mtime, _size(entry.path), entry.path))
        found.sort(reverse=True)
        count = total = 0
        for used, size, path in found:
            if size > 0 and os.path.exists(os.path.join(path, MARK)):
                count, total = count + 1, total + size
                if count <= self._kept and total <= self._bytes:
                    continue
            self._drop(path, used)
        with contextlib.suppress(OSError):
            for name in os.listdir(self._root):
                path = os.path.join(self._root, name)
                if name.endswith(LOCK) and not os.path.exists(path[: -len(LOCK)]):
                    lock = try_lock(path)
                    if lock is not None:
                        remove(lock, path)

    @staticmethod
    def _drop(path: str, used: float) -> None:
        """Remove a folder that was last used at that time, unless it is in use or was used since."""
        lock = try_lock(path + LOCK)
        if lock is None:
            return
        with contextlib.suppress(OSError):
            if os.stat(path).st_mtime == used:
                shutil.rmtree(path, ignore_errors=True)
        remove(lock, path + LOCK)


def _size(folder: str) -> int:
    """Return the bytes of what was compiled into a folder."""
    mark = os.path.join(folder, MARK)
    return sum(size for path, size, _ in copies.files(folder) if path != mark)
