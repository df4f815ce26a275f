"""Which GPUs the machine offers to this user, and which has the least to do, without torch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

QUERY = [
    "nvidia-smi",
    "--query-gpu=uuid,name,utilization.gpu,memory.used,mig.mode.current",
    "--format=csv,noheader,nounits",
]
TIMEOUT_S = 10.0
DRIVER = "/proc/driver/nvidia/gpus"
"""Has an entry for each GPU of the machine."""
BUSY = 10
"""Percent of the last moments in which something ran, from which on a GPU counts as busy."""
STEP_MIB = 512
"""Memory in use is told apart in such steps: a GPU at rest has some of it in use as well."""


class _Gpu(NamedTuple):
    uuid: str
    name: str
    load: tuple[bool, int]
    """Whether something runs there now, and steps of memory in use: others who are there but pause have some."""
    divided: bool
    """Whether it is divided into instances (MIG)."""


def maybe_several(driver: str = DRIVER) -> bool:
    """Whether it is worth asking for a listing, which takes a moment: not where the driver knows of one GPU only."""
    try:
        return len(os.listdir(driver)) != 1
    except OSError:
        return True


def listing() -> str:
    """Return what the driver says, one GPU a line: `GPU-…, NVIDIA H200, 0, 4, Disabled`; empty without a driver."""
    try:
        done = subprocess.run(QUERY, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def visible(listed: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the GPUs that a run may choose from or share out, as values for `CUDA_VISIBLE_DEVICES`.

    Parameters
    ----------
    listed
        The answer of `listing`.
    environ
        Its `CUDA_VISIBLE_DEVICES` narrows them down, as the CUDA runtime reads it: up to the first `-1`.

    Returns
    -------
    In the user's order if there is one, else the one with the least to do first. Nothing where there is no GPU, where
    they are of different kinds (times from unlike GPUs cannot be ranked), or where one is divided into instances.
    """
    found = [_read(line) for line in listed.splitlines() if "," in line]
    if len({gpu.name for gpu in found}) != 1 or any(gpu.divided for gpu in found):
        return ()
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return tuple(gpu.uuid for gpu in sorted(found, key=lambda gpu: gpu.load))
    named: list[str] = []
    for entry in (part.strip() for part in chosen.split(",")):
        if not entry or entry.startswith("-"):
            break
        named.append(entry)
    return tuple(named)


def _read(line: str) -> _Gpu:
    uuid, name, utilization, memory, mig, *_ = [*(part.strip() for part in line.split(",")), "", "", ""]
    # What a driver does not tell is `[N/A]`.
    load = (_number(utilization) >= BUSY, _number(memory) // STEP_MIB)
    return _Gpu(uuid, name, load, mig == "Enabled")


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
