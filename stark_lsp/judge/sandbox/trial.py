"""The child that a layer is tried with: confines itself, which tries what must not work, then tries what must."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable

from .confine import confine

CUDA_LIBRARIES = ("libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1")


def main(instructions: str, compiler: str, device: str) -> None:
    """Print `{"problems": [...]}`: what failed and must work. If it can get out, `confine` ends it.

    Parameters
    ----------
    compiler
        Its path, or nothing.
    device
        `cuda`, or nothing for a CPU.
    """
    confine(instructions)
    problems = []
    if compiler:
        try:
            done = subprocess.run(
                [compiler, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
            )
            if done.returncode != 0:
                text = done.stderr.decode("utf-8", "replace").strip()
                problems.append(f"the compiler does not start ({text or done.returncode})")
        except (OSError, subprocess.SubprocessError) as error:
            problems.append(f"the compiler does not start ({error})")
    if device:
        problem = cuda_problem()
        if problem:
            problems.append(f"the GPU cannot be used: {problem}")
    sys.stdout.write(json.dumps({"problems": problems}) + "\n")


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
