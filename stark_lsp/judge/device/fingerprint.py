"""What machine, torch and compilers a verdict was taken with."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
from typing import Any

import torch

from ..correctness.classify import host_compiler
from . import capabilities, toolkit


def device_name(device: str) -> str:
    """Return the device's name for a person."""
    if device == "cuda":
        return str(torch.cuda.get_device_name(0))
    return capabilities.cpu_info("model name") or platform.processor() or platform.machine() or "CPU"


def load_notes() -> list[str]:
    """Return what a user should know about other work on this machine over the last minute."""
    cores = os.cpu_count() or 1
    # Not every system tells.
    with contextlib.suppress(OSError, AttributeError):
        load = os.getloadavg()[0]
        if load >= 0.75 * cores:
            return [f"The machine is busy (load {load:.1f} on {cores} cores): times are less certain."]
    return []


def driver_version() -> str | None:
    """Return the NVIDIA driver's version, None where there is none."""
    with contextlib.suppress(OSError), open("/proc/driver/nvidia/version", encoding="utf-8", errors="replace") as file:
        found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", file.readline())
        return found.group(1) if found else None
    return None


def compilers(device: str) -> str | None:
    """Return the host compiler's version, and nvcc's release where the device is a GPU."""
    host = host_compiler()
    found = toolkit.printed([host, "--version"]).strip().split("\n")[:1] if host else []
    nvcc = toolkit.find("nvcc") if device == "cuda" else None
    version = toolkit.release(nvcc) if nvcc else ""
    found += [f"nvcc {version}"] if version else []
    return ", ".join(text.strip() for text in found if text) or None


def architecture(device: str) -> str:
    """Return the one GPU architecture to build for, for instance `9.0`; empty on a CPU."""
    if device != "cuda":
        return ""
    major, minor = torch.cuda.get_device_capability(0)
    return f"{major}.{minor}"


def device_key(device: str) -> str:
    """Return what names the device in locks: a GPU's UUID, else `cpu`."""
    if device != "cuda":
        return "cpu"
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return str(getattr(properties, "uuid", "")) or f"cuda-{torch.cuda.current_device()}"


def environment(device: str, threads: int, inputs: list[torch.Tensor]) -> dict[str, Any]:
    """Return `core.Environment` in wire form, but for how candidates are kept apart."""
    dtypes = list(dict.fromkeys(str(tensor.dtype).replace("torch.", "") for tensor in inputs))
    return {
        "device": device_name(device),
        "device_type": device,
        "python": platform.python_version(),
        "interpreter": sys.executable,
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda if device == "cuda" else None,
        "driver": driver_version() if device == "cuda" else None,
        "compiler": compilers(device),
        "threads": threads,
        "dtypes": dtypes,
        "shapes": ["x".join(str(size) for size in tensor.shape) or "scalar" for tensor in inputs],
    }
