"""Look at a confined tree from outside: how many processes, how much memory, how much on disk."""

from __future__ import annotations

import os
import stat

PAGE = int(os.sysconf("SC_PAGE_SIZE"))
BLOCK = 512
"""Unit of `st_blocks`."""
MOST_FILES = 200_000
"""So many files are looked at; more are a disk bomb whatever they hold."""

ENDLESS = 1 << 62
"""Said of a folder with more files than that."""


def tree(pid: int) -> dict[int, int]:
    """Return the processes of the tree below and with `pid`, with their resident memory in bytes.

    Empty where there is no /proc. Zombies count.
    """
    parents: dict[int, int] = {}
    resident: dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The command in parentheses may itself hold spaces and parentheses.
                fields = file.read().rpartition(b")")[2].split()
            parents[int(name)] = int(fields[1])
            resident[int(name)] = int(fields[21]) * PAGE
        except (OSError, IndexError, ValueError):
            # It ended meanwhile.
            continue
    children: dict[int, list[int]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    members = [pid] if pid in parents else []
    for member in members:
        members.extend(children.get(member, ()))
    return {member: resident[member] for member in members}


def tree_size(pid: int) -> tuple[int, int]:
    """Return how many processes and how many bytes of resident memory the tree below and with `pid` takes.

    Shared pages count for each process, as `top` counts them.
    """
    found = tree(pid)
    return len(found), sum(found.values())


def hidden_bytes(pid: int) -> int:
    """Return the bytes that a tree holds in files without a name: deleted ones still open, and memory files.

    Neither its folder nor its resident memory shows them.
    """
    sizes: dict[tuple[int, int], int] = {}
    for member in tree(pid):
        try:
            numbers = os.listdir(f"/proc/{member}/fd")
        except OSError:
            continue
        for number in numbers:
            try:
                found = os.stat(f"/proc/{member}/fd/{number}")
            except OSError:
                continue
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
        except OSError:
            continue
        with entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                except OSError:
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
