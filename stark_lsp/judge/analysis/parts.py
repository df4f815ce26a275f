"""What a module is made of, as candidates ask whether it still is: its parts and their settings, the plain attributes.

A program holds all of it as constants; `reads` has what else it does.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import math
import re
import types
from collections.abc import Container, Mapping
from typing import Any

import torch

from .frames import NotTraceable
from .patches import MANGLED, OF_TENSORS, module_paths

MODES = ("Dropout", "BatchNorm", "InstanceNorm", "RNN", "LSTM", "GRU", "MultiheadAttention", "RReLU")
"""Words in the names of torch's classes that do something else in training."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
TRACED = ("transformers.utils.output_capturing.output_capturing_hook",)
"""Hooks that a program does what they do: this one keeps hidden states for a call that returns them."""
FEW = 64
"""The most items of a list or dict that count as a setting: a vocabulary is none."""
PLAIN = (type(None), bool, int, str, torch.dtype)
SIZES = ("_size", "_keys")
"""What lists and dicts of parameters know of how much they hold."""
MODULES = vars(torch.nn.Module()).keys()
"""Attributes that every module has."""
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
CONSTANTS = (bool, int, float, str, torch.dtype, enum.Enum, range, slice)
"""Kinds of settings that are as they are printed."""
TAKEN = re.compile(r"__.*|_?(?:out|weights)|of_.*")
"""Names that a candidate's forward has for its own."""


def expression(path: str) -> str:
    """Return what a part, or what it holds, is called in `forward`."""
    return "self." + re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", path)


def told(
    module: torch.nn.Module, mode_matters: bool, unread: Container[str] = ()
) -> list[tuple[str, str, dict[str, str], list[str]]]:
    """Return path, class, plain settings and what is `missing` of each part, the module itself first.

    Settings are as they are written. Those of the user's classes themselves are among them, since a module may hide
    them by its own. None are told where a part has two paths, at one of which another may come to stand, or hooks, or a
    setting cannot be written.
    """
    found: list[tuple[str, str, dict[str, str], list[str]]] = []
    if len(list(module.named_modules(remove_duplicate=False))) > len(list(module.modules())):
        return found
    for path, part in module.named_modules():
        held: dict[str, Any] = {}
        for kind in reversed(type(part).__mro__):
            if kind.__module__.partition(".")[0] not in ("torch", "builtins"):
                held |= {name: one for name, one in vars(kind).items() if not isinstance(one, FUNCTIONS)}
        held |= vars(part)
        written = {name: _written(one) for name, one in settings(held, mode_matters, unread).items()}
        if "" in written.values() or (path and _hooks(part)) or isinstance(part, OF_TENSORS):
            return []
        found.append((path, kind_of(part), written, missing(part)))
    return found


def _written(setting: Any) -> str:
    """Return a plain setting as an expression; nothing where there is none."""
    if not isinstance(setting, FUNCTIONS):
        return repr(setting) if is_written(setting) else ""
    places = {"torch.nn.functional": torch.nn.functional, "torch": torch}
    names = [f"{place}.{setting.__name__}" for place, one in places.items() if _same(one, setting)]
    return next(iter(names), "")


def _same(place: Any, function: Any) -> bool:
    return getattr(place, function.__name__, None) is function


def settings(held: Mapping[str, Any], mode_matters: bool, unread: Container[str] = ()) -> dict[str, Any]:
    """Return the plain settings of a part, but those that no call reads, and the mode where it does not matter."""
    names = [one for one in sorted(held) if (one[0] != "_" or one in SIZES) and (mode_matters or one != "training")]
    names = [one for one in names if one not in unread]
    return {name: held[name] for name in names if is_plain(held[name])}


def digest(module: torch.nn.Module, mode_matters: bool, unread: Container[str] = ()) -> str:
    """Return a digest of a module's parts and plain settings; none may have a hook but those of `TRACED`.

    It is what `_stark_weights` in `prompts/kernels/weights.py` compares with, there for the user's module.

    Raises
    ------
    NotTraceable
        A part has hooks.
    """
    whole: list[tuple[Any, ...]] = []
    for path, part in module.named_modules():
        hooks = [] if part is module else _hooks(part)
        if any(hook not in TRACED for hook in hooks):
            raise NotTraceable(f"{path} has hooks")
        children = [(child, kind_of(one)) for child, one in part._modules.items()]
        plain = settings(vars(part), mode_matters, unread)
        whole.append((path, children, {name: as_told(one) for name, one in plain.items()}, hooks, _named(part)))
    return hashlib.sha256(repr(whole).encode()).hexdigest()[:16]


def _named(part: torch.nn.Module) -> list[tuple[str, bool]]:
    """Return the names of what is registered on a part, or a tensor that is not, and whether it is missing."""
    loose = {name: one for name, one in vars(part).items() if isinstance(one, torch.Tensor)}
    held = {**part._parameters, **part._buffers, **part._modules, **loose}
    return sorted((name, one is None) for name, one in held.items())


