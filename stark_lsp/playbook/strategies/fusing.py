"""Strategies that fuse neighbouring operations into kernels.

Matrix products, convolutions and attention always stay with PyTorch's libraries.
"""

from __future__ import annotations

from stark_lsp.playbook.catalogue import Catalogue, KernelChoice
from stark_lsp.playbook.fusible import Role
from stark_lsp.playbook.strategies.registry import strategy


@strategy("fuse-all")
def fuse_all(catalogue: Catalogue) -> tuple[KernelChoice, ...]:
    """Every group of operations that is worth a kernel."""
    return catalogue.kernels()


@strategy("fuse-best")
def fuse_best(catalogue: Catalogue) -> tuple[KernelChoice, ...]:
    """Only the group that saves most."""
    return catalogue.kernels()[:1]


@strategy("keep-library")
def keep_library(catalogue: Catalogue) -> tuple[KernelChoice, ...]:
    """Every group of several operations; single ones, such as a lone LayerNorm, stay PyTorch's own kernel."""
    return tuple(choice for choice in catalogue.kernels() if choice.region.kernels_now > 1)


@strategy("fuse-pointwise")
def fuse_pointwise(catalogue: Catalogue) -> tuple[KernelChoice, ...]:
    """Only pointwise operations; reductions stay PyTorch's own kernels."""
    return catalogue.kernels(lambda node: node.role is Role.POINTWISE)
