"""Watch the device while something is timed on it, and say what made the times less certain."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from ...contract import process_trees
from . import nvml

OTHERS = 0.15
"""Share of the machine's CPUs from which other programs are worth a note."""
STOLEN = 0.05
"""The same for what the host of a virtual machine takes away."""
UNLUCKY = 0.4
"""See `Watch.unlucky`."""
SHORTEST_S = 0.1
"""The system counts in hundredths of a second: over less than this, its figures say nothing."""
PERIOD_S = 0.05
"""How often a GPU is asked."""
SLOWER = 0.9
"""Clocks below this share of the highest seen are a change worth a note."""


class CpuTime(NamedTuple):
    """CPU seconds since the machine started."""

    all: float
    """Of everything that ran."""
    stolen: float
    """Taken by the host of this virtual machine."""
    ours: float
    """Of this process, those below it now, and those below it that have ended."""


def cpu_time() -> CpuTime | None:
    """Return how much CPU time was used until now, None where the system does not tell."""
    try:
        with open("/proc/stat") as file:
            fields = [int(word) for word in file.readline().split()[1:]]
        tick = os.sysconf("SC_CLK_TCK")
        ours = sum(_own(pid) for pid in [os.getpid(), *process_trees.below(os.getpid())])
    except (OSError, ValueError):
        return None
    if len(fields) < 8:
        return None
    user, nice, system, _, _, irq, softirq, steal = fields[:8]
    return CpuTime((user + nice + system + irq + softirq) / tick, steal / tick, ours / tick)


def _own(pid: int) -> int:
    """Return the ticks of a process and of its children that were waited for."""
    try:
        return sum(int(field) for field in process_trees.fields_of(pid)[11:15])
    except OSError:
        return 0


def others(before: CpuTime, after: CpuTime, seconds: float) -> float:
    """Return how many CPUs other programs kept busy between two moments; 0 if that is too short to tell."""
    if seconds < SHORTEST_S:
        return 0.0
    return max(0.0, (after.all - before.all) - (after.ours - before.ours)) / seconds


def cpu_notes(before: CpuTime, after: CpuTime, seconds: float, cores: int) -> list[str]:
    """Say whether others used the CPUs between two moments."""
    if seconds < SHORTEST_S:
        return []
    notes = []
    busy = others(before, after, seconds)
    if busy > OTHERS * cores:
        notes.append(
            f"Other programs kept {busy:.1f} of {cores} CPUs busy while this was timed: times are less certain."
        )
    if (after.stolen - before.stolen) / seconds > STOLEN * cores:
        notes.append("The host of this virtual machine took CPU time away: times are less certain.")
    return notes


def gpu_notes(states: list[nvml.State], ours: set[int]) -> list[str]:
    """Say what a GPU did while something was timed on it.

    Parameters
    ----------
    ours
        Our own processes, seen in the same way as NVML sees them.
    """
    notes = []
    reasons = functools.reduce(operator.or_, (state.throttled for state in states), 0)
    if reasons & nvml.HEAT:
        hottest = max((state.celsius for state in states if state.celsius is not None), default=None)
        at = f" ({hottest} °C)" if hottest is not None else ""
        notes.append(f"The GPU slowed down from heat while this was timed{at}.")
    elif reasons & (nvml.HARDWARE | nvml.POWER_BRAKE):
        notes.append("The GPU slowed down to protect itself while this was timed.")
    elif reasons & nvml.POWER_CAP:
        notes.append("The GPU ran at its power limit while this was timed.")
    clocks = [state.sm_mhz for state in states if state.sm_mhz]
    if clocks and min(clocks) < SLOWER * max(clocks):
        notes.append(f"The GPU's clock changed between {min(clocks)} and {max(clocks)} MHz while this was timed.")
    others = {pid for state in states for pid in state.processes} - ours
    if others:
        who = "Another process uses" if len(others) == 1 else f"{len(others)} other processes use"
        notes.append(f"{who} this GPU: times are less certain.")
    return notes


