"""Convolutions with filters of one place, behind what enlarges an image: they are computed while it is small.

Interpolation, repetition and padding with zeros treat all channels alike, and such a convolution all places: what each
makes of an image is the same in either order, but for rounding. The bias comes last, since padding would lose it. Of
images that are put together by their channels each is convolved by its own part of the filters, and the results added.
"""

from __future__ import annotations

import math
from typing import Any

from torch.fx import Node
from torch.fx.node import map_arg

from .channels import Convolution, convolution_of
from .linear import LEAST
from .rule import Cannot, Rule, aten, sizes_of

LARGER = 2
"""An image of so many times as many places is enlarged."""
TAKEN = (aten._unsafe_index.Tensor, aten.index.Tensor)
SUMS = (aten.add.Tensor, aten.sub.Tensor)


class Enlarged(Rule):
    """Such a convolution; it takes fewer multiplications, and the large image has no more channels than before."""

    OF = (aten.convolution.default,)
    ANY_SIZE = True

    def result(self) -> Node:
        """Return the sum of what is made of each image."""
        of = convolution_of(self._node)
        if of is None or of.transposed or any(of.padding) or {*of.stride, *sizes_of(of.weights)[2:]} != {1}:
            raise Cannot
        batch, channels, *places = sizes_of(self._node)
        known = batch if isinstance(batch, int) else 1
        if known * math.prod([*places, *sizes_of(of.weights)]) < LEAST:
            raise Cannot
        images = _images(of)
        made, rest, begin = None, [], 0
        for image in images:
            size = sizes_of(image)[1]
            weights = self._part(of, len(images), begin, size)
            steps = _steps(image, channels) if len(image.users) == len(of.x.users) == 1 else []
            if steps:
                one = self._enlarged(of, image, weights, steps)
                made = one if made is None else self.call(aten.add.Tensor, made, one)
            else:
                rest.append((image, weights))
            begin += size
        if made is None:
            raise Cannot
        if rest:
            # One convolution of all that is not enlarged.
            x, weights = (list(column) for column in zip(*rest))
            whole = [one[0] if len(one) == 1 else self.call(aten.cat.default, one, 1) for one in (x, weights)]
            made = self.call(aten.add.Tensor, made, self._convolved(of, *whole))
        if of.bias is None:
            return made
        bias = self.call(aten.reshape.default, of.bias, [1, -1] + [1] * len(of.stride))
        return self.call(aten.add.Tensor, made, bias)

    def _part(self, of: Convolution, count: int, begin: int, size: int) -> Node:
        """Return the filters of one image's channels."""
        if count == 1:
            return of.weights
        return self.call(aten.slice.Tensor, of.weights, 1, begin, begin + size)

    def _convolved(self, of: Convolution, x: Node, weights: Node) -> Node:
        how: list[Any] = [of.stride, of.padding, of.dilation, False, of.output_padding, of.groups]
        return self.call(aten.convolution.default, x, weights, None, *how)

    def _enlarged(self, of: Convolution, image: Node, weights: Node, steps: list[Node]) -> Node:
        """Return what enlarges the convolution of the small image."""
        small = steps[0]
        made = {small: self._convolved(of, small, weights)}
        for step in steps[1:]:
            args, named = (map_arg(given, lambda one: made.get(one, one)) for given in (step.args, step.kwargs))
            made[step] = self.call(step.target, *args, **named)  # type: ignore[misc]
        return made[image]


def _images(of: Convolution) -> list[Node]:
    """Return what is put together by its channels, or the one image."""
    if of.x.target is not aten.cat.default or of.groups != 1:
        return [of.x]
    images, *dim = of.x.args
    if dim != [1] or of.x.kwargs or not isinstance(images, (list, tuple)):
        raise Cannot
    return [one for one in images if isinstance(one, Node)]


def _steps(image: Node, channels: int) -> list[Node]:
    """Return a small image and what is done to it until it is this one; nothing if that does not pay."""
    sizes, steps, small = sizes_of(image), list[Node](), set[Node]()

    def visit(node: Node) -> bool:
        if sizes_of(node) != sizes:
            small.add(node)
            return True
        if node in steps:
            return True
        parts = _parts(node, sizes)
        if not parts or not all(map(visit, parts)):
            return False
        steps.append(node)
        return True

    if not visit(image) or len(small) != 1:
        return []
    (first,) = small
    before = sizes_of(first)
    less, more = math.prod(before[2:]), math.prod(sizes[2:])
    alike = before[:2] == sizes[:2] and len(before) == len(sizes)
    return [first, *steps] if alike and LARGER * less <= more and channels * less <= sizes[1] * more else []


def _parts(node: Node, sizes: list[int]) -> list[Node]:
    """Return the images that a node is a linear map of, alike for all channels and samples; none if it is not one."""
    args = node.args
    if node.kwargs:
        return []
    if node.target in TAKEN:
        x, places = args
        kept = isinstance(places, (list, tuple)) and list(places[:2]) == [None, None] and len(places) > 2
        return [x] if kept and isinstance(x, Node) else []
    if node.target is aten.constant_pad_nd.default:
        x, around, *value = args
        inside = isinstance(around, (list, tuple)) and len(around) <= 2 * (len(sizes) - 2)
        return [x] if inside and value in ([], [0], [0.0]) and isinstance(x, Node) else []
    images = [one for one in args if isinstance(one, Node) and sizes_of(one) == sizes]
    if node.target in SUMS:
        return images if len(images) == len(args) == 2 else []
    if node.target is aten.mul.Tensor and len(images) == 1:
        factor = next(one for one in args if one is not images[0])
        return images if not isinstance(factor, Node) or _alike(sizes_of(factor), len(sizes)) else []
    return []


def _alike(shape: list[int], rank: int) -> bool:
    """Whether a factor is the same for all samples and channels."""
    return all(size == 1 for size in shape[: max(0, len(shape) - rank + 2)])
