"""Sums over the columns of a matrix product: sum_j v_j (x W)_j is x (W v), a matrix times a vector."""

from __future__ import annotations

import operator

import torch
from torch.fx import Node

from .linear import SUMS, Reduction, Value, summed
from .pools import pieces
from .rule import Cannot, OneSize, aten, sizes_of

FORMS = (aten.view.default, aten.unsqueeze.default, aten.squeeze.dim)


class Columns(Reduction):
    """A sum or mean over the last dimension, or over each few columns of it as average pooling takes it."""

    OF = (*SUMS, aten.avg_pool2d.default)
    ANY_SIZE = True

    def _found(self) -> Node:
        if self._node.target is aten.avg_pool2d.default:
            of, (rows, each) = self._node.args[0], pieces(self._node)
            if rows != 1 or sizes_of(of)[-1] % each:
                raise Cannot
        else:
            of, dims = summed(self._node)
            each = sizes_of(of)[-1]
            if dims != [len(sizes_of(of)) - 1]:
                raise Cannot
        # Past what gives elements other dimensions and leaves them in their order.
        while of.target in FORMS and len(of.users) == 1:
            of = of.args[0]  # type: ignore[assignment]
        shape = sizes_of(of)
        if len(shape) < 2 or shape[-1] % each:
            raise Cannot
        self._columns, self._each = shape[-1], each
        return of

    def _count(self) -> int:
        return self._each

    def _map(self, value: Node, v: Node | None) -> Value | None:
        if value.target is aten.view.default and sizes_of(value.args[0])[-1:] == [self._columns]:
            total = self.total(value.args[0], v)
            if not isinstance(total, Node):
                return total
            return self.call(aten.reshape.default, total, [*sizes_of(value)[:-1], sizes_of(total)[-1]])
        if value.target is aten.addmm.default:
            bias, x, weights = value.args
            return self.both(operator.add, self._product(x, weights, v), self.total(bias, v))  # type: ignore[arg-type]
        if value.target is aten.mm.default:
            return self._product(value.args[0], value.args[1], v)  # type: ignore[arg-type]
        return None

    def _product(self, x: Node, weights: Node, v: Node | None) -> Node:
        rows, inner = sizes_of(x)
        self.worth(rows * inner * self._columns)
        if isinstance(self._each, torch.SymInt):
            raise OneSize
        return self.call(
            aten.mm.default, x, self._weights(weights if v is None else self.call(aten.mul.Tensor, weights, v))
        )

    def _weights(self, v: Node) -> Node:
        """Sum each few columns of a matrix."""
        if self._each == self._columns:
            return self.call(aten.sum.dim_IntList, v, [1], True)
        rows, groups = sizes_of(v)[0], self._columns // self._each
        split = self.call(aten.reshape.default, v, [rows, groups, self._each])
        return self.call(aten.sum.dim_IntList, split, [2])

    def _weight(self, scale: Node, shape: list[int]) -> Node | None:
        if shape[-1:] == [self._columns] and all(size == 1 for size in shape[:-1]):
            return self.call(aten.reshape.default, scale, [1, self._columns])
        return None

    def _aside(self, shape: list[int]) -> bool:
        return shape[-1:] in ([], [1])
