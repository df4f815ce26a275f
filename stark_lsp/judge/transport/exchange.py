"""GPU memory that the judge and one child both see, so that large tensors need not travel by way of files.

The judge allocates it through the driver's virtual memory management and hands the child a file descriptor
(CUDA Driver API, `cuMemExportToShareableHandle`); unlike CUDA's older handles between processes, that works across
process namespaces. Both sides only ever copy to and from it: what the judge has read, the child cannot change any more.

What is larger than that memory is poured: the child fills it, has the judge copy that piece, and goes on with the next.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import torch

ALIGN = 512
LEAST = 1 << 20
"""Bytes of a piece that is poured, unless it is the last of a tensor."""
ON_DEVICE = 1
"""CU_MEM_LOCATION_TYPE_DEVICE and CU_MEM_ALLOCATION_TYPE_PINNED."""
FILE_DESCRIPTOR = 1
"""CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR."""
READ_WRITE = 3
"""CU_MEM_ACCESS_FLAGS_PROT_READWRITE."""


class Unavailable(Exception):
    """This driver or device cannot share memory in this way."""


class Overflow(Exception):
    """The child pours what it was not asked for."""


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Properties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class _Array:
    """A piece of memory as the CUDA Array Interface describes it (numba.readthedocs.io, version 3)."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def _call(name: str, *arguments: Any) -> None:
    try:
        code = int(getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments))
    except (OSError, AttributeError) as error:
        raise Unavailable(str(error)) from error
    if code != 0:
        raise Unavailable(f"{name} gave error {code}")


def _room(nbytes: int, device: torch.device) -> torch.Tensor:
    """Return memory for so many bytes, on the host where the device has no room."""
    try:
        return torch.empty(nbytes, dtype=torch.uint8, device=device)
    except torch.cuda.OutOfMemoryError:
        return torch.empty(nbytes, dtype=torch.uint8)


