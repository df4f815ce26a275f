"""Strategies: which neighbouring operations to fuse into kernels; the advice of each is `prompts/advice/<name>.md`.

Matrix products, convolutions and attention always stay with PyTorch's libraries.
"""

from __future__ import annotations

from collections.abc import Callable

from stark_lsp.playbook.catalogue import Catalogue, KernelChoice
from stark_lsp.playbook.fusible import Role

Choose = Callable[[Catalogue], "tuple[KernelChoice, ...]"]
"""Returns the kernels, most important first; none if there is nothing for this module."""


STRATEGIES: dict[str, Choose] = {
    "fuse-all": lambda catalogue: catalogue.kernels(),
    "fuse-best": lambda catalogue: catalogue.kernels()[:1],
    # Single operations, such as a lone LayerNorm, stay PyTorch's own kernel.
    "keep-library": lambda catalogue: tuple(one for one in catalogue.kernels() if one.region.kernels_now > 1),
    "fuse-pointwise": lambda catalogue: catalogue.kernels(lambda node: node.role is Role.POINTWISE),
}
"""By name, in the order in which they are tried on the reference."""
