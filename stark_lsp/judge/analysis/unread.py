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
from . import parts

_TORCH = os.path.join(os.path.dirname(torch.__file__), "")


def unread(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of plain settings of the user's parts that no call reads or sets of any of them.

    Reads are seen where they happen, in functions of other files and by `getattr` too, with gradients and without. What
    a program decides by is asked for, so that it runs where a call would read the same. Nothing is returned where reads
    may stay unseen, and no name that a part of PyTorch's has a setting by.
    """
    own = [part for part in module.modules() if type(part).__module__.partition(".")[0] != "torch"]
    theirs = [part for part in module.modules() if part not in own]
    kinds = {kind for part in own for kind in type(part).__mro__ if kind.__module__.partition(".")[0] != "torch"}
    kinds -= {object}
    named = {name for part in own for name in parts.settings(vars(part), False) if name[0] != "_"}
    named -= {name for part in theirs for name in parts.settings(vars(part), False)}
    stance = getattr(torch.compiler, "set_stance", None)  # from torch 2.6 on
    if not named or stance is None or any("__getattribute__" in vars(kind) for kind in kinds):
        return frozenset()
    read: set[str] = set()

    def noting(part: Any, name: str) -> Any:
        if name == "__dict__" and not sys._getframe(1).f_code.co_filename.startswith(_TORCH):
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
    try:
        # What methods remember by the module, as `lru_cache` has it, is asked of a copy anew.
        called = copy.deepcopy(module, shared)
    except Exception:  # noqa: BLE001 - what the user's parts hold, such as locks
        return frozenset()
    devices = {one.device for one in module.parameters() if one.is_cuda}
    with contextlib.ExitStack() as watched:
        modules = [kind for kind in kinds if issubclass(kind, torch.nn.Module)]
        for kind, write in [(kind, kind.__setattr__) for kind in modules]:
            watched.enter_context(mock.patch.object(kind, "__getattribute__", noting))
            watched.enter_context(mock.patch.object(kind, "__setattr__", writing(write)))
        # What is compiled would be read by its guards.
        for manager in (state.kept(module), torch.random.fork_rng(devices=[*devices]), stance("force_eager")):
            watched.enter_context(manager)
        try:
            for gradients in (False, True):
                with torch.set_grad_enabled(gradients):
                    called(*args, **kwargs)
        except Exception:  # noqa: BLE001 - the user's code; what is wrong with it is told where it is compiled
            return frozenset()
    return frozenset(named - read)
