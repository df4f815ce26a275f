"""Trees of tensors and plain values as JSON plus a list of tensors, and back.

Inputs, outputs and constructor arguments travel between processes in this form. It is never pickle:
reading it runs no code of the writer.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
import importlib
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

Skeleton = Any
"""JSON: plain values as they are, everything else as an object whose `k` names its kind."""
Lookup = Callable[[str], Any]
"""Finds a class, function or enum of the user's module by its qualified name; None if there is none."""
PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Types an output may have."""


class NotPlain(Exception):
    """A value that cannot be handed to another process; `str()` names its place and type."""


class Malformed(Exception):
    """A skeleton that was not written by `encode`."""


def encode(tree: Any, tensors: list[torch.Tensor], path: str = "") -> Skeleton:
    """Return the skeleton of `tree` and append its tensors to `tensors`.

    Lists, tuples, named tuples, dicts, dataclasses, configurations, numbers, texts, dtypes, devices, enums, modules,
    partial calls, and classes or functions that can be found again by name are understood.

    Raises
    ------
    NotPlain
        `tree` holds something else.
    """
    # By the type and what is stored alone: a hostile class could compute what it holds only when it is asked.
    kind = type(tree)
    if tree is None or kind is bool:
        return tree
    if issubclass(kind, torch.Tensor):
        if tree.layout is not torch.strided or tree.is_quantized:
            raise NotPlain(f"{path or 'it'} is a {tree.layout} tensor, and only dense ones are supported")
        tensors.append(tree)
        return {"k": "tensor", "v": len(tensors) - 1}
    if issubclass(kind, enum.Enum):
        return {"k": "enum", "v": f"{_qualname(kind)}.{_own(tree)['_name_']}"}
    if issubclass(kind, str):
        return str.__str__(tree)
    if issubclass(kind, int):
        return int.__int__(tree)
    if issubclass(kind, float):
        number = float.__float__(tree)
        return number if math.isfinite(number) else {"k": "float", "v": str(number)}
    if issubclass(kind, complex):
        return {"k": "complex", "v": [str(tree.real), str(tree.imag)]}
    if kind in (torch.dtype, torch.device):
        return {"k": kind.__name__, "v": str(tree).replace("torch.", "")}
    fields = _of_class(kind, "__dataclass_fields__")
    if type(fields) is dict:
        record: Any = types.SimpleNamespace(__dataclass_fields__=fields)
        names = [field.name for field in dataclasses.fields(record)]
        own = _own(tree)
        made = [encode(own[name] if name in own else _shared(tree, name), tensors, f"{path}.{name}") for name in names]
        for name in sorted(set(own).difference(names)):
            # What it keeps besides its fields, as configurations of transformers do; what is not plain is left out.
            with contextlib.suppress(NotPlain):
                encode(own[name], [])
                made.append(encode(own[name], tensors, f"{path}.{name}"))
                names.append(name)
        return {"k": "dataclass", "name": _qualname(kind), "fields": names, "v": made}
    if kind is PackedSequence:
        # Its sizes are numbers: they stay on the CPU, and no other ones are tried.
        data, sizes, *order = tuple.__iter__(tree)
        made = [encode(item, tensors, f"{path}.data") for item in (data, sizes.tolist(), *order)]
        return {"k": "packed", "v": made}
    names = _of_class(kind, "_fields")
    if issubclass(kind, tuple) and type(names) is tuple:
        made = [encode(item, tensors, f"{path}.{name}") for name, item in zip(names, tuple.__iter__(tree))]
        return {"k": "namedtuple", "name": _qualname(kind), "fields": list(names), "v": made}
    if issubclass(kind, (list, tuple)):
        base = list if issubclass(kind, list) else tuple
        made = [encode(item, tensors, f"{path}[{index}]") for index, item in enumerate(base.__iter__(tree))]
        return {"k": base.__name__, "v": made}
    if issubclass(kind, dict):
        pairs = [(encode(key, tensors, path), value) for key, value in dict.items(tree)]
        return {"k": "dict", "v": [[key, encode(value, tensors, f"{path}[{key!r}]")] for key, value in pairs]}
    if issubclass(kind, torch.nn.Module):
        return _encode_module(tree, tensors, path)
    if issubclass(kind, functools.partial):
        return {"k": "partial", "v": encode([tree.func, tree.args, tree.keywords], tensors, path)}
    if _is_settings(tree):
        own = _own(tree)
        made = [encode(value, tensors, f"{path}.{name}") for name, value in own.items()]
        return {"k": "settings", "name": _qualname(kind), "fields": list(own), "v": made}
    if callable(tree) and "<" not in getattr(tree, "__qualname__", "<"):
        return {"k": "name", "module": str(getattr(tree, "__module__", "")), "v": tree.__qualname__}
    raise NotPlain(f"{path or 'it'} is a {kind.__module__}.{_qualname(kind)}")


_qualname = vars(type)["__qualname__"].__get__
_mro = vars(type)["__mro__"].__get__
_dict = vars(type)["__dict__"].__get__


def _of_class(kind: type, name: str) -> Any:
    """Return what a class or a base of it holds under a name; None if none does."""
    return next((_dict(base)[name] for base in _mro(kind) if name in _dict(base)), None)


def _own(record: Any) -> dict[str, Any]:
    """Return the attributes of an object as they are stored; none of a class that stands in for them."""
    found = _of_class(type(record), "__dict__")
    own = found.__get__(record) if type(found) in (types.GetSetDescriptorType, types.MemberDescriptorType) else None
    return own if type(own) is dict else {}


def _shared(record: Any, name: str) -> Any:
    """Return what is stored under a name in a slot, or in the class."""
    found = _of_class(type(record), name)
    return found.__get__(record) if type(found) is types.MemberDescriptorType else found


def _encode_module(module: torch.nn.Module, tensors: list[torch.Tensor], path: str) -> Skeleton:
    """Return a module as its class and all that it holds."""
    usual = vars(torch.nn.Module())
    if any(value and name.endswith("hooks") for name, value in vars(module).items()):
        raise NotPlain(f"{path or 'it'} is a module with hooks")
    own = {name: value for name, value in vars(module).items() if name not in usual}
    held = [dict(module._parameters), dict(module._buffers), dict(module._modules)]
    state = [own, *held, sorted(module._non_persistent_buffers_set), module.training]
    cls = type(module)
    return {"k": "module", "module": cls.__module__, "name": cls.__qualname__, "v": encode(state, tensors, path)}


def _is_settings(value: Any) -> bool:
    """Whether a value is an object of the kind configurations are: all of it are attributes, set in Python."""
    kind = type(value)
    if kind is types.SimpleNamespace:
        return True
    plain = all(base is object or (base.__flags__ & _HEAP and "__slots__" not in vars(base)) for base in kind.__mro__)
    return plain and not callable(value) and bool(_own(value))


_HEAP = 1 << 9
"""Flag of a class that was made in Python (Py_TPFLAGS_HEAPTYPE)."""


def decode(skeleton: Skeleton, tensors: list[torch.Tensor], lookup: Lookup | None = None) -> Any:
    """Return the tree that `encode` was given.

    Parameters
    ----------
    lookup
        Finds the user's own classes; a dataclass or named tuple that it does not know is replaced by a
        stand-in of the same name with the same fields.

    Raises
    ------
    Malformed
        The skeleton is damaged, or names something that is not there.
    """
    if skeleton is None or isinstance(skeleton, (bool, int, float, str)):
        return skeleton
    try:
        kind, value = skeleton["k"], skeleton["v"]
        if kind == "tensor":
            return tensors[value]
        if kind == "list":
            return [decode(item, tensors, lookup) for item in value]
        if kind == "tuple":
            return tuple(decode(item, tensors, lookup) for item in value)
        if kind == "dict":
            return {decode(key, tensors, lookup): decode(item, tensors, lookup) for key, item in value}
        if kind == "packed":
            data, sizes, *order = (decode(item, tensors, lookup) for item in value)
            return PackedSequence(data, torch.tensor(sizes), *order)
        if kind in _PLAIN:
            return _PLAIN[kind](value)
        if kind == "settings":
            fields = [decode(item, tensors, lookup) for item in value]
            return _settings(skeleton["name"], dict(zip(skeleton["fields"], fields)), lookup)
        if kind in ("dataclass", "namedtuple"):
            return _decode_record(skeleton, tensors, lookup)
        if kind == "module":
            cls = _find(skeleton["name"], skeleton["module"], lookup)
            return _decode_module(cls, decode(value, tensors, lookup))
        if kind == "partial":
            function, args, kwargs = decode(value, tensors, lookup)
            return functools.partial(function, *args, **kwargs)
        if kind == "enum":
            owner, _, member = value.rpartition(".")
            return _find(owner, "", lookup)[member]
        if kind == "name":
            return _find(value, skeleton["module"], lookup)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Malformed(f"{type(error).__name__}: {error}") from error
    raise Malformed(f"unknown kind {kind!r}")


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "complex": lambda value: complex(float(value[0]), float(value[1])),
    "dtype": lambda value: getattr(torch, value),
    "device": torch.device,
}
"""What makes values of kinds that hold nothing else."""


def _decode_module(cls: Any, state: Any) -> torch.nn.Module:
    own, parameters, buffers, inner, loose, training = state
    if not issubclass(cls, torch.nn.Module):
        raise TypeError(f"{cls} is no module")
    module: torch.nn.Module = cls.__new__(cls)
    torch.nn.Module.__init__(module)
    vars(module).update(own, training=training)
    for name, tensor in parameters.items():
        weight = None if tensor is None else torch.nn.Parameter(tensor.detach(), tensor.requires_grad)
        module._parameters[name] = weight
    module._buffers.update(buffers)
    module._modules.update(inner)
    module._non_persistent_buffers_set.update(loose)
    return module


def _settings(name: str, fields: dict[str, Any], lookup: Lookup | None) -> Any:
    """Return a configuration; a namespace of the same attributes where its class is not known."""
    cls = lookup(name) if lookup is not None else None
    record: Any = types.SimpleNamespace() if not isinstance(cls, type) else object.__new__(cls)
    vars(record).update(fields)
    return record


def _decode_record(skeleton: dict[str, Any], tensors: list[torch.Tensor], lookup: Lookup | None) -> Any:
    """Return a dataclass or named tuple, of the user's own class if it is known."""
    name, fields = skeleton["name"], skeleton["fields"]
    values = [decode(item, tensors, lookup) for item in skeleton["v"]]
    cls = lookup(name) if lookup is not None else None
    if skeleton["k"] == "namedtuple":
        cls = cls or collections.namedtuple(name.rpartition(".")[2], fields)
        return cls(*values)
    if cls is None:
        cls = dataclasses.make_dataclass(name.rpartition(".")[2], fields)
    record = object.__new__(cls)
    for field, value in zip(fields, values):
        object.__setattr__(record, field, value)
    return record


