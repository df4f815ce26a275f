"""What NVIDIA's management library says about one GPU: clocks, heat, and who else uses it.

Through ctypes, so that nothing has to be installed; where there is no such library, nothing is known. Names and
numbers are those of the NVML API reference.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import Any, NamedTuple

CLOCK_SM = 1
SENSOR_GPU = 0
POWER_CAP = 0x4
"""nvmlClocksThrottleReasonSwPowerCap"""
HARDWARE = 0x8
"""nvmlClocksThrottleReasonHwSlowdown"""
HEAT = 0x20 | 0x40
"""nvmlClocksThrottleReasonSwThermalSlowdown, nvmlClocksThrottleReasonHwThermalSlowdown"""
POWER_BRAKE = 0x80
"""nvmlClocksThrottleReasonHwPowerBrakeSlowdown"""
MANY = 256
"""Processes that are asked for at most."""


class State(NamedTuple):
    """A GPU at one moment; None for what it does not tell."""

    sm_mhz: int | None
    throttled: int
    """Bits of the reasons for which its clocks are held down."""
    celsius: int | None
    processes: tuple[int, ...]
    """Processes that compute on it, as far as they can be seen."""


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t, version 2."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used_gpu_memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Gpu:
    """One GPU, by the UUID that torch gives it, or by its number where there is none.

    Raises
    ------
    OSError
        There is no such library, or no such GPU.
    """

    def __init__(self, uuid: str = "", index: int = 0) -> None:
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._must("nvmlInit_v2")
        handle = ctypes.c_void_p()
        if uuid:
            name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
            self._must("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(name.encode()), ctypes.byref(handle))
        else:
            self._must("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        self._handle = handle

    def _call(self, name: str, *arguments: Any) -> int:
        """Call a function and return its code, -1 if the library is too old to have it."""
        try:
            function = getattr(self._library, name)
        except AttributeError:
            return -1
        function.restype = ctypes.c_int
        return int(function(*arguments))

    def _must(self, name: str, *arguments: Any) -> None:
        code = self._call(name, *arguments)
        if code != 0:
            raise OSError(f"{name} failed with code {code}")

    def _number(self, name: str, *arguments: Any) -> int | None:
        value = ctypes.c_uint()
        code = self._call(name, self._handle, *arguments, ctypes.byref(value))
        return int(value.value) if code == 0 else None

    def state(self) -> State:
        """Return how it is now."""
        throttled = ctypes.c_ulonglong()
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            if self._call(name, self._handle, ctypes.byref(throttled)) == 0:
                break
        return State(
            self._number("nvmlDeviceGetClockInfo", ctypes.c_uint(CLOCK_SM)),
            int(throttled.value),
            self._number("nvmlDeviceGetTemperature", ctypes.c_uint(SENSOR_GPU)),
            self.processes(),
        )

    def count(self) -> int:
        """Return how many GPUs there are."""
        value = ctypes.c_uint()
        return int(value.value) if self._call("nvmlDeviceGetCount_v2", ctypes.byref(value)) == 0 else 0

    def processes(self) -> tuple[int, ...]:
        """Return the processes that compute on it, as far as they can be seen."""
        count = ctypes.c_uint(MANY)
        found = (_Process * MANY)()
        for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
            if self._call(name, self._handle, ctypes.byref(count), found) == 0:
                return tuple(int(found[index].pid) for index in range(min(count.value, MANY)))
        return ()


@functools.lru_cache(maxsize=8)
def open_gpu(uuid: str = "") -> Gpu | None:
    """Return a GPU, None where NVML does not know it.

    Kept for the life of this process: starting and ending NVML takes longer than many timings.
    """
    with contextlib.suppress(OSError):
        return Gpu(uuid)
    return None


def computing() -> frozenset[int]:
    """Return the processes that compute on any GPU, as NVML numbers them."""
    found: set[int] = set()
    first = open_gpu()
    for index in range(first.count() if first is not None else 0):
        with contextlib.suppress(OSError):
            found |= set(Gpu(index=index).processes())
    return frozenset(found)