def missing(part: torch.nn.Module) -> list[str]:
    """Return the names of the parameters, buffers and parts that a part might have, such as a bias, and has not."""
    return [name for name, none in _named(part) if none]


def plain_tensors(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors that parts hold as attributes alone, by the expressions that they have in `forward`."""
    found = [(path, *item) for path, part in module.named_modules() for item in vars(part).items()]
    return [
        (expression(f"{path}.{name}".lstrip(".")), one)
        for path, name, one in found
        if type(one) is torch.Tensor and not one.requires_grad and not TAKEN.fullmatch(name) and not MANGLED.match(name)
    ]


def lists_of_tensors(module: torch.nn.Module) -> list[tuple[str, Any]]:
    """Return the lists and tuples of tensors alone that the user's parts hold, by their expressions in `forward`."""
    paths = module_paths(module)
    users = [part for part in module.modules() if type(part).__module__.partition(".")[0] != "torch"]
    return [
        (f"{paths[id(part)]}.{name}", held)
        for part in users
        for name, held in vars(part).items()
        if type(held) in (tuple, list) and held and name.isidentifier()
        if not TAKEN.fullmatch(name) and not MANGLED.match(name)
        if all(type(one) is torch.nn.Parameter or (type(one) is torch.Tensor and not one.requires_grad) for one in held)
    ]


def unasked(module: torch.nn.Module) -> bool:
    """Whether a part holds numbers that no condition asks for, as a long list, a set or an array of numpy's does."""
    held = [one for part in module.modules() for name, one in vars(part).items() if name not in MODULES]
    kinds = (list, tuple, dict, set, frozenset, range)
    return any(
        type(one).__module__ == "numpy" or (isinstance(one, kinds) and not is_plain(one))
        for one in held
        if not (isinstance(one, (list, tuple)) and any(isinstance(x, (torch.Tensor, torch.nn.Module)) for x in one))
    )


def by_name(module: torch.nn.Module) -> dict[str, Any]:
    """Return the plain settings of all parts by the expressions that they have in `forward`, as a digest has them."""
    parts = list(module.named_modules())
    named = [(path, *item) for path, part in parts for item in settings(vars(part), True).items()]
    return {expression(f"{path}.{name}".lstrip(".")): as_told(value) for path, name, value in named}


def _hooks(part: torch.nn.Module) -> list[str]:
    """Return the names of the hooks that a call of a part runs."""
    held = [hook for kind in HOOKS for hook in vars(part).get(kind, {}).values()]
    return [f"{getattr(hook, '__module__', '')}.{getattr(hook, '__name__', '')}" for hook in held]


def kind_of(part: Any) -> str:
    """Return a part's class as candidates have it, which tell torch.nn's own from others of that name."""
    name = type(part).__name__
    return f"nn.{name}" if getattr(torch.nn, name, None) is type(part) else name


def minds_mode(kind: type) -> bool:
    """Whether modules of a class may do something else in training, by torch's names or by what its source says."""
    for one in kind.__mro__:
        if one.__module__.partition(".")[0] == "torch":
            if any(word in one.__name__ for word in MODES):
                return True
        elif one is not object:
            try:
                source = inspect.getsource(one)
            except (OSError, TypeError):
                return True
            if "training" in source or "dropout" in source:
                return True
    return False


def is_users(kind: type) -> bool:
    """Whether a class is a user's; a parametrized one is, which PyTorch makes of it."""
    return any(one.__module__.partition(".")[0] not in ("torch", "builtins") for one in kind.__mro__)


def is_plain(value: Any) -> bool:
    """Whether a value is a setting: a number, a text, a function, or a few of these together."""
    if isinstance(value, (tuple, list, dict)):
        items = [*value, *value.values()] if isinstance(value, dict) else value
        return len(value) <= FEW and all(map(is_plain, items))
    if isinstance(value, functools.partial):
        return is_plain([value.func, value.args, value.keywords])
    return value is None or isinstance(value, (*CONSTANTS, *FUNCTIONS))


def as_told(value: Any) -> Any:
    """Return a setting as a digest is made of it, where a function has no address."""
    if isinstance(value, dict):
        return {as_told(key): as_told(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(map(as_told, value)) if type(value) in (tuple, list) else value
    if isinstance(value, functools.partial):
        return as_told([value.func, value.args, value.keywords])
    return value.__name__ if isinstance(value, FUNCTIONS) else value


def is_written(setting: Any, *, infinite: bool = False) -> bool:
    """Whether a setting is what its text says; with `infinite` whether infinities and NaN are all that is not."""
    if isinstance(setting, (tuple, list, dict)):
        items = [*setting, *setting.values()] if isinstance(setting, dict) else setting
        return type(setting) in (tuple, list, dict) and all(is_written(one, infinite=infinite) for one in items)
    return infinite or math.isfinite(setting) if type(setting) is float else type(setting) in PLAIN
