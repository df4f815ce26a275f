"""Convolutions of volumes with channels last: cuDNN's kernels for tensor cores are written for that layout.

Inductor changes the layout of images by itself and leaves volumes as they are.
"""

from __future__ import annotations

import torch
from torch.fx import Node

from .channels import convolution_of, multiplications
from .linear import LEAST
from .rule import Cannot, Rule, aten, shape_of

RANK = 5
"""Dimensions of a batch of volumes."""
FEW = 4
"""Channels up to which other layouts are as good."""


class Volumes(Rule):
    """A convolution of volumes that is in no groups."""

    OF = (aten.convolution.default,)

    def result(self) -> Node:
        """Return the same convolution, of input and filters with channels last."""
        of = convolution_of(self._node)
        if of is None or of.transposed or of.groups != 1 or len(shape_of(of.x)) != RANK:
            raise Cannot
        if shape_of(of.x)[1] <= FEW or multiplications(self._node, of) < LEAST:
            raise Cannot
        how = [of.stride, of.padding, of.dilation, False, of.output_padding, 1]
        made = self.call(aten.convolution.default, self._last(of.x), self._last(of.weights), None, *how)
        if of.bias is None:
            return made
        return self.call(aten.add.Tensor, made, self.call(aten.reshape.default, of.bias, [-1, 1, 1, 1]))

    def _last(self, x: Node) -> Node:
        """Return a tensor whose channels lie beside each other."""
        x = self.call(aten.permute.default, x, [0, 2, 3, 4, 1])
        x = self.call(aten.clone.default, x, memory_format=torch.contiguous_format)
        return self.call(aten.permute.default, x, [0, 4, 1, 2, 3])
