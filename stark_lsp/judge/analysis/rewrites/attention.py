"""Attention block by block: of the scores, no more than a tile is ever in memory.

The softmax of a row is taken along with its sum of values, by a running maximum: Dao and others, *FlashAttention*,
2022, arxiv.org/abs/2205.14135. The program calls `stark::attention`, for which the candidate has a kernel.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch.fx import Node

from .rule import Cannot, Rule, aten, define, sizes_of

WIDTHS = range(16, 129, 8)
"""Of a head: what a tile holds."""
LEAST = 1 << 17
"""Scores of all heads, from which a pass over them costs."""
_SAME = (aten.view.default, aten.reshape.default, aten.clone.default, aten.expand.default)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, scale: float, put: bool, safe: bool = False
) -> torch.Tensor:
    """Return `softmax(q @ k * scale + mask) @ v`; `put`, scores are what the mask is where that is not 0.

    A row that the mask leaves nothing of is NaN, `safe` 0, as PyTorch's kernels have it.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(wide) @ k.to(wide) * scale
    if mask is not None:
        scores = torch.where(mask == 0, scores, mask.to(wide)) if put else scores + mask
    weights = torch.softmax(scores, -1)
    if safe:
        weights = torch.where((scores == -math.inf).all(-1, keepdim=True), 0.0, weights)
    return (weights @ v.to(wide)).to(q.dtype).contiguous()


define(
    "attention(Tensor q, Tensor k, Tensor v, Tensor? mask, float scale, bool put, bool safe=False) -> Tensor",
    attention,
    lambda q, k, v, *more: q.new_empty((*q.shape[:-1], v.shape[-1])),
)
_CALL = torch.ops.stark.attention.default
_ENDS = (-math.inf, 0.0)
_FLASH = aten._scaled_dot_product_flash_attention.default
_THEIRS = ("_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention")
_MASKED = tuple(
    getattr(aten, name).default
    for name in _THEIRS
    if hasattr(aten, name) and "attn_bias" in str(getattr(aten, name).default._schema)
)
"""PyTorch's kernels that take a mask: CUTLASS's, and cuDNN's for half precision, which in torch 2.4 takes none."""


class _Rule(Rule):
    ANY_SIZE = True

    def _by_rows(self, mask: Node) -> Node:
        """Return a mask whose columns lie side by side, since a row's are read together; nothing is repeated for it."""
        if not mask.meta["val"].dim() or mask.meta["val"].stride(-1) <= 1:
            return mask
        for dim, (size, stride) in enumerate(zip(mask.meta["val"].shape, mask.meta["val"].stride())):
            if size > 1 and not stride:
                mask = self.call(aten.slice.Tensor, mask, dim, 0, 1)
        return self.call(aten.clone.default, mask, memory_format=torch.contiguous_format)


