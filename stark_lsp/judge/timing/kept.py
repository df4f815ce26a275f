"""The outputs of timed calls: copied right after each call, and pledged by a digest before anyone asks for them.

The judge learns the digests together with the times, and only then draws the calls whose outputs it wants to
see. What is not computed by then, in the judge's own wall-clock time, cannot be made up afterwards.

The process that keeps the outputs is the candidate's, so whoever could find other values with the same digest could
pledge anything; within a tolerance there are countless values to choose from. So a digest is SHA-256 of all bytes.
Where there is more than the host can hash in time, a GPU first makes 32 bytes of each block: a chain of products,
shifts and sums over four words that depend on each other, so that meeting in its middle takes 2**128 tries a block.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from ..processes import limits
from ..transport import tensorfile, values

LEAST = {"cpu": 32 << 20, "cuda": 512 << 20}
"""Bytes of outputs of one round that a process may keep however little memory there is."""
SHARE = {"cpu": 32, "cuda": 24}
"""It may keep one part in so many of the memory; eager has two processes, torch.compile two, the candidate one."""
FREE_SHARE = 8
"""Of what is free on a GPU, which others may use as well."""
MOST = 200
"""Calls of one round."""
SINGLE = 256 << 20
"""Bytes of outputs from which on those of a round with one call are not copied."""
ALIGN = 64
PIECE = 4 << 20
"""Bytes that a thread takes at a time."""
THREADS = 8
LARGE = 1 << 16
"""Bytes of a tensor from which on a GPU makes less of them first."""
TOGETHER = 256 << 20
"""Bytes of several tensors that it does so with at a time: the many steps take as long for one as for all."""
HUGE = 64 << 20
"""Bytes of a tensor from which on blocks are long, which takes less memory."""
STEPS, LANES = (16, 64), 4
"""Of a chain, in short and in long blocks: launching so many steps is what goes with a round, and varies."""
ODD = -0x61C8864680B583EB
"""2**64 over the golden ratio, as a signed number; it and its multiples by odd numbers are odd."""

Output = tuple[values.Skeleton, list[torch.Tensor]]
"""Skeleton and tensors of what a call returned, see `values.encode`."""

_encode = values.encode
_get_threads = torch.get_num_threads
_sha256 = hashlib.sha256


def room(device: str) -> int:
    """Return how many bytes of outputs a process may keep in one round."""
    if device != "cuda":
        return max(LEAST["cpu"], limits.memory_limit(1.0 / SHARE["cpu"]))
    free, total = torch.cuda.mem_get_info()
    return max(LEAST["cuda"], min(total // SHARE["cuda"], free // FREE_SHARE))


def fitting(device: str, nbytes: int) -> int:
    """Return how many calls, each returning `nbytes`, a round may have so that all outputs can be kept; at least 1."""
    return max(1, min(MOST, room(device) // _padded(nbytes)))


def _padded(nbytes: int) -> int:
    return max(ALIGN, -(-nbytes // ALIGN) * ALIGN)


class Layout(NamedTuple):
    """Where each tensor lies in a row of bytes."""

    begins: list[int]
    nbytes: list[int]
    length: int
    """Of the row, a multiple of `ALIGN`."""


def layout_of(tensors: list[torch.Tensor]) -> Layout:
    """Lay tensors out one after the other, each at a multiple of `ALIGN` bytes."""
    begins, nbytes, place = [], [], 0
    for tensor in tensors:
        begins.append(place)
        nbytes.append(tensor.numel() * tensor.element_size())
        place += -(-nbytes[-1] // ALIGN) * ALIGN
    return Layout(begins, nbytes, _padded(place))


def copy_into(row: torch.Tensor, tensors: list[torch.Tensor], layout: Layout) -> list[torch.Tensor]:
    """Copy tensors into a row of zeros and return them as they lie there."""
    copies = []
    for tensor, begin, nbytes in zip(tensors, layout.begins, layout.nbytes):
        copy = row[begin : begin + nbytes].view(tensor.dtype).view(tensor.shape)
        if nbytes:
            copy.copy_(tensor)
        copies.append(copy)
    return copies


def digests(outputs: list[Output], device: str) -> list[int]:
    """Return a number for each output of calls on a device, which no other values, shapes, dtypes or structure have."""
    hashed = iter(_hashed([tensor for _, tensors in outputs for tensor in tensors], device))
    pieces = [[piece for _ in tensors for piece in next(hashed)] for _, tensors in outputs]
    together = [piece for row in pieces for piece in row]
    threads = min(THREADS, _get_threads(), len(together))
    marks: Iterator[str] = map(_mark, together)
    if threads > 1 and sum(piece.numel() for piece in together) > PIECE:
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            marks = iter(list(pool.map(_mark, together)))
    found = []
    for (skeleton, tensors), row in zip(outputs, pieces):
        head = [skeleton, [[str(tensor.dtype), list(tensor.shape)] for tensor in tensors], [next(marks) for _ in row]]
        found.append(int.from_bytes(_sha256(json.dumps(head).encode()).digest(), "big"))
    return found


def marks(tree: Any, device: str) -> list[int]:
    """Return such a number for each tensor of a tree on a device, and last one for its structure."""
    tensors: list[torch.Tensor] = []
    skeleton = _encode(tree, tensors)
    return digests([*(("", [tensor]) for tensor in tensors), (values.flatten(skeleton), [])], device)


def _hashed(tensors: list[torch.Tensor], device: str) -> list[tuple[torch.Tensor, ...]]:
    """Return for each tensor what is hashed of it: the bytes of its elements in order, of large ones on a GPU less."""
    data = [tensor.detach().contiguous().reshape(-1).view(torch.uint8) for tensor in tensors]
    if device != "cuda":
        return [one.split(PIECE) if one.numel() else () for one in data]
    found: list[tuple[torch.Tensor, ...]] = [()] * len(data)
    alike: dict[int, list[int]] = {}
    for number, one in enumerate(data):
        if one.numel():
            alike.setdefault(one.numel(), []).append(number)
    for numbers in alike.values():
        made = iter(numbers)
        for chains in _together([data[number] for number in numbers]):
            while chains.shape[1] >= LARGE:
                chains = chained(chains)
            for chain, number in zip(chains.cpu(), made):
                found[number] = (chain,)
    return found


def _together(rows: list[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Return equally long rows as matrices: in place where they lie at equal distances, else copied, some at a time."""
    first, places = rows[0], [row.storage_offset() for row in rows]
    step = places[1] - places[0] if len(rows) > 1 else -(-first.numel() // 8) * 8
    near = all(row.untyped_storage().data_ptr() == first.untyped_storage().data_ptr() for row in rows)
    if near and step > 0 and places == list(range(places[0], places[0] + step * len(rows), step)) and step % 8 == 0:
        yield first.as_strided((len(rows), first.numel()), (step, 1))
        return
    count = max(1, TOGETHER // first.numel())
    for begin in range(0, len(rows), count):
        yield torch.stack(rows[begin : begin + count])


def chained(data: torch.Tensor) -> torch.Tensor:
    """Return 32 bytes for each block of each row, which change with any of its bits; the same on every device.

    What is left of a row behind its last block is returned as it is.
    """
    steps = STEPS[data.shape[1] >= HUGE]
    block = 8 * steps * LANES
    whole = data.shape[1] // block * block
    rest, data = data[:, whole:], data[:, :whole]
    if data.storage_offset() % 8 or data.stride(0) % 8:
        data = data.clone(memory_format=torch.contiguous_format)
    words = data.view(torch.int64).unflatten(1, (-1, steps, LANES))
    begin = torch.arange(words.shape[1] * LANES, dtype=torch.int64, device=data.device).view(-1, LANES) * ODD
    state = begin.repeat(len(data), 1, 1)
    for step in range(steps):
        state.bitwise_xor_(words[:, :, step]).mul_(ODD * (2 * step + 1) % (1 << 63) | 1)
        state.bitwise_xor_(state >> 29)
        # An odd matrix, so that nothing of the state is lost.
        state.add_(state.roll(1, dims=2) << 17)
    state.mul_(ODD)
    state.bitwise_xor_(state >> 32)
    return torch.cat([state.view(len(data), -1).view(torch.uint8), rest], 1)


def _mark(piece: torch.Tensor) -> str:
    return _sha256(tensorfile.memory_of(piece)).hexdigest()


def digest_of(skeleton: values.Skeleton, tensors: list[torch.Tensor], device: str) -> int:
    """Return the digest that `Kept` pledges for an output of a call made on a device."""
    return digests([(skeleton, tensors)], device)[0]


class Kept:
    """Outputs of the calls of one round on a device; the `result` of a call tells how much room each takes."""

    def __init__(self, result: Any, device: str) -> None:
        self._layout = layout_of(_stored(result)[1])
        self._device = device
        self.calls = fitting(device, self._layout.length)
        """Calls of a round whose outputs fit."""
        self._rows = torch.zeros((0, self._layout.length), dtype=torch.uint8, device=device)
        self._found: list[Output] = []

    @property
    def nbytes(self) -> int:
        """Bytes that the output of one call takes."""
        return self._layout.length

    @property
    def copying(self) -> bool:
        """Whether outputs are copied.

        Where a round has one call because no more outputs fit, there is no room for a copy either. Nothing is called
        before it was looked at, so what changes meanwhile is not what was pledged.
        """
        return self._layout.length < SINGLE or self.calls > 1

    def begin(self, calls: int) -> None:
        """Begin a round of so many calls, all of which are kept: how many, the judge says, who knows the memory."""
        self._found = []
        if self.copying and calls > len(self._rows):
            # The old rows go before the new ones come.
            self._rows = self._rows[:0].clone()
            self._rows = torch.zeros((calls, self._layout.length), dtype=torch.uint8, device=self._device)

    def take(self, result: Any) -> None:
        """Copy what a call returned, or take it as it is, see `copying`.

        Raises
        ------
        TypeError
            It holds another tensor than a plain one, which could compute its values only now.
        """
        skeleton, tensors = _stored(result)
        if not self.copying:
            self._found.append((skeleton, tensors))
            return
        layout = layout_of(tensors)
        if layout == self._layout:
            row = self._rows[len(self._found)]
        else:
            # A shape that depends on the inputs, or one that changes while it is timed.
            row = torch.zeros(layout.length, dtype=torch.uint8, device=self._device)
        with torch.no_grad():
            self._found.append((skeleton, copy_into(row, tensors, layout)))

    def pledge(self) -> list[int]:
        """Return the digests of all outputs of the round, in order."""
        return digests(self._found, self._device)

    def output(self, index: int) -> Output:
        """Return what call `index` of the round returned, as it is written: nothing is made of it again."""
        return self._found[index]


def _stored(result: Any) -> Output:
    """Return a result's skeleton and tensors as they are stored, without lazy negation and conjugation."""
    tensors: list[torch.Tensor] = []
    skeleton = _encode(result, tensors)
    for tensor in tensors:
        if type(tensor) not in values.PLAIN:
            raise TypeError(f"while it was timed it returned a {type(tensor).__name__}, not a plain torch.Tensor")
    return skeleton, [tensorfile.resolved(tensor) for tensor in tensors]
