"""Make the inputs and constructor arguments of a class, from its functions or from its table."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...contract.errors import Bad, blame
from ..reference.loading import lookup

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of one call."""


def as_arguments(value: Any, what: str, path: str, line: int | None) -> Arguments:
    """Read what an inputs function returned.

    A list or tuple is the positional arguments, a dict with text keys the keyword arguments, a single
    tensor or number the only argument, None no arguments at all.

    Raises
    ------
    Bad
        It is something else.
    """
    if value is None:
        return (), {}
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return (), dict(value)
        raise Bad(f"{what} returned a dict whose keys are not all names.", "Use parameter names as keys.", path, line)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return tuple(value), {}
    if isinstance(value, (torch.Tensor, int, float)):
        return (value,), {}
    raise Bad(
        f"{what} returned a {type(value).__name__}.",
        "Return a list of positional arguments, or a dict of keyword arguments.",
        path,
        line,
    )


@dataclass(eq=False)
class InputMaker:
    """Makes fresh inputs for a seed, and the constructor's arguments."""

    module: types.ModuleType
    """The loaded document."""
    spec: dict[str, Any]
    """`InputSpec` in wire form."""
    path: str
    """The document."""

    def __post_init__(self) -> None:
        self._table: dict[str, Any] = self.spec.get("table") or {}
        self._table_path: str = self.spec.get("table_path") or self.path
        if self.spec.get("source") not in ("functions", "table"):
            raise Bad(
                "The class has no inputs.",
                "Add a get_inputs() function to the file, or a stark.input table.",
                self.path,
            )
        self._refuses = False
        """Whether the user's function does not bear another default device than the CPU."""

    def init_arguments(self, seed: int) -> Arguments:
        """Return the constructor's arguments.

        Raises
        ------
        Bad
            The user's function raises, or the table cannot be read.
        """
        torch.manual_seed(seed)
        if self.spec["source"] == "table":
            return tuple(self._table.get("init_args") or ()), dict(self._table.get("init_kwargs") or {})
        name = self.spec.get("init_function")
        if not name:
            return (), {}
        return self._call(name, "It must return the constructor's arguments as a list or a dict.")

    @property
    def weights_dtype(self) -> str:
        """The dtype that the table says the class is converted to, empty for none."""
        return str(self._table.get("dtype") or "")

    @property
    def autocast(self) -> str:
        """The dtype that the table says calls are cast to, empty for none."""
        return str(self._table.get("autocast") or "")

    def inputs(self, seed: int, device: str = "cpu") -> Arguments:
        """Return the arguments of one forward call, on whatever device the user's function puts them.

        Parameters
        ----------
        device
            Where they are needed. Tensors for which the function names no device are made there at once: a seed then
            gives other values than on the CPU, but the same ones each time, and gigabytes take milliseconds. A
            function that does not bear this, for instance with a generator of its own or with NumPy, is called as
            usual.

        Raises
        ------
        Bad
            The user's function raises, or the table cannot be read.
        """
        if device != "cpu" and not self._refuses:
            try:
                with torch.device(device):
                    return self._made(seed)
            except Bad:
                self._refuses = True
        return self._made(seed)

    def _made(self, seed: int) -> Arguments:
        torch.manual_seed(seed)
        if self.spec["source"] == "table":
            args = tuple(self._entry(entry, f"args[{i}]") for i, entry in enumerate(self._table.get("args") or ()))
            kwargs = {name: self._entry(entry, name) for name, entry in (self._table.get("kwargs") or {}).items()}
            return args, kwargs
        name = self.spec.get("inputs_function") or "get_inputs"
        return self._call(name, "It must return the forward arguments as a list or a dict.")

    def _call(self, name: str, cure: str) -> Arguments:
        function = lookup(self.module, name)
        if not callable(function):
            raise Bad(f"After loading the file there is no function {name}.", "Define it.", self.path)
        line = getattr(getattr(function, "__code__", None), "co_firstlineno", None)
        try:
            value = function()
        except (Exception, SystemExit) as error:
            raise blame(error, f"{name}() raised", cure, self.path, line) from error
        if value is None and name != self.spec.get("init_function"):
            raise Bad(f"{name}() returned None.", f"{cure} An empty list stands for none.", self.path, line)
        return as_arguments(value, f"{name}()", self.path, line)

    def _entry(self, entry: Any, where: str) -> Any:
        """Return one argument that a table describes."""
        if not isinstance(entry, dict):
            return entry
        kind = entry.get("kind") or _usual_kind(entry)
        try:
            if kind == "value" and "shape" not in entry:
                return entry["value"]
            return _make(kind, entry)
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise Bad(
                f"The input {where} of the stark.input table cannot be made: {type(error).__name__}: {error}.",
                f"Use the keys shape, dtype, kind ({', '.join(_KINDS)}), low, high, value, strides.",
                self._table_path,
            ) from error


def _rand(entry: dict[str, Any], shape: list[int]) -> torch.Tensor:
    low, high = float(entry.get("low", 0.0)), float(entry.get("high", 1.0))
    return torch.rand(shape, dtype=torch.float32) * (high - low) + low


_DRAWN: dict[str, Callable[[dict[str, Any], list[int]], torch.Tensor]] = {
    "randn": lambda entry, shape: torch.randn(shape, dtype=torch.float32),
    "rand": _rand,
    "randint": lambda entry, shape: torch.randint(int(entry.get("low", 0)), int(entry["high"]), shape),
}
_FILLED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "zeros": lambda entry: 0,
    "ones": lambda entry: 1,
    "value": lambda entry: entry["value"],
}
_KINDS = sorted([*_DRAWN, *_FILLED])


def _usual_kind(entry: dict[str, Any]) -> str:
    """Return the kind of an entry that names none."""
    if "shape" not in entry:
        return "value"
    if "low" not in entry and "high" not in entry:
        return "randn"
    whole = str(entry.get("dtype")).lstrip("u").startswith("int")
    return "randint" if whole else "rand"


def _make(kind: str, entry: dict[str, Any]) -> torch.Tensor:
    """Return the tensor that a table entry describes."""
    if kind not in _KINDS:
        raise ValueError(f"there is no kind {kind!r}")
    name = str(entry.get("dtype", "int64" if kind == "randint" else "float32")).replace("torch.", "")
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"there is no dtype {name!r}")
    shape = [int(size) for size in entry["shape"]]
    if kind in _DRAWN:
        made = _DRAWN[kind](entry, shape).to(dtype)
    else:
        made = torch.full(shape, _FILLED[kind](entry), dtype=dtype)
    if "strides" not in entry:
        return made
    laid = torch.empty_strided(made.shape, [int(stride) for stride in entry["strides"]], dtype=made.dtype)
    return laid.copy_(made)
