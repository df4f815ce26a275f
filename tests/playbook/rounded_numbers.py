"""Runs the kernel that rounds for convolutions by Triton's interpreter, and prints by how much each case is off.

    TRITON_INTERPRET=1 python -m tests.playbook.rounded_numbers

In a process of its own, since Triton decides at its import whether it interprets.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import torch

from stark_lsp.judge.analysis.rewrites.convolutions import rounded as defined
from stark_lsp.playbook import handwritten

from .conftest import load

CASES = {
    "an image": ((2, 3, 5, 7), [1, 2], 4, 1.0),
    "a line, nothing around": ((2, 9, 70), [0], 16, 1.0),
    "a volume": ((1, 8, 2, 3, 4), [1, 0, 1], 8, 1.0),
    "too large": ((2, 3, 4, 4), [0, 0], 4, 1e30),
    "too small": ((2, 3, 4, 4), [1, 1], 4, 1e-30),
    "nothing but zeros": ((1, 3, 4, 4), [1, 1], 4, 0.0),
    "more channels than a block": ((1, 70, 2, 3), [0, 1], 72, 100.0),
    "numbers with no end": ((1, 3, 4, 4), [0, 0], 4, float("inf")),
}


def main() -> None:
    """Print a JSON object."""
    path = Path(tempfile.mkdtemp()) / "rounded.py"
    imports = "import functools\n\nimport torch\nimport triton\nimport triton.language as tl"
    path.write_text(f"{imports}\n\n\n{handwritten.text('rounded', (9, 0))}")
    ours = load(path, "rounded")._stark_rounded
    torch.manual_seed(0)
    found = {}
    for number, (name, (size, padding, channels, scale)) in enumerate(CASES.items()):
        # Halves of the last bit that is kept are what the ways to round differ in.
        x = (torch.randn(size).view(torch.int32) & ~0xFFF).view(torch.float32)
        x = torch.where(x > 0.5, x * scale, x) if scale == float("inf") else x * scale
        x = x.mT.contiguous().mT if number % 2 else x
        for up in (False, True):
            (expected, back), (out, our_back) = (one(x, padding, channels, up) for one in (defined, ours))
            assert out.shape == expected.shape
            assert torch.equal(back, our_back), (name, back, our_back)
            assert torch.equal(out.nan_to_num(), expected.nan_to_num()), name
            inside = out[(slice(None), *(slice(one, -one or None) for one in padding), slice(size[1]))].movedim(-1, 1)
            off = (inside.double() * back - x).abs().nan_to_num(posinf=0.0) / x.abs().clamp(min=1e-35)
            found[f"{name}, {'up' if up else 'even'}"] = max(0.0, float(off.nan_to_num().max()) - 2**-11)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
