"""Time single calls: CUDA events on a GPU, the performance counter on a CPU, caches flushed before each.

What is measured with is bound here at import, before a candidate is loaded.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import torch

_now_ns = time.perf_counter_ns
_synchronize = torch.cuda.synchronize
_Event = torch.cuda.Event
_elapsed = torch.cuda.Event.elapsed_time

CPU_FLUSH_LIMIT = 96 << 20
"""Bytes; flushing a larger cache before each call would take longer than most calls."""
DEFAULT_CACHE = 32 << 20


def last_level_cache() -> int:
    """Return the size of the CPU's largest cache in bytes (Linux; elsewhere a common size)."""
    best = 0
    for index in range(6):
        try:
            with open(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size") as file:
                text = file.read().strip()
        except OSError:
            continue
        unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
        best = max(best, int(text.rstrip("KM")) * unit)
    return best or DEFAULT_CACHE


class _CpuFlush:
    """Reads more memory than the last-level cache holds, on one thread and without torch.

    Reading leaves no dirty lines whose write-back would be charged to the timed call, and staying away
    from torch's thread pool leaves it as idle for a kernel with threads of its own as for torch.
    """

    def __init__(self) -> None:
        half = min(last_level_cache(), CPU_FLUSH_LIMIT) * 5 // 8
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


class _CudaFlush:
    """Writes twice the size of the L2 cache."""

    def __init__(self) -> None:
        size = int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)) or (64 << 20)
        self._buffer = torch.empty(2 * size, dtype=torch.int8, device="cuda")
        self._zero = self._buffer.zero_

    def __call__(self) -> None:
        self._zero()


class Clock:
    """Times calls on one device.

    Parameters
    ----------
    device
        `cpu` or `cuda`.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._flush: Callable[[], None] = _CudaFlush() if device == "cuda" else _CpuFlush()

    def measure(self, calls: list[Callable[[], Any]], count: int) -> list[float]:
        """Return the milliseconds of each of `count` calls, taken from `calls` in rotation."""
        return self._cuda(calls, count) if self._device == "cuda" else self._cpu(calls, count)

    def cost_ms(self, call: Callable[[], Any]) -> float:
        """Return the wall-clock milliseconds of one flushed call, flush included."""
        if self._device == "cuda":
            _synchronize()
        begin = _now_ns()
        self.measure([call], 1)
        return (_now_ns() - begin) / 1e6

    def _cpu(self, calls: list[Callable[[], Any]], count: int) -> list[float]:
        times = []
        for index in range(count):
            call = calls[index % len(calls)]
            self._flush()
            begin = _now_ns()
            result = call()
            end = _now_ns()
            del result
            times.append((end - begin) / 1e6)
        return times

    def _cuda(self, calls: list[Callable[[], Any]], count: int) -> list[float]:
        pairs = [(_Event(enable_timing=True), _Event(enable_timing=True)) for _ in range(count)]
        _synchronize()
        for index, (begin, end) in enumerate(pairs):
            call = calls[index % len(calls)]
            self._flush()
            begin.record()
            result = call()
            end.record()
            del result
        _synchronize()
        return [float(_elapsed(begin, end)) for begin, end in pairs]
