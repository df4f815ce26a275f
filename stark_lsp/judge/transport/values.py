"""Trees of tensors and plain values as JSON plus a list of tensors, and back.

Inputs, outputs and constructor arguments travel between processes in this form. It is never pickle:
reading it runs no code of the writer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import math
import types
from collections.abc import Callable
from typing import Any

import torch

Skeleton = Any
"""JSON: plain values as they are, everything else as an object whose `k` names its kind."""
Lookup = Callable[[str], Any]
"""Finds a class, function or enum of the user's module by its qualified name; None if there is none."""


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
    if tree is None or (isinstance(tree, (bool, str)) and not isinstance(tree, enum.Enum)):
        return tree
    if isinstance(tree, torch.Tensor):
        return _encode_tensor(tree, tensors, path)
    if isinstance(tree, enum.Enum):
        return {"k": "enum", "v": f"{type(tree).__qualname__}.{tree.name}"}
    if isinstance(tree, int):
        return int(tree)
    if isinstance(tree, float):
        return tree if math.isfinite(tree) else {"k": "float", "v": str(tree)}
    if isinstance(tree, complex):
        return {"k": "complex", "v": [str(tree.real), str(tree.imag)]}
    if isinstance(tree, torch.Size):
        return {"k": "tuple", "v": [int(item) for item in tree]}
    if isinstance(tree, (torch.dtype, torch.device)):
        kind = "dtype" if isinstance(tree, torch.dtype) else "device"
        return {"k": kind, "v": str(tree).replace("torch.", "")}
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = [field.name for field in dataclasses.fields(tree)]
        own = getattr(tree, "__dict__", {})
        # What is stored is taken: to read an attribute may run code, and refuse.
        values = [
            encode(own[name] if name in own else getattr(tree, name), tensors, f"{path}.{name}") for name in names
        ]
        for name in sorted(set(own).difference(names)):
            # What it keeps besides its fields, as configurations of transformers do; what is not plain is left out.
            with contextlib.suppress(NotPlain):
                encode(own[name], [])
                values.append(encode(own[name], tensors, f"{path}.{name}"))
                names.append(name)
        return {"k": "dataclass", "name": type(tree).__qualname__, "fields": names, "v": values}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        names = list(tree._fields)
        values = [encode(getattr(tree, name), tensors, f"{path}.{name}") for name in names]
        return {"k": "namedtuple", "name": type(tree).__qualname__, "fields": names, "v": values}
    if isinstance(tree, (list, tuple)):
        values = [encode(item, tensors, f"{path}[{index}]") for index, item in enumerate(tree)]
        return {"k": "list" if isinstance(tree, list) else "tuple", "v": values}
    if isinstance(tree, dict):
        return {
            "k": "dict",
            "v": [
                [encode(key, tensors, path), encode(value, tensors, f"{path}[{key!r}]")] for key, value in tree.items()
            ],
        }
    if isinstance(tree, torch.nn.Module):
        return _encode_module(tree, tensors, path)
    if isinstance(tree, functools.partial):
        return {"k": "partial", "v": encode([tree.func, tree.args, tree.keywords], tensors, path)}
    if _is_settings(tree):
        own = vars(tree)
        made = [encode(value, tensors, f"{path}.{name}") for name, value in own.items()]
        return {"k": "settings", "name": type(tree).__qualname__, "fields": list(own), "v": made}
    if callable(tree) and "<" not in getattr(tree, "__qualname__", "<"):
        return {"k": "name", "module": str(getattr(tree, "__module__", "")), "v": tree.__qualname__}
    raise NotPlain(f"{path or 'it'} is a {type(tree).__module__}.{type(tree).__qualname__}")


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
    return plain and not callable(value) and bool(getattr(value, "__dict__", None))


_HEAP = 1 << 9
"""Flag of a class that was made in Python (Py_TPFLAGS_HEAPTYPE)."""


def _encode_tensor(tensor: torch.Tensor, tensors: list[torch.Tensor], path: str) -> Skeleton:
    """Return the place of `tensor` in `tensors`."""
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise NotPlain(f"{path or 'it'} is a {tensor.layout} tensor, and only dense ones are supported")
    tensors.append(tensor)
    return {"k": "tensor", "v": len(tensors) - 1}


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
        if kind == "float":
            return float(value)
        if kind == "complex":
            return complex(float(value[0]), float(value[1]))
        if kind == "dtype":
            return getattr(torch, value)
        if kind == "device":
            return torch.device(value)
        if kind == "settings":
            fields = [decode(item, tensors, lookup) for item in value]
            return _settings(skeleton["name"], dict(zip(skeleton["fields"], fields)), lookup)  # noqa: B905 - Python 3.9
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
        import collections

        cls = cls or collections.namedtuple(name.rpartition(".")[2], fields)
        return cls(*values)
    if cls is None:
        cls = dataclasses.make_dataclass(name.rpartition(".")[2], fields)
    record = object.__new__(cls)
    for field, value in zip(fields, values):  # noqa: B905 - Python 3.9 has no `strict`
        object.__setattr__(record, field, value)
    return record


def _find(qualname: str, module: str, lookup: Lookup | None) -> Any:
    """Return a named thing from torch or the standard library, or from the user's module."""
    if module.partition(".")[0] in ("torch", "builtins", "math", "operator", "functools"):
        import importlib

        found: Any = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
        return found
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
    if kind in ("list", "tuple"):
        found: list[tuple[str, Any]] = [(path, f"{kind} of {len(value)}")]
        for index, item in enumerate(value):
            found += flatten(item, f"{path}[{index}]")
        return found
    if kind == "dict":
        found = [(path, f"dict of {len(value)}")]
        for key, item in sorted(value, key=lambda pair: str(pair[0])):
            found += flatten(item, f"{path}[{key!r}]")
        return found
    if kind in ("dataclass", "namedtuple", "settings"):
        found = [(path, f"{kind} {skeleton['name'].rpartition('.')[2]}")]
        for name, item in zip(skeleton["fields"], value):  # noqa: B905 - Python 3.9 has no `strict`
            found += flatten(item, f"{path}.{name}")
        return found
    return [(path, skeleton)]
