"""One name for each function that PyTorch may be called through."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional

_SPACES: tuple[tuple[str, Any], ...] = (
    ("F", torch.nn.functional),
    ("torch", torch),
    ("torch.linalg", torch.linalg),
    ("torch.special", torch.special),
    ("torch.fft", torch.fft),
    ("Tensor", torch.Tensor),
)


@functools.cache
def _table() -> dict[int, tuple[str, Any]]:
    """Return names by the ids of what they name, which is kept beside them."""
    table: dict[int, tuple[str, Any]] = {}
    for prefix, space in reversed(_SPACES):
        for name in dir(space):
            try:
                item = getattr(space, name)
            except (AttributeError, RuntimeError):
                continue
            if callable(item) and not isinstance(item, (type, ModuleType)):
                table[id(item)] = f"{prefix}.{name}", item
    return table


def name_of(function: Callable[..., Any]) -> str:
    """Return `F.gelu`, `torch.add`, `Tensor.view`, `Tensor.shape.get` …; `?name` for what these spaces do not hold."""
    own = getattr(function, "__name__", "")
    if own in ("__get__", "__set__"):
        descriptor = getattr(function, "__self__", None)
        return f"Tensor.{getattr(descriptor, '__name__', '?')}.{own.strip('_')}"
    name, _ = _table().get(id(function), (f"?{own or type(function).__name__}", None))
    return name
