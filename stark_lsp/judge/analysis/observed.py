"""What calls of a module read of it and of what it holds, seen as they run, in functions of other files too.

Settings that no call reads, such as the number of a layer, need not be asked for: one that differs there has the same
program. And what the code of the module's own file does not name, such as what another file's function takes of a
configuration, is known by its name, and asked for.
"""

from __future__ import annotations

import contextlib
import copy
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from ..correctness import state
from ..reference import modules
from . import parts, reads
from .constants import globals_of, reached

_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_WHOLE = ("__dict__", "__getstate__", "__reduce__", "__reduce_ex__")
"""Attributes by which all others are read."""
_OF_TORCH = (*_WHOLE, "training")
"""Those that PyTorch reads of its own accord."""


@dataclass(frozen=True)
class Observed:
    """What was seen."""

    read: frozenset[str] = frozenset()
    """Names of attributes that calls read of the user's parts, and of objects such as configurations that these hold.
    """
    unread: frozenset[str] = frozenset()
    """Plain settings of the user's parts that no call reads or sets of any of them. None where reads may stay unseen,
    or where a part holds what cannot be asked for, which such a setting may have made; nor one by whose name a class or
    a part of PyTorch's has something."""


def observe(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Observed:
    """Call a copy of a module with gradients, backward, and without; return nothing where that fails."""
    own = [part for part in module.modules() if parts.is_users(type(part))]
    theirs = [part for part in module.modules() if not parts.is_users(type(part))]
    kinds = {kind for part in own for kind in type(part).__mro__ if kind is not object and parts.is_users(kind)}
    leaf = {type(part) for part in own}
    named = {name for part in own for name in parts.settings(vars(part), False) if name[0] != "_"}
    named -= {name for part in theirs for name in parts.settings(vars(part), False)}
    named -= {name for kind in kinds for name in vars(kind)}
    stance = getattr(torch.compiler, "set_stance", None)  # from torch 2.6 on
    unseen = any("__getattribute__" in reached(globals_of(one), [one])[1] for one in kinds)
    if stance is None or unseen or not reads.all_asked(module):
        named = set()
    # Those whose class cannot be watched, as SimpleNamespace, are read as a whole.
    held = [one for _, one, _ in reads.owners(module) if not isinstance(one, (type, torch.nn.Module))]
    watchable = {type(one) for one in held if type(one).__flags__ & (_PYTHON | _FIXED) == _PYTHON}
    read = {name for one in held if type(one) not in watchable for name in reads.names_in(one)}

    def noting(find: Callable[..., Any]) -> Callable[..., Any]:
        def noted(part: Any, name: str) -> Any:
            if name not in _OF_TORCH or not sys._getframe(1).f_code.co_filename.startswith(_TORCH):
                read.update([name], *((named, reads.names_in(part)) if name in _WHOLE else ()))
            return find(part, name)

        return noted

    def writing(write: Callable[..., None]) -> Callable[..., None]:
        def noted(part: Any, name: str, value: Any) -> None:
            read.add(name)
            write(part, name, value)

        return noted

    tensors = [one for part in module.modules() for one in vars(part).values() if isinstance(one, torch.Tensor)]
    shared = {id(one): one for one in (*module.parameters(), *module.buffers(), *tensors)}
    devices = {one.device for one in module.parameters() if one.is_cuda}
    reading = [(kind, "__getattribute__", noting(kind.__getattribute__)) for kind in leaf | watchable]
    setting = [(kind, "__setattr__", writing(kind.__setattr__)) for kind in leaf]
    try:
        called = _copied(module, shared)
        with contextlib.ExitStack() as watched:
            for kind, name, method in (*reading, *setting):
                watched.enter_context(mock.patch.object(kind, name, method))
            # What is compiled would be read by its guards.
            for manager in (state.kept(module), torch.random.fork_rng(devices=[*devices])):
                watched.enter_context(manager)
            if stance is not None:
                watched.enter_context(stance("force_eager"))
            with torch.no_grad():
                given, named_given = copy.deepcopy((args, dict(kwargs)))
                called(*given, **named_given)
            with torch.enable_grad():
                given, named_given = copy.deepcopy((args, dict(kwargs)))
                leaves = [one for one in modules.tensors_of((given, named_given)) if one.is_floating_point()]
                leaves = [one.requires_grad_() for one in leaves if one.is_leaf]
                _differentiate(called(*given, **named_given), [*leaves, *called.parameters()])
    except Exception:  # noqa: BLE001 - the user's code; what is wrong with it is told where it is compiled
        return Observed(frozenset(read))
    return Observed(frozenset(read), frozenset(named - read))


_PYTHON, _FIXED = 1 << 9, 1 << 8
"""Flags of classes that were made as Python's are (Py_TPFLAGS_HEAPTYPE), and that may not be changed
(Py_TPFLAGS_IMMUTABLETYPE, from Python 3.10 on)."""


def _copied(module: torch.nn.Module, shared: dict[int, Any]) -> torch.nn.Module:
    """Return a copy, of which what methods remember by the module, as `lru_cache` has it, is asked anew.

    It is the module itself where that holds what cannot be copied, as a lock.
    """
    try:
        return copy.deepcopy(module, shared)
    except Exception:  # noqa: BLE001 - whatever the user's classes do then
        return module


def _differentiate(result: Any, leaves: list[torch.Tensor]) -> None:
    """Run backward, and leave no gradient behind."""
    ends = [one for one in modules.tensors_of(result) if one.requires_grad and one.grad_fn is not None]
    wanted = [one for one in leaves if one.requires_grad]
    if ends and wanted:
        torch.autograd.grad(ends, wanted, [torch.ones_like(one) for one in ends], allow_unused=True)
