"""Hardware counters of one launch of a kernel, read by NVIDIA Nsight Compute (`ncu`).

Options and the form of its output: Nsight Compute CLI, docs.nvidia.com/nsight-compute/NsightComputeCli; what metrics
mean: its Profiling Guide. Who may read counters: developer.nvidia.com/ERR_NVGPUCTRPERM.
"""

from __future__ import annotations

import contextlib
import csv
import glob
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ...contract.counters import STALLED, Counter
from ..device import toolkit

METRICS = {
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": (Counter.MEMORY, "%"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": (Counter.COMPUTE, "%"),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": (Counter.TENSOR, "%"),
    "lts__t_sector_hit_rate.pct": (Counter.L2_HITS, "%"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": (Counter.ACTIVE, "%"),
    "sm__maximum_warps_per_active_cycle_pct": (Counter.FITTING, "%"),
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": (Counter.LOADED, "B"),
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio": (Counter.STORED, "B"),
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": (Counter.LOAD_SECTORS, ""),
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio": (Counter.STORE_SECTORS, ""),
}
"""What is told as it is read, with its unit."""
LIMITS = {
    "launch__occupancy_limit_registers": Counter.BY_REGISTERS,
    "launch__occupancy_limit_shared_mem": Counter.BY_SHARED_MEMORY,
    "launch__occupancy_limit_warps": Counter.BY_WARPS,
    "launch__occupancy_limit_blocks": Counter.BY_BLOCKS,
    "launch__occupancy_limit_barriers": Counter.BY_BARRIERS,
}
"""Blocks of a multiprocessor, of which the fewest are told."""
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
"""Cycles of shared memory, those lost to conflicts included."""
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = (
    "barrier",
    "branch_resolving",
    "dispatch_stall",
    "drain",
    "gmma",
    "imc_miss",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "membar",
    "mio_throttle",
    "misc",
    "no_instruction",
    "not_selected",
    "selected",
    "short_scoreboard",
    "sleeping",
    "tex_throttle",
    "wait",
)
"""All states of a warp; together they are its time. A chip that lacks one, or a metric, leaves it out."""
ISSUED = "selected"
"""The state in which a warp does issue."""
LEAST = 5.0
"""Percent of the warps' time from which a state is told."""
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


def forbidden() -> bool:
    """Whether the driver is known to keep counters to administrators."""
    with contextlib.suppress(OSError), open("/proc/driver/nvidia/params", encoding="utf-8", errors="replace") as file:
        return "RmProfilingAdminOnly: 1" in file.read() and os.geteuid() != 0
    return False


def find() -> str | None:
    """Return the path of `ncu`, None if it is not installed."""
    return toolkit.find("ncu", *sorted(glob.glob("/opt/nvidia/nsight-compute/*/"), key=_version, reverse=True))


def command(ncu: str, kernel: str, argv: list[str], out: str) -> list[str]:
    """Return the command that runs `argv` under `ncu`; what `read` reads is written to the file `out`.

    Only the first launch of `kernel`, a bare name, in what `forward` runs is looked at; it is run some ten times.
    Clocks are left as they are: to lock them takes rights, and others may be at work on the GPU.
    """
    form = "--csv --page raw --print-units base"
    what = "--profile-from-start off --target-processes all --launch-count 1 --clock-control none"
    wanted = ",".join([*METRICS, *LIMITS, CONFLICTS, WAVEFRONTS, *map(STALL.format, STALLS)])
    which = ["--kernel-name", f"regex:^{re.escape(kernel)}$"]
    return [ncu, *form.split(), "--metrics", wanted, *what.split(), *which, "--log-file", out, *argv]


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
        `core.Metric`s in wire form, and notes on what went wrong.
    """
    if "ERR_NVGPUCTRPERM" in text:
        return [], [FORBIDDEN]
    found = [{"name": name, "value": value, "unit": unit} for name, value, unit in _told(_figures(text))]
    if found:
        return found, []
    errors = [line.partition("==ERROR==")[2].strip() for line in text.splitlines() if line.startswith("==ERROR==")]
    if errors:
        return [], [f"Hardware counters were not read. Nsight Compute says: {errors[0][:120]}"]
    if "No kernels were profiled" in text:
        return [], ["Hardware counters were not read: under Nsight Compute that kernel was not launched."]
    return [], ["Hardware counters were not read: Nsight Compute wrote nothing that can be read."]


def _told(figures: dict[str, float]) -> Iterator[tuple[str, float, str]]:
    """Yield name, value and unit of what is told of a kernel."""
    for metric, (name, unit) in METRICS.items():
        # Where it loads or stores nothing that way, nothing is told of it.
        if metric in figures and (unit == "%" or figures[metric]):
            yield name.value, figures[metric], unit
    limits = {name: figures[metric] for metric, name in LIMITS.items() if figures.get(metric)}
    for name, blocks in limits.items():
        if blocks == min(limits.values()):
            yield name.value, blocks, ""
    if figures.get(WAVEFRONTS) and CONFLICTS in figures:
        yield Counter.CONFLICTS.value, min(100.0, 100 * figures[CONFLICTS] / figures[WAVEFRONTS]), "%"
    states = {state: figures.get(STALL.format(state), 0.0) for state in STALLS}
    total = sum(states.values())
    for state, cycles in sorted(states.items(), key=lambda each: -each[1]):
        if state != ISSUED and total > 0 and 100 * cycles >= LEAST * total:
            yield STALLED + state.replace("_", " "), 100 * cycles / total, "%"


def _figures(text: str) -> dict[str, float]:
    """Return the figures of the first kernel: below its header stands a row of units, which are no numbers."""
    rows = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    begin = next((index for index, row in enumerate(rows) if "Kernel Name" in row), None)
    if begin is None:
        return {}
    for row in rows[begin + 1 : begin + 3]:
        read = {name: _number(value) for name, value in zip(rows[begin], row) if "__" in name}
        found = {name: value for name, value in read.items() if value is not None}
        if found:
            return found
    return {}


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
