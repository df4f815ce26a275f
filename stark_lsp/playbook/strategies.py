"""Strategies: which neighbouring operations to fuse into kernels; the advice of each is `prompts/advice/<name>.md`.

Matrix products, convolutions and attention always stay with PyTorch's libraries.
"""

from __future__ import annotations

from collections.abc import Callable

from stark_lsp.playbook.catalogue import Catalogue, KernelChoice
from stark_lsp.playbook.fusible import Role

Choose = Callable[[Catalogue], "tuple[KernelChoice, ...]"]
"""Returns the kernels, most important first; none if there is nothing for this module."""


def _several(catalogue: Catalogue) -> tuple[KernelChoice, ...]:
    """Every group of several operations; single ones, such as a lone LayerNorm, stay PyTorch's own kernel."""
    return tuple(choice for choice in catalogue.kernels() if choice.region.kernels_now > 1)


STRATEGIES: dict[str, Choose] = {
    "fuse-all": lambda catalogue: catalogue.kernels(),
    "fuse-best": lambda catalogue: catalogue.kernels()[:1],
    "keep-library": _several,
    "fuse-pointwise": lambda catalogue: catalogue.kernels(lambda node: node.role is Role.POINTWISE),
}
"""By name, in the order in which they are tried on the reference."""
