"""What is replaced in Python while a module is recorded, and put back afterwards."""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import math
import re
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any
from unittest import mock

import torch
from torch.overrides import handle_torch_function

from .constants import globals_of, is_literal, reached
from .encode import meta, number
from .frames import NotTraceable
from .recorder import Recorder
from .values import TracedDict, TracedFloat, TracedInt, expr_of, fact, plain, track

CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)
"""Modules of torch.nn that only call others: recorded through."""
OF_TENSORS = (torch.nn.ParameterList, torch.nn.ParameterDict)
HOLDERS = (*CONTAINERS, *OF_TENSORS)
"""Those, and modules of torch.nn that only hold tensors."""
FEW = 64
"""So many items a container may have that are asked for one by one."""
LONG = 400
"""So many characters a row of numbers may have that a forward asks for at each call."""
MANGLED = re.compile(r"_[A-Za-z]\w*__\w*(?<!__)$")
"""Names that Python makes of a class's own with two underscores; the new class is called otherwise, and they too."""
_OWN = {*vars(torch.nn.Module), *vars(torch.nn.Module())} - {"training"}
"""What each module has of PyTorch's."""
_MATH = ("sqrt", "exp", "log", "log2", "ceil", "floor")
"""Functions of one number whose results stay tracked."""


@dataclass(frozen=True)
class Leaf:
    """A module of torch.nn that counts as one operation."""

    module: torch.nn.Module
    path: str

    def tensors(self) -> list[torch.Tensor]:
        """Return its parameters and buffers."""
        return [*self.module.parameters(), *self.module.buffers()]

    def describe(self) -> dict[str, Any]:
        """Return class, path, plain attributes, and which parameters and buffers exist."""
        held = vars(self.module).items()
        own = {**self.module._parameters, **self.module._buffers}
        return {
            "class": type(self.module).__name__,
            "library": type(self.module).__module__,
            "path": self.path,
            "attributes": {k: number(v) for k, v in held if not k.startswith("_") and is_literal(v)},
            "tensors": {name: meta(value) if value is not None else None for name, value in own.items()},
            "hooks": bool(self.module._forward_hooks or self.module._forward_pre_hooks),
        }


def is_of_torch(cls: type) -> bool:
    """Whether a class is PyTorch's own."""
    return cls.__module__.startswith("torch.")


def is_leaf(module: torch.nn.Module) -> bool:
    """Whether a module counts as one operation."""
    return type(module).__module__.startswith("torch.nn.") and not isinstance(module, CONTAINERS)


def module_paths(root: torch.nn.Module) -> dict[int, str]:
    """Return, for the id of each module, the expression that reaches it from `self`."""
    paths: dict[int, str] = {}

    def walk(module: torch.nn.Module, path: str) -> None:
        if id(module) in paths:
            return
        paths[id(module)] = path
        for name, child in module._modules.items():
            if child is not None:
                walk(child, path + _step(module, name))

    walk(root, "self")
    return paths


def _step(module: torch.nn.Module, name: str) -> str:
    return _item(module, name) or (f".{name}" if name.isidentifier() else f".get_submodule({name!r})")


def _item(module: torch.nn.Module, name: str) -> str:
    """Return how a container gives what it holds, empty for other modules."""
    if isinstance(module, (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ParameterList)) and name.isdigit():
        return f"[{name}]"
    return f"[{name!r}]" if isinstance(module, (torch.nn.ModuleDict, torch.nn.ParameterDict)) else ""


def tensor_path(path: str, module: torch.nn.Module, name: str) -> str:
    """Return the expression that reaches a tensor which the module at a path holds."""
    if name.isidentifier():
        return path + (_item(module, name) or f".{name}")
    get = "parameter" if name in module._parameters else "buffer"
    return path + (_item(module, name) or f".get_{get}({name!r})")


def tied(root: torch.nn.Module) -> list[tuple[str, str]]:
    """Return the expressions of parameters that are one, which somebody may untie; `.cuda()` does so with buffers."""
    found: dict[int, str] = {}
    pairs = []
    paths = module_paths(root)
    for part in root.modules():
        for name, one in part._parameters.items():
            expression = tensor_path(paths[id(part)], part, name)
            first = found.setdefault(id(one), expression)
            if one is not None and first != expression:
                pairs.append((expression, first))
    return pairs


