"""Raw tensor files: a JSON header and the bytes of each tensor.

Layout: eight bytes with the header's length (little-endian), the header, then each tensor's bytes at
its `offset` (from the start of the file, a multiple of 64). A tensor is stored as the span of memory
its strides reach over, so that layouts such as channels-last survive.
"""

from __future__ import annotations

import ctypes
import json
import os
import stat
import struct
from typing import Any

import torch

from . import values

LENGTH = struct.Struct("<Q")
ALIGN = 64
MAX_HEADER = 16 << 20


class Damaged(Exception):
    """The file is not what `save` writes, or not within the limits given."""


def _span(shape: list[int], stride: list[int]) -> int:
    """Return how many elements of memory a strided tensor reaches over."""
    if any(size == 0 for size in shape):
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride))  # noqa: B905 - Python 3.9


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory span of `tensor` as a contiguous one-dimensional CPU tensor."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    count = _span(list(tensor.shape), list(tensor.stride()))
    return tensor.as_strided((count,), (1,)).cpu().contiguous()


def save(path: str, tree: Any) -> int:
    """Write a tree of tensors and plain values; returns the bytes written.

    Raises
    ------
    values.NotPlain
        The tree holds something that cannot be handed over.
    """
    tensors: list[torch.Tensor] = []
    skeleton = values.encode(tree, tensors)
    heads: list[dict[str, Any]] = []
    blobs: list[torch.Tensor] = []
    place = 0
    for tensor in tensors:
        flat = _flat(tensor)
        nbytes = flat.numel() * flat.element_size()
        heads.append(
            {
                "dtype": str(tensor.dtype).replace("torch.", ""),
                "shape": list(tensor.shape),
                "stride": list(tensor.stride()),
                "place": place,
                "nbytes": nbytes,
                "requires_grad": bool(tensor.requires_grad),
                "device": tensor.device.type,
                "type": "" if type(tensor) in (torch.Tensor, torch.nn.Parameter) else type(tensor).__name__,
            }
        )
        blobs.append(flat)
        place += -(-nbytes // ALIGN) * ALIGN
    header = json.dumps({"tree": skeleton, "tensors": heads}).encode()
    start = -(-(LENGTH.size + len(header)) // ALIGN) * ALIGN
    with open(path, "wb") as file:
        file.write(LENGTH.pack(len(header)) + header)
        for head, flat in zip(heads, blobs):  # noqa: B905 - Python 3.9
            if head["nbytes"]:
                file.seek(start + head["place"])
                file.write(memoryview((ctypes.c_char * head["nbytes"]).from_address(flat.data_ptr())))
        file.truncate(start + place)
    return start + place


class Loaded:
    """What a file held: the skeleton, its tensors on the CPU, and the header of each."""

    def __init__(self, skeleton: Any, tensors: list[torch.Tensor], heads: list[dict[str, Any]]) -> None:
        self.skeleton = skeleton
        self.tensors = tensors
        self.heads = heads

    def tree(self, device: str = "cpu", lookup: values.Lookup | None = None) -> Any:
        """Return the tree with its tensors on `device`."""
        placed = []
        for tensor, head in zip(self.tensors, self.heads):  # noqa: B905 - Python 3.9
            moved = _to_device(tensor, device)
            placed.append(moved.requires_grad_() if head["requires_grad"] else moved)
        return values.decode(self.skeleton, placed, lookup)


def _to_device(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """Copy a tensor to a device, strides kept."""
    if device == "cpu":
        return tensor
    shape, stride = tensor.shape, tensor.stride()
    count = _span(list(shape), list(stride))
    return tensor.as_strided((count,), (1,)).to(device).as_strided(shape, stride)


def load(path: str, limit: int | None = None) -> Loaded:
    """Read a file; the writer may be hostile.

    Parameters
    ----------
    limit
        Largest size in bytes that is accepted; None for any.

    Raises
    ------
    Damaged
        Not a regular file, too long, or with a header that does not fit its contents.
    """
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise Damaged(f"cannot be opened: {error}") from error
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        os.close(fd)
        raise Damaged("not a regular file")
    with os.fdopen(fd, "rb") as file:
        if limit is not None and info.st_size > limit:
            raise Damaged(f"{info.st_size} bytes where at most {limit} were expected")
        try:
            (length,) = LENGTH.unpack(file.read(LENGTH.size))
            if length > MAX_HEADER:
                raise Damaged(f"a header of {length} bytes")
            header = json.loads(file.read(length))
            start = -(-(LENGTH.size + length) // ALIGN) * ALIGN
            tensors = [_read(file, head, start, info.st_size) for head in header["tensors"]]
            return Loaded(header["tree"], tensors, header["tensors"])
        except (struct.error, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise Damaged(f"{type(error).__name__}: {error}") from error


def _read(file: Any, head: dict[str, Any], start: int, size: int) -> torch.Tensor:
    """Read one tensor, after checking that its header fits the file."""
    dtype = getattr(torch, head["dtype"])
    if not isinstance(dtype, torch.dtype):
        raise Damaged(f"no dtype {head['dtype']!r}")
    shape, stride = [int(n) for n in head["shape"]], [int(n) for n in head["stride"]]
    nbytes, place = int(head["nbytes"]), int(head["place"])
    item = torch.empty((), dtype=dtype).element_size()
    span = _span(shape, stride) if len(shape) == len(stride) else -1
    if min([*shape, *stride, span, place], default=0) < 0 or span * item != nbytes or start + place + nbytes > size:
        raise Damaged("a tensor that does not fit the file")
    if nbytes == 0:
        return torch.empty_strided(shape, stride, dtype=dtype)
    data = bytearray(nbytes)
    file.seek(start + place)
    if file.readinto(data) != nbytes:
        raise Damaged("the file ends early")
    return torch.frombuffer(data, dtype=dtype).as_strided(shape, stride)


def describe(loaded: Loaded) -> tuple[str, ...]:
    """Return the tensors as text, for instance `float32[8x128]`."""
    return tuple(text_of(tensor) for tensor in loaded.tensors)


def text_of(tensor: torch.Tensor) -> str:
    """Return dtype and shape of a tensor, for instance `float32[8x128]`."""
    return f"{str(tensor.dtype).replace('torch.', '')}[{'x'.join(str(n) for n in tensor.shape)}]"
