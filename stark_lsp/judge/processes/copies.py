"""Copy and measure folders that a hostile process may have filled."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from typing import BinaryIO


class TooLarge(Exception):
    """The folder holds more than may be copied."""


class NotRegular(OSError):
    """It is no regular file."""


def copy_tree(source: str, target: str, limit: int) -> int:
    """Copy regular files and folders, nothing else, and return the bytes copied.

    Links are left out rather than followed: they may point to what the writer could not read itself.

    The target is made when it is missing.

    Raises
    ------
    TooLarge
        There are more bytes than the limit.
    """
    total = 0
    for where, _, names in os.walk(source, followlinks=False):
        place = os.path.join(target, os.path.relpath(where, source))
        os.makedirs(place, mode=0o700, exist_ok=True)
        for name in names:
            total += _copy(os.path.join(where, name), os.path.join(place, name), limit - total)
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


def regular(path: str) -> BinaryIO:
    """Open a regular file to read it: no symbolic link is followed, no pipe waited for.

    Raises
    ------
    NotRegular, OSError
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotRegular(errno.EINVAL, "not a regular file")
    return os.fdopen(fd, "rb")


def _copy(source: str, target: str, room: int) -> int:
    try:
        opened = regular(source)
    except OSError:
        return 0
    with opened as file:
        info = os.fstat(file.fileno())
        if info.st_size > room:
            raise TooLarge(f"{source} holds {info.st_size} bytes")
        # A file that is mapped into a process, such as a library, must not change under it.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)
        with open(target, "wb") as copy:
            shutil.copyfileobj(file, copy)
        os.chmod(target, stat.S_IMODE(info.st_mode) & 0o700)
    return int(info.st_size)
