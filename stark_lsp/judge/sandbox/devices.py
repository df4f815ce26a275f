"""Device nodes that a confined child may open."""

from __future__ import annotations

import glob
import os

PLAIN = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""Nodes that programs expect and that lead nowhere."""
NVIDIA = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
"""The driver's control nodes."""
WSL = "/dev/dxg"
"""The GPU under WSL2."""


def gpu_nodes() -> tuple[str, ...]:
    """Return the nodes (and the folder nvidia-caps) through which CUDA reaches the GPUs of this machine."""
    cards = sorted(glob.glob("/dev/nvidia[0-9]*"))
    nodes = [*NVIDIA, *cards, "/dev/nvidia-caps", WSL]
    return tuple(node for node in nodes if os.path.exists(node))


def gpu_present() -> bool:
    """Return whether the machine has an NVIDIA driver at all."""
    return os.path.exists("/dev/nvidiactl") or os.path.exists(WSL)
