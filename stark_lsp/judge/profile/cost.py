"""The fewest bytes and operations a problem needs, counted on the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

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
        `bytes` (inputs, weights, of embeddings the rows that are read, and outputs once each, None if unknown), `flops`
        (of products and convolutions, None if unknown), `dtype` of the operations, and `notes`.
    """
    notes: list[str] = []
    inputs = modules.tensors_of(arguments)
    outputs: list[torch.Tensor] = []
    flops: int | None = None
    looked_up = 0
    known = False
    weights = _weights(module)
    lookups = _Lookups(weights)
    dtype = _dtype([*inputs, *weights])
    try:
        with lookups:
            result, operators = observe(call)
        outputs, flops, known = modules.tensors_of(result), operators.flops, True
        looked_up = lookups.bytes()
        # Under autocast products are of that dtype.
        dtype = next((name for name in ("bfloat16", "float16") if getattr(torch, name) in operators.dtypes), dtype)
    except Exception as error:  # noqa: BLE001 - reported: a class may not run under a dispatch mode
        notes.append(f"Operations were not counted: {type(error).__name__}.")
        try:
            outputs, known = modules.tensors_of(call()), True
        except Exception as second:  # noqa: BLE001 - reported
            notes.append(f"Bytes were not counted: {type(second).__name__}.")
    return {
        "bytes": distinct_bytes([*inputs, *weights, *outputs]) + looked_up if known else None,
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


class _Lookups(TorchDispatchMode):
    """Notes which rows of embeddings are read while it is active; of those in `whole` all rows count anyway."""

    def __init__(self, whole: list[torch.Tensor]) -> None:
        super().__init__()
        self._whole = {tensor.data_ptr() for tensor in whole}
        self._rows: dict[int, tuple[torch.Tensor, list[torch.Tensor]]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing compiles under this mode; to tell torch's compiler of it would import it, which takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._overloadpacket.__name__ in ("embedding", "_embedding_bag", "_embedding_bag_forward_only"):
            table, rows = args[:2]
            if table.data_ptr() not in self._whole:
                self._rows.setdefault(table.data_ptr(), (table, []))[1].append(rows)
        return func(*args, **(kwargs or {}))

    def bytes(self) -> int:
        """Return the bytes of all rows that were read, each once."""
        return sum(
            torch.unique(torch.cat([some.reshape(-1) for some in rows])).numel() * needed_bytes(table[:1])
            for table, rows in self._rows.values()
        )


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
