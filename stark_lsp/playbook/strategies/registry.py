"""The registry of strategies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stark_lsp.playbook.catalogue import Catalogue, KernelChoice

Choose = Callable[[Catalogue], "tuple[KernelChoice, ...]"]


@dataclass(frozen=True)
class Strategy:
    """A way to choose kernels."""

    name: str
    """Also the name of its advice, and what a rejection remembers."""
    choose: Choose
    """Returns the kernels, most important first; none if the strategy has nothing for this module."""


STRATEGIES: dict[str, Strategy] = {}
"""Strategies by name, in the order in which they are tried."""


def strategy(name: str) -> Callable[[Choose], Choose]:
    """Register a strategy under `name`."""

    def add(choose: Choose) -> Choose:
        if name in STRATEGIES:
            raise ValueError(f"there is a strategy {name} already")
        STRATEGIES[name] = Strategy(name, choose)
        return choose

    return add
