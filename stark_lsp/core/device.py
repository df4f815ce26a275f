"""Device: what the hardware and the software for it can do, for whoever writes kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """Facts of a GPU or a CPU; None, 0 or empty where they are not known."""

    capability: str = ""
    """Compute capability of a GPU, for instance `9.0`."""
    processors: int | None = None
    """Streaming multiprocessors of a GPU, physical cores of a CPU that may be used."""
    threads: int | None = None
    """Threads that a multiprocessor holds at once."""
    registers: int | None = None
    """32-bit registers of a multiprocessor."""
    block_registers: int | None = None
    """Of these, what a block may have."""
    shared_bytes: int | None = None
    """Shared memory of a multiprocessor."""
    block_shared_bytes: int | None = None
    """What a block may have of it without asking."""
    block_shared_bytes_asked: int | None = None
    """What it may have by `cudaFuncAttributeMaxDynamicSharedMemorySize`."""
    caches: tuple[tuple[str, int], ...] = ()
    """Name and bytes of each cache for data, the smallest first."""
    instructions: tuple[str, ...] = ()
    """Sets of vector instructions of a CPU that matter, for instance `avx2`."""
    bandwidth: float | None = None
    """Bytes a second, read and written, that a large copy reached when it was measured."""
    rates: tuple[tuple[str, float], ...] = ()
    """Operations a second by dtype that a square matrix product reached when it was measured."""
    triton: str = ""
    """Version of Triton."""
    dot_precisions: tuple[str, ...] = ()
    """What `input_precision` of Triton's `dot` may be for float32."""
    nvcc: str = ""
    """Release of nvcc, empty if there is none."""
    libraries: tuple[tuple[str, str], ...] = ()
    """Name and folder of headers that a kernel may include: CUTLASS, CuTe, cuBLASLt."""