@dataclass(eq=False)
class Attributes:
    """Notes the numbers, switches and texts the code reads from modules, those of torch.nn among them."""

    recorder: Recorder
    paths: dict[int, str]
    namespace: dict[str, Any]
    """The names of the file that the module's class is in."""
    containers: dict[str, Any]
    """Those of `HOLDERS` that the module has, by path."""

    def __post_init__(self) -> None:
        self.read: dict[str, Any] = {}
        self.members: dict[str, tuple[str, Any]] = {}
        """What objects hold that the code reads, with what asks for it where its name is not in the code."""
        self._dicts: dict[str, TracedDict] = {}
        self._classes: set[type] = set()
        self.followed: dict[str, dict[str, Any]] = {}
        """The parts whose forward, or another method, is recorded through, outermost first, with their classes."""

    def follow(self, module: torch.nn.Module) -> None:
        """Note that a part's code is recorded through, so that a rewritten forward does not call the part."""
        path, cls = self.paths[id(module)], type(module)
        self._classes.add(cls)
        if path != "self" and path not in self.followed:
            name = f"nn.{cls.__name__}" if getattr(torch.nn, cls.__name__, None) is cls else cls.__name__
            self.followed[path] = {"class": name, "named": self.namespace.get(name) is cls}
            if isinstance(module, HOLDERS):
                keys = isinstance(module, torch.nn.ParameterDict)
                self.followed[path]["length"] = tuple(module) if keys else len(module)

    def used(self, path: str) -> None:
        """Note that a part or tensor is used; code that goes through what it lies in may use as many as there are."""
        for place, container in self.containers.items():
            if path.startswith((f"{place}[", f"{place}.")):
                self.follow(container)

    def seen(self, module: Any, name: str, value: Any) -> Any:
        """Return what the code is given for `module.name`."""
        path = self.paths.get(id(module))
        if path is None or name in _OWN or MANGLED.match(name):
            return value
        if isinstance(value, MethodType):
            self.follow(module)
        # What a property computes reads what it is made of.
        if name not in vars(module) and inspect.getattr_static(type(module), name, None) is not value:
            return value
        return self.note(f"{path}.{name}", value)

    def held(self, module: Any, name: str, value: Any) -> Any:
        """Return a part or tensor that the code reads, or the None in its place; where it decides, its class counts."""
        if value is None:
            return self.seen(module, name, value)
        path, cls = self.paths.get(id(module)), type(module)
        # Of a part of torch.nn the code of those that hold it asks: `if self.up.bias is None`.
        readers, parts = (self._classes, r"(?:\.\w+|\[[^]]*\])+") if is_of_torch(cls) else ({cls}, "")
        this = rf"self{parts}\.{re.escape(name)}"
        decides = rf"\b(if|not|and|or) {this}\b|\b{this} is\b|\({this},"
        if path is not None and any(re.search(decides, _source(reader)) for reader in readers):
            self.read[f"type({path}.{name}).__name__"] = type(value).__name__
        return value

    def constants(self) -> dict[str, Any]:
        """Return what the code can read at the top level of the file, by name."""
        found, *_ = reached(self.namespace, self._classes)
        return {name: number(value) for name, value in found.items()}

    def note(self, expression: str, value: Any) -> Any:
        """Note a value that the code reads, and return what the code is given for it."""
        self._ask(expression, value)
        if type(value) is dict:
            return self._dicts.setdefault(expression, TracedDict(value, expression, self.note))
        if hasattr(value, "__dict__") and not isinstance(value, (torch.nn.Module, torch.Tensor, type)):
            held = [item for item in vars(value).items() if is_literal(item[1]) or not hasattr(item[1], "__len__")]
            for member, content in [item for item in held if item[0].isidentifier()][:32]:
                self.members[f"{expression}.{member}"] = (f'getattr({expression}, "{member}", None)', content)
        return track(value, ["self", expression], self.recorder.note)

    def _ask(self, expression: str, value: Any) -> None:
        """Note what says that a value is the same; of objects, tensors and parts there is more that does."""
        if is_literal(value) and not isinstance(value, (list, tuple)):
            self.read[expression] = number(value)
        elif type(value) is dict:
            # Before what it holds: another may have None there.
            self.read[f"type({expression}).__name__"] = "dict"
        elif isinstance(value, (FunctionType, BuiltinFunctionType, MethodType, type)):
            self.read[f"getattr({expression}, '__name__', None)"] = value.__name__
        elif isinstance(value, functools.partial) and hasattr(value.func, "__name__"):
            self.read[f"getattr(getattr({expression}, 'func', None), '__name__', None)"] = value.func.__name__
            for name in ("args", "keywords"):
                self.read[f"repr(getattr({expression}, '{name}', None))"] = repr(getattr(value, name))
        elif isinstance(value, (set, frozenset)):
            # Texts have another order in each process.
            self.read[f"type({expression}).__name__ == {type(value).__name__!r}"] = True
            self._tell(f"sorted({expression}, key=repr)", sorted(value, key=repr))
        elif isinstance(value, (list, tuple, dict)) and not _is_of_numbers(value):
            self._ask_each(expression, value)
        elif type(value).__module__ == "numpy" and getattr(value, "shape", None) != ():
            raise NotTraceable(f"forward reads {expression}, which is numpy's", *self.recorder.here())
        elif not hasattr(value, "__dict__") and not re.search(r"\b0x", repr(value)):
            self._tell(expression, value)

    def _ask_each(self, expression: str, value: Any) -> None:
        keyed = isinstance(value, dict)
        items = list(value.items() if keyed else enumerate(value))
        if len(items) > FEW or not all(type(key) in (str, int) for key, _ in items):
            if not any(isinstance(one, (torch.Tensor, torch.nn.Module)) for _, one in items):
                raise NotTraceable(f"forward reads {expression}, which holds too much", *self.recorder.here())
            return
        kind, count = ("dict", "list") if keyed else ("list" if isinstance(value, list) else "tuple", "len")
        size = [*value] if keyed else len(value)
        self.read[f"isinstance({expression}, {kind}) and {count}({expression}) == {size}"] = True
        for key, one in items:
            self._ask(f"{expression}[{key!r}]", one)

    def _tell(self, expression: str, value: Any) -> None:
        if len(repr(value)) > LONG:
            raise NotTraceable(f"forward reads {expression}, which holds many numbers", *self.recorder.here())
        self.read[f"repr({expression})"] = repr(value)


