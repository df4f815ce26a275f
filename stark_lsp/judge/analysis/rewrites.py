"""Algebra on ATen graphs before Inductor sees them: equal for all inputs but for rounding, by a rule that is named.

One rule so far: **a weighted sum of a linear map is a smaller linear map.** With W the weights of a product and v what
its columns are weighted by, sum_j v_j (x W)_j is x (W v): a matrix times a vector, not a product of matrices.
What is added, subtracted or scaled column by column between the product and the sum goes into v or beside it.
"""

from __future__ import annotations

import operator
from typing import Any, Union

import torch

aten = torch.ops.aten
SUMS = (aten.sum.dim_IntList, aten.mean.dim)
PURE = (
    *SUMS,
    aten.mm.default,
    aten.addmm.default,
    aten.add.Tensor,
    aten.sub.Tensor,
    aten.rsub.Scalar,
    aten.mul.Tensor,
    aten.div.Tensor,
    aten.permute.default,
    aten.t.default,
)
LEAST = 1 << 20
"""Multiplications that a product must have to be worth it."""
Value = Union[torch.fx.Node, float, int]  # noqa: UP007 - Python 3.9


class _Cannot(Exception):
    """No rule fits."""


def apply(graph: torch.fx.Graph) -> int:
    """Rewrite a graph in place; returns how many times a rule was used.

    Parameters
    ----------
    graph
        Of ATen operators, each node with its `val`, as AOTAutograd hands it to Inductor.
    """
    used = 0
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in SUMS:
            made: list[torch.fx.Node] = []
            try:
                _Sum(graph, node, made).replace()
                used += 1
                _erase(graph, node)
            except _Cannot:
                for one in reversed(made):
                    graph.erase_node(one)
    graph.lint()
    return used


def _erase(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Remove a node that nobody needs, and what only it needed."""
    if node.op == "call_function" and not node.users and node.target in PURE:
        needed = node.all_input_nodes
        graph.erase_node(node)
        for one in needed:
            _erase(graph, one)


class _Sum:
    """A sum or mean over the columns of what a product gives."""

    def __init__(self, graph: torch.fx.Graph, node: torch.fx.Node, made: list[torch.fx.Node]) -> None:
        self._graph = graph
        self._made = made
        self._node = node
        self._products = 0
        of, dims = node.args[:2]
        self._keeps = bool(node.args[2]) if len(node.args) > 2 else False
        shape = _shape(of)
        if node.kwargs or len(shape) != 2 or not isinstance(dims, (list, tuple)) or [d % 2 for d in dims] != [1]:
            raise _Cannot
        self._columns = shape[1]
        self._of = of

    def replace(self) -> None:
        """Put the smaller map in its place."""
        with self._graph.inserting_before(self._node):
            total = self._total(self._of, None)
            if not self._products or not isinstance(total, torch.fx.Node):
                raise _Cannot
            if self._node.target is aten.mean.dim:
                total = self._call(aten.div.Tensor, total, self._columns)
            if _shape(total) != [_shape(self._of)[0], 1]:
                raise _Cannot
            if not self._keeps:
                total = self._call(aten.squeeze.dim, total, 1)
        total.meta.update({key: value for key, value in self._node.meta.items() if key != "val"})
        self._node.replace_all_uses_with(total)

    def _total(self, value: Any, v: torch.fx.Node | None) -> Value:
        """Return the sum over columns of `value`, each weighted by `v` (columns by 1): rows by 1, or 1 by 1."""
        if isinstance(value, (int, float)):
            return value * self._columns if v is None else self._both(operator.mul, self._weights(v), value)
        shape = _shape(value)
        if len(shape) < 2 or shape[0] == 1 or shape[-1] == 1:
            return self._constant(value, shape, v)
        if len(value.users) != 1 or value.kwargs:
            raise _Cannot
        target, args = value.target, value.args
        if target is aten.mm.default:
            return self._product(args[0], args[1], v)
        if target is aten.addmm.default:
            return self._both(operator.add, self._product(args[1], args[2], v), self._total(args[0], v))
        if target in (aten.add.Tensor, aten.sub.Tensor):
            sign = operator.add if target is aten.add.Tensor else operator.sub
            return self._both(sign, self._total(args[0], v), self._total(args[1], v))
        if target is aten.rsub.Scalar and len(args) == 2:
            return self._both(operator.sub, self._total(args[1], v), self._total(args[0], v))
        if target is aten.div.Tensor and isinstance(args[1], (int, float)):
            return self._both(operator.truediv, self._total(args[0], v), args[1])
        if target is aten.mul.Tensor:
            return self._scaled(args[0], args[1], v)
        raise _Cannot

    def _product(self, x: torch.fx.Node, weights: torch.fx.Node, v: torch.fx.Node | None) -> torch.fx.Node:
        rows, inner = _shape(x)
        if rows * inner * self._columns < LEAST:
            raise _Cannot
        self._products += 1
        column = (
            self._call(aten.sum.dim_IntList, weights, [1], True)
            if v is None
            else self._call(aten.mm.default, weights, v)
        )
        return self._call(aten.mm.default, x, column)

    def _scaled(self, one: Any, other: Any, v: torch.fx.Node | None) -> Value:
        """Return the sum of a product element by element, one side of which is the same in each row."""
        for value, scale in ((one, other), (other, one)):
            if isinstance(scale, (int, float)):
                return self._both(operator.mul, self._total(value, v), scale)
            shape = _shape(scale)
            if shape[-1:] == [self._columns] and all(size == 1 for size in shape[:-1]):
                column = self._call(aten.view.default, scale, [self._columns, 1])
                return self._total(value, column if v is None else self._call(aten.mul.Tensor, column, v))
            if len(shape) < 2 and shape in ([], [1]):
                return self._both(operator.mul, self._total(value, v), scale)
        raise _Cannot

    def _constant(self, value: torch.fx.Node, shape: list[int], v: torch.fx.Node | None) -> Value:
        """Return the sum of what is the same in each row, or in each column."""
        if shape[-1:] == [self._columns]:
            row = self._call(aten.view.default, value, [1, self._columns])
            return (
                self._call(aten.sum.dim_IntList, row, [1], True) if v is None else self._call(aten.mm.default, row, v)
            )
        if shape[-1:] in ([], [1]):
            return self._both(operator.mul, value, self._columns if v is None else self._weights(v))
        raise _Cannot

    def _weights(self, v: torch.fx.Node) -> torch.fx.Node:
        return self._call(aten.sum.dim_IntList, v, [0], True)

    def _both(self, how: Any, one: Value, other: Value) -> Value:
        if not isinstance(one, torch.fx.Node) and not isinstance(other, torch.fx.Node):
            return float(how(one, other))
        if not isinstance(one, torch.fx.Node):
            one, other = (other, one) if how in (operator.add, operator.mul) else (self._filled(one), other)
        names = {operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.truediv: "div"}
        return self._call(getattr(aten, names[how]).Tensor, one, other)

    def _filled(self, number: Value) -> torch.fx.Node:
        like = self._of.meta["val"]
        return self._call(aten.full.default, [1, 1], number, dtype=like.dtype, device=like.device)

    def _call(self, target: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
        """Add a node, with what it gives."""
        node = self._graph.call_function(target, args, kwargs)
        self._made.append(node)
        values = [one.meta["val"] if isinstance(one, torch.fx.Node) else one for one in args]
        with self._of.meta["val"].fake_mode:
            node.meta["val"] = target(*values, **kwargs)
        return node


def _shape(node: Any) -> list[int]:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        raise _Cannot
    return [int(size) for size in value.shape]
