"""Files kept between runs under a key of their content: built libraries, and what speeds builds up.

An entry is a folder with `entry.json` and one file. It is written under another name, flushed to the disk and then
renamed, so that whoever is killed on the way leaves no half entry. Locks go with their holder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from typing import Any

from .locks import lock, try_lock

ENTRIES = 400
BYTES = 2 << 30
RECENT_S = 600.0
"""An entry used so recently is kept: somebody may be about to read it."""
FILE = 512 << 20
"""Bytes of one file that are taken over from a builder."""
CHUNK = 1 << 20
NEW = "new-"


class NotTaken(Exception):
    """A builder's file is not what was asked for; the text says why."""


class Entry:
    """One file that is kept.

    Attributes
    ----------
    path
        The file.
    facts
        What was noted about it.
    """

    def __init__(self, path: str, facts: dict[str, Any]) -> None:
        self.path = path
        self.facts = facts


class Cache:
    """All entries below `root`; safe between threads, processes, and with whoever is killed.

    Parameters
    ----------
    root
        Created when missing.
    entries, size
        How many entries and bytes are kept; the ones used longest ago go first.
    """

    def __init__(self, root: str, entries: int = ENTRIES, size: int = BYTES) -> None:
        self._root = root
        self._entries = entries
        self._size = size
        os.makedirs(root, mode=0o700, exist_ok=True)
        self._sweep()

    @contextlib.contextmanager
    def hold(self, key: str, seconds: float) -> Iterator[bool]:
        """Keep everybody else from making this entry; says whether that was possible in time."""
        # A few hundred locks for all keys: so their files can stay, and need no care.
        held = lock(self._lock_path(key), seconds)
        try:
            yield held is not None
        finally:
            if held is not None:
                held.close()

    def get(self, key: str) -> Entry | None:
        """Return an entry that is whole, None otherwise."""
        folder = os.path.join(self._root, key)
        note = os.path.join(folder, "entry.json")
        try:
            with open(note, encoding="utf-8") as file:
                facts = json.load(file)
            path = os.path.join(folder, os.path.basename(facts["file"]))
            whole = os.path.getsize(path) == facts["size"] and digest(path) == facts["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if not whole:
            return None
        with contextlib.suppress(OSError):
            os.utime(note)
        return Entry(path, facts["facts"])

    def put(self, key: str, source: str, name: str, facts: dict[str, Any]) -> Entry:
        """Take a builder's file over; call it while holding the key.

        Parameters
        ----------
        source
            Where the builder left it.
        name
            What it is to be called.
        facts
            Noted with it; JSON values.

        Raises
        ------
        NotTaken
            It is no regular file, or too large.
        OSError
            It cannot be written, for instance because the disk is full.
        """
        new = os.path.join(self._root, f"{NEW}{key}-{secrets.token_hex(4)}")
        os.mkdir(new, 0o700)
        try:
            path = os.path.join(new, name)
            size, checksum = take(source, path)
            note = {"file": name, "size": size, "sha256": checksum, "facts": facts}
            with open(os.path.join(new, "entry.json"), "w", encoding="utf-8") as file:
                json.dump(note, file)
                file.flush()
                os.fsync(file.fileno())
            final = os.path.join(self._root, key)
            shutil.rmtree(final, ignore_errors=True)
            os.rename(new, final)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        self._prune()
        return Entry(os.path.join(final, name), facts)

    def _lock_path(self, key: str) -> str:
        return os.path.join(self._root, f"{key[:2]}.lock")

    def _sweep(self) -> None:
        """Remove what was being written by processes that are gone."""
        for name in os.listdir(self._root):
            if name.startswith(NEW):
                held = try_lock(self._lock_path(name[len(NEW) :]))
                if held is not None:
                    shutil.rmtree(os.path.join(self._root, name), ignore_errors=True)
                    held.close()

    def _prune(self) -> None:
        """Remove the entries used longest ago until the rest fits."""
        found = []
        for name in os.listdir(self._root):
            folder = os.path.join(self._root, name)
            if name.startswith(NEW) or not os.path.isdir(folder):
                continue
            try:
                used = os.path.getmtime(os.path.join(folder, "entry.json"))
                size = sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(folder))
            except OSError:
                used, size = 0.0, 0
            found.append((used, size, folder))
        found.sort(reverse=True)
        total = 0
        for index, (used, size, folder) in enumerate(found):
            total += size
            if (index >= self._entries or total > self._size) and time.time() - used > RECENT_S:
                shutil.rmtree(folder, ignore_errors=True)


def digest(path: str) -> str:
    """Return the SHA-256 of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(CHUNK), b""):
            found.update(chunk)
    return found.hexdigest()


def take(source: str, target: str) -> tuple[int, str]:
    """Copy a builder's file to a place that the builder cannot reach, and return its size and SHA-256.

    Raises
    ------
    NotTaken
        It is no regular file, or too large.
    """
    try:
        # Neither a symbolic link is followed nor a pipe waited for.
        fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotTaken(f"The build left nothing that can be read: {error.strerror}.") from error
    found = hashlib.sha256()
    size = 0
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NotTaken("The build left something that is no file.")
        with open(target, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as copy:
            for chunk in iter(lambda: file.read(CHUNK), b""):
                size += len(chunk)
                if size > FILE:
                    raise NotTaken(f"The build left more than {FILE >> 20} MiB.")
                found.update(chunk)
                copy.write(chunk)
            copy.flush()
            os.fsync(copy.fileno())
    return size, found.hexdigest()