def _find(qualname: str, module: str, lookup: Lookup | None) -> Any:
    """Return a named thing from torch or the standard library, or from the user's module."""
    if module.partition(".")[0] in ("torch", "builtins", "math", "operator", "functools"):
        return operator.attrgetter(qualname)(importlib.import_module(module))
    found = lookup(qualname) if lookup is not None else None
    if found is not None:
        return found
    raise Malformed(f"{qualname} of module {module or 'unknown'} is not in the file")


def flatten(skeleton: Skeleton, path: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of a skeleton with their paths; inner nodes appear as their kind.

    Two trees have the same structure exactly when the paths and the inner nodes are the same.
    """
    if not isinstance(skeleton, dict):
        return [(path, skeleton)]
    kind: Any = skeleton.get("k")
    value: Any = skeleton.get("v")
    inner: list[tuple[str, Any]]
    if kind in ("list", "tuple", "packed"):
        what, inner = f"{kind} of {len(value)}", [(f"[{index}]", item) for index, item in enumerate(value)]
    elif kind == "dict":
        pairs = sorted(value, key=lambda pair: str(pair[0]))
        what, inner = f"dict of {len(value)}", [(f"[{key!r}]", item) for key, item in pairs]
    elif kind in ("dataclass", "namedtuple", "settings"):
        what = f"{kind} {skeleton['name'].rpartition('.')[2]}"
        inner = [(f".{name}", item) for name, item in zip(skeleton["fields"], value)]
    else:
        return [(path, skeleton)]
    return [(path, what), *(leaf for step, item in inner for leaf in flatten(item, path + step))]


def is_tensor(leaf: Any) -> bool:
    """Whether a leaf of `flatten` stands for a tensor, whose number is its `v`."""
    return isinstance(leaf, dict) and leaf.get("k") == "tensor"


def places(tree: Skeleton) -> dict[str, int]:
    """Return the numbers of a tree's tensors by their paths, in the order of these, however a dict was filled."""
    return {path: leaf["v"] for path, leaf in flatten(tree) if is_tensor(leaf)}


def matched(one: Skeleton, other: Skeleton) -> list[int]:
    """Return for each tensor of a tree, by its number, which one is in its place in a tree of the same structure."""
    return [theirs for _, theirs in sorted(zip(places(one).values(), places(other).values()))]
