"""What machine, torch and compilers a verdict was taken with."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from typing import Any

import torch

from ..correctness.classify import host_compiler


def device_name(device: str) -> str:
    """Return the device's name for a person."""
    if device == "cuda":
        return str(torch.cuda.get_device_name(0))
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "CPU"


def load_average() -> float | None:
    """Return how many processes wanted a CPU over the last minute, None where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return None


def load_notes(load: float | None) -> list[str]:
    """Return what a user should know about other work on this machine."""
    cores = os.cpu_count() or 1
    if load is None or load < 0.75 * cores:
        return []
    return [f"The machine is busy (load {load:.1f} on {cores} cores): times are less certain."]


def driver_version() -> str | None:
    """Return the NVIDIA driver's version, None where there is none."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8", errors="replace") as file:
            found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", file.readline())
    except OSError:
        return None
    return found.group(1) if found else None


def first_line(command: list[str]) -> str | None:
    """Return the first line a program prints, None if it cannot be run."""
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


def compilers(device: str) -> str | None:
    """Return the host compiler's version, and nvcc's where the device is a GPU."""
    host = host_compiler()
    found = [first_line([host, "--version"]) if host else None]
    if device == "cuda":
        nvcc = find_nvcc()
        version = nvcc_version(nvcc) if nvcc else None
        found.append(f"nvcc {version}" if version else None)
    return ", ".join(text for text in found if text) or None


def find_nvcc() -> str | None:
    """Return the nvcc that torch would call."""
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if home and os.path.isfile(os.path.join(home, "bin", "nvcc")):
            return os.path.join(home, "bin", "nvcc")
    return shutil.which("nvcc")


def nvcc_version(nvcc: str) -> str | None:
    """Return nvcc's release, for instance `12.8`."""
    try:
        text = subprocess.run(
            [nvcc, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20, check=False
        ).stdout.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"release (\d+\.\d+)", text)
    return found.group(1) if found else None


def architecture(device: str) -> str:
    """Return the one GPU architecture to build for, for instance `9.0`; empty on a CPU."""
    if device != "cuda":
        return ""
    major, minor = torch.cuda.get_device_capability(0)
    return f"{major}.{minor}"


def environment(device: str, threads: int, inputs: list[torch.Tensor]) -> dict[str, Any]:
    """Return `core.Environment` in wire form."""
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
        "isolation": "process",
    }