@functools.cache
def _source(cls: Hashable) -> str:
    try:
        return inspect.getsource(cls)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def _is_of_numbers(value: Any) -> bool:
    """Whether a value is a row of numbers or texts, or of such rows."""
    rows = isinstance(value, (list, tuple))
    return rows and all(is_literal(item) or _is_of_numbers(item) for item in value)


PLAIN_FORWARD = "_forward_pytorch"
"""What a class that was accepted calls its forward without kernels, which say nothing to a recording."""


@contextlib.contextmanager
def patched(root: torch.nn.Module, recorder: Recorder, attributes: Attributes) -> Iterator[None]:
    """Record calls of modules, reads of their attributes, `range` and `math` on tracked numbers."""
    with contextlib.ExitStack() as undo:
        _patch_calls(attributes, undo)
        classes = {type(module) for module in root.modules()}
        for cls in classes:
            _patch_methods(cls, attributes, undo)
        users = [cls for cls in classes if not is_of_torch(cls)]
        for cls in (cls for cls in users if PLAIN_FORWARD in vars(cls)):
            undo.enter_context(mock.patch.object(cls, "forward", vars(cls)[PLAIN_FORWARD]))
        for namespace in {id(n): n for n in map(globals_of, users)}.values():
            _patch_range(namespace, undo)
        for name, function in list(vars(math).items()):
            if callable(function) and not name.startswith("_"):
                _patch_math(name, function, recorder, undo)
        yield


def _patch_calls(attributes: Attributes, undo: contextlib.ExitStack) -> None:
    original, recorder, paths = torch.nn.Module.__call__, attributes.recorder, attributes.paths

    def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if recorder.quiet:
            return original(module, *args, **kwargs)
        path = paths.get(id(module))
        if path is None:
            raise NotTraceable(
                f"a {type(module).__name__} is made inside forward, and not kept by the module", *recorder.here()
            )
        attributes.used(path)
        if not is_leaf(module):
            attributes.follow(module)
            recorder.module_stack.append(path)
            try:
                return original(module, *args, **kwargs)
            finally:
                recorder.module_stack.pop()
        run: Any = functools.partial(original, module)
        run.stark_leaf = Leaf(module, path)
        return handle_torch_function(run, (), *args, **kwargs)

    torch.nn.Module.__call__ = call  # type: ignore[method-assign]
    undo.callback(setattr, torch.nn.Module, "__call__", original)


def _patch_methods(cls: type, attributes: Attributes, undo: contextlib.ExitStack) -> None:
    """Note what is read of a module; refuse a forward that keeps something on it: a rewritten forward would not."""
    get: Callable[..., Any] = cls.__getattribute__
    find: Callable[..., Any] = cls.__getattr__  # type: ignore[attr-defined]
    set_: Callable[..., Any] = cls.__setattr__
    recorder = attributes.recorder

    def read(module: Any, name: str) -> Any:
        value = get(module, name)
        return value if recorder.quiet or name.startswith("__") else attributes.seen(module, name, value)

    def found(module: Any, name: str) -> Any:
        value = find(module, name)
        return value if recorder.quiet or name.startswith("__") else attributes.held(module, name, value)

    def store(module: Any, name: str, value: Any) -> None:
        if not recorder.quiet and value is not inherited_value(module, name):
            raise NotTraceable(f"forward keeps something on the module (self.{name})", *recorder.here())
        set_(module, name, value)

    for name, method in (("__getattribute__", read), ("__getattr__", found), ("__setattr__", store)):
        if name not in vars(cls):
            setattr(cls, name, method)
            undo.callback(delattr, cls, name)


def inherited_value(module: torch.nn.Module, name: str) -> Any:
    """Return what a module holds under a name, without the recorder noticing."""
    for place in (vars(module), module._parameters, module._buffers, module._modules):
        if name in place:
            return place[name]
    return None


def _patch_range(namespace: dict[str, Any], undo: contextlib.ExitStack) -> None:
    if "range" in namespace:
        return

    def counted(*bounds: Any) -> range:
        return builtins.range(*map(fact, bounds))

    namespace["range"] = counted
    undo.callback(namespace.pop, "range", None)


def _patch_math(name: str, original: Callable[..., Any], recorder: Recorder, undo: contextlib.ExitStack) -> None:
    def compute(*args: Any, **kwargs: Any) -> Any:
        if name in _MATH and len(args) == 1 and isinstance(args[0], (TracedInt, TracedFloat)):
            return track(original(plain(args[0])), ["math", name, expr_of(args[0])], recorder.note)
        return original(*map(fact, args), **kwargs)

    setattr(math, name, compute)
    undo.callback(setattr, math, name, original)
