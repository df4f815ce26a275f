"""The words of the static check."""

from __future__ import annotations

from typing import NamedTuple


def listed(text: str) -> frozenset[str]:
    """Return the words of a text: long lists of names stay readable that way."""
    return frozenset(text.split())


class Refusal(NamedTuple):
    """Why a candidate is not run."""

    reason: str
    line: int | None
    """1-based line it is about."""


class Flag(NamedTuple):
    """What is worth knowing about a candidate that is run all the same."""

    reason: str
    line: int | None
    """1-based line it is about."""


class Kernels(NamedTuple):
    """What a file defines of its own: when it runs, at least one of these must be launched."""

    dialects: tuple[str, ...]
    """Of `raw`, `inline`, `triton`, in this order; empty for a file of PyTorch operators only."""
    names: tuple[str, ...]
    """`__global__` functions, `@triton.jit` functions, exported C functions; each once, in order."""
