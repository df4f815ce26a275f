"""A draft of a class's inputs: one value for each argument, and the functions it is written as."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias


@dataclass(frozen=True)
class Tensor:
    """A tensor of random or constant numbers."""

    shape: tuple[int, ...]
    kind: str = "randn"
    """`randn`, `rand`, `randint`, `lengths` (whole numbers from 1), `mask` (all true), `causal` (a lower triangle,
    true), `binary` (0.0 and 1.0) or `phase` (complex numbers of length 1)."""
    high: int = 0
    """For `randint`: whole numbers below it; for `lengths`, up to it."""
    sure: bool = True
    """False if a person should look at it."""

    @property
    def text(self) -> str:
        """The Python expression."""
        sizes = ", ".join(map(str, self.shape))
        shape = f"({sizes}{',' if len(self.shape) == 1 else ''})"
        if self.kind == "randint":
            return f"torch.randint(0, {max(self.high, 1)}, {shape})"
        if self.kind == "lengths":
            return f"torch.randint(1, {self.high + 1}, {shape})"
        if self.kind == "mask":
            return f"torch.ones({shape}, dtype=torch.bool)"
        if self.kind == "causal":
            return f"torch.ones({shape}, dtype=torch.bool).tril()"
        if self.kind == "binary":
            return f"torch.randint(0, 2, {shape}).float()"
        if self.kind == "phase":
            return f"torch.polar(torch.ones({shape}), torch.randn({shape}))"
        return f"torch.{self.kind}({sizes or '()'})"


@dataclass(frozen=True)
class Plain:
    """Any other expression."""

    text: str
    sure: bool = True


@dataclass(frozen=True)
class Several:
    """A tuple, a list or, with "0", "1" and so on as keys, a dict."""

    items: tuple[Value, ...]
    brackets: str = "()"

    @property
    def sure(self) -> bool:
        """Whether nobody has to look at it."""
        return all(item.sure for item in self.items)

    @property
    def text(self) -> str:
        """The Python expression."""
        if self.brackets == "{}":
            return (
                f"{{{', '.join(f'{chr(34)}{index}{chr(34)}: {item.text}' for index, item in enumerate(self.items))}}}"
            )
        comma = "," if len(self.items) == 1 and self.brackets == "()" else ""
        return f"{self.brackets[0]}{', '.join(item.text for item in self.items)}{comma}{self.brackets[1]}"


@dataclass(frozen=True)
class Record:
    """A configuration, or a block: a call with named values."""

    maker: str
    fields: tuple[tuple[str, Value], ...] = ()
    open: bool = False
    """Whether it takes any name."""
    others: tuple[str, ...] = ()
    """Other makers that the file imports."""
    block: bool = False
    """Whether it is no configuration, but a block of the file that another one is constructed with."""

    sure = True

    @property
    def text(self) -> str:
        """The Python expression."""
        return f"{self.maker}({', '.join(f'{name}={value.text}' for name, value in self.fields)})"

    def given(self, name: str, value: Value) -> Record:
        """Return it with a field that is new or has another value."""
        return replace(self, fields=tuple({**dict(self.fields), name: value}.items()))


Value: TypeAlias = "Tensor | Plain | Several | Record"


@dataclass(frozen=True)
class Argument:
    """An argument of the constructor or of `forward`."""

    name: str
    value: Value
    named: bool = False
    """Whether it has to be passed by its name."""
    spread: bool = False
    """Whether it is one of those that `*name` takes."""


@dataclass(frozen=True)
class Draft:
    """The arguments a class is constructed with and called with."""

    init: tuple[Argument, ...] = ()
    call: tuple[Argument, ...] = ()
    usual: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """What the file gives arguments of a name elsewhere."""

    @property
    def sure(self) -> bool:
        """Whether nobody has to look at it."""
        return all(argument.value.sure for argument in (*self.init, *self.call))

    def checked(self) -> Draft:
        """Return the draft without any doubt: a call with it has run."""

        def sure(argument: Argument) -> Argument:
            return replace(argument, value=_each(argument.value, lambda value: replace(value, sure=True)))

        return replace(self, init=tuple(map(sure, self.init)), call=tuple(map(sure, self.call)))

    def tensors(self) -> list[Tensor]:
        """Return the tensors of the call, those inside tuples too."""
        found: list[Tensor] = []

        def visit(value: Value) -> None:
            if isinstance(value, Tensor):
                found.append(value)
            elif isinstance(value, Several):
                for item in value.items:
                    visit(item)

        for argument in self.call:
            visit(argument.value)
        return found

    def grown(self, sizes: Mapping[int, int]) -> Draft:
        """Return the draft with other sizes in place of some."""

        def larger(tensor: Tensor) -> Tensor:
            high = sizes.get(tensor.high, tensor.high) if tensor.kind == "lengths" else tensor.high
            return replace(tensor, shape=tuple(sizes.get(size, size) for size in tensor.shape), high=high)

        return self.each(larger)

    def each(self, change: Callable[[Tensor], Tensor], name: str | None = None) -> Draft:
        """Return the draft with `change` of each tensor of the call, or of one argument alone."""

        def changed(value: Tensor | Plain) -> Tensor | Plain:
            return change(value) if isinstance(value, Tensor) else value

        call = tuple(
            replace(argument, value=_each(argument.value, changed)) if name in (None, argument.name) else argument
            for argument in self.call
        )
        return replace(self, call=call)

    def set_call(self, name: str, value: Value, *, named: bool = True) -> Draft:
        """Return the draft with another value for an argument of the call; a new one is passed by its name."""
        return replace(self, call=_with(self.call, name, value, named))

    def set_init(self, name: str, value: Value, *, named: bool = True) -> Draft:
        """Return the draft with another value for an argument of the constructor."""
        return replace(self, init=_with(self.init, name, value, named))


def _each(value: Value, change: Callable[[Tensor | Plain], Tensor | Plain]) -> Value:
    """Return a value with `change` of each tensor and expression in it, or of itself; a record stays as it is."""
    if isinstance(value, Several):
        return replace(value, items=tuple(_each(item, change) for item in value.items))
    return value if isinstance(value, Record) else change(value)


def swapped(tensor: Tensor, given: int, wanted: int) -> Tensor:
    """Return a tensor with another size wherever it has a certain one."""
    return replace(tensor, shape=tuple(wanted if size == given else size for size in tensor.shape))


def _with(arguments: tuple[Argument, ...], name: str, value: Value, named: bool) -> tuple[Argument, ...]:
    if any(argument.name == name for argument in arguments):
        return tuple(replace(a, value=value) if a.name == name else a for a in arguments)
    return (*arguments, Argument(name, value, named))


def function(name: str, title: str, arguments: tuple[Argument, ...], bound: frozenset[str]) -> list[str]:
    """Return the lines of a function that returns arguments.

    Parameters
    ----------
    bound
        Names that the file binds: what else is needed is imported in the function.
    """
    importing = imports(" ".join(argument.value.text for argument in arguments), bound)
    head = [
        f"def {name}():",
        f'    """{title}"""',
        *(f"    {line}" for line in importing),
        *([""] if importing else []),
    ]
    if not arguments:
        return [*head, "    return []"]
    named = any(argument.named for argument in arguments) and not any(argument.spread for argument in arguments)
    body = []
    for argument in arguments:
        note = "" if argument.value.sure else "a guess, please check"
        if named:
            body.append(
                f"        {argument.name!r}: {argument.value.text},{f'  # {note}' if note else ''}".replace("'", '"', 2)
            )
        else:
            body.append(f"        {argument.value.text},  # {argument.name}{f': {note}' if note else ''}")
    opening, closing = "{}" if named else "[]"
    return [*head, f"    return {opening}", *body, f"    {closing}"]


_NEEDED = (
    (r"\btorch\.", "torch", "import torch"),
    (r"\bnn\.", "nn", "from torch import nn"),
    (r"\bSimpleNamespace\(", "SimpleNamespace", "from types import SimpleNamespace"),
)


def imports(text: str, bound: frozenset[str]) -> list[str]:
    """Return the imports that an expression needs beyond the names the file binds."""
    return [line for pattern, name, line in _NEEDED if name not in bound and re.search(pattern, text)]
