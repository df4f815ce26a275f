"""What this device can do, measured once: memory bandwidth and the rate of matrix products in each dtype.

The model is the roofline of Williams, Waterman and Patterson (CACM 52(4), 2009): a call takes at least the time to move
its bytes and at least the time to do its operations. Runs in a trusted process only, never in a candidate's.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ...contract.errors import first_line
from ..correctness import ieee
from ..device import fingerprint, observe
from ..timing import clock
from ..transport import claims

BLOCKING_CYCLES = 500_000
"""Some 0.3 ms, in which a call is queued."""
VERSION = 2
KEPT_S = 14 * 86400.0
"""A calibration older than this is taken again: drivers, clocks and neighbours change."""
BUDGET_S = {"cuda": 1.6, "cpu": 1.2}
"""Measuring ends after this time; what was not reached is left out."""
COPY_SHARE = {"cuda": 0.25, "cpu": 0.35}
"""Share of that time for the copy."""
PRODUCT_S = 0.025
"""A single matrix product takes at most about this long."""
CPU_PRODUCT_S = 0.15
COPIES = {"cuda": 50, "cpu": 10}
"""Copies at most, of which the fastest counts."""
CPU_COPY_LIMIT = 256 << 20
BUSY = "The machine was busy while this device was measured; it is measured again next time."
"""Note of a calibration that is not to be relied on."""
DTYPES = ("float32", "tf32", "float64", "bfloat16", "float16")
"""In the order they are measured; tf32 on a GPU only."""

Calibration = dict[str, Any]
"""`bandwidth` (bytes read and written a second), `rates` (operations a second by dtype), `notes`."""

_now = time.perf_counter


def floor(bytes: int | None, flops: int | None, dtype: str, calibration: Calibration | None) -> float | None:
    """Return the microseconds that all of a call takes at this device's best; None where nothing is known.

    Parameters
    ----------
    dtype
        Of the operations, for instance `float32`; those count at the rate of tf32 if that is faster.
    calibration
        Of `calibrate` or `load`.

    Notes
    -----
    It is a yardstick, no bound and no proof of cheating: the cache may keep outputs that were never written to memory,
    some products can be done in fewer operations (Winograd, or by algebra), and what a mask removes need not be read.
    On an H200, an honest masked softmax took 30.2 us where all of it takes 35.9.
    """
    times = memory_us(bytes, calibration), compute_us(flops, fastest(dtype, calibration), calibration)
    return max((time_us for time_us in times if time_us is not None), default=None)


def memory_us(bytes: int | None, calibration: Calibration | None) -> float | None:
    """Return the microseconds it takes to move `bytes` at the measured bandwidth."""
    bandwidth = calibration.get("bandwidth") if calibration else None
    return bytes / bandwidth * 1e6 if bytes is not None and bytes >= 0 and bandwidth else None


def compute_us(flops: int | None, dtype: str, calibration: Calibration | None) -> float | None:
    """Return the microseconds `flops` take at the measured rate of `dtype`."""
    rate = calibration["rates"].get(dtype) if calibration else None
    return flops / rate * 1e6 if flops is not None and flops >= 0 and rate else None


def fastest(dtype: str, calibration: Calibration | None) -> str:
    """Return the dtype that operations on `dtype` may be done in at best: tf32 for float32 where it is faster."""
    rates = calibration["rates"] if calibration else {}
    return "tf32" if dtype == "float32" and rates.get("tf32", 0.0) > rates.get("float32", 0.0) else dtype


def calibration(cache_dir: str, device: str) -> Calibration:
    """Return the device's calibration, from the folder that is kept between runs or taken now and kept there."""
    found = load(cache_dir, device)
    if found is not None:
        return found
    with observe.observing(device) as watch:
        taken = calibrate(device)
    if device == "cpu" and watch.notes:
        # Kept, it would make a slow device of this one for two weeks.
        taken["notes"].append(BUSY)
    elif taken["bandwidth"] is not None:
        try:
            _save(_path(cache_dir, device), taken)
        except OSError as error:
            taken["notes"].append(f"The calibration of this device could not be kept: {error}.")
    return taken


def load(cache_dir: str, device: str) -> Calibration | None:
    """Return the kept calibration of this very device; None if there is none, it is damaged or too old."""
    try:
        with open(_path(cache_dir, device), encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError):
        return None
    return data if _valid(data, key(device)) else None


def key(device: str) -> str:
    """Return what a calibration depends on: the GPU, its driver and torch; or the CPU model, threads and torch."""
    on_gpu = device == "cuda"
    own = [fingerprint.device_key(device), fingerprint.driver_version()] if on_gpu else [torch.get_num_threads()]
    return "|".join(map(str, [VERSION, device, fingerprint.device_name(device), *own, torch.__version__]))


