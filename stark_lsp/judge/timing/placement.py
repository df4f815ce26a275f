"""Where threads run: each round begins with the busiest threads of a process on different CPUs.

A scheduler tends to wake a thread where it ran before. Two threads of a region that once landed on one CPU stay
together for long, and the process is slower than another that runs the same code. So is a single thread that launches
kernels, on a CPU whose sibling is busy: half as fast, where a virtual machine hides which CPUs are siblings. Placing
threads anew for each round, in another order each time, makes that a matter of rounds, which the interval covers, and
not of processes.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator

TASKS = "/proc/self/task"


def busiest() -> list[int]:
    """Return the threads of this process, those that ran longest first (Linux)."""
    found = []
    for name in os.listdir(TASKS):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"{TASKS}/{name}/schedstat") as file:
            found.append((int(file.read().split()[0]), int(name)))
    return [thread for _, thread in sorted(found, reverse=True)]


@contextlib.contextmanager
def spread(seed: str) -> Iterator[None]:
    """Keep the busiest threads apart during the block, which should wake all of them; then let them go.

    Which thread goes where the seed decides.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before: dict[int, set[int]] = {}
    try:
        cpus = sorted(os.sched_getaffinity(0))
        random.Random(seed).shuffle(cpus)
        # One thread for each CPU; a thread that was pinned by its owner stays where it is.
        for thread in busiest()[: len(cpus)]:
            own = os.sched_getaffinity(thread)
            if own != set(cpus):
                continue
            before[thread] = own
            os.sched_setaffinity(thread, {cpus[len(before) - 1]})
    except OSError:
        # Not permitted, or a thread that ended meanwhile: then they stay where they are.
        pass
    try:
        yield
    finally:
        for thread, own in before.items():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, own)
