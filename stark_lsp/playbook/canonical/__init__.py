"""What each PyTorch operation is, in the primitives of `spec.py`.

One registry from the names an operation may be called by to one definition: its parameters, over what it reduces,
and how it is written out. `registry.py` has the registry, `builder.py` what definitions are written with; the other
files fill it:

- `arithmetic.py`: arithmetic, comparisons, selection, conversion
- `activations.py`: activation functions
- `reductions.py`: sums, means, extrema, variances, norms
- `rows.py`: softmax and the normalizations
- `losses.py`: losses
- `modules.py`: modules of `torch.nn` as calls of the functions above

An operation that is not here stays a PyTorch operation.
"""

from __future__ import annotations

from stark_lsp.playbook.canonical import activations, arithmetic, losses, reductions, rows
from stark_lsp.playbook.canonical.registry import REGISTRY, Bound, Operation, bind

__all__ = ["REGISTRY", "Bound", "Operation", "activations", "arithmetic", "bind", "losses", "reductions", "rows"]
