"""How long an operation takes, measured, and what this device is capable of."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

REPEATS = 5
"""Timed repeats of one operation."""
LIMIT_S = 0.05
"""No further repeat once this much time was spent on one operation."""


def measure_ms(call: Callable[[], Any], device: torch.device) -> float:
    """Return the median time of `call` in milliseconds; the caller has warmed it up."""
    samples: list[float] = []
    begun = time.perf_counter()
    while len(samples) < REPEATS:
        if device.type == "cuda":
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            first.record()
            for _ in range(4):
                call()
            last.record()
            last.synchronize()
            samples.append(first.elapsed_time(last) / 4)
        else:
            start = time.perf_counter()
            call()
            samples.append((time.perf_counter() - start) * 1e3)
        if time.perf_counter() - begun > LIMIT_S:
            break
    return statistics.median(samples)


def probe(device: torch.device) -> dict[str, float]:
    """Return the memory bandwidth (GB/s, of a large copy) and the cost of one tiny operation (ms)."""
    size = 256 if device.type == "cuda" else 64
    big = torch.ones(size * 1024 * 1024 // 4, device=device)
    target = torch.empty_like(big)
    small = torch.ones(1, device=device)
    target.copy_(big)
    small.add(1)
    copy_ms = max(measure_ms(lambda: target.copy_(big), device), 1e-6)
    tiny_ms = measure_ms(lambda: small.add(1), device)
    return {"bandwidth_gbs": 2 * big.numel() * 4 / copy_ms / 1e6, "overhead_ms": tiny_ms}
