"""Trees of tensors and plain values as JSON plus a list of tensors, and back.

Inputs, outputs and constructor arguments travel between processes in this form. It is never pickle:
reading it runs no code of the writer.
"""

from __future__ import annotations

import dataclasses
import enum
import math
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

    Lists, tuples, named tuples, dicts, dataclasses, numbers, texts, dtypes, devices, enums, and classes or
    functions that can be found again by name are understood.

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
        values = [encode(getattr(tree, name), tensors, f"{path}.{name}") for name in names]
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
    if callable(tree) and "<" not in getattr(tree, "__qualname__", "<"):
        return {"k": "name", "module": str(getattr(tree, "__module__", "")), "v": tree.__qualname__}
    raise NotPlain(f"{path or 'it'} is a {type(tree).__module__}.{type(tree).__qualname__}")


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
        if kind in ("dataclass", "namedtuple"):
            return _decode_record(skeleton, tensors, lookup)
        if kind == "enum":
            owner, _, member = value.rpartition(".")
            return _find(owner, "", lookup)[member]
        if kind == "name":
            return _find(value, skeleton["module"], lookup)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Malformed(f"{type(error).__name__}: {error}") from error
    raise Malformed(f"unknown kind {kind!r}")


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
    """Return a named thing from the user's module, or from torch or the standard library."""
    found = lookup(qualname) if lookup is not None else None
    if found is not None:
        return found
    if module.partition(".")[0] in ("torch", "builtins", "math", "operator", "functools"):
        import importlib

        found = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
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
    if kind in ("dataclass", "namedtuple"):
        found = [(path, f"{kind} {skeleton['name'].rpartition('.')[2]}")]
        for name, item in zip(skeleton["fields"], value):  # noqa: B905 - Python 3.9 has no `strict`
            found += flatten(item, f"{path}.{name}")
        return found
    return [(path, skeleton)]
