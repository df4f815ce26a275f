"""The registry of operations, and how the arguments of a call are found by their names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stark_lsp.playbook.canonical.builder import FLOATS, HALF, Builder, Value
from stark_lsp.playbook.graph import Meta, Ref, Scalar

SUPPORTED = (*FLOATS, "int64", "int32", "uint8", "bool")
"""dtypes a kernel may read."""


class Unsupported(Exception):
    """The operation, called like this, is not one that is written out; it stays a PyTorch operation."""


@dataclass
class Bound:
    """A call with its arguments by parameter name."""

    values: dict[str, Any]
    """As in the graph: `Ref`, `Scalar` or plain."""
    result: Meta
    metas: dict[str, Meta]
    """What is known of the arguments that are tensors."""
    arguments: dict[str, Value] = field(default_factory=dict)
    """Tensors and numbers inside the kernel; filled in when it is written."""

    def plain(self, name: str) -> Any:
        """Return an argument that must be a plain value (numbers lose their expression)."""
        value = self.values.get(name)
        if isinstance(value, Ref):
            raise Unsupported(f"{name} is a tensor")
        if isinstance(value, (tuple, list)):
            return tuple(item.value if isinstance(item, Scalar) else item for item in value)
        return value.value if isinstance(value, Scalar) else value

    def __getitem__(self, name: str) -> Value:
        """Return an argument as a value inside the kernel."""
        if name not in self.arguments:
            raise Unsupported(f"{name} is neither a tensor nor a number")
        return self.arguments[name]

    def has(self, name: str) -> bool:
        """Whether an optional argument was given."""
        return self.values.get(name) is not None

    @property
    def compute(self) -> str:
        """dtype in which the inside of the operation is computed."""
        return "float32" if self.result.dtype in HALF else self.result.dtype


def only_floats(call: Bound) -> None:
    """Refuse results that are whole numbers."""
    if call.result.dtype not in FLOATS:
        raise Unsupported("of whole numbers")


Lower = Callable[[Builder, Bound], Value]
"""Writes a call; the result is rounded to the call's dtype if it is of another."""
Dims = Callable[[Bound], "tuple[int, ...] | None"]


@dataclass(frozen=True)
class Operation:
    """One operation: its parameters, over what it reduces, how it is written out."""

    name: str
    """The word for it in kernel names and advice, for instance `layer_norm`."""
    parameters: tuple[str, ...]
    defaults: dict[str, Any]
    lower: Lower
    dims: Dims = lambda bound: None
    """The dims of `space_of` it reduces over, ascending and non-negative; None for a pointwise operation."""
    keeps_shape: bool = True
    """Whether the result has the shape of the space (softmax) rather than a reduced one (sum)."""
    keepdim: Callable[[Bound], bool] = lambda bound: bool(bound.values.get("keepdim"))
    kernels: int = 1
    """About how many kernels PyTorch launches for it; more than one makes it worth fusing on its own."""
    channel: tuple[str, ...] = ()
    """Arguments of shape (C,) that belong to dim 1 of the input, as in batch norm."""
    check: Callable[[Bound], None] = lambda bound: None
    """Raises `Unsupported` for calls it does not cover."""

    def write(self, builder: Builder, call: Bound, tensors: Mapping[str, Value]) -> Value:
        """Append the steps of a call to a kernel.

        Parameters
        ----------
        tensors
            The arguments that are tensors, inside the kernel.

        Raises
        ------
        Unsupported
        """
        numbers = {name: call.plain(name) for name in call.values if name not in tensors}
        call.arguments = {name: builder.value(x) for name, x in numbers.items() if isinstance(x, (int, float))}
        call.arguments.update(tensors)
        builder.compute = call.compute
        value = self.lower(builder, call)
        return value if value.dtype == call.result.dtype else builder.step("cast", value, dtype=call.result.dtype)


REGISTRY: dict[str, Operation] = {}
"""Operations by every name they may be called by."""


def both(name: str) -> tuple[str, str]:
    """Return the names of a function that is a method too."""
    return (f"torch.{name}", f"Tensor.{name}")


def operation(*names: str, parameters: str, **options: Any) -> Callable[[Lower], Lower]:
    """Register an operation under several names.

    Parameters
    ----------
    names
        As `judge/analysis/names.py` spells them, the first gives the operation its word.
    parameters
        Comma-separated, with defaults as Python literals: `"input, other, alpha=1"`.
    options
        Further fields of `Operation`.
    """
    arguments = ast.parse(f"def f({parameters}): ...").body[0]
    assert isinstance(arguments, ast.FunctionDef)
    spelled = [a.arg for a in arguments.args.args]
    found = arguments.args.defaults
    defaults = {
        name: ast.literal_eval(value) for name, value in zip(spelled[len(spelled) - len(found) :], found, strict=True)
    }

    def add(lower: Lower) -> Lower:
        word = options.pop("word", names[0].rpartition(".")[2].strip("_"))
        entry = Operation(word, tuple(spelled), defaults, lower, **options)
        for name in names:
            if name in REGISTRY:
                raise ValueError(f"{name} is defined twice")
            REGISTRY[name] = entry
        return lower

    return add


_IGNORED = {"_stacklevel", "size_average", "reduce", "inplace", "memory_format", "layout"}


def bind(
    operation_: Operation, args: Iterable[Any], kwargs: dict[str, Any], result: Meta, meta: Callable[[Ref], Meta]
) -> Bound:
    """Return a call's arguments by name.

    Raises
    ------
    Unsupported
        The call uses a parameter the definition does not know.
    """
    values = dict(operation_.defaults)
    given = list(args)
    if len(given) > len(operation_.parameters):
        # x.sum(0, 1), x.permute(0, 1): the dims of a call may come one by one.
        if "dim" in operation_.parameters and all(isinstance(v, int) for v in given[1:]):
            given = [given[0], tuple(given[1:])]
        else:
            raise Unsupported("too many arguments")
    values.update(zip(operation_.parameters, given, strict=False))
    for key, value in kwargs.items():
        name = {"self": "input", "axis": "dim", "keepdims": "keepdim"}.get(key, key)
        if name in operation_.parameters:
            values[name] = value
        elif name not in _IGNORED and value is not None:
            raise Unsupported(f"{name}=")
    missing = [name for name in operation_.parameters if name not in values]
    if missing:
        raise Unsupported(f"{missing[0]} is missing")
    metas = {name: meta(value) for name, value in values.items() if isinstance(value, Ref)}
    return Bound(values, result, metas)
