"""The build cache: one folder for each candidate source and toolchain.

Whatever a candidate builds (through `TORCH_EXTENSIONS_DIR` or Triton) lands in its own folder. A folder
counts only once it holds the mark of a finished build; one without it was left by a build that was killed
and is thrown away, with torch's lock file in it that the next build would wait for without end.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from typing import Any

MARK = ".finished"
KEPT = 400
"""Folders kept; the ones used longest ago go first."""


class Build:
    """The folder one judging builds in.

    Attributes
    ----------
    folder
        Absolute path.
    cached
        Whether a finished build was found in it.
    """

    def __init__(self, folder: str, lock: Any | None, cached: bool) -> None:
        self.folder = folder
        self.cached = cached
        self._lock = lock

    def environment(self) -> dict[str, str]:
        """Return what makes torch and Triton build here."""
        return {
            "TORCH_EXTENSIONS_DIR": self.folder,
            "TRITON_CACHE_DIR": os.path.join(self.folder, "triton"),
        }

    def finish(self, keep: bool) -> None:
        """Release the folder; `keep` says that what is in it was built to the end."""
        if keep and self._lock is not None:
            with contextlib.suppress(OSError), open(os.path.join(self.folder, MARK), "w") as file:
                file.write("")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class BuildCache:
    """All build folders below `root`.

    Parameters
    ----------
    root
        Created when missing.
    toolchain
        What besides the source decides the result: torch, compilers, architecture.
    """

    def __init__(self, root: str, toolchain: list[str]) -> None:
        self._root = os.path.join(root, "builds")
        self._toolchain = toolchain
        os.makedirs(self._root, mode=0o700, exist_ok=True)
        self._prune()

    def open(self, source: str) -> Build:
        """Return the folder for a source, locked until `finish`.

        When another process builds the same source now, a private folder is returned rather than waiting.
        """
        digest = hashlib.sha256("\0".join([source, *self._toolchain]).encode("utf-8", "backslashreplace")).hexdigest()
        folder = os.path.join(self._root, digest[:32])
        lock = _try_lock(folder + ".lock")
        if lock is None:
            return Build(tempfile.mkdtemp(prefix="busy-", dir=self._root), None, False)
        cached = os.path.exists(os.path.join(folder, MARK))
        if cached:
            _drop_locks(folder)
            with contextlib.suppress(OSError):
                os.utime(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder, mode=0o700, exist_ok=True)
        return Build(folder, lock, cached)

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
            lock = _try_lock(path + ".lock")
            if lock is not None and not os.path.basename(path).startswith("busy-"):
                shutil.rmtree(path, ignore_errors=True)
                with contextlib.suppress(OSError):
                    os.unlink(path + ".lock")
            if lock is not None:
                lock.close()


def _try_lock(path: str) -> Any | None:
    """Return an open file that holds an exclusive lock, None if another process holds it.

    The lock belongs to the open file: it goes when its holder dies, however it dies.
    """
    import fcntl

    file = open(path, "w")  # noqa: SIM115 - stays open as long as the lock is held
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def _drop_locks(folder: str) -> None:
    """Remove torch's lock files (`torch.utils.file_baton`); we hold the folder, so nobody waits on them."""
    for where, _, names in os.walk(folder):
        if "lock" in names:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(where, "lock"))
