"""Runs the kernel of attention by Triton's interpreter, and prints by how much each case is off against float64.

    TRITON_INTERPRET=1 python -m tests.playbook.attention_tiles

In a process of its own, since Triton decides at its import whether it interprets.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from pathlib import Path

import torch

from stark_lsp.judge.analysis.rewrites.attention import attention as defined
from stark_lsp.playbook import handwritten

from .conftest import load

SIZES = ((2, 2, 130, 70, 16), (1, 1, 100, 257, 64), (1, 1, 128, 300, 128), (1, 2, 130, 100, 40))
"""Batch, heads, rows, columns, width: no multiples of tiles, fewer than one tile, several."""


def masks(size: tuple[int, ...]) -> dict[str, tuple[torch.Tensor | None, bool]]:
    """Return what takes scores out, with rows that nothing is left of, and whether it is put in their place."""
    batch, heads, rows, columns, _ = size
    causal = torch.where(torch.ones(rows, columns).tril() == 0, -math.inf, 0.0)
    gone = causal.clone()
    gone[3] = -math.inf
    least = gone.clamp_min(torch.finfo(torch.float32).min)
    shape = (batch, heads, rows, columns)
    late = torch.where(torch.arange(columns) < columns - 40, -math.inf, 0.0)
    return {
        "none": (None, False),
        "causal": (causal.expand(shape), True),
        "rows without a score": (gone.expand(shape), True),
        "the last columns": (late.expand(shape), False),
        "the least number": (least.expand(shape), True),
        "the least number, added": (least.expand(shape), False),
        "by head and column": (torch.randn(heads, 1, columns).expand(shape), False),
    }


def main() -> None:
    """Print a JSON object."""
    path = Path(tempfile.mkdtemp()) / "tiles.py"
    # The interpreter knows no products in parts.
    text = re.sub(r'"bf16x\d"', '"ieee"', handwritten.text("attention", (9, 0)))
    path.write_text(f"import torch\nimport triton\nimport triton.language as tl\n\n{text}")
    ours = load(path, "tiles")._stark_attention
    torch.manual_seed(0)
    found = {}
    for size, layout in (*((size, "rows") for size in SIZES), (SIZES[0], "heads"), (SIZES[1], "half")):
        batch, heads, rows, columns, width = size
        q, k, v = (torch.randn(batch, length, heads, width).transpose(1, 2) for length in (rows, columns, columns))
        if layout == "half":
            q, k, v = (one.half() for one in (q, k, v))
        if layout == "heads":
            q, k, v = (one.contiguous() for one in (q, k, v))
        for name, (mask, put) in masks(size).items():
            for safe in (False, True) if name == "rows without a score" else (False,):
                out = ours(q, k.mT, v, mask, 0.125, put, safe)
                wide = None if mask is None else mask.double()
                exact = defined(q.double(), k.mT.double(), v.double(), wide, 0.125, put, safe)
                alike = torch.equal(out.isnan(), exact.isnan()) and not (safe and out.isnan().any())
                # What float16 leaves is counted in float32's measure.
                off = float((out - exact).nan_to_num().abs().max()) * (1 if layout != "half" else 2**-13)
                found[f"{size}, {layout}, {name}, safe {safe}"] = off if alike else math.inf
    print(json.dumps(found))


if __name__ == "__main__":
    main()