class Exchange:
    """One piece of shared memory, filled from its beginning anew for each request.

    Made by `create` in the judge and by `attach` in the child; both raise `Unavailable`.
    """

    def __init__(self, handle: int, nbytes: int, fd: int) -> None:
        self.fd = fd
        """What a child is handed; -1 in the child."""
        self._handle = ctypes.c_ulonglong(handle)
        self._address = ctypes.c_ulonglong()
        size = ctypes.c_size_t(nbytes)
        zero = ctypes.c_ulonglong(0)
        _call("cuMemAddressReserve", ctypes.byref(self._address), size, ctypes.c_size_t(0), zero, zero)
        _call("cuMemMap", self._address, size, ctypes.c_size_t(0), self._handle, zero)
        access = _Access(_Location(ON_DEVICE, torch.cuda.current_device()), READ_WRITE)
        _call("cuMemSetAccess", self._address, size, ctypes.byref(access), ctypes.c_size_t(1))
        self._share(torch.as_tensor(_Array(self._address.value, nbytes), device="cuda"))

    def _share(self, memory: torch.Tensor) -> None:
        self._memory = memory
        self._size = memory.numel()
        self._used = 0
        self._end = 0
        self._poured: dict[int, torch.Tensor] = {}
        self._filling: tuple[torch.Tensor, int] | None = None
        self.most = 0
        """Bytes that may be poured to the judge for one request."""
        self.tell: Callable[[dict[str, int]], bool] | None = None
        """In the child, has the judge take a piece and returns whether it did; without it nothing is poured."""

    @property
    def nbytes(self) -> int:
        """Bytes that places may lie in: behind the memory itself comes what was poured."""
        return self._size + self._end

    @classmethod
    def create(cls, nbytes: int) -> Exchange:
        """Allocate at least `nbytes` on the current device."""
        # Makes the device's context, which the calls below need.
        torch.cuda.synchronize()
        properties = _Properties(ON_DEVICE, FILE_DESCRIPTOR, _Location(ON_DEVICE, torch.cuda.current_device()))
        granularity = ctypes.c_size_t()
        _call("cuMemGetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(properties), 0)
        unit = granularity.value or 1
        nbytes = -(-max(nbytes, 1) // unit) * unit
        handle = ctypes.c_ulonglong()
        zero = ctypes.c_ulonglong(0)
        _call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(nbytes), ctypes.byref(properties), zero)
        fd = ctypes.c_int(-1)
        try:
            _call("cuMemExportToShareableHandle", ctypes.byref(fd), handle, FILE_DESCRIPTOR, zero)
            return cls(handle.value, nbytes, fd.value)
        except Unavailable:
            _call("cuMemRelease", handle)
            if fd.value >= 0:
                os.close(fd.value)
            raise

    @classmethod
    def attach(cls, fd: int, nbytes: int) -> Exchange:
        """Map what the judge allocated."""
        torch.cuda.synchronize()
        handle = ctypes.c_ulonglong()
        _call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), FILE_DESCRIPTOR)
        os.close(fd)
        return cls(handle.value, nbytes, -1)

    def reset(self) -> None:
        """Fill it from its beginning again."""
        self._used = 0
        self.forget()

    def forget(self) -> None:
        """Keep nothing of what was poured."""
        self._end = 0
        self._poured.clear()
        self._filling = None

    def put(self, flat: torch.Tensor) -> int | None:
        """Copy flat bytes in; returns their place, None if there is no room, or if they are not on the device."""
        place = self._used
        end = place + flat.numel()
        if flat.device != self._memory.device:
            return None
        if end > self._size:
            return self._pour(flat)
        self._memory[place:end].copy_(flat)
        self._used = -(-end // ALIGN) * ALIGN
        return place

    def _pour(self, flat: torch.Tensor) -> int | None:
        """Hand bytes over piece by piece; returns their place, None where the judge does not take any."""
        room = self._size - self._used
        if self.tell is None or room < LEAST:
            return None
        for begin in range(0, flat.numel(), room):
            part = flat[begin : begin + room]
            self._memory[self._used : self._used + part.numel()].copy_(part)
            self.settle()
            if not self.tell({"place": self._used, "nbytes": part.numel(), "left": flat.numel() - begin}):
                return None
        place = self.nbytes
        self._end += -(-flat.numel() // ALIGN) * ALIGN
        return place

    def pour(self, place: Any, nbytes: Any, left: Any) -> bool:
        """Take a piece, in the judge; returns whether there was room for the tensor.

        Parameters
        ----------
        place, nbytes
            Where it lies in the shared memory.
        left
            Bytes of its tensor that were not taken before.

        Raises
        ------
        Overflow
            It is not what `_pour` says.
        """
        if any(type(number) is not int for number in (place, nbytes, left)):
            raise Overflow(f"{place!r}, {nbytes!r} and {left!r} are no numbers")
        if not min(LEAST, left) <= nbytes <= left or nbytes <= 0:
            raise Overflow(f"a piece of {nbytes} of {left} bytes")
        if place < 0 or place + nbytes > self._size:
            raise Overflow("outside of the shared memory")
        if self._filling is None:
            if left > self.most - self._end:
                return False
            self._filling = _room(left, self._memory.device), 0
        whole, filled = self._filling
        if left != whole.numel() - filled:
            raise Overflow(f"{left} bytes are left to pour where it were {whole.numel() - filled}")
        whole[filled : filled + nbytes].copy_(self._memory[place : place + nbytes])
        # The child writes there again as soon as it is told.
        self.settle()
        self._filling = whole, filled + nbytes
        if nbytes == left:
            self._poured[self.nbytes] = whole
            self._end += -(-whole.numel() // ALIGN) * ALIGN
            self._filling = None
        return True

    def settle(self) -> None:
        """Wait until all is there; the other side copies from here on a stream of its own."""
        if self._memory.is_cuda:
            torch.cuda.synchronize()

    def take(self, place: int, nbytes: int) -> torch.Tensor:
        """Return a copy of the bytes at a place.

        Raises
        ------
        ValueError
            They are not inside.
        """
        if place >= self._size and place in self._poured and self._poured[place].numel() == nbytes:
            # It is the judge's own already, and needed once.
            return self._poured.pop(place)
        if place < 0 or nbytes < 0 or place + nbytes > self._size:
            raise ValueError("outside of the shared memory")
        return self._memory[place : place + nbytes].clone()

    def close_descriptor(self) -> None:
        """Close this side's descriptor, once the child has its own."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def close(self) -> None:
        """Give the memory back; a child that still maps it keeps it until it ends."""
        self.close_descriptor()
        self.forget()
        del self._memory
        size = ctypes.c_size_t(self._size)
        torch.cuda.synchronize()
        _call("cuMemUnmap", self._address, size)
        _call("cuMemAddressFree", self._address, size)
        _call("cuMemRelease", self._handle)
