"""Kernels for operators of `rewrites.convolutions`, as Inductor's templates, so that what follows is fused.

Each program of `stark::convolved` and `stark::spread` computes a block of places and channels, as a product along the
taps of the filter and the channels of the input (implicit GEMM): with channels last and zeros around, a row of taps is
one run of memory. It belongs to one part: to a group, or to a kind of places of a transposed convolution, which has
taps of its own.

Those of `stark::direct` read the image as it lies; taps and channels are one dimension.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from .convolution_sources import AXES, SOURCES
from .rewrites.convolutions import places
from .templates import fastest, strides, template

BLOCKS = (
    (128, 128, 64, 3, 8),
    (64, 128, 64, 3, 4),
    (128, 128, 32, 4, 8),
    (256, 64, 64, 3, 8),
    (128, 64, 64, 3, 4),
    (64, 64, 64, 3, 4),
    (256, 64, 32, 3, 8),
    (128, 64, 32, 3, 4),
    (256, 32, 64, 3, 8),
    (128, 32, 64, 3, 4),
    (128, 32, 32, 3, 4),
    (128, 16, 64, 3, 4),
    (128, 16, 32, 3, 4),
)
"""What is tried: places, channels and inner numbers of a block, stages, warps; from these the widest that fit."""
DIRECT_BLOCKS = (
    (128, 64, 32, 3, 4),
    (128, 64, 16, 3, 4),
    (64, 64, 32, 3, 4),
    (128, 128, 16, 3, 4),
    (128, 128, 32, 3, 8),
    (256, 128, 32, 3, 8),
    (128, 32, 32, 3, 4),
    (64, 32, 32, 3, 4),
    (128, 16, 32, 3, 4),
    (64, 16, 32, 3, 4),
)
BUSY = 132
"""Blocks from which a GPU is busy: an H100's multiprocessors."""


def grid(*given: Any, cdiv: Any) -> tuple[Any, int, int]:
    """Return how many programs there are; the numbers of a kernel come last."""
    meta = given[-1]
    return cdiv(meta["PLACES"], meta["BLOCK_M"]) * meta.get("PARTS", 1) * cdiv(meta["CHANNELS"], meta["BLOCK_N"]), 1, 1


