"""Which operators a call runs, and how many floating-point operations they take."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class Operators(TorchDispatchMode):
    """Notes operators while it is active.

    `FlopCounterMode` counts the same by module, and imports torch's compiler for it: two seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        """Such as `aten.mm.default`."""
        self.flops = 0
        """Of matrix products, convolutions and attention, by torch's own table."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing compiles under this mode; to tell torch's compiler of it would import it, which takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.names.add(str(func))
        packet = getattr(func, "_overloadpacket", None)
        count = flop_registry.get(packet)
        if count is None and "_scaled_dot_product" in str(packet) and len(args) >= 3:
            self.flops += _attention(*args[:3])  # the CPU's has no formula in torch
        elif count is not None:
            try:
                self.flops += int(count(*args, **(kwargs or {}), out_val=result))
            except (TypeError, ValueError, AssertionError):
                # Torch's own formulas do not know every combination of arguments.
                self.names.add("uncounted")
        return result


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> int:
    """Return the operations of both products of attention, each 2·M·N·K."""
    *batch, rows, depth = query.shape
    return 2 * math.prod(batch) * rows * key.shape[-2] * (depth + value.shape[-1])


def observe(call: Any) -> tuple[Any, Operators]:
    """Run `call` and return its result with what it ran.

    Raises
    ------
    Exception
        Whatever the call raises.
    """
    operators = Operators()
    with operators:
        result = call()
    return result, operators
