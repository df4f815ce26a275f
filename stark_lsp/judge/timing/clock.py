"""Time single calls: CUDA events on a GPU, the performance counter on a CPU, caches flushed before each.

On a GPU the caches are flushed on the stream right before a call, as the paper's benchmark does: what launching the
call takes beyond that flush is a part of its time.

What is measured with is bound here at import, before a candidate is loaded.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable
from typing import Any

import torch

from ..device import capabilities

_now_ns = time.perf_counter_ns
_synchronize = torch.cuda.synchronize
_Event = torch.cuda.Event
_record = torch.cuda.Event.record
_current_stream = torch.cuda.current_stream
_elapsed = torch.cuda.Event.elapsed_time

CPU_FLUSH_LIMIT = 96 << 20
"""Bytes; flushing a larger cache before each call would take longer than most calls."""
DEFAULT_CACHE = 32 << 20
FRESH = 7
"""Calls on a GPU that may be timed with empty caches before another process uses it, see `_CudaFlush`."""

FLUSHED = 256 << 20
"""Bytes written to empty the caches of a GPU (`clear_l2_cache` of KernelBench's `timing.py`)."""

Before = Callable[[int], Any]
"""Makes the inputs of a call, given its number."""
Call = Callable[[Any], Any]
After = Callable[[Any], None]
"""Takes what a call returned."""


def last_level_cache(device: str) -> int:
    """Return the size of the largest cache of a GPU, or of the CPU (Linux), in bytes; else a common size."""
    if device == "cuda":
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        return int(getattr(properties, "L2_cache_size", 0)) or (64 << 20)
    return max((nbytes for _, nbytes in capabilities.caches()), default=DEFAULT_CACHE)


class _CpuFlush:
    """Reads more memory than the last-level cache holds, on one thread and without torch.

    Reading leaves no dirty lines whose write-back would be charged to the timed call, and staying away
    from torch's thread pool leaves it as idle for a kernel with threads of its own as for torch.
    """

    def __init__(self) -> None:
        half = min(last_level_cache("cpu"), CPU_FLUSH_LIMIT) * 5 // 8
        self._one = ctypes.create_string_buffer(half)
        self._other = ctypes.create_string_buffer(half)
        self._half = half
        self._memcmp = ctypes.CDLL(None).memcmp
        self._memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        # Untouched pages all map to one zero page and would flush nothing.
        ctypes.memset(self._one, 1, half)
        ctypes.memset(self._other, 1, half)

    def __call__(self) -> None:
        self._memcmp(self._one, self._other, self._half)


def _persisting_reset() -> Callable[[], int] | None:
    """Return what frees the lines of the L2 cache that a kernel may have set aside for itself.

    Such lines survive a flush (CUDA Driver API, `cuCtxResetPersistingL2Cache`).
    """
    try:
        found = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache
    except (OSError, AttributeError):
        # An older driver, or another vendor's device: there is nothing to reset.
        return None
    found.restype = ctypes.c_int
    found.argtypes = []
    return found


class _CudaFlush:
    """Frees persisting lines and writes at least twice the size of the L2 cache, as much as KernelBench's evaluator.

    From the eighth time on that persisting lines are freed in a process, each kernel takes 0.13 us longer to be
    launched (H200, driver 580), until the device has served another process in between: 20 short kernels took 40.5 us
    before and 43.2 after. Without freeing them, kernels that ask the cache to keep their data would find it there.
    """

    def __init__(self) -> None:
        size = max(2 * last_level_cache("cuda"), FLUSHED)
        buffer = torch.empty(size, dtype=torch.int8, device="cuda")
        self._zero = buffer.zero_
        self._reset = _persisting_reset()

    def __call__(self) -> None:
        if self._reset is not None:
            self._reset()
        self._zero()


class Clock:
    """Times calls on one device, `cpu` or `cuda`; it holds the memory that caches are emptied with."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._flush: Callable[[], None] = _CudaFlush() if device == "cuda" else _CpuFlush()

    def measure(
        self, call: Call, numbers: list[int], before: Before, after: After, *, flush: bool = True
    ) -> list[float]:
        """Return the milliseconds of each call.

        Parameters
        ----------
        numbers
            The calls' numbers, which `before` is given.
        before, after
            Run before and after each call and are not timed.
        flush
            Empty the caches before each call.
        """
        collects = gc.isenabled()
        # A collection in the midst of a call would be charged to it.
        gc.disable()
        try:
            timed = self._cuda if self._device == "cuda" else self._cpu
            return timed(call, numbers, before, after, self._flush if flush else lambda: None)
        finally:
            if collects:
                gc.enable()

    def cost_ms(self, call: Call, number: int, before: Before, after: After) -> float:
        """Return the wall-clock milliseconds of one call with all that goes with it."""
        if self._device == "cuda":
            _synchronize()
        begin = _now_ns()
        self.measure(call, [number], before, after)
        return (_now_ns() - begin) / 1e6

    @staticmethod
    def _cpu(call: Call, numbers: list[int], before: Before, after: After, flush: Callable[[], None]) -> list[float]:
        times = []
        for number in numbers:
            arguments = before(number)
            flush()
            begin = _now_ns()
            result = call(arguments)
            end = _now_ns()
            after(result)
            del result
            times.append((end - begin) / 1e6)
        return times

    @staticmethod
    def _cuda(call: Call, numbers: list[int], before: Before, after: After, flush: Callable[[], None]) -> list[float]:
        stream = _current_stream()
        pairs = [(_Event(enable_timing=True), _Event(enable_timing=True)) for _ in numbers]
        for event in (event for pair in pairs for event in pair):
            # It is created when it is first recorded, which takes as long as a launch.
            _record(event, stream)
        for number, (begin, end) in zip(numbers, pairs):
            _synchronize()
            arguments = before(number)
            flush()
            _record(begin, stream)
            result = call(arguments)
            _record(end, stream)
            # All of the device: work of this call on other streams is not done beside what follows. And what goes with
            # a call never runs beside it, so that it takes as long for a short call as for a long one (`wall`).
            _synchronize()
            after(result)
            del result
        _synchronize()
        return [float(_elapsed(begin, end)) for begin, end in pairs]
