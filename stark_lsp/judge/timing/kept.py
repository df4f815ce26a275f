"""The outputs of timed calls: copied right after each call, and pledged by a digest before anyone asks for them.

The judge learns the digests together with the times, and only then draws the calls whose outputs it wants to
see. What is not computed by then, in the judge's own wall-clock time, cannot be made up afterwards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..processes import limits
from ..transport import values

LEAST = {"cpu": 32 << 20, "cuda": 512 << 20}
"""Bytes of outputs of one round that a process may keep however little memory there is."""
SHARE = {"cpu": 32, "cuda": 24}
"""It may keep one part in so many of the memory; eager has two processes, torch.compile two, the candidate one."""
FREE_SHARE = 8
"""Of what is free on a GPU, which others may use as well."""
MOST = 200
"""Calls of one round."""
LANES = 4096
"""Numbers a digest is summed up to before they are weighed by their place."""
PAD = 8 * LANES

_encode = values.encode
_sum = torch.sum


def room(device: str) -> int:
    """Return how many bytes of outputs a process may keep in one round."""
    if device != "cuda":
        return max(LEAST["cpu"], limits.memory_limit(1.0 / SHARE["cpu"]))
    free, total = torch.cuda.mem_get_info()
    return max(LEAST["cuda"], min(total // SHARE["cuda"], free // FREE_SHARE))


def fitting(device: str, nbytes: int) -> int:
    """Return how many calls a round may have so that the outputs of all of them can be kept; at least 1.

    Parameters
    ----------
    nbytes
        Bytes that one call returns.
    """
    return max(1, min(MOST, room(device) // _padded(nbytes)))


def _padded(nbytes: int) -> int:
    return max(PAD, -(-nbytes // PAD) * PAD)


class Layout(NamedTuple):
    """Where each tensor lies in a row of bytes."""

    begins: list[int]
    nbytes: list[int]
    length: int
    """Of the row, a multiple of `PAD`."""


def layout_of(tensors: list[torch.Tensor]) -> Layout:
    """Lay tensors out one after the other, each at a multiple of 64 bytes."""
    begins, nbytes, place = [], [], 0
    for tensor in tensors:
        begins.append(place)
        nbytes.append(tensor.numel() * tensor.element_size())
        place += -(-nbytes[-1] // 64) * 64
    return Layout(begins, nbytes, _padded(place))


def copy_into(row: torch.Tensor, tensors: list[torch.Tensor], layout: Layout) -> list[torch.Tensor]:
    """Copy tensors into a row of zeros and return them as they lie there."""
    copies = []
    for tensor, begin, nbytes in zip(tensors, layout.begins, layout.nbytes):  # noqa: B905 - Python 3.9
        copy = row[begin : begin + nbytes].view(tensor.dtype).view(tensor.shape)
        if nbytes:
            copy.copy_(tensor)
        copies.append(copy)
    return copies


def digests(rows: torch.Tensor) -> list[int]:
    """Return one number for each row of bytes that changes with any of its bits and their places.

    Sums of 64-bit lanes, which wrap around alike on every device.
    """
    lanes = rows.view(torch.int64).view(rows.shape[0], -1, LANES)
    weights = torch.arange(1, 2 * LANES, 2, dtype=torch.int64, device=rows.device) * 0x9E3779B97F4A7C1
    return [int(value) for value in _sum(_sum(lanes, dim=1) * weights, dim=1).tolist()]


def digest_of(tensors: list[torch.Tensor]) -> int:
    """Return the digest that `Kept` pledges for these tensors."""
    layout = layout_of(tensors)
    device = tensors[0].device if tensors else "cpu"
    row = torch.zeros(layout.length, dtype=torch.uint8, device=device)
    copy_into(row, [tensor.detach().to(device) for tensor in tensors], layout)
    return digests(row.view(1, -1))[0]


class Kept:
    """Outputs of the calls of one round.

    Parameters
    ----------
    result
        What a call returns, to know how much room it takes.
    device
        `cpu` or `cuda`.
    """

    def __init__(self, result: Any, device: str) -> None:
        tensors: list[torch.Tensor] = []
        _encode(result, tensors)
        self._layout = layout_of(tensors)
        self._types = [type(tensor) for tensor in tensors]
        self._device = device
        self.calls = fitting(device, self._layout.length)
        """Calls of a round whose outputs fit."""
        self._rows = torch.zeros((0, self._layout.length), dtype=torch.uint8, device=device)
        self._found: list[tuple[Any, list[torch.Tensor]]] = []
        self._outside = False

    @property
    def nbytes(self) -> int:
        """Bytes that the output of one call takes."""
        return self._layout.length

    def __len__(self) -> int:
        return len(self._found)

    @property
    def reserved(self) -> int:
        """Calls that there is room for by now."""
        return len(self._rows)

    def begin(self, calls: int) -> None:
        """Begin a round of so many calls, all of which are kept: how many, the judge says, who knows the memory."""
        self._found = []
        self._outside = False
        if calls > len(self._rows):
            # The old rows go before the new ones come.
            self._rows = self._rows[:0].clone()
            self._rows = torch.zeros((calls, self._layout.length), dtype=torch.uint8, device=self._device)

    def take(self, result: Any) -> None:
        """Copy what a call returned.

        Raises
        ------
        TypeError
            It is of another type than before: such a tensor could compute its values only now.
        """
        tensors: list[torch.Tensor] = []
        skeleton = _encode(result, tensors)
        for tensor, kind in zip(tensors, self._types):  # noqa: B905 - Python 3.9
            if type(tensor) is not kind:
                raise TypeError(f"while it was timed it returned a {type(tensor).__name__}, not a {kind.__name__}")
        layout = layout_of(tensors)
        if layout == self._layout and len(self._found) < len(self._rows):
            row = self._rows[len(self._found)]
        else:
            # A shape that depends on the inputs, or one that changes while it is timed.
            row = torch.zeros(layout.length, dtype=torch.uint8, device=self._device)
            self._outside = True
        with torch.no_grad():
            self._found.append((skeleton, copy_into(row, [tensor.detach() for tensor in tensors], layout)))

    def pledge(self) -> list[int]:
        """Return the digests of all outputs of the round, in order."""
        if self._outside:
            return [digest_of(tensors) for _, tensors in self._found]
        return digests(self._rows[: len(self._found)]) if self._found else []

    def tree(self, index: int, lookup: values.Lookup | None) -> Any:
        """Return what call `index` of the round returned."""
        skeleton, tensors = self._found[index]
        return values.decode(skeleton, tensors, lookup)