class Attention(_Rule):
    """`softmax(q @ k) @ v` of float32, its scores scaled and masked on the way or not."""

    OF = (aten.bmm.default,)
    DTYPES: tuple[torch.dtype, ...] = (torch.float32,)
    CASTS: tuple[Any, ...] = ()
    """What may stand between its parts, beside what changes the shape alone."""

    def result(self) -> Node:
        """Return the call that takes all of it."""
        weights, values = self._node.args
        total = self._behind(weights, aten.div.Tensor)
        exponents = total.args[0]
        scores, scale = self._softmax_of(total)
        size = self._size(scores)
        node, scale, mask, put = self._scaled_and_masked(scores, scale)
        product = self._behind(node, aten.bmm.default)
        *batch, rows, columns = size
        width = self._size(product.args[0])[-1]
        if (
            width not in WIDTHS
            or self._size(values)[-1] != width
            or math.prod(size) < LEAST
            or len(batch) not in (1, 2)
        ):
            raise Cannot
        if len(total.users) != 1 or len(exponents.users) != 2:
            raise Cannot
        parts = [
            _shaped(product.args[0], [*batch, rows, width]),
            _shaped(product.args[1], [*batch, width, columns]),
            _shaped(values, [*batch, columns, width]),
        ]
        dtypes = {one.meta["val"].dtype for one in parts}
        if len(dtypes) != 1 or not dtypes <= set(self.DTYPES):
            raise Cannot
        if mask is not None:
            mask = self._mask(mask, dtypes.pop()) if put else mask
            parts.append(self.call(aten.expand.default, self._by_rows(mask), size))
        if len(batch) == 1:
            parts = [self.call(aten.unsqueeze.default, one, 1) for one in parts]
        q, k, v, *masks = parts
        made = self._one_call(q, k, v, masks[0] if masks else None, scale, put)
        return self.call(aten.reshape.default, made, self._size(self._node))

    def _one_call(self, q: Node, k: Node, v: Node, mask: Node | None, scale: float, put: bool) -> Node:
        return self.call(_CALL, q, k, v, mask, scale, put)

    def _mask(self, mask: Node, dtype: torch.dtype) -> Node:
        """Return a mask that is put, as the call takes it."""
        return mask

    def _size(self, node: Any) -> list[int]:
        return sizes_of(node)

    def _behind(self, node: Any, target: Any) -> Node:
        """Return the node that calls `target`, behind others that change the shape alone."""
        while isinstance(node, Node) and node.target is not target and node.target in (*_SAME, *self.CASTS):
            if node.target in self.CASTS and len(node.users) != 1:
                raise Cannot
            node = node.args[0]
        if not isinstance(node, Node) or node.target is not target:
            raise Cannot
        return node

    def _softmax_of(self, total: Node) -> tuple[Node, float]:
        """Return the scores of `exp((scores - max) * scale) / sum`, along the last dimension, and their scale.

        Inductor scales behind the difference where it can.
        """
        above, below = total.args[:2]
        difference, scale = self._behind(above, aten.exp.default).args[0], 1.0
        if isinstance(difference, Node) and difference.target is aten.mul.Tensor:
            difference, scale = difference.args
            if not isinstance(scale, (int, float)) or scale <= 0:
                raise Cannot
        scores, largest = self._behind(difference, aten.sub.Tensor).args[:2]
        _, *along = self._behind(below, aten.sum.dim_IntList).args
        _, *also = self._behind(largest, aten.amax.default).args
        last = (-1, len(self._size(total)) - 1)
        if below.args[0] is not above or largest.args[0] is not scores or len(scores.users) != 2:
            raise Cannot
        if not all(len(one) == 2 and list(one[0]) in ([last[0]], [last[1]]) and one[1] for one in (along, also)):
            raise Cannot
        return scores, scale

    def _scaled_and_masked(self, node: Node, scale: float) -> tuple[Node, float, Any, bool]:
        """Return what was scaled and masked, by how much, with what, and whether that was put in scores' place."""
        masks: list[tuple[Node, bool]] = []
        while node.target not in (*_SAME, aten.bmm.default):
            if not node.args:  # an input
                raise Cannot
            one, *others = node.args
            if node.target in self.CASTS and len(one.users) == 1:
                node = one
            elif node.target is aten.mul.Tensor and isinstance(others[0], (int, float)):
                scale, node = scale * others[0], one
            elif node.target is aten.div.Tensor and isinstance(others[0], (int, float)) and others[0]:
                scale, node = scale / others[0], one
            elif scale != 1.0:
                # What is added before scores are scaled is scaled with them.
                raise Cannot
            elif node.target is aten.add.Tensor and not node.kwargs and len(others) == 1:
                wide = [each for each in (one, others[0]) if _has_shape_of(each, node)]
                if len(wide) != 1:
                    raise Cannot
                masks.append((others[0] if wide[0] is one else one, False))
                self._size(masks[-1][0])
                node = wide[0]
            elif node.target is aten.where.self:
                mask, node = self._put(node)
                masks.append((mask, True))
            else:
                raise Cannot
        return node, scale, *self._together(masks)

    def _together(self, masks: list[tuple[Node, bool]]) -> tuple[Any, bool]:
        """Return several masks as one, and whether it is put; together they are added, so that is minus infinity."""
        if len(masks) < 2:
            return masks[0] if masks else (None, False)
        for mask, put in masks:
            if put and -math.inf not in map(_constant, mask.args[1:]):
                raise Cannot
        total = masks[0][0]
        for mask, _ in masks[1:]:
            total = self.call(aten.add.Tensor, total, mask)
        return total, False

    def _put(self, node: Node) -> tuple[Node, Node]:
        """Return a mask with what is put in the place of scores, 0 where they stay; and the scores."""
        condition, first, second = node.args
        known = [_constant(first), _constant(second)]
        if (known[0] is None) == (known[1] is None) or 0.0 in known:
            raise Cannot
        nothing = self.call(aten.full.default, [], 0.0, dtype=torch.float32, device=node.meta["val"].device)
        if known[0] is not None:
            return self.call(aten.where.self, condition, first, nothing), second
        return self.call(aten.where.self, condition, nothing, second), first


