"""What rounding on the way does to a result: each operator's is moved by one rounding (D. S. Parker, Monte Carlo
Arithmetic, 1997).

A result that this decides, such as that of constants less their mean over their deviation, is another one in each order
of summation, and no evidence against anybody.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

_DRAWN = 65_537
"""Numbers that are drawn; larger results have them again and again. Drawing one for each took most of the time in
which a reference was prepared (37 of 52 s for attention over a graph of 1,536 nodes)."""


class Rounded(TorchDispatchMode):
    """Moves what operators give in the block, the same way each time.

    Parameters
    ----------
    step
        Of one rounding, as a share.
    device
        Where they run.
    """

    def __init__(self, step: float, device: str) -> None:
        super().__init__()
        generator = torch.Generator(device).manual_seed(0)
        noise = torch.randn(2 * _DRAWN, generator=generator, dtype=torch.float64, device=device)
        self._factors = 1.0 + step * noise
        self._count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        # Views and what is written in place are no new results.
        fresh = all(one.alias_info is None for one in func._schema.returns)
        return tree_map(self._moved, out) if fresh else out

    def _moved(self, x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or not x.dtype.is_floating_point:
            return x
        if x.device.type != self._factors.device.type or not x.numel():
            return x
        # Each result begins elsewhere, so that no two are moved alike.
        self._count += 7919
        begin = self._count % _DRAWN
        factors = self._factors[begin : begin + min(x.numel(), _DRAWN)].to(x.dtype)
        times = -(-x.numel() // len(factors))
        return x * factors.repeat(times)[: x.numel()].view(x.shape)
