"""From a profiler's events to launches. Pure functions.

The form of the events is that of Kineto's trace (pytorch/kineto, `output_json.cpp` and `CuptiActivity.cpp`): `cat`,
`name`, `ts` and `dur` in microseconds, and for a kernel `args` with `grid`, `block`, `registers per thread`,
`shared memory` (static and dynamic, bytes) and `est. achieved occupancy %`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..transport import claims
from . import names

LIST_LIMIT = 50
"""Launches that are told one by one; the longest ones."""
NAMES_LIMIT = 400
"""Bare names that are told; beyond, nothing is said about what was not launched."""

GPU_KINDS = ("kernel", "gpu_memcpy", "gpu_memset")
OWN_CODE = "(own code)"
"""The entry for time that no operator accounts for: Python, and functions called through ctypes."""

Event = dict[str, Any]


def gpu_events(trace: Any) -> list[Event]:
    """Return the kernels, copies and fills of a trace in order of time; malformed entries are left out."""
    listed = trace.get("traceEvents") if isinstance(trace, dict) else None
    found = []
    for event in listed if isinstance(listed, list) else []:
        if not isinstance(event, dict) or str(event.get("cat", "")).lower() not in GPU_KINDS:
            continue
        times = (claims.number(event.get("ts")), claims.number(event.get("dur")))
        if None not in times and isinstance(event.get("name"), str):
            found.append(event)
    return sorted(found, key=lambda event: float(event["ts"]))


def between(events: list[Event], mark: str) -> tuple[list[Event], bool]:
    """Return the events between the first and the last kernel called `mark`, and whether there were two.

    Without both marks the profiler did not see everything, and all but the marks are returned.
    """
    marks = [event for event in events if names.base(event["name"]) == mark]
    if len(marks) < 2:
        return [event for event in events if event not in marks], False
    begin, end = marks[0]["ts"] + marks[0]["dur"], marks[-1]["ts"]
    # A clock's rounding may let neighbours overlap by less than a microsecond.
    inside = [event for event in events if event is not marks[0] and event is not marks[-1]]
    return [event for event in inside if begin - 1.0 <= event["ts"] < end], True


def gpu_launches(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return `core.Launch`es in wire form, longest first: one for each kernel, all its launches together."""
    merged: dict[str, dict[str, Any]] = {}
    for event in events:
        name = names.short(event["name"])
        launch = merged.get(name)
        if launch is None:
            launch = merged[name] = {"name": name, "count": 0, "time_us": 0.0, **_figures(event.get("args"))}
        launch["count"] += 1
        launch["time_us"] += float(event["dur"])
    return sorted(merged.values(), key=lambda launch: -launch["time_us"])


def self_times(events: Iterable[Any], mark: str) -> dict[str, tuple[int, float]]:
    """Return how often each operator ran, and the microseconds it spent outside of those it called.

    Parameters
    ----------
    events
        `torch.autograd.profiler.FunctionEvent`s; those count that ran on the thread of the one called `mark`.
    """
    events = list(events)
    thread = next((event.thread for event in events if event.name == mark), None)
    totals: dict[str, tuple[int, float]] = {}
    for event in events:
        if event.thread == thread:
            count, own = totals.get(event.name, (0, 0.0))
            totals[event.name] = count + 1, own + max(0.0, float(event.self_cpu_time_total))
    return totals


def cpu_launches(totals: dict[str, tuple[int, float]], mark: str) -> list[dict[str, Any]]:
    """Return operators as `core.Launch`es in wire form, longest first.

    Parameters
    ----------
    totals
        Of `self_times`.
    mark
        The span around the whole call; what it spent by itself is `OWN_CODE`, if that is worth a word.
    """
    total = sum(own for _, own in totals.values())
    found = []
    for name, (count, own) in totals.items():
        if name != mark:
            found.append({"name": names.cut(name), "count": count, "time_us": own})
        elif own >= max(20.0, 0.1 * total):
            # Below that it is what Python takes to call operators.
            found.append({"name": OWN_CODE, "count": 1, "time_us": own})
    return sorted(found, key=lambda launch: -launch["time_us"])


def _figures(args: Any) -> dict[str, Any]:
    """Return what a kernel event tells besides its time; nothing for a copy."""
    if not isinstance(args, dict):
        return {}
    percent = args.get("est. achieved occupancy %")
    share = min(1.0, float(percent) / 100) if isinstance(percent, (int, float)) and 0 < percent < 1e9 else None
    return {
        "grid": _sizes(args.get("grid")),
        "block": _sizes(args.get("block")),
        "registers": _whole(args.get("registers per thread")),
        "shared_bytes": _whole(args.get("shared memory")),
        "occupancy": share,
    }


def _sizes(value: Any) -> str:
    if isinstance(value, list) and 1 <= len(value) <= 3 and all(_whole(item) is not None for item in value):
        return "x".join(str(int(item)) for item in value)
    return ""


def _whole(value: Any) -> int | None:
    found = claims.number(value)
    return int(found) if found is not None and found.is_integer() else None
