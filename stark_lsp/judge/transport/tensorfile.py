"""Raw tensor files: a JSON header and the bytes of each tensor.

Layout: eight bytes with the header's length (little-endian), the header, then each tensor's bytes at
its `offset` (from the start of the file, a multiple of 64). A tensor is stored as the span of memory
its strides reach over, so that layouts such as channels-last survive.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import json
import os
import queue
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils.dlpack

from ..processes import copies
from . import values
from .exchange import Exchange

LENGTH = struct.Struct("<Q")
ALIGN = 64
MAX_HEADER = 16 << 20
ROOM = 1 << 20
"""Bytes of a file besides its tensors that are expected of it."""
MAX_TEXT = 500
"""Characters of an error that is about what a file says."""
MAX_DIMS = 64
"""No operator of torch bears more."""
DTYPES = {str(value).replace("torch.", ""): value for value in vars(torch).values() if isinstance(value, torch.dtype)}
STAGE = 32 << 20
"""Bytes that go to or from a GPU at a time."""
SEVERAL = 256 << 20
"""Bytes of a tensor from which it is read in so many threads."""
THREADS = 4

MARGIN = 4096
"""Bytes of NaN before and behind each input."""
MARGIN_LIMIT = 64 << 20
"""Bytes of inputs up to which that is done."""

_detach = torch.Tensor.detach
_resolve_conj = torch.resolve_conj
_resolve_neg = torch.resolve_neg
_from_dlpack = torch.utils.dlpack.from_dlpack
_to_dlpack = torch.utils.dlpack.to_dlpack


class Damaged(Exception):
    """The file is not what `save` writes, or not within the limits given."""


def span(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Return how many elements of memory a strided tensor reaches over."""
    if any(size == 0 for size in shape):
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride))


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Return a plain tensor's values without lazy negation and conjugation, and without attributes of the object.

    Those of a candidate may stand in for methods.
    """
    return _resolve_neg(_resolve_conj(_detach(tensor)))


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory span of `tensor` as a contiguous one-dimensional tensor of bytes on its device."""
    tensor = resolved(tensor)
    count = span(tensor.shape, tensor.stride())
    return tensor.as_strided((count,), (1,)).view(torch.uint8)


def _head(tensor: torch.Tensor) -> dict[str, Any]:
    """Return what a file says of one tensor besides its bytes and their place."""
    plain = resolved(tensor)
    return {
        "dtype": str(plain.dtype).replace("torch.", ""),
        "shape": list(plain.shape),
        "stride": list(plain.stride()),
        "requires_grad": bool(tensor.requires_grad),
        "device": tensor.device.type,
        "type": "" if type(tensor) in values.PLAIN else type(tensor).__name__,
    }


def save(path: str, tree: Any, exchange: Exchange | None = None) -> int:
    """Write a tree of tensors and plain values; returns the bytes written.

    Parameters
    ----------
    exchange
        Takes the bytes of tensors on the GPU, as long as there is room; the file then holds their places.

    Raises
    ------
    values.NotPlain
        The tree holds something that cannot be handed over.
    """
    tensors: list[torch.Tensor] = []
    return write(path, values.encode(tree, tensors), tensors, exchange)


