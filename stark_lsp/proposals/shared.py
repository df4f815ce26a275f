"""What all kernels of a file share: the code that builds and loads them, once a file.

Names that begin with `_stark_` (classes: `_Stark`) are for that; what stands under them is the same for all kernels, or
has names of its own for each (`_stark_library_a5f06a`). So even state under such a name may serve the kernels of
several classes.
"""

from __future__ import annotations

import ast

from stark_lsp.discovery.slicing import Definition

PREFIXES = ("_stark_", "_Stark")


def is_shared(statement: ast.stmt) -> bool:
    """Whether all names that a statement binds are for what kernels share."""
    names = Definition(statement).binds
    return bool(names) and all(name.startswith(PREFIXES) for name in names)
