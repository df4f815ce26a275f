"""A product of float32 with few rows, such as a linear layer's of a small batch, by tensor cores in parts of TF32.

What takes time is to read the large matrix. cuBLAS has such products on ordinary cores, at a tenth to half of the
memory's rate on an H200. One kernel reads blocks of the large matrix once, side by side along the inner dimension as
well, and each number is the sum of one that TF32 has and of what is left of it; three of the four products of these
are taken, the fourth is below what float32 keeps. What the pieces of the inner dimension give is summed. Where the
large matrix lies as tensor cores do not take TF32, they are three numbers of bfloat16 and six products.

Parts of this kind: Ootomo and Yokota, *Recovering single precision accuracy from Tensor Cores while surpassing the
FP32 theoretical peak performance*, 2022, arxiv.org/abs/2203.03341.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from .rule import Cannot, OneSize, Rule, aten, define, sizes_of

FEWEST, MOST = 2, 256
"""Rows; one is a matrix times a vector, at which cuBLAS is good."""
MOST_OF_ANY = 1024
"""Rows of other sizes than the example's: pieces take as much memory as so many results."""
LEAST = 1 << 20
"""Numbers of the large matrix from which it is worth a kernel."""
FIRST = 128
"""Rows up to which a product that `halves` would take is faster so, and more exact."""
STEP = 64
"""How much of the inner dimension a block takes at a time."""
SHORTEST = 256
"""Of a piece of the inner dimension."""


def slim(x: torch.Tensor, other: torch.Tensor, parts: int) -> torch.Tensor:
    """Return the products of pieces of the inner dimension, of which the sum is `x @ other`.

    Parameters
    ----------
    x, other
        Matrices of float32.
    parts
        How many pieces there are; each is a multiple of `STEP` long, but the last.
    """
    each = length(x.shape[1], parts)
    pieces = zip(x.split(each, 1), other.split(each, 0))
    return torch.stack([one @ another for one, another in pieces])


def taken(rows: Any, inner: Any, columns: Any, most: int = FIRST) -> bool:
    """Whether a product of these sizes, or of such in an example, is taken so where it has no more rows."""
    rows, inner, columns = (_example(size) for size in (rows, inner, columns))
    return FEWEST <= rows <= most and inner >= SHORTEST and inner * columns >= LEAST


def length(inner: int, parts: int) -> int:
    """Return how long a piece is."""
    return -(-inner // (parts * STEP)) * STEP


def parts_of(rows: int, inner: int, columns: int, turned: bool = True) -> int:
    """Return in how many pieces the inner dimension goes; see `block_of`."""
    block, parts = block_of(rows, columns, turned), 1
    blocks = -(-rows // block.rows) * -(-columns // block.columns)
    while parts * blocks < block.programs and inner >= 2 * parts * SHORTEST:
        parts *= 2
    # None is empty.
    return -(-inner // length(inner, parts))


class Block(NamedTuple):
    """What one program computes."""

    rows: int
    columns: int
    inner: int
    warps: int
    precision: str
    """Of the products, as Triton calls it."""
    programs: int
    """So many are to run side by side on an H100, which has 132 multiprocessors."""


def block_of(rows: int, columns: int, turned: bool = True) -> Block:
    """Return the block for so many rows and columns, the fastest of some thirty on an H200.

    Parameters
    ----------
    turned
        Whether the inner dimension of the large matrix is the one that lies in memory without gaps, as a linear layer's
        weights do. Tensor cores take TF32 in no other order, and turning it takes longer than six products of bfloat16.
    """
    least, most = (max(16, 1 << (size - 1).bit_length()) for size in (rows, columns))
    if turned or least <= 32:
        if least <= 64:
            return Block(least, min(64, most), STEP, 4, "tf32x3", 256)
        return Block(128, min(128, most), STEP, 8, "tf32x3", 128)
    if least == 64 or most <= 64:
        return Block(min(128, least), min(128, most), 32, 4, "bf16x6", 256)
    return Block(128, 128, 32, 8, "bf16x6", 128)


def is_turned(stride: Sequence[Any]) -> bool:
    """Whether a matrix of these strides lies so."""
    return bool(stride[0] == 1)


def _slim_like(x: torch.Tensor, other: torch.Tensor, parts: int) -> torch.Tensor:
    return x.new_empty((parts, x.shape[0], other.shape[1]))


def bound(graph: torch.fx.Graph, *, asked: bool) -> None:
    """Have guards ask for the numbers of rows that this is for, where they may be any.

    Raises
    ------
    OneSize
        They may, and nobody `asked` for other sizes: then it is for the example's number alone, as far as is measured.
    """
    for node in graph.find_nodes(op="call_function", target=torch.ops.stark.slim.default):
        rows: Any = sizes_of(node.args[0])[0]
        if isinstance(rows, torch.SymInt) and not asked:
            raise OneSize
        bool(rows >= FEWEST), bool(rows <= MOST_OF_ANY)


def _example(size: Any) -> int:
    """Return a size that the example has."""
    return int(size.node.hint) if isinstance(size, torch.SymInt) else int(size)


define("slim(Tensor x, Tensor other, int parts) -> Tensor", slim, _slim_like)


class Slim(Rule):
    """`a @ b`, or that and a bias, with few rows."""

    OF = (aten.mm.default, aten.addmm.default)
    ANY_SIZE = True

    def result(self) -> Node:
        """Return the sum of the products of pieces."""
        args: tuple[Any, ...] = self._node.args
        if self._node.kwargs or self._node.meta["val"].dtype is not torch.float32:
            raise Cannot
        one, other = args[-2:]
        (many, inner), (_, columns) = sizes_of(one, (torch.float32,)), sizes_of(other)
        if not taken(many, inner, columns, MOST):
            raise Cannot
        if any(isinstance(size, torch.SymInt) for size in (inner, columns)):
            raise OneSize
        parts = parts_of(_example(many), inner, columns, is_turned(other.meta["val"].stride()))
        found = self.call(torch.ops.stark.slim.default, one, other, parts)
        total = self.call(aten.sum.dim_IntList, found, [0])
        return total if len(args) == 2 else self.call(aten.add.Tensor, total, args[0])
