"""Limits of one process (getrlimit(2))."""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import subprocess
from typing import Any

from ...contract import process_trees
from . import kernel
from .layers import Layer
from .policy import Policy

COUNTED_PER_NAMESPACE = (5, 14)
"""Since this kernel, processes are counted for each user namespace on its own."""
MARGIN = 4
"""Elsewhere all processes of the user count, those in other containers too, which cannot be seen: be generous."""


def apply(policy: Policy, layer: Layer) -> None:
    """Set a policy's limits on this process; all it starts inherits them.

    `address_bytes` is left out: it is for what the process starts, see `limit_started_programs`.
    """
    limits = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, policy.file_bytes or None),
        (resource.RLIMIT_CPU, policy.cpu_s or None),
    ]
    if policy.processes and kernel.LINUX:
        limits.append((resource.RLIMIT_NPROC, _processes(policy.processes, layer)))
    for which, value in limits:
        if value is not None:
            _lower(which, value)


def limit_address_space(size: int) -> None:
    """Keep this process, and all it starts, to so many bytes of address space for good (RLIMIT_AS).

    For what compiles: a compile bomb then fails instead of taking the machine's memory.
    """
    if size:
        _lower(resource.RLIMIT_AS, size)


def limit_started_programs(size: int) -> None:
    """Keep whatever this process starts through `subprocess` to so many bytes of address space; 0 for no limit.

    Not this process itself: with torch's CUDA libraries loaded it takes more than any compiler should.
    """
    if not size or not kernel.LINUX:
        return
    start = subprocess.Popen.__init__

    @functools.wraps(start)
    def limited(self: Any, *arguments: Any, **options: Any) -> None:
        before = options.get("preexec_fn")

        def prepare() -> None:
            limit_address_space(size)
            if before is not None:
                before()

        options["preexec_fn"] = prepare
        start(self, *arguments, **options)

    setattr(subprocess.Popen, "__init__", limited)  # noqa: B010 - mypy refuses a plain assignment to a method


def _lower(which: int, value: int) -> None:
    """Lower a limit; one that is lower already stays."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def _processes(count: int, layer: Layer) -> int | None:
    """Return the limit that leaves room for `count` processes here, None if it cannot be told."""
    if layer is Layer.BUBBLEWRAP:
        return count if kernel.release() >= COUNTED_PER_NAMESPACE else None
    return _threads_of_user() + MARGIN * count


def _threads_of_user() -> int:
    """Return how many threads the user runs, as far as can be seen."""
    count = 0
    me = os.getuid()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError, ValueError):
            if os.stat(f"/proc/{name}").st_uid == me:
                count += int(process_trees.fields_of(int(name))[process_trees.THREADS])
    return count
