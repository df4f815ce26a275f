"""Which operators a call runs, and how many floating-point operations they take."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_flop_count


class Operators(TorchDispatchMode):
    """Notes operators while it is active.

    `FlopCounterMode` counts the same by module, and imports torch's compiler for it: two seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        """Such as `aten.mm.default`."""
        self.dtypes: set[torch.dtype] = set()
        """Of all tensors that they give."""
        self.flops = 0
        """Of matrix products, convolutions and attention, by torch's own table."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing compiles under this mode; to tell torch's compiler of it would import it, which takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.names.add(str(func))
        given = result if isinstance(result, (tuple, list)) else (result,)
        self.dtypes.update(one.dtype for one in given if isinstance(one, torch.Tensor))
        packet = getattr(func, "_overloadpacket", None)
        count = flop_registry.get(packet)
        try:
            if count is not None:
                self.flops += int(count(*args, **(kwargs or {}), out_val=result))
            elif "_scaled_dot_product" in str(packet):
                # The CPU's has no formula of its own there.
                self.flops += int(sdpa_flop_count(*(tensor.shape for tensor in args[:3])))
        except (TypeError, ValueError, AssertionError):
            # Torch's own formulas do not know every combination of arguments.
            self.names.add("uncounted")
        return result


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
