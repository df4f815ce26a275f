"""What an output may look like in memory: its strides, and whose memory it lies in.

A candidate takes the reference's place in the user's program. There a result may be viewed with another shape, kept
for later, or written to; so it must be laid out as the reference's (where that is contiguous), each element must have
memory of its own, and nobody else may hold that memory, unless the reference's result is no better.

The runner reports where tensors lie; what that means is decided here, in the judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..reference import modules
from ..transport import tensorfile

Range = tuple[int, int]
"""First address of a tensor and the one behind its last."""
Ranges = Mapping[str, list[Range]]
"""What `report` returns."""
INPUT, WEIGHT, EARLIER = "an input", "a weight or buffer of the module", "an earlier result"
OTHER = "another output"
"""Whose memory an output can share."""
MOST = 100_000
"""More tensors than a module has."""
PAIRED = 1000
"""Outputs that are held against each other."""


def problem(expected: torch.Tensor, found: torch.Tensor, dense: bool = True) -> str | None:
    """Return what is wrong with the layout of an output that has the right shape, None if nothing is.

    Parameters
    ----------
    expected, found
        The reference's and the candidate's output, of one shape, with the strides they were returned with.
    dense
        Whether it must be contiguous where the reference's is.
    """
    if overlaps_itself(found) and not overlaps_itself(expected):
        return (
            f"has elements that share memory (strides {found.stride()}), as expand() leaves them: "
            "add .contiguous() or clone()"
        )
    if dense and expected.is_contiguous() and not found.is_contiguous():
        return (
            f"is not contiguous (strides {found.stride()}) where the reference's is (strides {expected.stride()}): "
            "add .contiguous()"
        )
    return None


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether two elements may lie at one address.

    A tensor does not overlap if, from the smallest stride up, each stride reaches beyond all smaller dimensions.
    """
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False


def addresses(tensor: torch.Tensor) -> Range:
    """Return the range of memory that a tensor's strides reach over; (0, 0) if it is empty."""
    count = tensorfile.span(tensor.shape, tensor.stride())
    begin = tensor.data_ptr() if count else 0
    return (begin, begin + count * tensor.element_size())


def report(outputs: Any, arguments: Any, module: Any, held: list[torch.Tensor]) -> dict[str, list[Range]]:
    """Return where everything lies after a forward pass, as JSON values."""
    # Sparse ones lie in no range of memory.
    state = [one for one in (*module.parameters(), *module.buffers()) if one.layout is torch.strided]
    return {
        "outputs": [addresses(tensor) for tensor in modules.tensors_of(outputs)],
        INPUT: [addresses(tensor) for tensor in modules.tensors_of(arguments)],
        WEIGHT: [addresses(tensor) for tensor in state],
        EARLIER: [addresses(tensor) for tensor in held],
    }


def shared(ranges: Any, results: int | None = None) -> list[set[str]]:
    """Return for each output whose memory it shares: `INPUT`, `WEIGHT`, `EARLIER`, `OTHER`.

    Parameters
    ----------
    ranges
        What `report` gave; of a hostile runner it may be anything.
    results
        How many outputs are looked at, in order; all of them by default.

    Raises
    ------
    ValueError, TypeError, KeyError
        It is not what `report` gives.
    """
    if any(len(ranges[owner]) > MOST for owner in (INPUT, WEIGHT, EARLIER)):
        raise ValueError("more tensors than there can be")

    def owned(place: Any, places: Any) -> bool:
        return any(int(begin) < int(place[1]) and int(place[0]) < int(end) for begin, end in places)

    outputs = ranges["outputs"][:results]
    found = [{owner for owner in (INPUT, WEIGHT, EARLIER) if owned(place, ranges[owner])} for place in outputs]
    for number, place in enumerate(outputs if len(outputs) <= PAIRED else ()):
        if owned(place, [*outputs[:number], *outputs[number + 1 :]]):
            found[number].add(OTHER)
    return found


def sharing_problem(expected: list[set[str]], found: list[set[str]]) -> str | None:
    """Return what is wrong with whose memory the outputs share, None if nothing is."""
    for index, owners in enumerate(found):
        allowed = expected[index] if index < len(expected) else set()
        for owner in (EARLIER, INPUT, WEIGHT, OTHER):
            if owner not in owners - allowed:
                continue
            name = "The output" if len(found) == 1 else f"Output number {index + 1}"
            if owner == EARLIER:
                return (
                    f"{name} lies in the memory of an earlier result, which the later call has overwritten: "
                    "allocate outputs in each call."
                )
            return f"{name} shares its memory with {owner}, which the reference's does not: return a new tensor."
    return None
