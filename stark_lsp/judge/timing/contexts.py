"""The context of a process on the GPU, made anew until it launches kernels as quickly as that of another process.

How long the device takes from one kernel to the next is drawn when a context is made and stays as it is until the
context ends. On an H200 it comes in two kinds, some 0.13 us a kernel apart: sixteen kernels that do nothing take 21.6
to 22.3 us in some half of all contexts and 23.0 to 23.6 in the others, so that the same code took 42.8 us or 45.2 us
depending on the process it ran in. Only processes of one kind can be compared.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

KERNELS = 16
"""Kernels that are launched between two events."""
TIMES = 40
"""So often; the median counts."""
ALIKE = 0.03
"""Fraction by which two contexts of one kind may differ."""
TRIED = 5
"""Contexts that are looked at to know what the quicker kind is."""
MOST = 10
"""Contexts that are made at most; whichever is the last is kept."""
WHERE = {
    "candidate": "its process",
    "eager": "the process of the original",
    "twin": "the second process of the original",
    "compile": "the process of what torch.compile made",
    "max_autotune": "the process of what torch.compile made with max-autotune",
}
HOLD_NS = 200_000
"""The device is held for so long, so that all launches are queued before the first kernel runs."""

_PTX = b"""
.version 6.3
.target sm_50
.address_size 64
.visible .entry stark_nothing(.param .u64 nanoseconds)
{
    ret;
}
.visible .entry stark_hold(.param .u64 nanoseconds)
{
    .reg .pred %again;
    .reg .u64 %wait, %begin, %now;
    ld.param.u64 %wait, [nanoseconds];
    mov.u64 %begin, %globaltimer;
SPIN:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %begin;
    setp.lt.u64 %again, %now, %wait;
    @%again bra SPIN;
    ret;
}
\0"""


class ContextError(RuntimeError):
    """The driver refused something."""


class Drawn:
    """What came of making contexts.

    Parameters
    ----------
    seen
        What `KERNELS` kernels that do nothing take in each of them, in microseconds; the last one was kept.
    """

    def __init__(self, seen: Sequence[float]) -> None:
        self.seen = tuple(seen)
        """Of each that was made."""
        self.launch_us = self.seen[-1]
        """Of the one that was kept."""

    @property
    def made(self) -> int:
        """How many were made."""
        return len(self.seen)


def draw(like_us: float = 0.0) -> Drawn:
    """Make the primary context of the first device, again and again until it is of the right kind, and leave it there.

    To be called before anything else uses the GPU in this process: torch, like every user of CUDA's runtime, works in
    the primary context (CUDA Driver API, "Primary Context Management"). One that is there already stays.

    Parameters
    ----------
    like_us
        `Drawn.launch_us` of a process that it is to be compared with; 0 to find the quicker kind.

    Raises
    ------
    ContextError
        There is no driver, or it refused.
    """
    driver = _Driver()
    most = 1 if driver.used() else MOST
    seen: list[float] = []
    while True:
        driver.make()
        seen.append(driver.launch_us())
        if right(seen, like_us) or len(seen) >= most:
            return Drawn(seen)
        driver.end()


def right(seen: Sequence[float], like_us: float) -> bool:
    """Whether the last of the contexts that were made may be kept.

    Parameters
    ----------
    seen
        `Drawn.launch_us` of each.
    like_us
        See `draw`.
    """
    if like_us > 0.0:
        return abs(seen[-1] - like_us) <= ALIKE * like_us
    return len(seen) >= TRIED and seen[-1] <= (1.0 + ALIKE) * min(seen)


def unlike(ours_us: float, theirs_us: float, side: str = "candidate") -> str | None:
    """Return a note where a side's context launches kernels more slowly or quickly than it should.

    Parameters
    ----------
    ours_us, theirs_us
        `Drawn.launch_us` of the side, and of the context that all others are made to be like; 0 where it is not known.
    side
        One of `WHERE`.
    """
    if ours_us <= 0.0 or theirs_us <= 0.0 or abs(ours_us - theirs_us) <= ALIKE * theirs_us:
        return None
    each_us, words = (ours_us - theirs_us) / KERNELS, "slower" if ours_us > theirs_us else "quicker"
    return (
        f"The GPU launches each kernel {abs(each_us):.2f} us {words} in {WHERE[side]} than in the others, which is "
        "chance; the times there include it."
    )


class _Driver:
    """The few calls of the driver that are needed (CUDA Driver API)."""

    def __init__(self) -> None:
        try:
            self._cuda: Any = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise ContextError(str(error)) from error
        self._device = ctypes.c_int()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(self._device), 0)

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            code = int(getattr(self._cuda, name)(*arguments))
        except AttributeError as error:
            raise ContextError(str(error)) from error
        if code != 0:
            raise ContextError(f"{name} gave error {code}")

    def used(self) -> bool:
        """Whether the primary context is there."""
        flags, active = ctypes.c_uint(), ctypes.c_int()
        self._call("cuDevicePrimaryCtxGetState", self._device, ctypes.byref(flags), ctypes.byref(active))
        return bool(active.value)

    def make(self) -> None:
        """Make the primary context and have this thread use it."""
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._call("cuCtxSetCurrent", context)

    def end(self) -> None:
        """End the primary context, so that the next is another one."""
        self._call("cuCtxSetCurrent", None)
        self._call("cuDevicePrimaryCtxRelease_v2", self._device)

    def launch_us(self) -> float:
        """Return what `KERNELS` kernels that do nothing take, in microseconds."""
        with self._module() as module, self._events() as (begin, end):
            nothing, hold = (self._function(module, name) for name in (b"stark_nothing", b"stark_hold"))
            found = sorted(self._once(nothing, hold, begin, end) for _ in range(TIMES))
            return found[len(found) // 2]

    def _once(self, nothing: Any, hold: Any, begin: Any, end: Any) -> float:
        wait = ctypes.c_ulonglong(HOLD_NS)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(wait))

        def launch(kernel: Any) -> None:
            self._call("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, 0, None, parameters, None)

        launch(hold)
        self._call("cuEventRecord", begin, None)
        for _ in range(KERNELS):
            launch(nothing)
        self._call("cuEventRecord", end, None)
        self._call("cuEventSynchronize", end)
        milliseconds = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
        return 1e3 * milliseconds.value

    @contextmanager
    def _module(self) -> Iterator[Any]:
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), _PTX)
        yield module
        self._call("cuModuleUnload", module)

    @contextmanager
    def _events(self) -> Iterator[tuple[Any, Any]]:
        pair = ctypes.c_void_p(), ctypes.c_void_p()
        for event in pair:
            self._call("cuEventCreate", ctypes.byref(event), 0)
        yield pair
        for event in pair:
            self._call("cuEventDestroy_v2", event)

    def _function(self, module: Any, name: bytes) -> Any:
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, name)
        return function
