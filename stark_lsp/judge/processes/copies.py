"""Copy and measure folders that a hostile process may have filled."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

CHUNK = 1 << 20
DEPTH = 32
"""Folders within folders that are copied; no compiler nests them deeper."""
ENTRIES = 1 << 16
"""Files and folders that are copied: empty ones take no bytes, and still time and room."""


class TooLarge(Exception):
    """The folder holds more than may be copied."""


class NotRegular(OSError):
    """It is no regular file."""


def copy_tree(source: str, target: str, limit: int) -> int:
    """Copy regular files and folders, nothing else, and return the bytes copied.

    Links are left out rather than followed, the source itself and what takes the place of a folder meanwhile too: they
    may point to what the writer could not read itself.

    The target is made when it is missing.

    Raises
    ------
    TooLarge
        There are more bytes than the limit, too many files and folders, or folders too deep.
    OSError
        There is no such folder.
    """
    total = entries = 0
    for where, _, names, folder in os.fwalk(source):
        entries += 1 + len(names)
        if entries > ENTRIES:
            raise TooLarge(f"more than {ENTRIES} files and folders")
        inner = os.path.relpath(where, source)
        if inner.count(os.sep) >= DEPTH:
            raise TooLarge(f"more than {DEPTH} folders within folders")
        place = os.path.join(target, inner)
        os.makedirs(place, mode=0o700, exist_ok=True)
        for name in names:
            total += _copy(name, os.path.join(place, name), limit - total, folder)
    return total


def files(folder: str) -> Iterator[tuple[str, int, float]]:
    """Yield path, bytes and time of the last change of each regular file below `folder`; nothing if it is missing."""
    for where, _, names in os.walk(folder, followlinks=False):
        for name in names:
            path = os.path.join(where, name)
            with contextlib.suppress(OSError):
                info = os.lstat(path)
                if stat.S_ISREG(info.st_mode):
                    yield path, int(info.st_size), info.st_mtime


def regular(path: str, folder: int | None = None) -> BinaryIO:
    """Open a regular file to read it: no symbolic link at the end of its path is followed, no pipe waited for.

    Parameters
    ----------
    folder
        Descriptor of the folder in which the path begins; a folder's name may come to mean another one.

    Raises
    ------
    NotRegular, OSError
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotRegular(errno.EINVAL, "not a regular file")
    return os.fdopen(fd, "rb")


def _copy(name: str, target: str, room: int, folder: int) -> int:
    try:
        opened = regular(name, folder)
    except OSError:
        return 0
    # A file that is mapped into a process, such as a library, must not change under it.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)
    copied = 0
    with opened as file, open(target, "wb") as copy:
        for chunk in iter(lambda: file.read(CHUNK), b""):
            # Whoever wrote it may still do so.
            copied += len(chunk)
            if copied > room:
                raise TooLarge(f"{name} holds more than {room} bytes")
            copy.write(chunk)
        os.chmod(target, stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o700)
    return copied
