"""Whether a candidate bears what callers convert a class to: a kernel that reads halves as float32 gives anything."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ..reference import modules
from ..transport import tensorfile
from .backward import LED, Backward, Step, compared, off

if TYPE_CHECKING:
    from ..inputs.cases import Case
    from ..reference.reference import Reference

DTYPE = "bfloat16"
WHERE = f", after .to(torch.{DTYPE})"
CURE = f" Converted by .to(torch.{DTYPE}): leave dtypes that a kernel was not written for to PyTorch, by a condition."
ITSELF = 0.1
"""Relative error of the original's own results up to which they say something."""


def converted(module: Any, arguments: Any, dtype: str) -> dict[str, Any]:
    """Convert a module for good, as a caller's `.to(torch.bfloat16)` does, and call it; returns its result."""
    args, kwargs = modules.map_tensors(arguments, partial(_as, dtype=getattr(torch, dtype)))
    with modules.forward_context(gradients=True):
        return {"output": modules.detached(module.to(getattr(torch, dtype))(*args, **kwargs))}


def prepare(gradients: Backward, reference: Reference, case: Case) -> Step | None:
    """Return the call and what the original gives in it; None where it is not in float32, or bears no other dtype."""
    arguments = reference.arguments(case.inputs_path)
    tensors = [*modules.tensors_of(arguments), *reference.module.parameters(), *reference.module.buffers()]
    floating = {one.dtype for one in tensors if one.dtype.is_floating_point}
    if floating != {torch.float32} or reference.autocast:
        return None
    reference.begin()
    try:
        found = converted(modules.copied(reference.module), arguments, DTYPE)
        expected = compared(tensorfile.capture(found, gradients.device))
    except Exception:  # noqa: BLE001 - the user's class; nothing is asked of candidates then
        return None
    names = [name for name, one in expected.items() if one.any() and name in gradients.expected]
    limits = {name: LED for name in names if off(gradients.expected[name], expected[name]) <= ITSELF}
    return Step({"converted": DTYPE}, expected, limits, WHERE, cure=CURE) if limits else None


def _as(tensor: torch.Tensor, *, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.dtype == torch.float32 else tensor