def calibrate(device: str) -> Calibration:
    """Measure the device; takes about `BUDGET_S`, for which a CPU may be busy on all of torch's threads."""
    begin = _now()
    budget = BUDGET_S[device]
    notes: list[str] = []
    bandwidth: float | None = None
    rates: dict[str, float] = {}
    with torch.no_grad():
        try:
            bandwidth = _bandwidth(device, begin + budget * COPY_SHARE[device])
        except RuntimeError as error:  # out of memory is one
            notes.append(f"The memory bandwidth could not be measured: {first_line(error)}.")
        wanted = [dtype for dtype in DTYPES if device == "cuda" or dtype != "tf32"]
        for index, dtype in enumerate(wanted):
            left = begin + budget - _now()
            if left <= 0:
                break
            try:
                rate = _rate(device, dtype, _now() + left / (len(wanted) - index))
            except RuntimeError as error:
                notes.append(f"Matrix products in {dtype} could not be measured: {first_line(error)}.")
                continue
            if math.isfinite(rate) and rate > 0:
                rates[dtype] = rate
    if device == "cuda":
        torch.cuda.empty_cache()
    return {
        "key": key(device),
        "taken": time.time(),
        "bandwidth": bandwidth,
        "rates": rates,
        "notes": notes,
    }


def _bandwidth(device: str, until: float) -> float:
    """Return the best rate of a copy that no cache holds, in bytes read and written a second."""
    size = 4 * clock.last_level_cache(device)
    if device == "cuda":
        size = min(max(size, 256 << 20), torch.cuda.mem_get_info()[0] // 4)
    else:
        # What is free or can be freed (Linux); elsewhere a gigabyte.
        free = 1 << 30
        with contextlib.suppress(OSError, ValueError):
            free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        size = min(max(size, 64 << 20), CPU_COPY_LIMIT, free // 8)
    source = torch.ones(max(1, size // 4), dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    seconds = _best(lambda: target.copy_(source), device, until, repeats=COPIES[device])
    return 2.0 * source.numel() * 4 / seconds


def _rate(device: str, dtype: str, until: float) -> float:
    """Return the best rate of square matrix products in operations a second."""
    with ieee.allowing(dtype == "tf32"):
        kind = getattr(torch, "float32" if dtype == "tf32" else dtype)
        halves = kind.itemsize == 2 or dtype == "tf32"
        if device == "cuda":
            size, largest, longest_s = 1024, 8192 if halves else 4096, PRODUCT_S
        else:
            # Where threads wait for each other a short product takes a scheduler's tick, so a CPU begins with
            # longer ones; half precision may be emulated, and slow.
            size, largest, longest_s = 512 if halves else 1024, 1024, CPU_PRODUCT_S
        rate = 0.0
        while True:
            left, right = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
            out = torch.empty(size, size, dtype=kind, device=device)
            seconds = _best(partial(torch.mm, left, right, out=out), device, until, repeats=6)
            rate = max(rate, 2.0 * size**3 / seconds)
            # Twice the size is eight times the work.
            if size >= largest or 8 * seconds > longest_s or _now() > until:
                return rate
            size *= 2


def _best(call: Callable[[], Any], device: str, until: float, repeats: int) -> float:
    """Return the shortest of a few calls in seconds; at least two are made, the first of them untimed.

    On a GPU they are queued behind a kernel that waits, so that launching is not part of them. Without it, and with ten
    copies, an H200 was once taken for a device of 2.7 instead of 4.0 TB/s.
    """
    call()
    times: list[float] = []
    while len(times) < repeats and (not times or _now() < until):
        if device == "cuda":
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(BLOCKING_CYCLES)
            first.record()
            call()
            last.record()
            last.synchronize()
            times.append(first.elapsed_time(last) / 1e3)
        else:
            begin = _now()
            call()
            times.append(_now() - begin)
    return max(min(times), 1e-9)


def _path(cache_dir: str, device: str) -> str:
    digest = hashlib.sha256(key(device).encode("utf-8", "backslashreplace")).hexdigest()[:24]
    return os.path.join(cache_dir, "roofline", f"{digest}.json")


def _save(path: str, data: Calibration) -> None:
    """Write the file in one step, so that another process never reads half of it."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        new = os.path.join(folder, "new")
        with open(new, "w", encoding="utf-8") as file:
            json.dump(data, file)
        os.replace(new, path)


def _valid(data: Any, wanted: str) -> bool:
    """Whether a file's content is a whole calibration of this device, and young enough."""
    if not isinstance(data, dict) or data.get("key") != wanted:
        return False
    rates, taken = data.get("rates"), data.get("taken")
    return (
        bool(claims.number(data.get("bandwidth")))
        and isinstance(rates, dict)
        and all(isinstance(name, str) and claims.number(rate) for name, rate in rates.items())
        and isinstance(data.get("notes"), list)
        and bool(claims.number(taken))
        and -86400.0 < time.time() - float(taken or 0) < KEPT_S
    )
