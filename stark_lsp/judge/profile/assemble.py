"""Put a profile together from what a process claims, what the compiler says and what the device can do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ..transport import claims
from . import names, roofline, traces

Figures = Mapping[str, Mapping[str, Any]]
"""`registers` of a thread, `shared_bytes` of a block, `local_bytes` and `stack_bytes` of a thread; by kernel name,
mangled or not."""

NOTES_LIMIT = 20
LOOPS_LIMIT = 8
IDLE_SHARE = 0.5
"""When kernels fill less of the runtime than this, their start and the gaps between them are what takes the time."""
LOW_SHARE = 0.02
"""When a call uses less than this of both memory and arithmetic ..."""
USED_SHARE = 0.5
"""A call that uses less than this of both is limited by what the roofline does not know: own arithmetic, waiting."""
SHORT_US = 50.0
"""... and takes less than this, it is bound by what a call costs at all."""


def make_profile(
    claimed: Mapping[str, Any] | None,
    compiled: Figures | None = None,
    cost: Mapping[str, Any] | None = None,
    calibration: roofline.Calibration | None = None,
    runtime_ms: float | None = None,
    notes: Iterable[str] = (),
    loops: Iterable[str] = (),
) -> dict[str, Any]:
    """Return `core.Profile` in wire form.

    Parameters
    ----------
    claimed
        Of `launches.profile_call`, from a process that is not trusted: everything in it is checked and capped.
    compiled
        Of the build: registers, shared memory and spills of each kernel.
    cost
        Of `cost.measure`.
    calibration
        Of `roofline.calibration`.
    runtime_ms
        Median time of one call, None if it was not timed.
    notes
        More notes.
    loops
        Of the build: those for the CPU that were not vectorized.
    """
    claim = claimed if isinstance(claimed, Mapping) else {}
    launched = merge(_launches(claim.get("launched")), compiled)
    device_us = claims.number(claim.get("device_us"))
    cost = cost or {}
    moved, flops, dtype = claims.whole(cost.get("bytes")), claims.whole(cost.get("flops")), str(cost.get("dtype") or "")
    runtime_us = runtime_ms * 1e3 if runtime_ms is not None and math.isfinite(runtime_ms) and runtime_ms > 0 else None
    memory_us = roofline.memory_us(moved, calibration)
    compute_us = roofline.compute_us(flops, dtype, calibration) if flops else None
    on_gpu = claim.get("device") == "cuda"
    told = [*_texts(claim.get("notes")), *_texts(cost.get("notes"))]
    told += _texts(calibration.get("notes")) if calibration else []
    return {
        "launched": launched,
        "device_us": device_us,
        "bytes": moved,
        "flops": flops,
        "floor_us": claims.number(roofline.floor(moved, flops, dtype, calibration)),
        "bandwidth_share": _share(memory_us, runtime_us),
        "compute_share": _share(compute_us, runtime_us),
        "bound": _bound(memory_us, compute_us, runtime_us, device_us if on_gpu else None),
        "metrics": [],
        "scalar_loops": list(dict.fromkeys(_texts(list(loops))))[:LOOPS_LIMIT],
        "notes": list(dict.fromkeys([*told, *_texts(list(notes))]))[:NOTES_LIMIT],
    }


def never_launched(kernels: Iterable[str], claimed: Mapping[str, Any] | None) -> bool:
    """Whether a source defines kernels and a forward pass launched none of them.

    False wherever the profiler did not see everything, so that it never accuses without evidence.

    Parameters
    ----------
    kernels
        Names of the `__global__` functions and `@triton.jit` functions that the source defines.
    claimed
        Of `launches.profile_call`.
    """
    defined = [name for name in kernels if isinstance(name, str) and names.base(name)]
    if not defined or not isinstance(claimed, Mapping) or claimed.get("complete") is not True:
        return False
    ran = claimed.get("names")
    return isinstance(ran, list) and not any(
        names.same(name, other) for name in defined for other in ran if isinstance(other, str)
    )


def _bound(memory_us: float | None, compute_us: float | None, runtime_us: float | None, device_us: float | None) -> str:
    """Return what limits a call most; empty if nothing is known of it."""
    if runtime_us is not None and device_us is not None and device_us < IDLE_SHARE * runtime_us:
        return "overhead"
    if memory_us is None:
        return ""
    if runtime_us is not None and runtime_us < SHORT_US and max(memory_us, compute_us or 0.0) < LOW_SHARE * runtime_us:
        return "overhead"
    if runtime_us is not None and max(memory_us, compute_us or 0.0) < USED_SHARE * runtime_us:
        return ""
    return "compute" if (compute_us or 0.0) > memory_us else "memory"


def _launches(value: Any) -> list[dict[str, Any]]:
    """Read claimed launches: well-formed ones, at most `traces.LIST_LIMIT`, longest first."""
    found = []
    for item in value[: traces.LIST_LIMIT] if isinstance(value, list) else []:
        if not isinstance(item, Mapping) or not isinstance(item.get("name"), str) or not item["name"].strip():
            continue
        share = claims.number(item.get("occupancy"))
        found.append(
            {
                "name": names.cut(item["name"]),
                "count": max(1, claims.whole(item.get("count")) or 1),
                "time_us": claims.number(item.get("time_us")) or 0.0,
                "grid": _text(item.get("grid"), 40),
                "block": _text(item.get("block"), 40),
                "registers": claims.whole(item.get("registers")),
                "shared_bytes": claims.whole(item.get("shared_bytes")),
                "spill_bytes": claims.whole(item.get("spill_bytes")),
                "occupancy": min(1.0, share) if share is not None else None,
            }
        )
    return sorted(found, key=lambda launch: -launch["time_us"])


def merge(launches: list[dict[str, Any]], resources: Figures | None) -> list[dict[str, Any]]:
    """Return launches with the compiler's figures where a kernel of that name was compiled.

    Several instances of one template have one bare name: then those of the instance whose registers agree with the
    launch count, or else those of the hungriest.

    Parameters
    ----------
    resources
        Of `cuobjdump --dump-resource-usage`, read by the build.
    """
    compiled: dict[str, list[Mapping[str, Any]]] = {}
    for name, figures in (resources or {}).items():
        if isinstance(name, str) and isinstance(figures, Mapping):
            compiled.setdefault(names.base(name), []).append(figures)
    return [_merged(launch, compiled.get(names.base(launch["name"]), [])) for launch in launches]


def _merged(launch: dict[str, Any], instances: list[Mapping[str, Any]]) -> dict[str, Any]:
    if not instances:
        return launch
    known = launch.get("registers")
    alike = [figures for figures in instances if known is not None and figures.get("registers") == known]
    chosen = max(alike or instances, key=lambda figures: claims.whole(figures.get("registers")) or 0)
    # The driver's own figures stand; shared memory of a launch includes what was asked for at run time.
    figures = {
        "registers": claims.whole(chosen.get("registers")),
        "shared_bytes": claims.whole(chosen.get("shared_bytes")),
        "spill_bytes": _spilled(chosen),
    }
    return {**launch, **{key: value for key, value in figures.items() if launch.get(key) is None}}


def _spilled(figures: Mapping[str, Any]) -> int | None:
    """Return the local memory of a thread: spilled registers lie on its stack, and so do arrays indexed at run time."""
    known = [size for key in ("local_bytes", "stack_bytes") if (size := claims.whole(figures.get(key))) is not None]
    return max(known) if known else None


def _share(part_us: float | None, runtime_us: float | None) -> float | None:
    return claims.number(part_us / runtime_us) if part_us is not None and runtime_us is not None else None


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        return []
    return [names.cut(item) for item in value[:NOTES_LIMIT] if isinstance(item, str) and item.strip()]


def _text(value: Any, limit: int) -> str:
    return names.cut(value, limit) if isinstance(value, str) else ""
