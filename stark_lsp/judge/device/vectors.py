"""MKL's functions of vectors, called once by one thread before anybody needs them.

PyTorch has MKL compute `tanh`, `exp` and others of float32 and float64 on a CPU, by all its threads. MKL looks up its
kernel at the first call of each; where two threads do so at once, one may take a kernel of few bits for its share of
that call (oneMKL before 2025.0, https://github.com/pytorch/pytorch/issues/188792). An honest candidate would be
refused for what is the original's own forward, and an original be off when it is looked at first.
"""

from __future__ import annotations

import torch

FUNCTIONS = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "erfc", "erfinv", "exp", "exp2",
    "expm1", "floor", "lgamma", "log", "log10", "log1p", "log2", "reciprocal", "round", "rsqrt", "sigmoid", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
"""Of one tensor, all that PyTorch may hand to MKL."""


def look_up() -> None:
    """Call each once, of one number: that stays in this thread."""
    for dtype in (torch.float32, torch.float64):
        half = torch.full((1,), 0.5, dtype=dtype)
        for name in FUNCTIONS:
            getattr(torch, name)(half)
