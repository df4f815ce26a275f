"""Settings that a call does not read, such as the number of a layer: one that differs there has the same program."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import torch

from ..correctness import state
from ..reference import modules
from . import parts
from .constants import globals_of, reached
from .patches import is_of_torch

_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_WHOLE = ("__dict__", "__getstate__", "__reduce__", "__reduce_ex__")
"""Attributes by which all others are read."""


def unread(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of plain settings of the user's parts that no call reads or sets of any of them.

    Reads are seen where they happen, in functions of other files and by `getattr` too, with gradients, in backward and
    without. What a program decides by is asked for, so that it runs where a call would read the same. Nothing is
    returned where reads may stay unseen, and no name by which a class or a part of PyTorch's has something.
    """
    own = [part for part in module.modules() if not is_of_torch(type(part))]
    theirs = [part for part in module.modules() if is_of_torch(type(part))]
    kinds = {kind for part in own for kind in type(part).__mro__ if kind is not object and not is_of_torch(kind)}
    named = {name for part in own for name in parts.settings(vars(part), False) if name[0] != "_"}
    named -= {name for part in theirs for name in parts.settings(vars(part), False)}
    named -= {name for kind in kinds for name in vars(kind)}
    stance = getattr(torch.compiler, "set_stance", None)  # from torch 2.6 on
    if not named or stance is None or any("__getattribute__" in reached(globals_of(one), [one])[1] for one in kinds):
        return frozenset()
    read: set[str] = set()

    def noting(part: Any, name: str) -> Any:
        if name in _WHOLE and not sys._getframe(1).f_code.co_filename.startswith(_TORCH):
            read.update(named)
        read.add(name)
        return object.__getattribute__(part, name)

    def writing(write: Callable[..., None]) -> Callable[..., None]:
        def noted(part: Any, name: str, value: Any) -> None:
            read.add(name)
            write(part, name, value)

        return noted

    held = [one for part in module.modules() for one in vars(part).values() if isinstance(one, torch.Tensor)]
    shared = {id(one): one for one in (*module.parameters(), *module.buffers(), *held)}
    devices = {one.device for one in module.parameters() if one.is_cuda}
    try:
        # What methods remember by the module, as `lru_cache` has it, is asked of a copy anew.
        called = copy.deepcopy(module, shared)
        with contextlib.ExitStack() as watched:
            for kind, write in [(kind, kind.__setattr__) for kind in kinds if issubclass(kind, torch.nn.Module)]:
                watched.enter_context(mock.patch.object(kind, "__getattribute__", noting))
                watched.enter_context(mock.patch.object(kind, "__setattr__", writing(write)))
            # What is compiled would be read by its guards.
            for manager in (state.kept(module), torch.random.fork_rng(devices=[*devices]), stance("force_eager")):
                watched.enter_context(manager)
            with torch.no_grad():
                given, named_given = copy.deepcopy((args, dict(kwargs)))
                called(*given, **named_given)
            with torch.enable_grad():
                given, named_given = copy.deepcopy((args, dict(kwargs)))
                leaves = [one for one in modules.tensors_of((given, named_given)) if one.is_floating_point()]
                leaves = [one.requires_grad_() for one in leaves if one.is_leaf]
                _differentiate(called(*given, **named_given), [*leaves, *called.parameters()])
    except Exception:  # noqa: BLE001 - the user's code; what is wrong with it is told where it is compiled
        return frozenset()
    return frozenset(named - read)


def _differentiate(result: Any, leaves: list[torch.Tensor]) -> None:
    """Run backward, and leave no gradient behind."""
    ends = [one for one in modules.tensors_of(result) if one.requires_grad and one.grad_fn is not None]
    wanted = [one for one in leaves if one.requires_grad]
    if ends and wanted:
        torch.autograd.grad(ends, wanted, [torch.ones_like(one) for one in ends], allow_unused=True)
