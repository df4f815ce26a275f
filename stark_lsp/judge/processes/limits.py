"""What a child's process tree may take of the machine, watched from outside."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from . import watch

PROCESSES = 512
"""More processes and threads of compilers than any honest candidate needs at once."""
DISK = 8 << 30
"""Bytes a child may write to its folder."""
DISK_SHARE = 0.5
"""Of what would be free without it; the rest is for the judge, and for whoever else uses this disk."""
DISK_LEAST = 256 << 20
"""Bytes that it may write in any case: a disk so full is not a child's fault."""
REST_WATCH_S = 0.5
"""How often a child is looked at that nothing is asked of."""


class Exceeded(NamedTuple):
    """A limit that was passed."""

    what: str
    """`memory`, `processes` or `disk`."""
    text: str
    """For a person."""


@dataclass
class Limits:
    """Limits of one child."""

    memory: int
    """Bytes of resident memory of the whole tree."""
    processes: int = PROCESSES
    """Processes of the whole tree."""
    disk: int = DISK
    """Bytes below its folder."""

    def check(self, pid: int, folder: str) -> Exceeded | None:
        """Return the limit that the tree of `pid` has passed, None if it keeps to all of them."""
        tree = watch.tree(pid)
        resident = sum(tree.values())
        if len(tree) > self.processes:
            return Exceeded("processes", f"it started {len(tree)} processes")
        if resident > self.memory:
            return Exceeded("memory", f"it took {resident >> 20} MiB of memory")
        hidden = watch.hidden_bytes(tree)
        if resident + hidden > self.memory:
            text = f"it took {resident + hidden >> 20} MiB of memory, much of it in files without a name"
            return Exceeded("memory", text)
        written = watch.folder_bytes(folder) + hidden
        if written > min(self.disk, disk_limit(folder, written)):
            return Exceeded("disk", f"it wrote {written >> 20} MiB to the disk")
        return None


def disk_limit(folder: str, written: int) -> int:
    """Return the bytes that a child, which has `written` some, may write to a disk that others need as well."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return DISK_LEAST
    free = found.f_bavail * found.f_frsize
    return max(DISK_LEAST, int(DISK_SHARE * (free + written)))


@dataclass(eq=False)
class RestWatch:
    """Looks at a child, in a thread of its own, until it is ended."""

    look: Callable[[], None]
    """Looks once; never raises."""

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="stark-rest-watch", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(REST_WATCH_S):
            self.look()

    def end(self) -> None:
        """Look no more, also not in the midst of it; safe to call twice."""
        self._ended.set()
        self._thread.join()


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
