"""What a child's process tree may take of the machine, watched from outside."""

from __future__ import annotations

import os
from typing import NamedTuple

from .sandbox import watch

PROCESSES = 512
"""More processes and threads of compilers than any honest candidate needs at once."""
DISK = 8 << 30
"""Bytes a child may write to its folder."""


class Exceeded(NamedTuple):
    """A limit that was passed."""

    what: str
    """`memory`, `processes` or `disk`."""
    text: str
    """For a person."""


class Limits:
    """Limits of one child.

    Parameters
    ----------
    memory
        Bytes of resident memory of the whole tree.
    processes
        Processes of the whole tree.
    disk
        Bytes below its folder.
    """

    def __init__(self, memory: int, processes: int = PROCESSES, disk: int = DISK) -> None:
        self._memory = memory
        self._processes = processes
        self._disk = disk

    def check(self, pid: int, folder: str) -> Exceeded | None:
        """Return the limit that the tree of `pid` has passed, None if it keeps to all of them."""
        count, resident = watch.tree_size(pid)
        if count > self._processes:
            return Exceeded("processes", f"it started {count} processes")
        if resident > self._memory:
            return Exceeded("memory", f"it took {resident >> 20} MiB of memory")
        hidden = watch.hidden_bytes(pid)
        if resident + hidden > self._memory:
            text = f"it took {resident + hidden >> 20} MiB of memory, much of it in files without a name"
            return Exceeded("memory", text)
        written = watch.folder_bytes(folder)
        if written + hidden > self._disk:
            return Exceeded("disk", f"it wrote {written >> 20} MiB to the disk")
        return None


def memory_limit(share: float) -> int:
    """Return `share` of the machine's memory in bytes, or of the control group's where that is less."""
    total = int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as file:
                text = file.read().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return int(total * share)