def write(
    path: str,
    skeleton: values.Skeleton,
    tensors: list[torch.Tensor],
    exchange: Exchange | None = None,
    heads: list[dict[str, Any]] | None = None,
) -> int:
    """Write what `values.encode` gave, or what was read from a file, with its `heads`; see `save`."""
    heads = heads or [_head(tensor) for tensor in tensors]
    placed: list[dict[str, Any]] = []
    blobs: list[torch.Tensor] = []
    place = 0
    for tensor, head in zip(tensors, heads):
        flat = bytes_of(tensor)
        shared = exchange.put(flat) if exchange is not None else None
        placed.append({**head, "place": place if shared is None else shared, "nbytes": flat.numel()})
        if shared is not None:
            placed[-1]["shared"] = True
            flat = flat[:0]
        blobs.append(flat)
        place += -(-flat.numel() // ALIGN) * ALIGN
    if exchange is not None:
        exchange.settle()
    header = json.dumps({"tree": skeleton, "tensors": placed}).encode()
    start = -(-(LENGTH.size + len(header)) // ALIGN) * ALIGN
    with open(path, "wb") as file:
        file.write(LENGTH.pack(len(header)) + header)
        for head, flat in zip(placed, blobs):
            if flat.numel():
                file.seek(start + head["place"])
                _write(file, flat)
        file.truncate(start + place)
    return start + place


def _write(file: Any, flat: torch.Tensor) -> None:
    """Write bytes of the host from where they lie, those of a GPU through page-locked memory."""
    if flat.device.type == "cpu":
        file.write(memory_of(flat))
        return
    stage = torch.empty(min(STAGE, flat.numel()), dtype=torch.uint8, pin_memory=True)
    for begin in range(0, flat.numel(), STAGE):
        part = flat[begin : begin + STAGE]
        stage[: part.numel()].copy_(part)
        file.write(memory_of(stage[: part.numel()]))


def memory_of(flat: torch.Tensor) -> memoryview:
    """Return the memory of contiguous bytes on the host, without a copy."""
    return memoryview((ctypes.c_char * flat.numel()).from_address(flat.data_ptr())).cast("B")


@dataclass(eq=False)
class Loaded:
    """What a file held: the skeleton, its tensors (on one device), and the header of each."""

    skeleton: Any
    tensors: list[torch.Tensor]
    heads: list[dict[str, Any]]

    @property
    def nbytes(self) -> int:
        """Bytes that the elements of all tensors take."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors)

    def copied(self, device: str = "") -> Loaded:
        """Return the same in memory of its own, on another device if one is named; strides are kept."""
        copies = []
        for tensor in map(resolved, self.tensors):
            flat = bytes_of(tensor).to(device or tensor.device, copy=True)
            copies.append(flat.view(tensor.dtype).as_strided(tensor.shape, tensor.stride()))
        return Loaded(self.skeleton, copies, self.heads)

    def tree(self, device: str = "cpu", lookup: values.Lookup | None = None, margin: int = 0) -> Any:
        """Return the tree with its tensors on `device`.

        Parameters
        ----------
        lookup
            Finds the user's own classes (see `values.decode`).
        margin
            Bytes before and behind each tensor that are filled with NaN, so that a kernel that reads outside its
            input shows it in its output, see `margin_of`; a multiple of 512, so that alignment stays. With 0, tensors
            that are on `device` already are not copied.
        """
        placed = []
        for tensor, head in zip(self.tensors, self.heads):
            moved = _embed(tensor, device, margin)
            placed.append(moved.requires_grad_() if head["requires_grad"] else moved)
        return values.decode(self.skeleton, placed, lookup)


def capture(tree: Any, device: str) -> Loaded:
    """Return what `load` would give after `save`, without a file: copies of the tensors, on `device`.

    Raises
    ------
    values.NotPlain
        The tree holds something that cannot be handed over.
    """
    tensors: list[torch.Tensor] = []
    skeleton = values.encode(tree, tensors)
    return Loaded(skeleton, tensors, [_head(tensor) for tensor in tensors]).copied(device)


def _embed(tensor: torch.Tensor, device: str, margin: int) -> torch.Tensor:
    """Return a tensor on a device, with a margin in the middle of a wider piece of memory full of NaN; strides kept."""
    flat = bytes_of(tensor)
    if margin:
        wide = surrounded(flat.numel(), device, margin)
        flat = wide[margin : margin + flat.numel()].copy_(flat)
    return alone(flat.to(device), tensor.dtype, tensor.shape, tensor.stride())


def margin_of(nbytes: int) -> int:
    """Return the margin around each input of a call, given the bytes of all; none around large ones."""
    return MARGIN if nbytes <= MARGIN_LIMIT else 0


def surrounded(nbytes: int, device: str | torch.device, margin: int) -> torch.Tensor:
    """Return memory for so many bytes with a margin around them, all of it NaN (integers: -1)."""
    # Bytes of ones are NaN in every floating type of torch that has one.
    return torch.full((nbytes + 2 * margin,), 0xFF, dtype=torch.uint8, device=device)


def alone(flat: torch.Tensor, dtype: torch.dtype, shape: Any, stride: Any) -> torch.Tensor:
    """Return a tensor over bytes that lie in a wider memory, with a storage of its own that ends where they do.

    So nobody can tell by size and offset of the storage what else lies there, nor what the input is made for.
    """
    if not flat.numel():
        return torch.empty_strided(shape, stride, dtype=dtype, device=flat.device)
    return _from_dlpack(_to_dlpack(flat)).view(dtype).as_strided(shape, stride)


def load(path: str, limit: int | None = None, device: str = "cpu", exchange: Exchange | None = None) -> Loaded:
    """Read a file; the writer may be hostile, so it is read, never mapped.

    Parameters
    ----------
    limit
        Largest size in bytes that is accepted; None for any.
    device
        Where the tensors go; to a GPU piece by piece through page-locked memory.
    exchange
        Holds the bytes of tensors that the file only names.

    Raises
    ------
    Damaged
        Not a regular file, too long, or with a header that does not fit its contents.

    Notes
    -----
    What is allocated here fits the file. The tensors need not: strides of zero give a few bytes any shape, so compare
    shapes before anything makes such a tensor contiguous.
    """
    try:
        opened = copies.regular(path)
    except copies.NotRegular:
        raise Damaged("not a regular file") from None
    except OSError as error:
        raise Damaged(f"cannot be opened: {error}") from error
    with opened as file:
        info = os.fstat(file.fileno())
        if limit is not None and info.st_size > limit:
            raise Damaged(f"{info.st_size} bytes where at most {limit} were expected")
        try:
            (length,) = LENGTH.unpack(file.read(LENGTH.size))
            if length > MAX_HEADER:
                raise Damaged(f"a header of {length} bytes")
            header = json.loads(file.read(length))
            start = -(-(LENGTH.size + length) // ALIGN) * ALIGN
            sizes = (info.st_size, exchange.nbytes if exchange is not None else 0)
            places = [_check(head, start, sizes) for head in header["tensors"]]
            total = sum(nbytes for _, nbytes in places)
            if total > sum(sizes) or (limit is not None and total > limit):
                raise Damaged("tensors that overlap")
            tensors = [
                _read(file, head, place, nbytes, device, exchange)
                for head, (place, nbytes) in zip(header["tensors"], places)
            ]
            return Loaded(header["tree"], tensors, header["tensors"])
        except torch.cuda.OutOfMemoryError:
            raise
        except (
            struct.error, ValueError, KeyError, TypeError, AttributeError, OverflowError, RuntimeError, RecursionError
        ) as error:  # fmt: skip
            raise Damaged(f"{type(error).__name__}: {str(error)[:MAX_TEXT]}") from error


def _check(head: dict[str, Any], start: int, sizes: tuple[int, int]) -> tuple[int, int]:
    """Return place and bytes of one tensor, after checking that its header fits the file or the shared memory."""
    if head.get("shared"):
        start, size = 0, sizes[1]
    else:
        size = sizes[0]
    dtype = DTYPES.get(head["dtype"])
    if dtype is None:
        raise Damaged(f"no dtype {str(head['dtype'])[:40]!r}")
    if max(len(head["shape"]), len(head["stride"])) > MAX_DIMS:
        raise Damaged("a tensor of too many dimensions")
    shape, stride = [int(n) for n in head["shape"]], [int(n) for n in head["stride"]]
    nbytes, place = int(head["nbytes"]), int(head["place"])
    item = torch.empty((), dtype=dtype).element_size()
    reach = span(shape, stride) if len(shape) == len(stride) else -1
    if min([*shape, *stride, reach, place], default=0) < 0 or reach * item != nbytes or start + place + nbytes > size:
        raise Damaged("a tensor that does not fit the file")
    return start + place, nbytes


def _read(
    file: Any, head: dict[str, Any], place: int, nbytes: int, device: str, exchange: Exchange | None
) -> torch.Tensor:
    """Read one tensor whose header was checked."""
    dtype = DTYPES[head["dtype"]]
    if nbytes == 0:
        return torch.empty_strided(head["shape"], head["stride"], dtype=dtype, device=device)
    if head.get("shared") and exchange is not None:
        data = exchange.take(place, nbytes).to(device)
    else:
        data = torch.empty(nbytes, dtype=torch.uint8, device=device)
        _fill(data, file, place)
    return data.view(dtype).as_strided(head["shape"], head["stride"])


def _fill(data: torch.Tensor, file: Any, place: int) -> None:
    """Read bytes from a place in a file, many of them in several threads: one takes longer than a GPU to get them."""
    threads = THREADS if data.numel() >= SEVERAL and hasattr(os, "preadv") else 1
    file.seek(place)
    stages: queue.SimpleQueue[torch.Tensor] = queue.SimpleQueue()
    for _ in range(threads if data.is_cuda else 0):
        stages.put(torch.empty(min(STAGE, data.numel()), dtype=torch.uint8, pin_memory=True))

    def fill(begin: int) -> None:
        part = data[begin : begin + STAGE]
        stage = stages.get() if data.is_cuda else part
        try:
            room = memory_of(stage[: part.numel()])
            read = os.preadv(file.fileno(), [room], place + begin) if threads > 1 else file.readinto(room)
            if read != part.numel():
                raise Damaged("the file ends early")
            if data.is_cuda:
                part.copy_(stage[: part.numel()])
        finally:
            stages.put(stage)

    begins = range(0, data.numel(), STAGE)
    if threads == 1:
        for begin in begins:
            fill(begin)
        return
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(fill, begins):
            pass


def text_of(tensor: torch.Tensor) -> str:
    """Return dtype and shape of a tensor, for instance `float32[8x128]`."""
    return f"{str(tensor.dtype).replace('torch.', '')}[{'x'.join(str(n) for n in tensor.shape)}]"


def layout_of(tensor: torch.Tensor) -> str:
    """Return the same, and the strides where they are not those of a contiguous one: `float32[8x4] (strides 1, 8)`."""
    if tensor.layout is not torch.strided or tensor.is_contiguous():
        return text_of(tensor)
    return f"{text_of(tensor)} (strides {', '.join(map(str, tensor.stride()))})"
