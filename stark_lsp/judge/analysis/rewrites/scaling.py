"""Numbers of float32, scaled by powers of two into the range of float16."""

from __future__ import annotations

import torch
from torch.fx import Node

from .rule import Rule, aten

EXPONENT, ROUND, KEPT = 0x7F800000, 0x1000, ~0x1FFF
"""Of float32's bits: those of its exponent; half of the last bit that float16 keeps; and all that it keeps."""
ONE = 1 << 23
"""Of the exponent, in these bits."""
HIGHEST, SMALLEST = 14, 15
"""Power of two that the largest number comes to; and the least exponent there is room for."""


class Scaling(Rule):
    """A rule that takes numbers to float16."""

    def scaled(self, numbers: Node, dims: list[int]) -> tuple[Node, Node]:
        """Return numbers, the largest along some dimensions below `2 ** (HIGHEST + 1)`, and what scales them back."""
        largest = self.call(aten.amax.default, self.call(aten.abs.default, numbers), dims, True)
        exponent = self.call(aten.bitwise_and.Scalar, self.bits(largest), EXPONENT)
        exponent = self.call(aten.clamp_min.default, exponent, SMALLEST * ONE)
        # 2 ** (HIGHEST - exponent), in two steps that an int32 holds.
        scale = self.call(aten.mul.Tensor, exponent, -1)
        scale = self.call(aten.add.Tensor, self.call(aten.add.Tensor, scale, 253 * ONE), (HIGHEST + 1) * ONE)
        made = self.call(aten.mul.Tensor, numbers, self.number(scale))
        return made, self.number(self.call(aten.sub.Tensor, exponent, HIGHEST * ONE))

    def bits(self, number: Node) -> Node:
        """Return the bits of numbers."""
        return self.call(aten.view.dtype, number, torch.int32)

    def number(self, bits: Node) -> Node:
        """Return the numbers that have these bits."""
        return self.call(aten.view.dtype, bits, torch.float32)

    def rounded_up(self, numbers: Node) -> Node:
        """Return numbers rounded to as many bits as float16 keeps, halves away from zero; not for infinite ones.

        By bits: Inductor leaves conversions to float16 and back out.
        """
        rounded = self.call(aten.add.Tensor, self.bits(numbers), ROUND)
        return self.number(self.call(aten.bitwise_and.Scalar, rounded, KEPT))
