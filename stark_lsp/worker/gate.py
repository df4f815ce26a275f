"""The gate before a timed call on a GPU: it holds the device for a moment, so that the call is queued when it begins.

Without it the time between two events also holds what the processor needs to launch the call. For small kernels that
is most of it, and it changes from moment to moment: a kernel of 13 us was measured at 8 to 66 us. In a model that keeps
its GPU busy that latency is hidden behind the kernels before; here it is hidden behind the gate.

The gate takes every place that a thread can have on the device, and who closes it waits until it is closed. So no
kernel runs beside it: what a candidate starts on another stream, without waiting for its inputs, does not begin before
the clock does. Copies to and from the host could; streams that do not wait for the current one read nothing that is
right where the inputs arrive late (`forward.arrive_late`).
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

GATE_MS = 0.2
"""Latency of launching a call that is hidden at least, see `hidden`."""
MOST_MS = 20.0
"""Longest time that a gate is closed."""
THREADS = 256
"""Of a block: divides the number of threads that a multiprocessor of any generation holds."""
CLOCK_RATE = 13
"""CU_DEVICE_ATTRIBUTE_CLOCK_RATE, in kHz."""
COMMON_KHZ = 2_000_000
LOOKS = 1000
"""So often it is looked whether the gate is closed before the device is asked whether it is well."""
PATIENCE = 8
"""If the timer stands still, a gate stays closed so many times longer than meant, by the multiprocessor's clock."""

# PTX ISA, "Special Registers": %globaltimer counts nanoseconds at every clock rate; %clock64 counts cycles.
_PTX = """
.version {version}
.target {target}
.address_size 64
.visible .entry stark_gate(.param .u64 nanoseconds, .param .u64 cycles, .param .u64 place, .param .u64 number)
{{
    .reg .pred %again, %other;
    .reg .u32 %thread, %block;
    .reg .u64 %wait, %begin, %now, %most, %first, %tick, %place, %number;
    ld.param.u64 %wait, [nanoseconds];
    ld.param.u64 %most, [cycles];
    mov.u64 %begin, %globaltimer;
    mov.u64 %first, %clock64;
    mov.u32 %thread, %tid.x;
    mov.u32 %block, %ctaid.x;
    or.b32 %thread, %thread, %block;
    setp.ne.u32 %other, %thread, 0;
    @%other bra SPIN;
    ld.param.u64 %place, [place];
    ld.param.u64 %number, [number];
    st.volatile.global.u64 [%place], %number;
    membar.sys;
SPIN:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %begin;
    mov.u64 %tick, %clock64;
    sub.u64 %tick, %tick, %first;
    setp.lt.u64 %again, %now, %wait;
    setp.lt.and.u64 %again, %tick, %most, %again;
    @%again bra SPIN;
    ret;
}}
"""


class GateError(RuntimeError):
    """The driver did not take the gate."""


def ptx(capability: tuple[int, int]) -> bytes:
    """Return the gate for a device, to be compiled by its driver.

    Parameters
    ----------
    capability
        Compute capability. What is said for an older one also runs on all that came later.
    """
    version, target = ("6.3", "sm_75") if capability >= (7, 5) else ("5.0", "sm_50")
    return _PTX.format(version=version, target=target).encode() + b"\0"


class Gate:
    """Closes a device for a moment.

    Raises
    ------
    GateError
        The driver refused it.
    """

    def __init__(self) -> None:
        device = torch.cuda.current_device()
        properties = torch.cuda.get_device_properties(device)
        # Makes the context that the driver's calls below are about.
        torch.cuda.synchronize()
        driver = ctypes.CDLL("libcuda.so.1")
        self._module, self._kernel, clock = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        code = ptx((properties.major, properties.minor))
        _checked(driver.cuModuleLoadData(ctypes.byref(self._module), code))
        _checked(driver.cuModuleGetFunction(ctypes.byref(self._kernel), self._module, b"stark_gate"))
        if driver.cuDeviceGetAttribute(ctypes.byref(clock), CLOCK_RATE, device) != 0:
            clock.value = COMMON_KHZ
        self._khz = clock.value or COMMON_KHZ
        self._blocks = properties.multi_processor_count * (properties.max_threads_per_multi_processor // THREADS)
        # Page-locked memory has one address for both sides (CUDA C++ Programming Guide, "Unified Virtual Addressing").
        self._memory = torch.zeros(1, dtype=torch.int64, pin_memory=True)
        self._closed = ctypes.c_ulonglong.from_address(self._memory.data_ptr())
        self._nanoseconds, self._cycles, self._number = (ctypes.c_ulonglong() for _ in range(3))
        self._place = ctypes.c_ulonglong(self._memory.data_ptr())
        # The driver copies what these point to when it queues the kernel.
        parameters = (self._nanoseconds, self._cycles, self._place, self._number)
        self._parameters = (ctypes.c_void_p * 4)(*(ctypes.addressof(one) for one in parameters))
        self._launch: Any = driver.cuLaunchKernel
        self._current_stream = torch.cuda.current_stream

    def close(self, milliseconds: float = GATE_MS) -> None:
        """Queue a gate on torch's current stream, and wait until all that was queued before is done and it is closed.

        Parameters
        ----------
        milliseconds
            How long it stays closed, `MOST_MS` at most.

        Raises
        ------
        GateError
            The driver refused it. A fault of an earlier kernel is raised by torch, in its own words.
        """
        milliseconds = min(milliseconds, MOST_MS)
        self._nanoseconds.value = int(milliseconds * 1e6)
        self._cycles.value = int(PATIENCE * milliseconds * self._khz)
        self._number.value += 1
        number, closed, current = self._number.value, self._closed, self._current_stream()
        stream = ctypes.c_void_p(current.cuda_stream)
        _checked(self._launch(self._kernel, self._blocks, 1, 1, THREADS, 1, 1, 0, stream, self._parameters, None))
        looks = 0
        while closed.value != number:
            looks += 1
            # Raises what went wrong on the device, since then it never closes.
            if looks % LOOKS == 0 and current.query() and closed.value != number:
                raise GateError("The gate before a timed call did not close")


def _checked(code: int) -> None:
    if code != 0:
        torch.cuda.synchronize()
        raise GateError(f"CUDA driver error {code} at the gate before a timed call")
