"""One name for each function that PyTorch may be called through."""

from __future__ import annotations

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
_table: dict[int, str] = {}
_keep: list[Any] = []


def _fill() -> None:
    for prefix, space in reversed(_SPACES):
        for name in dir(space):
            if prefix == "torch" and name.startswith("_"):
                continue
            try:
                item = getattr(space, name)
            except (AttributeError, RuntimeError):
                continue
            if callable(item) and not isinstance(item, (type, ModuleType)):
                _table[id(item)] = f"{prefix}.{name}"
                _keep.append(item)


def name_of(function: Callable[..., Any]) -> str:
    """Return `F.gelu`, `torch.add`, `Tensor.view`, `Tensor.shape.get` …; `?name` for what has no public name."""
    if not _table:
        _fill()
    own = getattr(function, "__name__", "")
    if own in ("__get__", "__set__"):
        descriptor = getattr(function, "__self__", None)
        return f"Tensor.{getattr(descriptor, '__name__', '?')}.{own.strip('_')}"
    known = _table.get(id(function))
    if known is not None:
        return known
    for prefix, space in _SPACES:
        if own and getattr(space, own, None) is function:
            return f"{prefix}.{own}"
    try:
        resolved = torch.overrides.resolve_name(function)
    except (AttributeError, TypeError, RuntimeError):
        resolved = None
    if resolved:
        return (
            resolved.replace("torch.nn.functional.", "F.")
            .replace("torch.Tensor.", "Tensor.")
            .replace("torch.functional.", "torch.")
        )
    return f"?{own or type(function).__name__}"
