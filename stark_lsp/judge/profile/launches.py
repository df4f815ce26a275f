"""Profile one forward pass in the process that runs it: which kernels, how long, how they were launched.

What comes back is a claim of that process; `assemble` reads it as such.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import profiler

from ...contract.errors import first_line
from ..timing.clock import last_level_cache
from . import names, traces

TRACE_LIMIT = 64 << 20
"""Bytes of a trace that is read; of a longer one names and times are kept."""
MARK = "spin_kernel"
"""Kernel of `torch.cuda._sleep`, launched before and after the call: where both are seen, all between them is."""
CPU_MARK = "stark forward"
CPU_PASSES = 3
"""The shortest of these passes is told, unless one takes long."""
LONG_S = 0.5

_now = time.perf_counter


def profile_call(call: Callable[[], Any], device: str) -> dict[str, Any]:
    """Run `call` and tell what it launched; never raises.

    Run it after timing: once the GPU's profiler has been on, launches may stay a little slower in this process.

    Parameters
    ----------
    call
        One forward pass. It is made once untold, so that what is built or tuned at first use does not count.

    Returns
    -------
    dict
        `device`, `launched` (`core.Launch`es in wire form, at most `LIST_LIMIT`), `names` (bare names of all of them),
        `complete` (whether everything the GPU did was seen), `device_us` and `notes`.
    """
    # Kineto prints to standard error otherwise, which is the candidate's log.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    try:
        found = _cuda(call) if device == "cuda" else _cpu(call)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - reported: a missing profile fails no candidate
        found = _result([], False, [f"Not profiled: {first_line(error)}."])
    return {"device": device, **found}


def _result(launches: list[dict[str, Any]], complete: bool, notes: list[str]) -> dict[str, Any]:
    bare = list(dict.fromkeys(names.base(launch["name"]) or launch["name"] for launch in launches))
    if len(launches) > traces.LIST_LIMIT:
        rest = len(launches) - traces.LIST_LIMIT
        notes = [*notes, f"{rest} more kernels ran; the {traces.LIST_LIMIT} longest are listed."]
    return {
        "launched": launches[: traces.LIST_LIMIT],
        "names": bare[: traces.NAMES_LIMIT],
        "complete": complete and len(bare) <= traces.NAMES_LIMIT,
        "device_us": sum(launch["time_us"] for launch in launches) if launches else None,
        "notes": notes,
    }


def _cpu(call: Callable[[], Any]) -> dict[str, Any]:
    """Record operators by the time each spent itself."""
    call()
    best: dict[str, tuple[int, float]] = {}
    for _ in range(CPU_PASSES):
        begin = _now()
        with profiler.profile(use_kineto=True) as recorded, profiler.record_function(CPU_MARK):
            call()
        totals = traces.self_times(recorded.function_events, CPU_MARK)
        if totals and (not best or _sum(totals) < _sum(best)):
            best = totals
        if _now() - begin > LONG_S:
            break
    if not best:
        return _result([], False, ["Not profiled: another profiler is at work in this process."])
    return _result(traces.cpu_launches(best, CPU_MARK), False, [])


def _sum(totals: dict[str, tuple[int, float]]) -> float:
    return sum(own for _, own in totals.values())


def _cuda(call: Callable[[], Any]) -> dict[str, Any]:
    """Record kernels, copies and fills through CUPTI."""
    call()
    torch.cuda.synchronize()
    cold = _flush_buffer()
    with profiler.profile(use_cpu=False, use_device="cuda", use_kineto=True) as recorded:
        if cold is not None:
            cold.zero_()  # as in timing, inputs come from memory and not from the cache
        torch.cuda._sleep(1000)
        torch.cuda.synchronize()
        call()
        torch.cuda.synchronize()
        torch.cuda._sleep(1000)
        torch.cuda.synchronize()
    events, notes = _gpu_events(recorded)
    if not events:
        return _result([], False, [NO_KERNELS])
    inside, complete = traces.between(events, MARK)
    if not complete:
        notes.append("The GPU's profiler did not tell of every kernel.")
    return _result(traces.gpu_launches(inside), complete, notes)


NO_KERNELS = (
    "Kernels are not listed: the GPU's profiler (CUPTI) gave nothing. Another profiler may be attached, "
    "or the driver may keep it to administrators (NVreg_RestrictProfilingToAdminUsers)."
)


def _flush_buffer() -> Any:
    """Return memory twice as large as the L2 cache, None where there is not enough."""
    size = 2 * last_level_cache("cuda")
    if torch.cuda.mem_get_info()[0] < 4 * size:
        return None
    return torch.empty(size, dtype=torch.int8, device="cuda")


def _gpu_events(recorded: Any) -> tuple[list[traces.Event], list[str]]:
    """Read the trace by way of a file; where that fails, names and times without launch figures."""
    try:
        with tempfile.TemporaryDirectory(prefix="trace-") as folder:
            path = os.path.join(folder, "trace.json")
            recorded.export_chrome_trace(path)
            if os.path.getsize(path) > TRACE_LIMIT:
                raise ValueError("the trace is too long")
            with open(path, encoding="utf-8", errors="replace") as file:
                return traces.gpu_events(json.load(file, strict=False)), []
    except (OSError, ValueError, RuntimeError) as error:
        plain = [
            {"cat": "kernel", "name": event.name(), "ts": event.start_ns() / 1e3, "dur": event.duration_ns() / 1e3}
            for event in recorded.kineto_results.events()
            if "CUDA" in str(event.device_type())
        ]
        notes = [f"Grids and registers are not listed: {first_line(error)}."]
        return traces.gpu_events({"traceEvents": plain}), notes if plain else []
