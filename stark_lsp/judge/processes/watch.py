"""Look at a confined tree from outside: how many processes, how much memory, how much on disk."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable

from ...contract import process_trees

PAGE = int(os.sysconf("SC_PAGE_SIZE"))
BLOCK = 512
"""Unit of `st_blocks`."""
MOST_FILES = 200_000
"""So many files are looked at; more are a disk bomb whatever they hold."""

HIDDEN = (errno.EACCES, errno.ENAMETOOLONG)
"""What looking at a folder or file fails with that was put out of sight; others are gone."""
ENDLESS = 1 << 62
"""Said of a folder with more files than that, or with some that cannot be looked at."""


def tree(pid: int) -> dict[int, int]:
    """Return the processes of the tree below and with `pid`, with their resident memory in bytes.

    Shared pages count for each process, as `top` counts them. Empty where there is no /proc. Zombies count.
    """
    found: dict[int, tuple[int, int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        # One may end meanwhile.
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = process_trees.fields_of(int(name))
            found[int(name)] = int(fields[1]), int(fields[21]) * PAGE
    parents = {child: parent for child, (parent, _) in found.items()}
    members = [pid, *process_trees.descendants(pid, parents)] if pid in found else []
    return {member: found[member][1] for member in members}


def hidden_bytes(pids: Iterable[int]) -> int:
    """Return the bytes that processes hold in files without a name: deleted ones still open, and memory files.

    Neither its folder nor its resident memory shows them.
    """
    sizes: dict[tuple[int, int], int] = {}
    for member in pids:
        numbers: list[str] = []
        with contextlib.suppress(OSError):
            numbers = os.listdir(f"/proc/{member}/fd")
        for number in numbers:
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{member}/fd/{number}")
                if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                    sizes[(found.st_dev, found.st_ino)] = found.st_blocks * BLOCK
    return sum(sizes.values())


def folder_bytes(path: str) -> int:
    """Return the bytes of disk that a folder takes with all below it; holes do not count, links are not followed.

    A file with several names counts once.
    """
    total = 0
    files = 0
    seen: set[tuple[int, int]] = set()
    todo = [path]
    while todo:
        try:
            entries = os.scandir(todo.pop())
        except OSError as error:
            if error.errno in HIDDEN:
                return ENDLESS
            continue
        with entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                except OSError as error:
                    if error.errno in HIDDEN:
                        return ENDLESS
                    continue
                files += 1
                if found.st_nlink > 1:
                    key = (found.st_dev, found.st_ino)
                    if key in seen:
                        continue
                    seen.add(key)
                total += found.st_blocks * BLOCK
        if files > MOST_FILES:
            return ENDLESS
    return total
