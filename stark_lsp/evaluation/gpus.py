"""Which GPUs the machine offers to this user, without torch."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

QUERY = ["nvidia-smi", "--query-gpu=uuid,name", "--format=csv,noheader"]
TIMEOUT_S = 10.0


def listing() -> str:
    """Return what the driver says, one GPU a line: `GPU-…, NVIDIA H200`; empty where there is no driver."""
    try:
        done = subprocess.run(QUERY, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def visible(listed: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the GPUs that one run may share out, as values for `CUDA_VISIBLE_DEVICES`.

    Parameters
    ----------
    listed
        The answer of `listing`.
    environ
        Its `CUDA_VISIBLE_DEVICES` narrows them down, as the CUDA runtime reads it: up to the first `-1`.

    Returns
    -------
    Nothing where there is no GPU, or where they are of different kinds: times from unlike GPUs cannot be ranked.
    """
    pairs = [tuple(part.strip() for part in line.split(",", 1)) for line in listed.splitlines() if "," in line]
    if not pairs or len({name for _, name in pairs}) > 1:
        return ()
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return tuple(uuid for uuid, _ in pairs)
    found: list[str] = []
    for entry in (part.strip() for part in chosen.split(",")):
        if not entry or entry.startswith("-"):
            break
        found.append(entry)
    return tuple(found)
