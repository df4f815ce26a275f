"""Strategies: which kernels to write. Add one with `@strategy(name, …)`; its advice is `prompts/advice/<name>.md`.

The order of registration is the order in which they are tried on the reference.
"""

from __future__ import annotations

from stark_lsp.playbook.strategies import fusing
from stark_lsp.playbook.strategies.registry import STRATEGIES, Strategy, strategy

__all__ = ["STRATEGIES", "Strategy", "fusing", "strategy"]