class HalfPrecision(Attention):
    """The same of bfloat16 or float16; without a mask PyTorch has a kernel that is as good."""

    DTYPES = (torch.bfloat16, torch.float16)
    CASTS = (torch.ops.prims.convert_element_type.default,)

    def _one_call(self, q: Node, k: Node, v: Node, mask: Node | None, scale: float, put: bool) -> Node:
        if mask is not None:
            return super()._one_call(q, k, v, mask, scale, put)
        turned = self.call(aten.permute.default, k, [0, 1, 3, 2])
        return self.call(operator.getitem, self.call(_FLASH, q, turned, v, 0.0, False, False, scale=scale), 0)

    def _size(self, node: Any) -> list[int]:
        return sizes_of(node, ())

    def _mask(self, mask: Node, dtype: torch.dtype) -> Node:
        # Before it is expanded, so that it stays small.
        return self.call(self.CASTS[0], mask, dtype)


class Called(_Rule):
    """`scaled_dot_product_attention` of float32, and with a mask that is given of bfloat16 and float16 too."""

    OF = (operator.getitem,)

    def result(self) -> Node:
        """Return the call, its result laid out as theirs is."""
        theirs, place = self._node.args
        if place or theirs.target not in _MASKED:
            raise Cannot
        if set(theirs.kwargs) - {"scale"}:
            raise Cannot
        q, k, v, mask, _, dropout, causal, *_ = (*theirs.args, 0.0, False)[:7]
        # Without a mask, in half precision, theirs is as good.
        if q.meta["val"].dtype is not torch.float32 and mask is None:
            raise Cannot
        size, keys, values = (list(each.meta["val"].shape) for each in (q, k, v))
        rows, columns, width = size[-2], keys[-2], size[-1]
        if dropout or keys != values or keys[:2] != size[:2] or keys[-1] != width:
            raise Cannot
        others = [one for one in theirs.users if one is not self._node]
        if any(one.users for one in others):
            raise Cannot
        if width not in WIDTHS or math.prod(size[:3]) * columns < LEAST:
            raise Cannot
        if causal:
            mask = self._before(rows, columns, [*size[:2], rows, columns])
        elif mask is not None:
            mask = self.call(aten.expand.default, self._by_rows(mask), [*size[:2], rows, columns])
        for one in others:  # it draws numbers at times, so nobody else removes it
            self._graph.erase_node(one)
        scale = theirs.kwargs.get("scale")
        scale = 1.0 / math.sqrt(width) if scale is None else scale
        turned = self.call(aten.permute.default, k, [0, 1, 3, 2])
        # Of a mask that is given, a row may leave nothing.
        safe = mask is not None and not causal
        made = self.call(_CALL, q, turned, v, mask, scale, bool(causal), safe)
        if self._node.meta["val"].is_contiguous():
            return made
        made = self.call(aten.permute.default, made, [0, 2, 1, 3])
        made = self.call(aten.clone.default, made, memory_format=torch.contiguous_format)
        return self.call(aten.permute.default, made, [0, 2, 1, 3])

    def _before(self, rows: int, columns: int, size: list[int]) -> Node:
        """Return a mask that puts an end to what lies ahead."""
        device = self._node.meta["val"].device
        # `arange` itself Inductor decomposes before it is here.
        how = {"start": 0, "step": 1, "dtype": torch.int64, "device": device, "requires_grad": False}
        row, column = (self.call(torch.ops.prims.iota.default, count, **how) for count in (rows, columns))
        ahead = self.call(aten.gt.Tensor, column, self.call(aten.unsqueeze.default, row, 1))
        end, zero = (self.call(aten.full.default, [], value, dtype=torch.float32, device=device) for value in _ENDS)
        return self.call(aten.expand.default, self.call(aten.where.self, ahead, end, zero), size)


def _shaped(node: Any, size: list[int]) -> Node:
    """Return the first tensor of this shape, from which nothing but the split of batches differs on the way."""
    merged = [size[0] * size[1], *size[2:]] if len(size) == 4 else size
    found = None
    while isinstance(node, Node) and "val" in node.meta and list(node.meta["val"].shape) in (size, merged):
        if list(node.meta["val"].shape) == size:
            found = node
        if node.target not in _SAME:
            break
        node = node.args[0]
    if found is None:
        raise Cannot
    return found


def _has_shape_of(one: Any, node: Node) -> bool:
    return isinstance(one, Node) and one.meta["val"].shape == node.meta["val"].shape


def _constant(node: Any) -> float | None:
    """Return the number that a tensor is filled with, None if it is not."""
    if not isinstance(node, Node) or node.target not in (aten.full.default, aten.scalar_tensor.default):
        return None
    return float(node.args[-1])
