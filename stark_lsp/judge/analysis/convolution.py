"""A kernel for `stark::convolved`, as one of Inductor's templates, so that what follows a convolution is fused with it.

Each program computes a block of places and channels, as a product along the taps of the filter and the channels of the
input (implicit GEMM): with channels last and zeros around, a row of taps is one run of memory.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from typing import Any

import torch

from .rewrites.convolutions import places

BLOCKS = (
    (128, 128, 64, 3, 8),
    (128, 128, 32, 4, 8),
    (128, 64, 64, 4, 4),
    (256, 64, 64, 3, 8),
    (128, 64, 32, 4, 4),
    (256, 64, 32, 4, 8),
    (128, 32, 64, 4, 4),
    (128, 32, 32, 4, 4),
)
"""What is tried: places, channels and inner numbers of a block, stages, warps."""
SOURCE = r"""
{{def_kernel("X", "FILTERS")}}
    program = tl.program_id(0).to(INDEX_DTYPE)
    rows = (PLACES + BLOCK_M - 1) // BLOCK_M
    columns = (CHANNELS + BLOCK_N - 1) // BLOCK_N
    # Neighbours read the same places, from the L2 cache.
    group = program // (8 * columns)
    height = min(rows - group * 8, 8)
    row = group * 8 + program % (8 * columns) % height
    column = program % (8 * columns) // height
    place = row * BLOCK_M + tl.arange(0, BLOCK_M)
    channel = column * BLOCK_N + tl.arange(0, BLOCK_N)
    at = tl.minimum(place, PLACES - 1)
    at_w = at % OUT_W
    at_h = at // OUT_W % OUT_H
    at_d = at // (OUT_W * OUT_H) % OUT_D
    at_n = at // (OUT_W * OUT_H * OUT_D)
    inner = tl.arange(0, BLOCK_K)
    x = X + (at_n * STEP_N + at_d * STEP_D + at_h * STEP_H + at_w * STEP_W)[:, None]
    filters = FILTERS + (tl.minimum(channel, CHANNELS - 1) * (TAPS * RUN))[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(TAPS * RUNS):
        tap = step // RUNS
        k = step % RUNS * BLOCK_K + inner
        offset = tap // (TAPS_H * TAPS_W) * TAP_D + tap // TAPS_W % TAPS_H * TAP_H + tap % TAPS_W * TAP_W
{% if RUN % BLOCK_K == 0 %}
        a = tl.load(x + (k + offset)[None, :])
        b = tl.load(filters + (k + tap * RUN)[:, None])
{% else %}
        a = tl.load(x + (k + offset)[None, :], (k < RUN)[None, :], other=0.0)
        b = tl.load(filters + (k + tap * RUN)[:, None], (k < RUN)[:, None], other=0.0)
{% endif %}
        acc = tl.dot(a, b, acc)
    mask = (place < PLACES)[:, None] & (channel < CHANNELS)[None, :]
    idx_n = at_n[:, None]
    idx_c = channel[None, :]
{% if RANK > 2 %}
    idx_d = at_d[:, None]
{% endif %}
{% if RANK > 1 %}
    idx_h = at_h[:, None]
{% endif %}
    idx_w = at_w[:, None]
    {{store_output(INDICES, "acc", "mask"VAL_SHAPE)}}
"""
"""Inductor's jinja; INDICES and VAL_SHAPE are put in first."""


def grid(*given: Any, cdiv: Any) -> tuple[Any, int, int]:
    """Return how many programs there are; the numbers of a kernel come last."""
    meta = given[-1]
    return cdiv(meta["PLACES"], meta["BLOCK_M"]) * cdiv(meta["CHANNELS"], meta["BLOCK_N"]), 1, 1


@functools.cache
def register() -> None:
    """Have Inductor write `stark::convolved`.

    Raises
    ------
    ImportError, AttributeError, TypeError
        This version of torch has other templates.
    """
    from torch._inductor import ir
    from torch._inductor.lowering import register_lowering
    from torch._inductor.select_algorithm import (
        SymbolicGridFn,
        TritonTemplate,
        TritonTemplateKernel,
        autotune_select_algorithm,
    )

    shaped = "val_shape" in inspect.signature(TritonTemplateKernel.store_output).parameters
    templates = {}
    for rank, last in itertools.product((1, 2, 3), (False, True)):
        across = ["idx_d", "idx_h", "idx_w"][3 - rank :]
        indices = ["idx_n", *across, "idx_c"] if last else ["idx_n", "idx_c", *across]
        source = SOURCE.replace("INDICES", str(tuple(indices)))
        source = source.replace("VAL_SHAPE", ', val_shape=("BLOCK_M", "BLOCK_N")' if shaped else "")
        name = f"stark_convolution{rank}d{'_last' * last}"
        templates[rank, last] = TritonTemplate(name=name, grid=SymbolicGridFn(grid), source=source)

    def lowered(x: Any, filters: Any, stride: list[int], dilation: list[int], last: bool) -> Any:
        x, filters = (ir.ExternKernel.require_contiguous(ir.ExternKernel.realize_input(one)) for one in (x, filters))
        (batch, *sizes, channels), (count, *taps, _) = (list(map(int, one.get_size())) for one in (x, filters))
        rank = len(sizes)
        to = places(sizes, taps, stride, dilation)
        shape = [batch, *to, count] if last else [batch, count, *to]
        steps = [math.prod(shape[dim + 1 :]) for dim in range(rank + 2)]
        layout = ir.FixedLayout(x.get_device(), torch.float32, shape, steps)
        known = _numbers(batch, channels, count, sizes, taps, stride, dilation, to)
        choices: list[Any] = []
        for rows, columns, inner, stages, warps in _blocks(count, known["RUN"]):
            templates[rank, last].maybe_append_choice(
                choices, input_nodes=(x, filters), layout=layout, num_stages=stages, num_warps=warps,
                BLOCK_M=rows, BLOCK_N=columns, BLOCK_K=inner, RUNS=-(-known["RUN"] // inner), RANK=rank, **known,
            )  # fmt: skip
        made = autotune_select_algorithm("stark_convolution", choices, [x, filters], layout)
        return made[0] if isinstance(made, tuple) else made

    register_lowering(torch.ops.stark.convolved.default, type_promotion_kind=None)(lowered)


def _numbers(
    batch: int,
    channels: int,
    count: int,
    sizes: list[int],
    taps: list[int],
    stride: list[int],
    dilation: list[int],
    to: list[int],
) -> dict[str, int]:
    """Return the numbers of a convolution that the template names."""
    missing = 3 - len(sizes)
    (
        (_, high, wide),
        (deep_taps, high_taps, wide_taps),
        (deep_step, high_step, wide_step),
        (apart_d, apart_h, apart_w),
    ) = ([1] * missing + one for one in (sizes, taps, stride, dilation))
    to_deep, to_high, to_wide = [1] * missing + to
    line, image = wide * channels, high * wide * channels
    # Taps of a row that are side by side are one run of memory.
    run, row = (wide_taps * channels, 1) if apart_w == 1 else (channels, wide_taps)
    return {
        "PLACES": batch * to_deep * to_high * to_wide, "CHANNELS": count,
        "OUT_D": to_deep, "OUT_H": to_high, "OUT_W": to_wide,
        "STEP_N": math.prod(sizes) * channels, "STEP_D": deep_step * image, "STEP_H": high_step * line,
        "STEP_W": wide_step * channels,
        "TAPS": deep_taps * high_taps * row, "TAPS_H": high_taps, "TAPS_W": row, "RUN": run,
        "TAP_D": apart_d * image, "TAP_H": apart_h * line, "TAP_W": apart_w * channels,
    }  # fmt: skip


def _blocks(count: int, run: int) -> list[tuple[int, ...]]:
    """Return the blocks to try for so many channels and so long runs: without much that is computed for nothing."""
    most = max(32, 1 << (count - 1).bit_length())
    wasted = {inner: -(-run // inner) * inner for inner in (32, 64)}
    inner = 64 if wasted[64] <= wasted[32] else 32
    fitting = [one for one in BLOCKS if one[1] <= most and one[2] == inner]
    return [one for one in fitting if one[1] == max(each[1] for each in fitting)]
