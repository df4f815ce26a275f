"""A module's buffers as its calls are to find them."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch


class State:
    """Buffers of a module by name, and how they come to hold that again, whatever calls made of them.

    Parameters
    ----------
    module
        As its calls are to find it: the very tensors come back, since CUDA graphs read their addresses.
    values
        What buffers of these names are to hold; by default, all what they hold. None is for what calls make.
    """

    def __init__(self, module: Any, values: Mapping[str, torch.Tensor | None] | None = None) -> None:
        self._places: dict[str, tuple[Any, str]] = {}
        self._own: dict[str, torch.Tensor | None] = {}
        self.values: dict[str, torch.Tensor | None] = {}
        """What they are to hold."""
        for path, part, name, buffer in _entries(module):
            if values is None or path in values:
                self._places[path], self._own[path] = (part, name), buffer
                value = None if values is None else values[path]
                # What the original makes when it is called, a candidate may have from the start.
                self.values[path] = buffer.detach().clone() if value is None and buffer is not None else value
        self.missing = self._lacking(values or {})
        """What the module has no buffers for."""

    def narrowed(self, values: Mapping[str, torch.Tensor | None]) -> State:
        """Return the same with these values, for their names alone."""
        other = copy.copy(self)
        other.values = {path: one for path, one in values.items() if path in self._places}
        other.missing = self._lacking(values)
        return other

    def _lacking(self, values: Mapping[str, torch.Tensor | None]) -> dict[str, torch.Tensor]:
        return {path: one for path, one in values.items() if one is not None and path not in self._places}

    def put_back(self) -> None:
        """Have the buffers hold the values again."""
        with torch.no_grad():
            for path, value in self.values.items():
                part, name = self._places[path]
                self._own[path] = part._buffers[name] = _holding(self._own[path], value)


def _holding(own: torch.Tensor | None, value: torch.Tensor | None) -> torch.Tensor | None:
    """Return a buffer's own tensor with these values, another one where it cannot have them."""
    if value is None or own is None:
        return None if value is None else value.clone()
    if own.shape == value.shape:
        # Some cannot be written: expanded ones, those of inference mode.
        with contextlib.suppress(RuntimeError):
            if own.grad_fn is not None:
                # Else each call would lead back through all earlier ones.
                own = own.detach() if own._is_view() else own.detach_()
            return own.copy_(value)
    return value.to(own, copy=True)


def _entries(module: Any) -> Iterator[tuple[str, Any, str, torch.Tensor | None]]:
    """Yield path where nothing is compiled, owner, name and tensor of dense buffers, each once, and of None."""
    seen: set[int] = set()
    for prefix, part in module.named_modules():
        for name, one in part._buffers.items():
            if one is None or (one.layout is torch.strided and not one.is_quantized and id(one) not in seen):
                seen.add(id(one))
                yield f"{prefix}.{name}".replace("_orig_mod.", "").lstrip("."), part, name, one


def held_by(module: Any) -> dict[str, torch.Tensor]:
    """Return copies of a module's buffers by name."""
    return {path: one.detach().clone() for path, _, _, one in _entries(module) if one is not None}


@contextlib.contextmanager
def kept(module: Any) -> Iterator[None]:
    """Put the module's buffers back to what they were, also after a call that raised half-way."""
    state = State(module)
    try:
        yield
    finally:
        state.put_back()
