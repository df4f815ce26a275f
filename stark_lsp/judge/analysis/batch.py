"""Programs for any batch size: which inputs have it as their first dimension, and what a program asks of it.

Dynamo is told that those dimensions may change; what it, and Inductor behind it, then take for granted of them are
the guards of its shape environment (`torch.fx.experimental.symbolic_shapes.ShapeEnv`).
"""

from __future__ import annotations

import ast
import contextlib
import re
import statistics
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.fx.experimental._config

NAME = "rows"
"""What the size is called in what is asked of it, and among a program's arguments."""
_MARKS = ("_dynamo_weak_dynamic_indices", "_has_dynamo_dim_marking")
"""What `torch._dynamo.maybe_mark_dynamic` leaves on a tensor."""
_REDUCED = re.compile(r"_r\d?_?numel = ")
"""What a program has where it is reduced over a size that is not known: such kernels are slower, by 12 % at times."""
HIGHEST = 65535
"""Blocks along y that a grid may have."""
_BOUND = re.compile(rf"(?:(\d+) \* )?{NAME} ([<>]=?|!=) (\d+)")
_ARITHMETIC = (
    ast.Expression, ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Call, ast.Load,
    ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip


class Batch:
    """The first dimension that inputs have in common: the size that most of them have, or the first.

    Parameters
    ----------
    inputs
        The tensors that a call is given, each with its expression in `forward`.
    """

    def __init__(self, inputs: list[tuple[str, torch.Tensor]]) -> None:
        # What is written for one item is written otherwise.
        sized = {text: one for text, one in inputs if one.dim() and one.shape[0] > 1}
        self.size = statistics.mode(one.shape[0] for one in sized.values()) if sized else 0
        self._tensors = {text: one for text, one in sized.items() if one.shape[0] == self.size}
        self._environments: dict[int, Any] = {}
        self._asks: list[str] = []

    @property
    def dynamic(self) -> bool | None:
        """What `torch.compile` is asked for."""
        return None if self._tensors else False

    def __bool__(self) -> bool:
        return bool(self._tensors)

    @contextlib.contextmanager
    def marked(self) -> Iterator[None]:
        """Tell Dynamo of it for as long as the block runs."""
        config = torch.fx.experimental._config
        # Where torch cannot, a batch of one is left out.
        one_too = {"backed_size_oblivious": True} if self and hasattr(config, "backed_size_oblivious") else {}
        try:
            for one in self._tensors.values():
                torch._dynamo.maybe_mark_dynamic(one, 0)
            with config.patch(one_too), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Raw SymInt")  # rules pass them on, and Inductor takes them
                yield
        finally:
            for one in self._tensors.values():
                for mark in _MARKS:
                    vars(one).pop(mark, None)

    def look(self, graph: torch.fx.Graph) -> None:
        """Ask for two items or more where Dynamo's graph leaves out a dimension of one, and with it a batch of one."""
        for node in graph.nodes:
            if str(getattr(node.target, "__name__", node.target)).rstrip("_") == "squeeze" and node.args:
                sizes = node.args[0].meta["example_value"].shape
                dims = node.args[1] if node.args[1:] else node.kwargs.get("dim", range(len(sizes)))
                if any(isinstance(sizes[dim], torch.SymInt) for dim in ([dims] if isinstance(dims, int) else dims)):
                    self._asks = [f"{NAME} > 1"]

    @contextlib.contextmanager
    def asking(self, graph: torch.fx.Graph) -> Iterator[None]:
        """Let sizes of a graph that is to be compiled be compared in the block with nothing asked of others for it."""
        values = [node.meta.get("val") for node in graph.nodes if node.op == "placeholder"]
        tensors = [one for one in values if isinstance(one, torch.Tensor)]
        sizes = [*values, *(size for one in tensors for size in one.shape)]
        found = [size.node.shape_env for size in sizes if isinstance(size, torch.SymInt)]
        # What lies as far apart as there are items is told by no shape.
        self._asks += ["False"] * any(isinstance(step, torch.SymInt) for one in tensors for step in one.stride())
        self._environments |= {id(one): one for one in found}
        with contextlib.ExitStack() as stack:
            for one in self._environments.values():
                stack.enter_context(one.suppress_guards())
            yield

    def told(
        self, code: str, arguments: Sequence[Any], outputs: Sequence[Any], launches: Sequence[dict[str, Any]]
    ) -> dict[str, Any] | None:
        """Return `size`, the example's, `inputs` that have it, and what is asked of others, `asks`.

        None where a program for one size is the better one, or the only one: this one may take other numbers, or give
        some that come of the size. `launches` are those of `inductor_gpu.noting`.
        """
        guards = [one.expr for environment in self._environments.values() for one in environment.guards]
        told = [*self._asks, *map(_asked, guards), *(ask for one in launches for ask in _high(one, code))]
        asks = _together(list(dict.fromkeys(filter(None, told))))
        others = {*range(1, 65), self.size + 1, 2 * self.size} - {self.size}
        try:
            served = [size for size in others if eval(asks, {NAME: size})]  # arithmetic alone
        except ZeroDivisionError:
            return None
        others_too = any(one != self.size for one in arguments if not isinstance(one, torch.Tensor))
        numbers = others_too or any(one is not None and not isinstance(one, torch.Tensor) for one in outputs)
        if not served or numbers or not self._environments or (launches and _REDUCED.search(code)):
            return None
        known = all(one["fixed"] or one["lengths"] for one in launches)
        return {"size": self.size, "inputs": list(self._tensors), "asks": asks} if known else None


def _high(launch: dict[str, Any], code: str) -> list[str]:
    """Return what is asked where a grid has as many blocks along y as there are items: no more than it may have."""
    block = launch["config"].get("YBLOCK", 1)
    counts = re.findall(rf"^ +{launch['kernel']}_ynumel = (?:(\d+)\*)?s\d+$", code, re.MULTILINE)
    known = counts or f"{launch['kernel']}_ynumel = " not in code
    return [f"{count or 1} * {NAME} <= {HIGHEST * block}" for count in counts] if known else ["False"]


def _together(asks: list[str]) -> str:
    """Return conditions as one; bounds, as that indices have 32 bits, become a first and a last size."""
    first, last, left, without = 1, None, [], set()
    for one in asks:
        found = _BOUND.fullmatch(one)
        if found is None:
            left.append(one)
            continue
        times, limit = int(found[1] or 1), int(found[3])
        if found[2] == "!=":
            without |= {limit // times} if limit % times == 0 else set()
        elif found[2] in ("<", "<="):
            most = (limit - (found[2] == "<")) // times
            last = most if last is None else min(most, last)
        else:
            first = max(first, -(-(limit + (found[2] == ">")) // times))
    while first in without:
        first += 1
    bounds = f"{NAME} >= {first}" if last is None else f"{first} <= {NAME} <= {last}"
    return " and ".join([bounds, *(f"{NAME} != {size}" for size in sorted(without) if size > first), *left])


def _asked(guard: Any) -> str:
    """Return a guard as Python; empty where it asks no more than that all first dimensions are equal."""
    from torch.utils._sympy.printers import PythonPrinter

    tree = ast.parse(PythonPrinter().doprint(guard), mode="eval")
    for item in ast.walk(tree):
        if isinstance(item, ast.Name) and item.id not in ("min", "max"):
            item.id = NAME
        if not isinstance(item, _ARITHMETIC):
            return "False"
    if isinstance(tree.body, ast.Compare) and ast.unparse(tree.body.left) == ast.unparse(tree.body.comparators[0]):
        return ""
    return f"({ast.unparse(tree)})" if isinstance(tree.body, ast.BoolOp) else ast.unparse(tree)
