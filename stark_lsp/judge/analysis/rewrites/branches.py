"""Sums of convolutions of one input: their filters are summed first, small ones in the middle of large ones.

So are blocks that are trained as several branches (RepVGG, MobileOne): a batch norm in eval scales the filters before
it, and a branch that only passes the input on is a filter of one place, or stays beside the convolution.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from .channels import Convolution, convolution_of
from .linear import LEAST, Value
from .rule import WIDE, Cannot, Rule, aten

SIGNS = {aten.add.Tensor: 1, aten.sub.Tensor: -1}
DTYPES = (*WIDE, torch.bfloat16)
"""In float16 a filter may be too large, or too small, once it is scaled; bfloat16 has the range of float32."""


class Term(NamedTuple):
    """What is added."""

    value: Any
    """A node, or a number."""
    factors: tuple[Value, ...]
    """Numbers, and nodes that have one element for each channel or a single one."""


Branch = tuple[Convolution, Term]


class Branches(Rule):
    """A sum of several convolutions of the same input, or of one and this input, each scaled by channels."""

    OF = tuple(SIGNS)

    def __init__(self, graph: torch.fx.Graph, node: Node, made: list[Node]) -> None:
        super().__init__(graph, node, made)
        out = node.meta["val"]
        self._shape, self._rank = list(out.shape), out.dim()
        (user,) = node.users if len(node.users) == 1 else (node,)
        part = user is not node and _is_sum(user) and user.meta["val"].shape == out.shape
        if part or self._rank < 3 or not graph.find_nodes(op="call_function", target=aten.convolution.default):
            raise Cannot  # A part of a sum is seen with it.

    def result(self) -> Node:
        """Return the sum of a convolution for each input, and of what is left."""
        constants: list[Term] = []
        rest: list[Term] = []
        branches: dict[tuple[Any, ...], list[Branch]] = {}
        for term in self._terms():
            of = self._convolution_of(term.value)
            if self._by_channel(term.value):
                constants.append(term)
            elif of is None:
                rest.append(term)
            else:
                branches.setdefault(_kind(of), []).append((of, term))
        merged: list[tuple[list[Branch], list[Term]]] = []
        for alike in branches.values():
            of = alike[0][0]
            passed = [term for term in rest if term.value is of.x and self._takes(of)]
            if self._saves(alike, bool(passed)):
                merged.append((alike, passed))
                constants += [Term(of.bias, term.factors) for of, term in alike if of.bias is not None]
                rest = [term for term in rest if term not in passed]
            else:
                rest += [term for _, term in alike]
        if not merged:
            raise Cannot
        bias = [self._scaled(self._row(value), self._product(factors)) for value, factors in constants]
        # What a convolution adds is of its dtype.
        within = _dtype(merged[0][0][0][0].x) in WIDE
        parts = [self._merged(*one, bias if within and not number else []) for number, one in enumerate(merged)]
        parts += [self._scaled(value, self._product(factors)) for value, factors in rest]
        return self._as(self._sum(parts if within else parts + bias), _dtype(self._node))

    def _terms(self) -> Iterator[Term]:
        """Yield what is added up; only what nobody else needs is taken apart."""
        pending = [Term(self._node, ())]
        while pending:
            value, factors = term = pending.pop()
            target: Any = getattr(value, "target", None)
            args: Any = getattr(value, "args", ())
            if self._by_channel(value) or not self._is_inner(value):
                yield term
            elif _is_sum(value):
                pending += [Term(args[0], factors), Term(args[1], factors if SIGNS[target] == 1 else (*factors, -1.0))]
            elif target is torch.ops.prims.convert_element_type.default:
                pending.append(Term(args[0], factors))
            elif target is aten.mul.Tensor and self._by_channel(args[1]):
                pending.append(Term(args[0], (*factors, args[1])))
            elif target is aten.mul.Tensor and self._by_channel(args[0]):
                pending.append(Term(args[1], (*factors, args[0])))
            elif target is aten.div.Tensor and isinstance(args[1], (int, float)) and args[1]:
                pending.append(Term(args[0], (*factors, 1.0 / args[1])))
            else:
                yield term

    def _is_inner(self, value: Any) -> bool:
        """Whether a value has the sum's shape and is needed for it alone."""
        alone = value is self._node or (isinstance(value, Node) and len(value.users) == 1)
        return alone and not value.kwargs and _dtype(value) in DTYPES and list(value.meta["val"].shape) == self._shape

    def _by_channel(self, value: Any) -> bool:
        """Whether a value is a number, or the same at all places of all images."""
        if not isinstance(value, Node):
            return isinstance(value, (int, float))
        if _dtype(value) not in DTYPES or value.meta["val"].device != self._node.meta["val"].device:
            return False
        shape = [1] * (self._rank - value.meta["val"].dim()) + list(value.meta["val"].shape)
        return len(shape) == self._rank and all(size == 1 for dim, size in enumerate(shape) if dim != 1)

    def _convolution_of(self, value: Any) -> Convolution | None:
        """Return the convolution that a value is, if it may be merged."""
        of = convolution_of(value) if self._is_inner(value) else None
        return None if of is None or of.transposed or _dtype(of.x) not in DTYPES else of

    def _takes(self, of: Convolution) -> bool:
        """Whether a filter may pass the input on: a tap meets the same place and channel, and no bits are lost.

        By cuDNN a convolution of float32 rounds its input to the 10 bits of TF32, unless it is depthwise.
        """
        x, offsets = of.x.meta["val"], _kind(of)[-1]
        exact = x.device.type != "cuda" or x.dtype is not torch.float32 or of.groups == self._shape[1]
        return exact and list(x.shape) == self._shape and {1} == {*of.stride} and {(0, 1)} == {*offsets}

    def _saves(self, alike: list[Branch], passed: bool) -> bool:
        """Whether fewer images are read and written by as much as filters are, which are made in each call."""
        of, taps = alike[0][0], math.prod(_sizes(alike))
        filters = self._shape[1] * int(of.weights.meta["val"].shape[1]) * taps
        image, inputs = math.prod(self._shape), of.x.meta["val"].numel()
        saved = (len(alike) - 1) * (2 * image + inputs) + passed * inputs
        worth = image // self._shape[1] * filters >= LEAST and saved >= 2 * filters
        return bool(worth and taps <= sum(math.prod(_sizes([one])) for one in alike))

    def _merged(self, alike: list[Branch], passed: list[Term], constants: list[Node]) -> Node:
        """Return the convolution by the sum of all filters, which is made in float32 at least and rounded once."""
        # By the largest it is decided how filters lie in memory.
        alike = sorted(alike, key=lambda one: -one[0].weights.meta["val"].numel())
        of, dtype = alike[0][0], _dtype(alike[0][0].x)
        wide = torch.promote_types(dtype, torch.float32)
        filters = [(self._as(one.weights, wide), term.factors) for one, term in alike]
        filters += [(self._diagonal(of, wide), term.factors) for term in passed]
        parts = []
        for weights, factors in filters:
            scale = self._product(factors)
            if isinstance(scale, Node):
                scale = self.call(aten.reshape.default, scale, [-1] + [1] * (self._rank - 1))
            part = self._scaled(weights, scale)
            around = [(size - one) // 2 for size, one in zip(_sizes(alike), part.meta["val"].shape[2:])]
            sides = [side for one in reversed(around) for side in (one, one)]
            parts.append(self.call(aten.constant_pad_nd.default, part, sides, 0.0) if any(around) else part)
        padding = [max(sizes) for sizes in zip(*(one.padding for one, _ in alike))]
        how: list[Any] = [of.stride, padding, of.dilation, False, of.output_padding, of.groups]
        bias = None
        if constants:
            like = [1, self._shape[1]] + [1] * (self._rank - 2)
            bias = self.call(aten.expand.default, self._as(self._sum(constants), dtype), like)
            bias = self.call(aten.reshape.default, bias, [self._shape[1]])
        return self.call(aten.convolution.default, of.x, self._as(self._sum(parts), dtype), bias, *how)

    def _diagonal(self, of: Convolution, dtype: torch.dtype) -> Node:
        """Return filters of one place that pass the input on."""
        channels, inner = of.weights.meta["val"].shape[:2]
        how = {"start": 0, "step": 1, "dtype": torch.int64, "device": of.x.meta["val"].device, "requires_grad": False}
        numbers = self.call(torch.ops.prims.iota.default, inner, **how)
        same = self.call(aten.eq.Tensor, self.call(aten.reshape.default, numbers, [inner, 1]), numbers)
        same = self.call(aten.expand.default, self._as(same, dtype), [channels // inner, inner, inner])
        return self.call(aten.reshape.default, same, [channels, inner] + [1] * (self._rank - 2))

    def _product(self, factors: tuple[Value, ...]) -> Value:
        """Return the product of factors, as a number or for an image's channels."""
        product: Value = float(math.prod(one for one in factors if not isinstance(one, Node)))
        for one in factors:
            if isinstance(one, Node):
                product = self._scaled(self._row(one), product)
        return product

    def _row(self, value: Value) -> Node:
        """Return what there is for each channel, or a number, in an image's shape."""
        if isinstance(value, Node):
            return self.call(aten.reshape.default, value, [1, -1] + [1] * (self._rank - 2))
        dtype, device = torch.promote_types(_dtype(self._node), torch.float32), self._node.meta["val"].device
        return self.call(aten.full.default, [1] * self._rank, value, dtype=dtype, device=device)

    def _scaled(self, value: Node, scale: Value) -> Node:
        return value if scale == 1.0 else self.call(aten.mul.Tensor, value, scale)

    def _sum(self, parts: list[Node]) -> Node:
        return functools.reduce(lambda one, other: self.call(aten.add.Tensor, one, other), parts)

    def _as(self, value: Any, dtype: Any) -> Node:
        cast = torch.ops.prims.convert_element_type.default
        return value if _dtype(value) is dtype else self.call(cast, value, dtype)


def _is_sum(node: Node) -> bool:
    """Whether two values are added or subtracted, each as it is."""
    return node.target in SIGNS and not node.kwargs and node.args[0] is not node.args[1]


def _kind(of: Convolution) -> tuple[Any, ...]:
    """Return what convolutions have in common that can be merged; last, where the middle of a filter is."""
    sizes = of.weights.meta["val"].shape[2:]
    offsets = [(2 * around - step * (size - 1), size % 2) for around, step, size in zip(of.padding, of.dilation, sizes)]
    return of.x, tuple(of.stride), tuple(of.dilation), of.groups, tuple(offsets)


def _sizes(alike: list[Branch]) -> list[int]:
    """Return the sizes of the smallest filter that all of these fit into."""
    return [max(sizes) for sizes in zip(*(of.weights.meta["val"].shape[2:] for of, _ in alike))]


def _dtype(value: Any) -> Any:
    return getattr(value.meta.get("val"), "dtype", None) if isinstance(value, Node) else None
