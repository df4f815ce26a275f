"""Arguments and results as JSON values.

`{"ref": [node, index]}` stands for a tensor, `{"scalar": value, "expr": …}` for a tracked number; plain
`None`, booleans, whole numbers, finite floats and strings stand for themselves.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch

from .frames import NotTraceable
from .values import TracedDict, TracedFloat, TracedInt, plain


def encode(value: Any, tensor: Callable[[torch.Tensor], list[int]], device: Callable[[torch.device], Any]) -> Any:
    """Return `value` as JSON.

    Raises
    ------
    NotTraceable
        A value of a kind that cannot be written down again as source.
    """

    def go(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            return {"ref": tensor(item)}
        if isinstance(item, (TracedInt, TracedFloat)):
            return {"scalar": number(plain(item)), "expr": item.expr}
        if item is None or isinstance(item, (bool, int, str)):
            return item
        if isinstance(item, float):
            return number(item)
        if isinstance(item, slice):
            return {"slice": [go(item.start), go(item.stop), go(item.step)]}
        if item is Ellipsis:
            return {"ellipsis": True}
        if isinstance(item, torch.dtype):
            return {"dtype": str(item).rpartition(".")[2]}
        if isinstance(item, torch.device):
            return device(item)
        if isinstance(item, (torch.memory_format, torch.layout)):
            return {"torch": str(item).rpartition(".")[2]}
        if isinstance(item, list):
            return {"list": [go(member) for member in item]}
        if isinstance(item, tuple):
            fields = getattr(item, "_fields", None)
            if fields is not None and type(item).__module__ not in ("torch.return_types",):
                return {"call": type(item).__qualname__, "fields": [[name, go(getattr(item, name))] for name in fields]}
            return {"tuple": [go(member) for member in item]}
        # Also one that is a dict as well, as results of transformers are.
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            names = [field.name for field in dataclasses.fields(item)]
            return {"call": type(item).__qualname__, "fields": [[name, go(getattr(item, name))] for name in names]}
        if type(item) in (dict, collections.OrderedDict, TracedDict):
            return {"dict": [[go(key), go(member)] for key, member in item.items()]}
        raise NotTraceable(f"a value of type {type(item).__name__} cannot be written down as source")

    return go(value)


def number(value: Any) -> Any:
    """Return a plain value, or some, as JSON; non-finite floats as `{"float": text}`."""
    if isinstance(value, (tuple, list)):
        return [number(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def meta(tensor: torch.Tensor) -> dict[str, Any]:
    """Return what is known of a tensor: shape, dtype, stride, device, whether it is contiguous."""
    strided = tensor.layout is torch.strided
    return {
        "shape": [int(size) for size in tensor.shape],
        "dtype": str(tensor.dtype).rpartition(".")[2],
        "stride": [int(step) for step in tensor.stride()] if strided else None,
        "contiguous": bool(tensor.is_contiguous()) if strided else False,
        "device": tensor.device.type,
    }
