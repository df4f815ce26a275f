"""A kernel for the operator of `rewrites.slim`, as Inductor's template."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .rewrites.slim import block_of, is_turned, length
from .templates import fastest, template

SOURCE = r"""
{{def_kernel("X", "OTHER")}}
    program = tl.program_id(0).to(INDEX_DTYPE)
    columns = (COLUMNS + BLOCK_N - 1) // BLOCK_N
    # Those side by side read other pieces of the large matrix; blocks of rows read the same, from the L2 cache.
    row = program // (columns * PARTS) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = program % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    part = program // columns % PARTS
    begin = part * LENGTH
    k = tl.arange(0, BLOCK_K)
    # Of a row or column beyond the last nothing is read; which are there is known for runs of memory at once.
    asked, there = (row < {{size("X", 0)}})[:, None], (column < COLUMNS)[None, :]
    x = X + row[:, None] * {{stride("X", 0)}} + (begin + k)[None, :] * {{stride("X", 1)}}
    other = OTHER + (begin + k)[:, None] * {{stride("OTHER", 0)}} + column[None, :] * {{stride("OTHER", 1)}}
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for at in range(0, LENGTH, BLOCK_K):
{% if INNER % LENGTH == 0 %}
        a = tl.load(x + at * {{stride("X", 1)}}, asked, other=0.0)
        b = tl.load(other + at * {{stride("OTHER", 0)}}, there, other=0.0)
{% else %}
        inside = begin + at + k < INNER
        a = tl.load(x + at * {{stride("X", 1)}}, asked & inside[None, :], other=0.0)
        b = tl.load(other + at * {{stride("OTHER", 0)}}, there & inside[:, None], other=0.0)
{% endif %}
        acc = tl.dot(a, b, acc, input_precision={{PRECISION}})
    idx_m = row[:, None]
    idx_n = column[None, :]
    mask = (idx_m < {{size("X", 0)}}) & (idx_n < COLUMNS)
    {{store_output(("part", "idx_m", "idx_n"), "acc", "mask"VAL_SHAPE)}}
"""


def grid(parts: Any, rows: Any, columns: Any, meta: Any, *, cdiv: Any) -> tuple[Any, int, int]:
    """Return how many programs there are for a result of these sizes."""
    return cdiv(rows, meta["BLOCK_M"]) * cdiv(columns, meta["BLOCK_N"]) * parts, 1, 1


@functools.cache
def register() -> None:
    """Have Inductor write `stark::slim`; raises what `template` does."""
    from torch._inductor import ir
    from torch._inductor.lowering import register_lowering
    from torch._inductor.virtualized import V

    made = template("stark_slim", SOURCE, grid)

    def slim(x: Any, other: Any, parts: int) -> Any:
        x, other = (ir.ExternKernel.realize_input(one) for one in (x, other))
        for one in (x, other):
            one.freeze_layout()
        (rows, inner), (_, columns) = (one.get_size() for one in (x, other))
        hint = getattr(V.graph.sizevars, "optimization_hint", None) or V.graph.sizevars.size_hint  # until torch 2.12
        block = block_of(int(hint(rows)), int(columns), is_turned(other.get_stride()))
        stages = _memory(x.get_device()) // ((block.rows + block.columns) * block.inner * 4)
        known = {
            "num_stages": max(1, min(3, stages)), "num_warps": block.warps, "BLOCK_M": block.rows,
            "BLOCK_N": block.columns, "BLOCK_K": block.inner, "COLUMNS": int(columns), "INNER": int(inner),
            "PARTS": parts, "LENGTH": length(int(inner), parts), "PRECISION": f'"{block.precision}"',
        }  # fmt: skip
        return fastest("stark_slim", made, [x, other], [parts, rows, columns], [known])

    register_lowering(torch.ops.stark.slim.default, type_promotion_kind=None)(slim)


def _memory(device: torch.device) -> int:
    """Return the bytes of shared memory that a block may have; an H100's where torch does not tell."""
    return int(getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 227 << 10))
