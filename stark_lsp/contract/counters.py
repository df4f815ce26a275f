"""Hardware counters of one kernel: what they are called on both sides of the pipe."""

from __future__ import annotations

from enum import Enum


class Counter(str, Enum):
    """One figure; its value is what a person reads."""

    MEMORY = "memory throughput"
    """Percent of DRAM's peak."""
    COMPUTE = "compute throughput"
    """Percent of the peak of whatever unit of the multiprocessors is busiest."""
    TENSOR = "tensor pipes busy"
    """Percent of the time."""
    L2_HITS = "L2 hit rate"
    """Percent of the sectors that are asked for."""
    ACTIVE = "achieved occupancy"
    """Percent of the warps that the hardware could hold."""
    FITTING = "theoretical occupancy"
    """The same, as its registers, shared memory and blocks allow."""
    LOADED = "bytes used of each sector loaded"
    """Of 32; from global memory, by loads to registers."""
    STORED = "bytes used of each sector stored"
    LOAD_SECTORS = "sectors per load request"
    """Requests of a warp to global memory."""
    STORE_SECTORS = "sectors per store request"
    CONFLICTS = "shared memory accesses lost to bank conflicts"
    """Percent."""
    BY_REGISTERS = "blocks that fit by registers"
    """This and the next, each of a multiprocessor: those alone that limit the occupancy."""
    BY_SHARED_MEMORY = "blocks that fit by shared memory"
    BY_WARPS = "blocks that fit by warps"
    BY_BLOCKS = "blocks that fit by their number"
    BY_BARRIERS = "blocks that fit by barriers"


STALLED = "stalled: "
"""Before the reason for which warps do not issue, in the words of Nsight Compute; percent of their cycles."""
