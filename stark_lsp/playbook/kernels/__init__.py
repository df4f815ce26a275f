"""From a kernel spec and a variant to kernel source and the Python that launches it."""

from stark_lsp.playbook.kernels.library import render
from stark_lsp.playbook.kernels.support import supports
from stark_lsp.playbook.kernels.variant import Variant
from stark_lsp.playbook.kernels.variants import plain, variants

__all__ = ["Variant", "plain", "render", "supports", "variants"]
