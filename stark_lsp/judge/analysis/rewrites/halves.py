"""A large product of float32 as products of float16: exact to some 22 bits, at the speed of tensor cores.

Each number is the sum of two float16 ones, `high + low`, after its row (of the right factor: its column) was scaled by
a power of two, so that none is too large or too small. Three of the four products of these parts are taken, `low high
high` times `high low high`, side by side along the inner dimension, the small ones first; the fourth is below what
float32 keeps. cuBLAS takes such products with a result of float32. Tensor cores cut off what does not fit where they
add, so long sums of high parts go in pieces, which are added by rounding.

Parts of this kind: Ootomo and Yokota, *Recovering single precision accuracy from Tensor Cores while surpassing the
FP32 theoretical peak performance*, 2022, arxiv.org/abs/2203.03341.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from . import slim
from .rule import Cannot, OneSize, aten, sizes_of
from .scaling import Scaling

LEAST_INNER = 256
LEAST = {2: 100, 3: 300}
"""Of rows times columns over their sum, for matrices and for batches: so much each number that is split is used."""
ALIGNED = 8
"""Parts are filled up with zeros to sizes that are multiples of so many, which tensor cores want."""


class Halves(Scaling):
    """`a @ b` of matrices or batches of them, or that and a bias."""

    OF = (aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default)
    ANY_SIZE = True
    LONGEST = 2048
    """Of a sum of products of high parts within a tensor core."""

    def result(self) -> Node:
        """Return the product of the parts, scaled back."""
        args: tuple[Any, ...] = self._node.args
        if self._node.kwargs:
            raise Cannot
        one, other = args[-2:]
        (*_, rows, inner), (*_, columns) = sizes_of(one), sizes_of(other)
        if self._node.meta["val"].dtype is not torch.float32:
            raise Cannot
        rank = len(sizes_of(one))
        if inner < LEAST_INNER or rows * columns < LEAST[rank] * (rows + columns):
            raise Cannot
        if rank == 2 and slim.taken(rows, inner, columns):
            raise Cannot
        if isinstance(inner, torch.SymInt):  # so long a sum has pieces
            raise OneSize
        multiply = getattr(aten.bmm if rank == 3 else aten.mm, "dtype", None)
        if multiply is None:  # torch before 2.8
            raise Cannot
        # A third copy, which is written and read, for one product less, whose result is.
        together = 4 * rows * columns > (rows + columns) * inner
        left, back = self._parts(one, -1, low_first=True, together=together)
        right, also_back = self._parts(other, -2, low_first=False, together=together)
        inner += -inner % ALIGNED
        done = min(inner, self.LONGEST) if together else 0
        at, also_at = (2 * inner, 2 * inner) if together else (inner, 0)
        total = self._product(multiply, left, right, (0, 0), 2 * inner + done)
        for begin in range(done, inner, self.LONGEST):
            places = at + begin, also_at + begin
            piece = self._product(multiply, left, right, places, min(self.LONGEST, inner - begin))
            total = self.call(aten.add.Tensor, total, piece)
        for dim, size in ((-2, rows), (-1, columns)):
            if size % ALIGNED:
                total = self.call(aten.slice.Tensor, total, dim, 0, size)
        total = self.call(aten.mul.Tensor, total, self.call(aten.mul.Tensor, back, also_back))
        return total if len(args) == 2 else self.call(aten.add.Tensor, total, args[0])

    def _product(self, multiply: Any, left: Node, right: Node, places: tuple[int, int], count: int) -> Node:
        """Return the product of so many columns and rows from two places on."""
        columns = self.call(aten.slice.Tensor, left, -1, places[0], places[0] + count)
        rows = self.call(aten.slice.Tensor, right, -2, places[1], places[1] + count)
        return self.call(multiply, columns, rows, torch.float32)

    def _parts(self, matrix: Node, inner: int, *, low_first: bool, together: bool) -> tuple[Node, Node]:
        """Return the parts of a matrix, side by side along its inner dimension, and what scales them back."""
        turned = matrix.meta["val"].stride(-1) != 1
        if turned:
            # Parts lie as the matrix does.
            matrix, inner = self._turned(matrix), -3 - inner
        scaled, back = self.scaled(matrix, [inner])
        high = self.rounded_up(scaled)
        # Infinities and NaN come as low parts: times a zero of a high one they would be NaN. Nothing counts beside one.
        finite = self.call(aten.lt.Scalar, self.call(aten.abs.default, matrix), float("inf"))
        zero = self.call(aten.full.default, [], 0.0, dtype=torch.float32, device=matrix.meta["val"].device)
        high = self.call(aten.where.self, finite, high, zero)
        low = self.call(aten.where.self, finite, self.call(aten.sub.Tensor, scaled, high), matrix)
        short = [-size % ALIGNED for size in sizes_of(matrix)[-2:]]
        if any(short):
            zeros = [0, short[1], 0, short[0]]
            high, low = (self.call(aten.constant_pad_nd.default, one, zeros) for one in (high, low))
        order = [*((low, high) if low_first else (high, low)), *([high] if together else [])]
        parts = [self.call(torch.ops.prims.convert_element_type.default, one, torch.float16) for one in order]
        found = self.call(aten.cat.default, parts, inner)
        return (self._turned(found), self._turned(back)) if turned else (found, back)

    def _turned(self, matrix: Node) -> Node:
        dims = list(range(matrix.meta["val"].dim()))
        return self.call(aten.permute.default, matrix, [*dims[:-2], dims[-1], dims[-2]])


class ShortHalves(Halves):
    """The same in shorter sums: through many layers what tensor cores cut off adds up.

    Of seventeen linear layers of 1024, 2.0e-5 of the largest result on an H100, in sums of 256 6.0e-6. Cut off after
    each 16 products, as a simulation has it, 2.3e-5 and 5.9e-6; float32 is off by 1e-6.
    """

    LONGEST = 256
