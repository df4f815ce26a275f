"""The fewest bytes and operations a problem needs, counted on the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..reference import modules
from ..reference.operators import observe


def measure(module: Any, call: Callable[[], Any], arguments: Any) -> dict[str, Any]:
    """Count what a call of the reference needs; never raises.

    Parameters
    ----------
    module
        The reference, whose parameters and buffers are read.
    call
        Runs it on `arguments` and returns its outputs.

    Returns
    -------
    dict
        `bytes` (inputs, weights and outputs once each, None if unknown), `flops` (of products and convolutions, None if
        unknown), `dtype` of the operations, and `notes`.
    """
    notes: list[str] = []
    inputs = modules.tensors_of(arguments)
    outputs: list[torch.Tensor] = []
    flops: int | None = None
    known = False
    weights = _weights(module)
    dtype = _dtype([*inputs, *weights])
    try:
        result, operators = observe(call)
        outputs, flops, known = modules.tensors_of(result), operators.flops, True
        # Under autocast products are of that dtype.
        dtype = next((name for name in ("bfloat16", "float16") if getattr(torch, name) in operators.dtypes), dtype)
    except Exception as error:  # noqa: BLE001 - reported: a class may not run under a dispatch mode
        notes.append(f"Operations were not counted: {type(error).__name__}.")
        try:
            outputs, known = modules.tensors_of(call()), True
        except Exception as second:  # noqa: BLE001 - reported
            notes.append(f"Bytes were not counted: {type(second).__name__}.")
    return {
        "bytes": distinct_bytes([*inputs, *weights, *outputs]) if known else None,
        "flops": flops,
        "dtype": dtype,
        "notes": notes,
    }


def distinct_bytes(tensors: list[torch.Tensor]) -> int:
    """Return the bytes of some tensors; memory that several of them share counts once, and so do repeated elements."""
    regions: dict[tuple[str, int], int] = {}
    total = 0
    for tensor in tensors:
        needed, place = needed_bytes(tensor), place_of(tensor)
        if place is None:
            total += needed
        else:
            regions[place] = max(regions.get(place, 0), needed)
    return total + sum(regions.values())


def needed_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes that a full read or write of a tensor moves; repeated elements count once."""
    try:
        steps = tensor.stride()
    except RuntimeError:  # sparse and nested tensors have none
        steps = (1,) * tensor.dim()
    sizes = (size if step else min(size, 1) for size, step in zip(tensor.shape, steps))
    return math.prod(sizes) * tensor.element_size()


def place_of(tensor: torch.Tensor) -> tuple[str, int] | None:
    """Return where a tensor's memory begins, None for one without."""
    try:
        address = int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError, AttributeError):
        return None
    return (str(tensor.device), address) if address else None


def _weights(module: Any) -> list[torch.Tensor]:
    """Return parameters and buffers that must be read whole; of an embedding only some rows are."""
    found: list[torch.Tensor] = []
    for part in module.modules():
        if isinstance(part, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
            continue
        found += list(part.parameters(recurse=False))
        found += list(part.buffers(recurse=False))
    return found


def _dtype(tensors: list[torch.Tensor]) -> str:
    """Return the floating dtype that most of the data has; empty if none is floating."""
    sizes: dict[str, int] = {}
    for tensor in tensors:
        if tensor.dtype.is_floating_point:
            name = str(tensor.dtype).replace("torch.", "")
            sizes[name] = sizes.get(name, 0) + tensor.numel()
    return max(sizes, key=lambda name: sizes[name]) if sizes else ""
