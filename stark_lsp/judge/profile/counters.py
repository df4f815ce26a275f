"""Hardware counters of one forward pass, read by NVIDIA Nsight Compute (`ncu`).

Options and the forms of its output: Nsight Compute CLI, docs.nvidia.com/nsight-compute/NsightComputeCli. Who may read
counters: developer.nvidia.com/ERR_NVGPUCTRPERM.
"""

from __future__ import annotations

import csv
import glob
import os
from collections.abc import Callable
from typing import Any

import torch

from ..device import toolkit

METRICS = {
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory throughput",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute throughput",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "achieved occupancy",
    "lts__t_sector_hit_rate.pct": "L2 hit rate",
}
"""What is read of each kernel, all in percent, and what it is called."""
DURATION = "gpu__time_duration.sum"
"""By which the kernels of one pass are weighed."""
LAUNCHES = 50
"""Kernels that are looked at; each is run several times."""
MOST = 1e18
"""A figure beyond this is nonsense: the candidate may write to the same file."""

MISSING = (
    "Hardware counters were not read: NVIDIA Nsight Compute (ncu) was not found. "
    "It comes with the CUDA toolkit, or as the package nsight-compute."
)
FORBIDDEN = (
    "Hardware counters were not read: the driver keeps them to administrators (ERR_NVGPUCTRPERM). An administrator can "
    "permit them: set the option NVreg_RestrictProfilingToAdminUsers=0 of the module nvidia in /etc/modprobe.d, "
    "and restart."
)


def find() -> str | None:
    """Return the path of `ncu`, None if it is not installed."""
    return toolkit.find("ncu", *sorted(glob.glob("/opt/nvidia/nsight-compute/*/"), key=_version, reverse=True))


def command(ncu: str, argv: list[str], out: str) -> list[str]:
    """Return the command that runs `argv` under `ncu`; what `read` reads is written to the file `out`.

    Only what `forward` runs is looked at. Clocks are left as they are: to lock them takes rights, and others may be
    at work on the GPU.
    """
    form = "--csv --page raw --print-units base"
    what = f"--profile-from-start off --target-processes all --launch-count {LAUNCHES} --clock-control none"
    metrics = ",".join([*METRICS, DURATION])
    return [ncu, *form.split(), "--metrics", metrics, *what.split(), "--log-file", out, *argv]


def forward(call: Callable[[], Any]) -> None:
    """Run one forward pass under `ncu`, in the process it started; another one goes before it unseen."""
    call()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    try:
        call()
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


def read(text: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Read what `ncu` wrote.

    Returns
    -------
    tuple
        `core.Metric`s in wire form (means over all kernels, weighed by their time), and notes on what went wrong.
    """
    if "ERR_NVGPUCTRPERM" in text:
        return [], [FORBIDDEN]
    kernels = _kernels(text)
    found = []
    for metric, name in METRICS.items():
        seen = [(kernel[metric], kernel.get(DURATION, 0.0)) for kernel in kernels if metric in kernel]
        weight = sum(duration for _, duration in seen)
        if seen:
            weighed = [(value, duration if weight > 0 else 1.0) for value, duration in seen]
            value = sum(value * share for value, share in weighed) / sum(share for _, share in weighed)
            found.append({"name": name, "value": value, "unit": "%"})
    if found:
        return found, []
    errors = [line.partition("==ERROR==")[2].strip() for line in text.splitlines() if line.startswith("==ERROR==")]
    if errors:
        return [], [f"Hardware counters were not read. Nsight Compute says: {errors[0][:120]}"]
    if "No kernels were profiled" in text:
        return [], ["Hardware counters were not read: the forward pass launched no kernel under Nsight Compute."]
    return [], ["Hardware counters were not read: Nsight Compute wrote nothing that can be read."]


def _kernels(text: str) -> list[dict[str, float]]:
    """Return the figures of each kernel, from the wide form (one row a kernel) or the long one (one row a metric)."""
    rows = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    begin = next((index for index, row in enumerate(rows) if "Kernel Name" in row), None)
    if begin is None:
        return []
    header, rest = rows[begin], rows[begin + 1 :]
    found: dict[str, dict[str, float]] = {}
    for index, row in enumerate(rest[: 64 * LAUNCHES]):
        cells = dict(zip(header, row))  # a short row lacks its last cells
        if "Metric Name" in cells:
            pairs = [(cells["Metric Name"], cells.get("Metric Value", ""))]
            kernel = cells.get("ID", "")
        else:
            # The second row of this form holds units: no number, so nothing is taken from it.
            pairs = [(name, value) for name, value in cells.items() if name in METRICS or name == DURATION]
            kernel = str(index)
        for name, value in pairs:
            number = _number(value)
            if number is not None:
                found.setdefault(kernel, {})[name] = number
    return list(found.values())


def _number(text: str) -> float | None:
    """Read `1,234.5` and, of a machine that writes decimal commas, `9,25`."""
    if "," in text and "." not in text and len(text.rpartition(",")[2]) != 3:
        text = text.replace(",", ".")
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if 0 <= value < MOST else None


def _version(path: str) -> list[int]:
    """Return the numbers in the name of a versioned folder."""
    return [int(part) for part in os.path.basename(os.path.dirname(path)).split(".") if part.isdigit()]
