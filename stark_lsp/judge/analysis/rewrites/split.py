"""A product along a long inner dimension: pieces of it, side by side, and their sum.

A kernel that gives each block of the result to one program leaves most of a GPU idle where there are few blocks. Only
worth it for kernels that have no such way of their own: cuBLAS does (split-K).
"""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from .rule import Cannot, Rule, aten, shape_of

BLOCK = 128
"""Rows and columns of a block of the result."""
PROGRAMS = 256
"""So many are to run side by side: two for each multiprocessor of an H100."""
LEAST = 1024
"""Elements of the inner dimension that a piece must have at least."""
STEP = 16
"""A piece is a multiple of so many, which kernels take at a time."""
MANY = 16
"""So many pieces are worth a product of their own for what is left over."""


class Split(Rule):
    """`a @ b`, or that and a bias, with few rows and columns and a long inner dimension."""

    OF = (aten.mm.default, aten.addmm.default)

    def result(self) -> Node:
        """Return the sum of the products of the pieces."""
        args: tuple[Any, ...] = self._node.args
        if self._node.kwargs:
            raise Cannot
        one, other = args[-2:]
        (rows, inner), (_, columns) = shape_of(one), shape_of(other)
        count = pieces(rows, inner, columns)
        whole = inner if inner % count == 0 else inner // (count * STEP) * (count * STEP)
        left, right = self._part(one, other, 0, whole)
        left = self.call(aten.view.default, left, [rows, count, whole // count])
        left = self.call(aten.permute.default, left, [1, 0, 2])
        right = self.call(aten.view.default, right, [count, whole // count, columns])
        total = self.call(aten.sum.dim_IntList, self.call(aten.bmm.default, left, right), [0])
        if whole < inner:
            total = self.call(aten.add.Tensor, total, self.call(aten.mm.default, *self._part(one, other, whole, inner)))
        return total if len(args) == 2 else self.call(aten.add.Tensor, total, args[0])

    def _part(self, one: Node, other: Node, begin: int, end: int) -> tuple[Node, Node]:
        """Return a part of both factors, along the inner dimension."""
        if (begin, end) == (0, shape_of(other)[0]):
            return one, other
        return self.call(aten.slice.Tensor, one, 1, begin, end), self.call(aten.slice.Tensor, other, 0, begin, end)


def pieces(rows: int, inner: int, columns: int) -> int:
    """Return in how many equal pieces the inner dimension is cut; of an odd one some may be left over.

    Raises
    ------
    Cannot
        There are enough blocks, or the inner dimension is too short, or odd and not long.
    """
    blocks = -(-rows // BLOCK) * -(-columns // BLOCK)
    count = 1
    while count * blocks < PROGRAMS and inner % (2 * count) == 0 and inner // (2 * count) >= LEAST:
        count *= 2
    if count * blocks < PROGRAMS:
        # What halving does not reach, other pieces may.
        most = min(PROGRAMS // blocks, inner // LEAST)
        count = max((one for one in range(count + 1, most + 1) if inner % (one * STEP) == 0), default=count)
        if 2 * count < most >= MANY:
            # None is near: the one that leaves least.
            count = min(range(most, most // 2, -1), key=lambda one: inner % (one * STEP))
    if count == 1:
        raise Cannot
    return count
