"""Keeps a child apart from the rest of the machine, and says how well.

The judge: `choose` a layer, make a `run_policy` or `build_policy` for the child's private folder, start
`wrap(layer, policy, argv)` with `instructions(layer, policy)` as an argument. The child: `confine` first.
"""

from __future__ import annotations

from .confine import confine, instructions
from .layers import Layer, Refused
from .policy import build_policy, run_policy
from .probe import choose, wrap

__all__ = ["Layer", "Refused", "build_policy", "choose", "confine", "instructions", "run_policy", "wrap"]
