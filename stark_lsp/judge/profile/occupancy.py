"""How many of a multiprocessor's warps fit at once, from what a kernel needs of registers and shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

REGISTER_UNIT = 256
"""Registers are given to a warp in multiples of this (CUDA Occupancy Calculator, compute capability 3.0 on)."""
RESERVED_SHARED = 1024
"""Bytes of shared memory the system keeps of each block, compute capability 8.0 on (CUDA C++ Programming Guide)."""
BLOCKS = 32
"""Blocks resident on one multiprocessor at most; 16 or 24 on some chips, where it rarely matters."""


@dataclass(frozen=True)
class Limits:
    """What one multiprocessor has."""

    threads: int
    registers: int
    shared_bytes: int
    processors: int
    """Multiprocessors of the device."""
    warp: int = 32


def limits_of(properties: Any) -> Limits | None:
    """Read `torch.cuda.get_device_properties`; None where this torch does not tell."""
    try:
        return Limits(
            int(properties.max_threads_per_multi_processor),
            int(getattr(properties, "regs_per_multiprocessor", 65536)),
            int(getattr(properties, "shared_memory_per_multiprocessor", 0)) or 65536,
            int(properties.multi_processor_count),
            int(getattr(properties, "warp_size", 32)),
        )
    except (AttributeError, TypeError, ValueError):
        return None


def estimate(limits: Limits, *, threads: int, registers: int, shared_bytes: int, blocks: int) -> float | None:
    """Return the share of a multiprocessor's warps that are resident, 0 to 1; None for figures that cannot be.

    Parameters
    ----------
    threads
        Of one block.
    registers
        Of one thread.
    shared_bytes
        Of one block.
    blocks
        Of the whole grid; a small grid leaves multiprocessors partly empty.
    """
    if threads < 1 or blocks < 1 or registers < 0 or shared_bytes < 0 or limits.threads < 1 or limits.processors < 1:
        return None
    warps = -(-threads // limits.warp)
    resident = min(BLOCKS, limits.threads // (warps * limits.warp))
    if registers:
        of_warp = -(-registers * limits.warp // REGISTER_UNIT) * REGISTER_UNIT
        resident = min(resident, limits.registers // of_warp // warps)
    resident = min(resident, limits.shared_bytes // (shared_bytes + RESERVED_SHARED))
    filled = min(float(resident), blocks / limits.processors)
    return min(1.0, filled * warps * limits.warp / limits.threads)
