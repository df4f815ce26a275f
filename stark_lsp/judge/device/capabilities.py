"""What the device and the software for it can do: what its driver, the system and the toolkit tell.

Read in a fraction of a second. What must be measured, bandwidth and rates, is that of `profile/roofline.py`, which is
kept for each device, driver and torch.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import glob
import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Mapping
from typing import Any

import torch

from . import toolkit

ATTRIBUTES = {
    "block_shared_bytes": 8,
    "block_registers": 12,
    "processors": 16,
    "threads": 39,
    "shared_bytes": 81,
    "registers": 82,
    "block_shared_bytes_asked": 97,
}
"""Fields of `core.Device` and their numbers in `CUdevice_attribute` (CUDA Driver API)."""
L2 = 38
"""The same of the L2 cache."""
INSTRUCTIONS = (
    *("avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16", "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2"),
)
"""Flags of /proc/cpuinfo that a kernel may be written for, of x86 and ARM."""
HEADERS = {"CUTLASS": "cutlass/cutlass.h", "CuTe": "cute/tensor.hpp", "cuBLASLt": "cublasLt.h"}
"""What is looked for in the toolkit and where headers of the system are; a build may read all of these folders."""
FOLDERS = ("/usr/include", "/usr/local/include", "/usr/local/cutlass/include", "/opt/cutlass/include")
_CPU = "/sys/devices/system/cpu"
_SIZE = re.compile(r"(\d+)([KM])\s*\Z")


def describe(device: str, calibration: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return `core.Device` in wire form.

    Parameters
    ----------
    calibration
        Of `roofline.calibration`; None where nothing was measured that can be relied on.
    """
    measured = calibration or {}
    found: dict[str, Any] = {
        "bandwidth": measured.get("bandwidth"),
        "rates": sorted(measured.get("rates", {}).items(), key=lambda rate: rate[1]),
    }
    return {**found, **(_gpu() if device == "cuda" else _cpu())}


def _gpu() -> dict[str, Any]:
    found: dict[str, Any] = _attributes(torch.cuda.current_device())
    major, minor = torch.cuda.get_device_capability()
    nvcc = toolkit.find("nvcc")
    return {
        **found,
        "capability": f"{major}.{minor}",
        "triton": triton_version(),
        "dot_precisions": dot_precisions(),
        "nvcc": toolkit.release(nvcc) if nvcc else "",
        "libraries": headers() if nvcc else [],
    }


def _attributes(number: int) -> dict[str, Any]:
    """Return what the driver tells of a device; torch does not give all of it, and older ones less."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {}
    device = ctypes.c_int()
    if driver.cuDeviceGet(ctypes.byref(device), ctypes.c_int(number)) != 0:
        return {}

    def asked(attribute: int) -> int | None:
        value = ctypes.c_int()
        code = driver.cuDeviceGetAttribute(ctypes.byref(value), ctypes.c_int(attribute), device)
        return value.value if code == 0 and value.value > 0 else None

    cache = asked(L2)
    found: dict[str, Any] = {name: asked(attribute) for name, attribute in ATTRIBUTES.items()}
    return {**found, "caches": [["L2", cache]] if cache else []}


def headers() -> list[tuple[str, str]]:
    """Return name and folder of the headers that are installed."""
    folders = [*(os.path.join(home, "include") for home in toolkit.homes()), *FOLDERS]
    found = []
    for name, header in HEADERS.items():
        place = next((folder for folder in folders if os.path.isfile(os.path.join(folder, header))), None)
        found += [(name, place)] if place else []
    return found


def triton_version() -> str:
    """Return the version of Triton, nothing if it is not installed."""
    for package in ("triton", "pytorch-triton"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(package)
    return ""


def dot_precisions() -> list[str]:
    """Return what `input_precision` of `tl.dot` may be on an NVIDIA GPU, read from Triton's source.

    To import it takes half a second, and its options are not documented in one place.
    """
    try:
        found = importlib.util.find_spec("triton")
        folder = os.path.dirname(found.origin) if found is not None and found.origin else ""
        with open(os.path.join(folder, "backends", "nvidia", "compiler.py"), encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, ValueError, SyntaxError, ImportError):
        return []
    for node in ast.walk(tree):
        if not isinstance(node, ast.AnnAssign) or ast.unparse(node.target) != "allowed_dot_input_precisions":
            continue
        value = node.value
        if isinstance(value, ast.Tuple):
            return [name.value for name in value.elts if isinstance(name, ast.Constant) and isinstance(name.value, str)]
    return []


def _cpu() -> dict[str, Any]:
    return {"processors": _cores(), "instructions": _instructions(), "caches": caches()}


def _instructions() -> list[str]:
    """Return the vector instructions that matter, in the order of `INSTRUCTIONS`."""
    have = set(cpu_info("flags", "Features").split())
    return [flag for flag in INSTRUCTIONS if flag in have]


def cpu_info(*names: str) -> str:
    """Return what the system says of the first CPU under one of these names, nothing where it does not."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, said = line.partition(":")
            if name.strip() in names:
                return said.strip()
    return ""


def _cores() -> int | None:
    """Return how many physical cores this process may use; None where the system does not tell."""
    try:
        usable = os.sched_getaffinity(0)
    except (OSError, AttributeError):
        return None
    cores = set()
    for number in usable:
        try:
            with open(f"{_CPU}/cpu{number}/topology/thread_siblings_list") as file:
                cores.add(file.read().strip())
        except OSError:
            return None
    return len(cores) or None


def caches() -> list[tuple[str, int]]:
    """Return name and size of the data caches of the first core, the smallest first."""
    found = []
    for folder in glob.glob(f"{_CPU}/cpu0/cache/index*"):
        with contextlib.suppress(OSError):
            level, kind, size = (_read(os.path.join(folder, name)) for name in ("level", "type", "size"))
            match = _SIZE.match(size)
            if kind in ("Data", "Unified") and match:
                nbytes = int(match[1]) << (10 if match[2] == "K" else 20)
                found.append((f"L{level}{'d' if kind == 'Data' else ''}", nbytes))
    return sorted(found, key=lambda cache: cache[1])


def _read(path: str) -> str:
    with open(path) as file:
        return file.read().strip()
