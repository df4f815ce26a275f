"""The child that a layer is tried with: confines itself, then tries what must work and what must not."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from .confine import confine

CUDA_LIBRARIES = ("libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1")


def main(instructions: str, work: str) -> None:
    """Print `{"problems": [...]}`.

    Parameters
    ----------
    work
        JSON: `compiler` (path or empty), `gpu`, `secret` (a file), `tcp` (port), `unix` and `abstract` (listening
        sockets).
    """
    confine(instructions)
    task = json.loads(work)
    problems = [*_escapes(task), *_failures(task)]
    sys.stdout.write(json.dumps({"problems": problems}) + "\n")


def _escapes(task: dict[str, Any]) -> list[str]:
    """Return what worked and must not."""
    found = []
    for what, flags in (("read", os.O_RDONLY), ("changed", os.O_WRONLY | os.O_APPEND)):
        with contextlib.suppress(OSError):
            os.close(os.open(task["secret"], flags))
            found.append(f"a file outside can be {what}")
    targets = [
        ("the network", socket.AF_INET, ("127.0.0.1", task["tcp"])),
        ("a Unix socket", socket.AF_UNIX, task["unix"]),
        ("an abstract Unix socket", socket.AF_UNIX, "\0" + task["abstract"]),
    ]
    for what, family, address in targets:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as client:
            client.settimeout(2)
            client.connect(address)
            found.append(f"{what} can be reached")
    with contextlib.suppress(OSError):
        os.kill(task["pid"], 0)
        found.append("processes outside can be signalled")
    return found


def _failures(task: dict[str, Any]) -> list[str]:
    """Return what failed and must work."""
    found = []
    if task["compiler"]:
        try:
            done = subprocess.run(
                [task["compiler"], "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
            )
            if done.returncode != 0:
                text = done.stderr.decode("utf-8", "replace").strip()
                found.append(f"the compiler does not start ({text or done.returncode})")
        except (OSError, subprocess.SubprocessError) as error:
            found.append(f"the compiler does not start ({error})")
    if task["gpu"]:
        problem = cuda_problem()
        if problem:
            found.append(f"the GPU cannot be used: {problem}")
    return found


def cuda_problem() -> str:
    """Make a context on the first GPU, fill memory with a kernel of the driver's own and read it back.

    Returns
    -------
    str
        What failed; empty if all worked.
    """
    for name in CUDA_LIBRARIES:
        try:
            cuda = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        return "the driver's library libcuda.so.1 is not found"
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    words = (ctypes.c_uint32 * 256)()
    steps: tuple[tuple[str, Callable[[], int]], ...] = (
        ("cuInit", lambda: cuda.cuInit(0)),
        ("cuDeviceGet", lambda: cuda.cuDeviceGet(ctypes.byref(device), 0)),
        ("cuDevicePrimaryCtxRetain", lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)),
        ("cuCtxSetCurrent", lambda: cuda.cuCtxSetCurrent(context)),
        ("cuMemAlloc", lambda: cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1024))),
        ("cuMemsetD32", lambda: cuda.cuMemsetD32_v2(memory, ctypes.c_uint(7), ctypes.c_size_t(256))),
        ("cuMemcpyDtoH", lambda: cuda.cuMemcpyDtoH_v2(words, memory, ctypes.c_size_t(1024))),
    )
    for name, step in steps:
        error = step()
        if error != 0:
            return f"{name} gave error {error}"
    return "" if set(words) == {7} else "memory on it does not hold what was written"
