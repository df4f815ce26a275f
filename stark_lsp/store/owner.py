"""Whether the process behind a run is still there.

A process id alone is not enough: ids are given out again. So a run keeps the start time of its process
as well, and the place in which the id means anything (host, boot and process-id namespace).
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

_BOOT, _NAMESPACE = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")


class Liveness(Enum):
    """What can be said about the owner of a run."""

    ALIVE = "alive"
    """The same process still runs."""
    GONE = "gone"
    """The process ended, or its id now belongs to another one."""
    UNKNOWN = "unknown"
    """It ran on another host or in another container; nothing can be said from here."""


@dataclass(frozen=True)
class Owner:
    """A process, identified over time."""

    pid: int
    started: str
    """Start time in whatever form the system gives it, the same each time it is asked; empty if it gives none."""
    place: str
    """`host/boot/namespace`."""


def this_process() -> Owner:
    """Return the calling process."""
    pid = os.getpid()
    return Owner(pid, start_time(pid) or "", _place())


def liveness(owner: Owner) -> Liveness:
    """Say whether `owner` still runs."""
    here = _place()
    if owner.place != here:
        host, boot, _ = owner.place.split("/", 2)
        this_host, this_boot, _ = here.split("/", 2)
        return Liveness.GONE if host == this_host and boot != this_boot else Liveness.UNKNOWN
    started = start_time(owner.pid)
    if started is None:
        return Liveness.GONE
    return Liveness.ALIVE if not owner.started or not started or started == owner.started else Liveness.GONE


def start_time(pid: int) -> str | None:
    """Return when the process started, None if there is none, an empty text if the system does not say."""
    if Path("/proc/self/stat").exists():
        return start_time_linux(pid)
    return start_time_posix(pid)


def start_time_linux(pid: int) -> str | None:
    """Return the start time in clock ticks since boot (proc(5), `/proc/pid/stat`, fields 3 and 22)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return ""
    # The second field is the name in parentheses and may hold spaces and parentheses itself.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else fields[19]


def start_time_posix(pid: int) -> str | None:
    """Return the start time as `ps` prints it; for systems without /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # it exists and is another user's
    try:
        answer = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)],
            env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()


def _place() -> str:
    return f"{socket.gethostname().replace('/', '_')}/{_told(_BOOT.read_text)}/{_told(_NAMESPACE.readlink)}"


def _told(by: Callable[[], object]) -> str:
    try:
        return str(by()).strip()
    except OSError:
        return ""
