"""Runs the kernel of depthwise convolutions by Triton's interpreter, and prints by how much each case is off.

    TRITON_INTERPRET=1 python -m tests.playbook.depthwise_columns

In a process of its own, since Triton decides at its import whether it interprets.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import torch

from stark_lsp.judge.analysis.rewrites.windows import depthwise as defined
from stark_lsp.playbook import handwritten

from .conftest import load

CASES = {
    "a window larger than half the image": ((2, 3, 8, 9), (7, 7), (3, 3)),
    "no square": ((1, 2, 11, 13), (5, 3), (2, 1)),
    "one image, one column": ((1, 1, 9, 5), (5, 5), (0, 0)),
    "more around than the window needs": ((1, 2, 6, 7), (5, 5), (4, 3)),
    "lanes that are no multiple of a block": ((3, 5, 7, 7), (7, 7), (3, 3)),
}


def main() -> None:
    """Print a JSON object."""
    path = Path(tempfile.mkdtemp()) / "depthwise.py"
    path.write_text(
        f"import torch\nimport triton\nimport triton.language as tl\n\n{handwritten.text('depthwise', (9, 0))}"
    )
    ours = load(path, "depthwise")._stark_depthwise
    torch.manual_seed(0)
    found = {}
    for number, (name, (size, window, padding)) in enumerate(CASES.items()):
        x, weight, bias = torch.randn(size), torch.randn(size[1], 1, *window), torch.randn(size[1])
        given = (weight, bias if number % 2 else None, list(padding))
        expected, out = defined(x, *given), ours(x.mT.contiguous().mT, *given)
        assert out.shape == expected.shape
        found[name] = float((out - expected).abs().max())
    print(json.dumps(found))


if __name__ == "__main__":
    main()
