"""Analysis: what one call of a module computes, on which lines, and what it costs.

1. `tracing.py` calls the module once on its real inputs. Every operation is seen through a
   `TorchFunctionMode`; modules of `torch.nn` count as one operation each.
2. `values.py`: sizes and numbers of the module are handed out as tracked numbers, so that the record
   stays symbolic in them, and facts the code relied on are noted as assumptions.
3. `recorder.py` turns each operation into a node: its name, arguments, results, lines, measured time
   (`cost.py`) and the names the user gave to the results.

Control flow on tensor data cannot be recorded honestly: `NotTraceable` says where it is.
"""

from __future__ import annotations

from .frames import NotTraceable
from .tracing import analyze

__all__ = ["NotTraceable", "analyze"]