@functools.cache
def register() -> None:
    """Have Inductor write `stark::convolved`, `stark::spread` and `stark::direct`; raises what `template` does."""
    from torch._inductor import ir
    from torch._inductor.lowering import register_lowering

    made = {}
    for name, rank, last in (*itertools.product(SOURCES, (1, 2, 3), (False, True)),):
        across = ["idx_d", "idx_h", "idx_w"][3 - rank :]
        indices = ["idx_n", *across, "idx_c"] if last else ["idx_n", "idx_c", *across]
        source = SOURCES[name].replace("INDICES", str(tuple(indices))).replace("AXES\n", f"{AXES}\n")
        made[name, rank, last] = template(f"stark_{name}{rank}d{'_last' * last}", source, grid)

    def chosen(name: str, given: list[Any], shape: list[int], last: bool, blocks: Any, known: dict[str, int]) -> Any:
        """Return the result by the fastest blocks."""
        rank = len(shape) - 2
        each = [
            {
                "num_stages": stages, "num_warps": warps, "BLOCK_M": rows, "BLOCK_N": columns, "BLOCK_K": inner,
                "RANK": rank, **known,
            }
            for rows, columns, inner, stages, warps in blocks
        ]  # fmt: skip
        return fastest(f"stark_{name}", made[name, rank, last], given, shape, each)

    def gathered(x: Any, filters: Any, groups: int, last: bool, to: list[int], known: dict[str, int]) -> Any:
        batch, count = int(x.get_size()[0]) // groups, known["CHANNELS"] * groups
        shape = [batch, *to, count] if last else [batch, count, *to]
        blocks = _blocks(known["PLACES"] * known["PARTS"], known["CHANNELS"], known["RUN"])
        return chosen("convolution", [x, filters], shape, last, blocks, known)

    def stored(*given: Any) -> Iterator[tuple[Any, list[int]]]:
        """Yield what has no gaps in memory, and its sizes."""
        for one in given:
            made = ir.ExternKernel.require_contiguous(ir.ExternKernel.realize_input(one))
            yield made, list(map(int, made.get_size()))

    def convolved(x: Any, filters: Any, stride: list[int], dilation: list[int], groups: int, last: bool) -> Any:
        (x, image), (filters, (count, *taps, _)) = stored(x, filters)
        to = places(image[1:-1], taps, stride, dilation)
        known = numbers(image, [count // groups, *taps], to, stride, dilation, groups, groups, spread=False)
        return gathered(x, filters, groups, last, to, known)

    def spread(
        x: Any,
        filters: Any,
        start: list[int],
        stride: list[int],
        dilation: list[int],
        front: list[int],
        behind: list[int],
        groups: int,
        to: list[int],
        last: bool,
    ) -> Any:
        (x, image), (filters, (count, *taps, _)) = stored(x, filters)
        common = [math.gcd(*both) for both in zip(stride, dilation)]
        kinds, apart = ([one // by for one, by in zip(each, common)] for each in (stride, dilation))
        each, ones = [-(-size // step) for size, step in zip(to, stride)], [1] * len(to)
        one_part, parts = [count // (groups * math.prod(kinds)), *taps], groups * math.prod(stride)
        known = {
            **numbers(image, one_part, each, ones, apart, groups, parts, spread=True),
            "START": sum(one * size for one, size in zip(start, strides(image)[1:])), "TOGETHER": int(apart[-1] == 1),
            **three("TO", to), **three("APART", stride), **three("KINDS", kinds), **three("DILATION", dilation),
            **three("FRONT", front, 0), **three("BEHIND", behind, 0),
        }  # fmt: skip
        return gathered(x, filters, groups, last, to, known)

    def direct(
        x: Any, high: Any, low: Any, stride: list[int], padding: list[int], dilation: list[int], groups: int
    ) -> Any:
        given, shapes = zip(*stored(x, high, low))
        (batch, all_channels, *sizes), (filters, channels, *taps) = shapes[:2]
        count = filters // groups
        to = places([size + 2 * around for size, around in zip(sizes, padding)], taps, stride, dilation)
        step_n, step_c, *apart = strides([batch, all_channels, *sizes])
        known = {
            "PLACES": batch * math.prod(to), "CHANNELS": count, "LENGTH": channels * math.prod(taps),
            "PARTS": groups, "PART": channels * step_c,
            "STEP_N": step_n, "STEP_C": step_c, **three("STEP", apart, 0), **three("OUT", to), **three("SIZE", sizes),
            **three("TAPS", taps), **three("STRIDE", stride), **three("AROUND", padding, 0),
            **three("APART", dilation),
        }  # fmt: skip
        blocks = fitting(DIRECT_BLOCKS, known["PLACES"] * groups, count)
        return chosen("direct", list(given), [batch, filters, *to], False, blocks, known)

    register_lowering(torch.ops.stark.direct.default, type_promotion_kind=None)(direct)
    register_lowering(torch.ops.stark.convolved.default, type_promotion_kind=None)(convolved)
    register_lowering(torch.ops.stark.spread.default, type_promotion_kind=None)(spread)


def three(name: str, each: list[int], other: int = 1) -> dict[str, int]:
    """Return the numbers of three dimensions by name; of those that there are not, another."""
    return {f"{name}_{dim}": size for dim, size in zip("DHW", [other] * (3 - len(each)) + list(each))}


def numbers(
    image: list[int],
    filters: list[int],
    places: list[int],
    stride: list[int],
    dilation: list[int],
    groups: int,
    parts: int,
    *,
    spread: bool,
) -> dict[str, int]:
    """Return the numbers that the template names.

    Parameters
    ----------
    image, filters
        Sizes of the input, with zeros around, and of the filters of one part.
    parts
        Groups, and of a transposed convolution (`spread`) kinds of places in each.
    """
    (batch, *_, channels), (count, *taps), (whole, *apart, _) = image, filters, strides(image)
    named, run = three("TAPS", taps), taps[-1] * channels
    # Taps of a row that are side by side are one run of memory.
    if dilation[-1] != 1:
        run = channels
    elif not spread:
        named["TAPS_W"] = 1
    return {
        "PLACES": batch // groups * math.prod(places), "CHANNELS": count, "PARTS": parts, "PART": whole,
        "START": 0, "STEP_N": whole * groups,
        **three("STEP", [step * size for step, size in zip(stride, apart)], 0),
        **named, **three("TAP", [step * size for step, size in zip(dilation, apart)], 0),
        **three("OUT", places), "RUN": run, "LENGTH": math.prod(taps) * channels,
        "UNIT": channels if spread else run, "SPREAD": int(spread),
    }  # fmt: skip


def _blocks(rows: int, count: int, run: int) -> list[tuple[int, ...]]:
    """Return the blocks to try for so many channels and so long runs: without much that is computed for nothing."""
    wasted = {inner: -(-run // inner) * inner for inner in (32, 64)}
    inner = 64 if wasted[64] <= wasted[32] else 32
    return fitting([one for one in BLOCKS if one[2] == inner], rows, count)


def fitting(blocks: Iterable[tuple[int, ...]], rows: int, count: int) -> list[tuple[int, ...]]:
    """Return the widest blocks that are no wider than so many channels, and enough for a GPU."""
    widths = sorted({one[1] for one in blocks}, reverse=True)
    most = max(widths[-1], 1 << (count - 1).bit_length())
    fit = [width for width in widths if width <= most]
    busy = [width for width in fit if -(-rows // 64) * -(-count // width) >= BUSY]
    width = max(busy or [min(max(fit), 64)])
    return [one for one in blocks if one[1] == width]
