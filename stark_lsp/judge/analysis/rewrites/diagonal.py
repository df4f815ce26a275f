"""A product with a diagonal matrix: rows or columns are scaled, since all that is beside its diagonal is zero."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from .rule import Cannot, Rule, aten, shape_of


class Diagonal(Rule):
    """`torch.diag(v) @ x`, `x @ torch.diag(v)` or the same by `diag_embed`."""

    OF = (aten.mm.default,)

    def result(self) -> Node:
        """Return the other matrix, scaled."""
        one: Any
        other: Any
        one, other = self._node.args
        for matrix, scaled, dim in ((one, other, 1), (other, one, 0)):
            vector = _diagonal(matrix)
            if vector is not None and len(shape_of(scaled)) == 2:
                return self.call(aten.mul.Tensor, scaled, self.call(aten.unsqueeze.default, vector, dim))
        raise Cannot


def _diagonal(node: Any) -> Node | None:
    """Return the vector that a node makes a matrix of; None if it does not.

    PyTorch makes one of a row, `where(column number == row number, row, 0)`.
    """
    if not isinstance(node, Node) or node.target is not aten.where.self:
        return None
    same, row, zero = node.args
    if not (isinstance(same, Node) and isinstance(row, Node) and isinstance(zero, Node)):
        return None
    if zero.target is not aten.full.default or zero.args[1] != 0 or same.target is not aten.eq.Tensor:
        return None
    columns, rows = same.args
    if not (
        _numbers(columns) and isinstance(rows, Node) and rows.target is aten.unsqueeze.default and rows.args[1] == -1
    ):
        return None
    size = shape_of(node)[-1]
    if not _numbers(rows.args[0]) or shape_of(node) != [size, size]:
        return None
    while row.target in (aten.permute.default, aten.unsqueeze.default) and shape_of(row) in ([1, size], [size]):
        if row.target is aten.permute.default and list(row.args[1]) != [0, 1]:  # type: ignore[arg-type]
            return None
        row = row.args[0]  # type: ignore[assignment]
    return row if shape_of(row) == [size] else None


def _numbers(node: Any) -> bool:
    """Whether a node is 0, 1, 2 …"""
    if not isinstance(node, Node) or node.target is not torch.ops.prims.iota.default:
        return False
    return (node.kwargs.get("start"), node.kwargs.get("step")) == (0, 1)