class Strangers:
    """Processes of others on a GPU, where the numbers that NVML gives mean nothing here, as in most containers.

    Which of these processes are ours cannot be looked up then. What is certain is used alone: those that were there
    before we began are others', and so are those that appear while somebody is timed, when none of ours begins to use
    the GPU; and if there are more than we have processes at all, some are others'. Where other judges of the same user
    are at work, which keep quiet while one measures, only the last is certain.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()
        self.judges: Callable[[], set[int]] = set
        """Returns the processes of other judges of the same user, by their numbers here, see `Turns.judges`."""

    def were_there(self, listed: Iterable[int]) -> None:
        """Take note of the processes that used a GPU before we did."""
        self._known |= set(listed)

    def among(self, states: Sequence[nvml.State], ours: set[int]) -> set[int]:
        """Return which of the processes on a GPU are others'.

        Parameters
        ----------
        ours
            Our own processes, by their numbers here, both before and after.
        """
        listed = {pid for state in states for pid in state.processes}
        if not listed - ours:
            return set()
        friends = self._friends()
        if listed & ours:
            return listed - ours - friends
        found: set[int] = set()
        if not friends:
            self._known |= listed - set(states[0].processes)
            found = listed & self._known
        more = min(len(state.processes) for state in states) - len(ours) - len(friends)
        return found or set(sorted(listed)[: max(0, more)])

    def _friends(self) -> set[int]:
        """Return the other judges and all that is below them."""
        found = self.judges()
        table = process_trees.parents() if found else {}
        return found | {pid for judge in found for pid in process_trees.descendants(judge, table)}


STRANGERS = Strangers()
"""Of this process."""


def look_around() -> None:
    """Take note of who uses GPUs; to be called before this process or one below it does."""
    STRANGERS.were_there(nvml.computing())


@dataclass(eq=False)
class Watch:
    """What was seen; complete once the block of `observing` has ended."""

    notes: list[str] = field(default_factory=list)
    """For a user."""
    others: float = 0.0
    """Share of the machine's CPUs that other programs kept busy."""
    busy: bool = True
    """Whether others kept the machine busy, as far as can be told."""
    unlucky: float = 0.0
    """What other programs add to the standard deviation between two processes, on the logarithmic scale.

    Which of two processes suffers more from them is a matter of luck that lasts for a session. On two CPUs, the
    unchanged reference was off by 0.3 where others kept three quarters of them busy.
    """


@contextlib.contextmanager
def observing(device: str) -> Iterator[Watch]:
    """Watch a device, `cpu` or `cuda`, during the block."""
    watch = Watch()
    gpu = _GpuWatch() if device == "cuda" else None
    before, begin = cpu_time(), time.monotonic()
    try:
        yield watch
    finally:
        after, seconds = cpu_time(), time.monotonic() - begin
        cores = os.cpu_count() or 1
        watch.notes += gpu.end() if gpu is not None else []
        if before is not None and after is not None:
            watch.others = others(before, after, seconds) / cores
            watch.notes += cpu_notes(before, after, seconds, cores)
            watch.busy = watch.others > OTHERS or seconds < SHORTEST_S
            watch.unlucky = UNLUCKY * watch.others if gpu is None and watch.others > OTHERS else 0.0


class _GpuWatch:
    """Asks the GPU now and then, in a thread."""

    def __init__(self) -> None:
        uuid = str(getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", ""))
        self._gpu = nvml.open_gpu(uuid)
        self._states: list[nvml.State] = []
        self._mine = {os.getpid(), *process_trees.below(os.getpid())}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        if self._gpu is not None:
            self._thread.start()

    def _run(self) -> None:
        # The clocks of the first moments are those of a GPU that was idle.
        while not self._over.wait(PERIOD_S):
            if self._gpu is not None:
                self._states.append(self._gpu.state())

    def end(self) -> list[str]:
        """Stop asking and return what there is to say."""
        if self._gpu is None:
            return []
        self._over.set()
        # One question to the GPU can take a fifth of a second; what is known by now is enough.
        states = list(self._states) or [self._gpu.state()]
        # All of them: one of ours that is not known here would be said to be somebody else's.
        mine = self._mine | {os.getpid(), *process_trees.descendants(os.getpid())}
        listed = {pid for state in states for pid in state.processes}
        return gpu_notes(states, listed - STRANGERS.among(states, mine))
