"""What hardware counters say of the longest kernel, in sentences. Pure functions.

What the states of a warp mean: Nsight Compute, Profiling Guide, "Warp Scheduler States".
"""

from __future__ import annotations

from stark_lsp.agents.texts import listed
from stark_lsp.contract.counters import STALLED, Counter
from stark_lsp.core.verdict import Profile

WAITS = 3
"""States of a warp that are told."""
SECTOR = 32.0
"""Bytes of a sector, the least that is moved."""
WASTED = 0.75
"""Share of a sector's bytes below which loads and stores are told to use little of it."""
LOST = 10.0
"""Percent of shared memory's accesses from which bank conflicts are told."""
FEW = 50.0
"""Percent of the warps below which an occupancy is told."""
BUSY = 70.0
"""Percent of its peak from which a unit is what limits a kernel."""

_STATES = {
    "barrier": "for others of their block at a barrier",
    "branch resolving": "for the target of a branch",
    "dispatch stall": "for the dispatcher",
    "drain": "for their stores to end before they exit",
    "gmma": "for products of a warp group",
    "imc miss": "for constants that are not in the cache",
    "lg throttle": "to hand in requests to global memory, of which there are too many",
    "long scoreboard": "for data from global or local memory",
    "math pipe throttle": "for an arithmetic unit",
    "membar": "at a memory barrier",
    "mio throttle": "to hand in requests to shared memory or to special functions",
    "no instruction": "for instructions that are not in the cache",
    "short scoreboard": "for data from shared memory or special functions",
    "tex throttle": "to hand in requests to the texture unit",
    "wait": "for the fixed latency of an instruction",
}
_LIMITS = {
    Counter.BY_REGISTERS: "registers",
    Counter.BY_SHARED_MEMORY: "shared memory",
    Counter.BY_WARPS: "the threads of a block",
    Counter.BY_BLOCKS: "the number of blocks",
    Counter.BY_BARRIERS: "barriers",
}


def figures(profile: Profile) -> dict[str, float]:
    """Return what was counted, by the values of `Counter` and by states after `STALLED`; empty where nothing was."""
    return {metric.name: metric.value for metric in profile.metrics}


def access(counted: dict[str, float]) -> list[str]:
    """Return what is wrong with how the kernel reaches memory, and how few of its warps there are; maybe nothing."""
    parts = []
    for what, bytes, sectors in (
        ("loads", Counter.LOADED, Counter.LOAD_SECTORS),
        ("stores", Counter.STORED, Counter.STORE_SECTORS),
    ):
        used = counted.get(bytes.value, SECTOR)
        if used < WASTED * SECTOR:
            asked = counted.get(sectors.value)
            each = f" ({asked:.3g} sectors a request)" if asked else ""
            parts.append(f"its {what} use {used:.3g} of each {SECTOR:.0f} bytes that are moved{each}")
    lost = counted.get(Counter.CONFLICTS.value, 0.0)
    if lost >= LOST:
        parts.append(f"{lost:.0f} % of its accesses to shared memory are lost to bank conflicts")
    active, fitting = counted.get(Counter.ACTIVE.value), counted.get(Counter.FITTING.value)
    if active is not None and active < FEW:
        by = [words for limit, words in _LIMITS.items() if limit.value in counted]
        most = f", of {fitting:.0f} % that fit by {listed(*by)}" if fitting and by else ""
        parts.append(f"{active:.0f} % of the warps are active{most}")
    return parts


def at_work(counted: dict[str, float]) -> str:
    """Say how busy its units are and what its warps wait for; empty if that was not counted."""
    parts = []
    memory, compute = counted.get(Counter.MEMORY.value), counted.get(Counter.COMPUTE.value)
    if memory is not None and compute is not None:
        tensor = counted.get(Counter.TENSOR.value, 0.0)
        products = f" (tensor pipes {tensor:.0f} %)" if tensor >= 1 else ""
        parts.append(f"DRAM works at {memory:.0f} % of its peak and the multiprocessors at {compute:.0f} %{products}")
    states = {name.removeprefix(STALLED): share for name, share in counted.items() if name.startswith(STALLED)}
    told = sorted(((share, state) for state, share in states.items() if state in _STATES), reverse=True)[:WAITS]
    if told:
        waits = (f"{share:.0f} % {_STATES[state]} ({state})" for share, state in told)
        parts.append(f"of their time its warps wait {', '.join(waits)}")
    return f"Counted there: {'; '.join(parts)}." if parts else ""
