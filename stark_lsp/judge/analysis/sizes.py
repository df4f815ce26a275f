"""Programs for other sizes than the example's: which dimensions of inputs may have them, and what is asked of them.

Those are the first dimension that inputs have in common, `rows`, and if that is wanted one more, `length`, such as a
text's. Dynamo is told that they may change; what it, and Inductor behind it, then take for granted of them are the
guards of its shape environment (`torch.fx.experimental.symbolic_shapes.ShapeEnv`).
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import math
import re
import statistics
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from unittest import mock

import torch
import torch.fx.experimental._config
from torch._subclasses import fake_impls

from ..reference import modules
from .conditions import LENGTH, ROWS, asked, renamed, together
from .inductor_step import is_tensor, key

_LENGTHS = {2: (1,), 3: (1, 2), 4: (2,)}
"""Which dimension may be the length, by how many there are: of texts, of signals with channels first, of heads."""
TRIED = 3
"""How many dimensions are tried as the length at most."""
_MARKS = ("_dynamo_weak_dynamic_indices", "_dynamo_propagated_dynamic_indices", "_has_dynamo_dim_marking")
"""What `torch._dynamo.maybe_mark_dynamic` leaves on a tensor, and compiling that is so marked."""
_REDUCED = re.compile(r"_r\d?_?numel = ")
"""What a program has where it is reduced over a size that is not known: such kernels are slower, by 12 % at times."""
HIGHEST = 65535
"""Blocks along y that a grid may have."""
_SYMBOLS = (torch.SymInt, torch.SymFloat)
_RAISING = {"truediv": 1, "floordiv": 1, "mod": 1, "pow": 0, "sym_sqrt": 0}
"""What raises for some numbers, and which of its arguments has to be more than 0 so that it does not."""
Inputs = Sequence[tuple[str, torch.Tensor]]
"""The tensors that a call is given, each with its expression in `forward`."""
Layout = tuple[list[str], list[str]]
"""Shape and strides of a tensor, as texts."""


def ways(inputs: Inputs, recipe: Mapping[str, Any]) -> list[Sizes]:
    """Return which sizes to leave open, those that serve most first and none last; see `inductor.program`."""
    # Gradients of weights are sums over all rows, whose kernels are slower for any: they are for who wants that.
    if not recipe.get("batch") or (recipe.get("backward") and not recipe.get("length")):
        return [Sizes([])]
    rows = _rows(inputs, single=bool(recipe.get("length")))
    found = [Sizes(inputs, rows)]
    if recipe.get("length"):
        at = lengths(inputs)[:TRIED]
        found[:0] = [Sizes(inputs, rows, *one) for one in at]
        # Where forward is for one item, as one that drops that dimension, its length may be any still.
        found[-1:-1] = [Sizes(inputs, 0, *one) for one in at] if rows == 1 else []
    return [*filter(None, found), Sizes([])]


def _rows(inputs: Inputs, *, single: bool) -> int:
    """Return how many rows inputs have, 0 if that is not known; `single`, one counts as well."""
    first = [one.shape[0] for _, one in inputs if one.dim() and one.shape[0] > 1]
    lead = next((one.shape for _, one in inputs if one.dim() > 1), ())
    if single and lead[:1] == (1,) and {*first} <= {*lead[1:]}:  # others may be as long as a text
        return 1
    return statistics.mode(first) if first else 0


def wider(inputs: Inputs, recipe: Mapping[str, Any]) -> bool:
    """Whether sizes might be open that are not, if `length` were asked for."""
    asked, most = (ways(inputs, one)[0].known.keys() for one in (recipe, {**recipe, "length": True}))
    return most > asked


def lengths(inputs: Inputs) -> list[tuple[str, int]]:
    """Return which inputs may have a length, and as which dimension; one for each size."""
    rows = _rows(inputs, single=True) or 1
    found: dict[int, tuple[str, int]] = {}
    for text, one in inputs:
        # An image comes alone, the heads of an attention do not.
        alone = one.dim() == 4 and sum(other.dim() == 4 for _, other in inputs) == 1
        for dim in () if alone or one.shape[:1] != (rows,) else _LENGTHS.get(one.dim(), ()):
            if one.shape[dim] not in (0, 1, rows):
                found.setdefault(one.shape[dim], (text, dim))
    return list(found.values())


class Sizes:
    """Dimensions that may have other sizes than the example's.

    Parameters
    ----------
    inputs
        Each first dimension that has
    rows
        as its size may be any; none if it is 0.
    lead, length
        An input, and which dimension of it is the length; none if it is empty.
    example
        The sizes of the example, if these inputs are not that itself.
    """

    def __init__(
        self,
        inputs: Inputs,
        rows: int = 0,
        lead: str = "",
        length: int = 0,
        example: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.known = {ROWS: rows} if rows else {}
        """Sizes by name, and"""
        self.example = dict(example)
        """those of the example, if that is another."""
        self._lead = lead, length
        self._tensors = dict(sorted(inputs, key=lambda pair: pair[0] != lead))
        if lead:
            self.known[LENGTH] = self._tensors[lead].shape[length]
        # In what is as the lead is but for that, it is the same one; in masks and the like all of that size are.
        beside = _beside(self._tensors[lead], length) if lead else ()
        self._dims = {
            text: self._named(one, [length] if lead and _beside(one, length) == beside else range(1, one.dim()))
            for text, one in self._tensors.items()
        }
        self._tensors = {text: one for text, one in self._tensors.items() if self._dims[text]}
        self._environments: dict[int, Any] = {}
        self._symbols: dict[str, str] = {}
        """Names by what Dynamo calls them."""
        self._layouts: list[list[Layout]] = []
        """Of each argument, by program."""
        self._asks: list[str] = []

    def _named(self, one: torch.Tensor, lengths: Iterable[int]) -> dict[int, str]:
        """Return the names of an input's dimensions, of which these may be a length."""
        first = self.names.get(one.shape[0] if one.dim() else 0)
        found = {0: first} if first else {}
        return found | {dim: LENGTH for dim in lengths if one.shape[dim] == self.known.get(LENGTH)}

    def __bool__(self) -> bool:
        return bool(self._tensors)

    def repeated(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments with several items in the place of one: as many as no other dimension has."""
        taken = {size for one in modules.tensors_of((args, kwargs)) for size in one.shape}
        count = next(count for count in itertools.count(2) if count not in taken)
        rows = {key(one) for text, one in self._tensors.items() if self._dims[text].get(0) == ROWS}

        def many(one: torch.Tensor) -> torch.Tensor:
            return torch.cat([one.detach()] * count) if key(one) in rows else one

        return modules.map_tensors(args, many), modules.map_tensors(kwargs, many)

    def of(self, inputs: Inputs) -> Sizes:
        """Return the same for what `repeated` returned."""
        rows = next(one.shape[0] for text, one in inputs if self._dims.get(text, {}).get(0) == ROWS)
        return Sizes(inputs, rows, *self._lead, self.known)

    @property
    def dynamic(self) -> bool | None:
        """What `torch.compile` is asked for."""
        return None if self else False

    @property
    def names(self) -> dict[int, str]:
        """What the numbers are called that a program takes."""
        return {size: name for name, size in self.known.items()}

    @contextlib.contextmanager
    def marked(self, *, ones: bool) -> Iterator[None]:
        """Tell Dynamo of them for as long as the block runs; `ones`, they may be one as well.

        Where torch cannot, a batch of one is left out: also in backward of `x[:, 1:]`.
        """
        config = torch.fx.experimental._config
        one_too = {"backed_size_oblivious": True} if ones and self and hasattr(config, "backed_size_oblivious") else {}
        # Dynamo takes for granted then that they are more, with no guard.
        self._asks += [] if one_too else [f"{name} > 1" for name in self.known]
        try:
            for text, one in self._tensors.items():
                for dim in self._dims[text]:
                    torch._dynamo.maybe_mark_dynamic(one, dim)
            with config.patch(one_too), _viewed_as_any(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Raw SymInt")  # rules pass them on, and Inductor takes them
                yield
        finally:
            for one in self._tensors.values():
                for mark in _MARKS:
                    vars(one).pop(mark, None)

    def look(self, graph: torch.fx.Graph) -> None:
        """Ask for two items or more where Dynamo's graph leaves out a dimension of one, and with it a batch of one.

        Raises
        ------
        ValueError
            Not all are open any more.
        """
        self._note([node.meta.get("example_value") for node in graph.find_nodes(op="placeholder")])
        if self.known.keys() != {*self._symbols.values()}:
            raise ValueError("sizes that were to be any are one each")
        if any(map(_comes_of_size, graph.find_nodes(op="output")[0].all_input_nodes)):
            raise ValueError("it gives a number that comes of a size")
        for node in graph.nodes:
            if str(getattr(node.target, "__name__", node.target)).rstrip("_") == "squeeze" and node.args:
                sizes = node.args[0].meta["example_value"].shape
                dims = node.args[1] if node.args[1:] else node.kwargs.get("dim", range(len(sizes)))
                dropped = [sizes[dim] for dim in ([dims] if isinstance(dims, int) else dims)]
                self._asks += [asked(one.node.expr > 1, self._symbols) for one in dropped if isinstance(one, _SYMBOLS)]
            # Where Python raises, kernels give numbers, or end the process by a division of whole ones.
            place = _RAISING.get(str(getattr(node.target, "__name__", node.target)).lstrip("_"))
            if place is not None and len(node.args) > place:
                first, value = (getattr(node.args[at], "meta", {}).get("example_value") for at in (0, place))
                of_floats = isinstance(first, torch.Tensor) and first.is_floating_point()
                if isinstance(value, _SYMBOLS) and not of_floats:
                    self._asks.append(asked(value.node.expr > 0, self._symbols))

    def _note(self, values: Sequence[Any]) -> list[torch.SymInt]:
        """Note what Dynamo calls the sizes of these; returns all that are not numbers."""
        tensors = [one for one in values if isinstance(one, torch.Tensor)]
        every = (*values, *(size for one in tensors for size in one.shape))
        found = [one for one in every if isinstance(one, torch.SymInt)]
        for one in found:
            if one.node.expr.is_symbol and one.node.hint in self.names:
                self._symbols[str(one.node.expr)] = self.names[one.node.hint]
        return found

    def _layout(self, one: torch.Tensor) -> Layout:
        """Return shape and strides by the names; of what is not known, nothing."""

        def spelled(size: Any) -> str:
            return renamed(size.node.expr, self._symbols) if isinstance(size, torch.SymInt) else str(int(size))

        return [spelled(size) for size in one.shape], [spelled(step) for step in one.stride()]

    @contextlib.contextmanager
    def asking(self, graph: torch.fx.Graph) -> Iterator[None]:
        """Let sizes of a graph that is to be compiled be compared in the block with nothing asked of others for it."""
        values = [node.meta.get("val") for node in graph.nodes if node.op == "placeholder"]
        self._environments |= {id(one.node.shape_env): one.node.shape_env for one in self._note(values)}
        for one in self._environments.values():
            called = {str(symbol): self.names.get(int(size)) for symbol, size in _examples(one).items()}
            self._symbols |= {symbol: name for symbol, name in called.items() if name}
        self._layouts.append([self._layout(one) if is_tensor(one) else ([], []) for one in values])
        with contextlib.ExitStack() as stack:
            for one in self._environments.values():
                stack.enter_context(one.suppress_guards())
            yield

    def told(
        self, arguments: Sequence[Any], codes: Sequence[str], launches: Sequence[Sequence[dict[str, Any]]]
    ) -> dict[str, Any] | None:
        """Return the example's `known`, `dims`, where the first of the inputs has each, `inputs`, for each input with
        open sizes its `shape` and `stride` as texts, `symbols`, what programs call them, what is `asked` of others, and
        the `strides` of each argument of the program for backward, if there is one, as texts.

        None where a program that leaves less open is the better one, or the only one: this one may take other numbers.

        Parameters
        ----------
        arguments
            That the program was called with, and
        codes, launches
            of it and of that for backward, if there is one, their texts, and what `inductor_gpu.noting` noted.
        """
        guards = [one.expr for environment in self._environments.values() for one in environment.guards]
        told = [*self._asks, *(asked(one, self._symbols) for one in guards)]
        told += [one for each, code in zip(launches, codes) for one in self._high(each, code)]
        asks = together(told, self.known)
        try:
            served = all(any(eval(asks, others) for others in self._others(name)) for name in self.known)
            served &= bool(eval(asks, {**(self.example or self.known)}))
        except ZeroDivisionError:
            return None
        numbers = any(one not in self.names for one in arguments if not is_tensor(one))
        # Who wants any length has kernels that are reduced over it, and backward is written for nobody else.
        slower = any(launches) and len(codes) == 1 and LENGTH not in self.known and _REDUCED.search(codes[0])
        inputs = self._inputs(arguments, self._layouts[-len(codes)])
        if not served or numbers or slower or not self._environments or inputs is None:
            return None
        if not all(one["fixed"] or one["lengths"] for each in launches for one in each):
            return None
        dims = {name: dim for dim, name in self._dims[next(iter(inputs))].items()}
        made = {
            "known": self.example or self.known,
            "dims": dims,
            "inputs": inputs,
            "symbols": self._symbols,
            "asks": asks,
        }
        return {**made, "strides": [strides for _, strides in self._layouts[-1]]} if len(codes) > 1 else made

    def _others(self, name: str) -> list[dict[str, int]]:
        """Return other sizes of one name."""
        size = self.known[name]
        return [{**self.known, name: other} for other in {*range(1, 65), size + 1, 2 * size} - {size}]

    def _inputs(self, arguments: Sequence[Any], layouts: Sequence[Layout]) -> dict[str, Any] | None:
        """Return shape and strides of each input with open sizes; None where no size tells how far its numbers lie."""
        strides = {key(one): stride for one, (_, stride) in zip(arguments, layouts) if is_tensor(one)}
        found = {}
        for text, one in self._tensors.items():
            shape = [self._dims[text].get(dim, str(size)) for dim, size in enumerate(one.shape)]
            plain = list(map(str, one.stride()))
            if one.is_contiguous():
                stride = strides.get(key(one)) or [_product(shape[dim + 1 :]) for dim in range(one.dim())]
            elif LENGTH in shape or strides.get(key(one), plain) != plain:
                return None
            else:
                stride = plain
            if not all(stride):
                return None
            found[text] = {"shape": shape, "stride": stride}
        return found

    def _high(self, launches: Sequence[dict[str, Any]], code: str) -> list[str]:
        """Return what is asked where a grid has as many blocks along y as there are items: no more than it may have."""
        found = []
        for one in launches:
            most = HIGHEST * one["config"].get("YBLOCK", 1)
            counts = re.findall(rf"^ +{one['kernel']}_ynumel = (.+)$", code, re.MULTILINE)
            found += [f"{count} <= {most}" if (count := renamed(each, self._symbols)) else "False" for each in counts]
        return found


def restrided(one: Any, known: Any, strides: Sequence[str]) -> Any:
    """Return a tensor as a graph knows it, with strides that come of sizes, if these are what Inductor tells of it."""
    from torch.utils._sympy.printers import PythonPrinter

    if not isinstance(known, torch.Tensor):
        return one
    told = [PythonPrinter().doprint(s.node.expr) if isinstance(s, torch.SymInt) else str(s) for s in known.stride()]
    return known if told == [*strides] else one


@contextlib.contextmanager
def _viewed_as_any() -> Iterator[None]:
    """Have strides of views be those that hold for all sizes, where there are some; Inductor asks for no one then."""
    known: Any = getattr(fake_impls, "_compute_stride", None)

    def strides(shape: Any, stride: Any, new: Any, size_oblivious: bool = False) -> Any:
        return known(shape, stride, new, size_oblivious=True) or known(shape, stride, new, size_oblivious)

    if known is None or "size_oblivious" not in inspect.signature(known).parameters:
        yield
        return
    with mock.patch.object(fake_impls, "_compute_stride", strides):
        yield


def _examples(environment: Any) -> dict[Any, Any]:
    """Return the example's sizes by symbol; torch 2.13 calls them otherwise."""
    return dict(getattr(environment, "backed_var_to_val", None) or environment.var_to_val)


def _comes_of_size(node: torch.fx.Node) -> bool:
    """Whether what a graph gives is a number that comes of a size, or a tensor that Dynamo makes of one to be read."""
    values = [node.meta.get("example_value")]
    if node.target is torch.scalar_tensor:
        values += [getattr(one, "meta", {}).get("example_value") for one in node.args]
    return any(isinstance(one, (*_SYMBOLS, torch.SymBool)) for one in values)


def _product(sizes: Sequence[str]) -> str:
    numbers = math.prod(int(one) for one in sizes if one.isdecimal())
    names = [one for one in sizes if not one.isdecimal()]
    return " * ".join([*([str(numbers)] if numbers != 1 or not names else []), *names])


def _beside(one: torch.Tensor, dim: int) -> tuple[int, ...]:
    """Return the sizes of all dimensions but one."""
    return (*one.shape[:dim], -1, *one.shape[dim + 1 :]) if dim < one.dim() else ()
