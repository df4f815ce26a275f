"""The meaning of a KernelSpec, in plain torch: what generated kernels are compared with."""

from __future__ import annotations

import types
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from stark_lsp.playbook.kernels import Variant, render
from stark_lsp.playbook.spec import COUNT, REDUCTIONS, KernelSpec

_RENAMED = {
    "floor_div": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "pow": torch.pow,
    "neg": lambda a: -a,
    "fma": lambda a, b, c: a * b + c,
    "log_sigmoid": F.logsigmoid,
    "softplus": lambda a: torch.logaddexp(a, torch.zeros_like(a)),
    "identity": lambda a: a,
}


def dtype_of(name: str) -> torch.dtype:
    return getattr(torch, name)


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def run(spec: KernelSpec, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Outputs of a spec with every floating-point step computed in float64."""
    device = inputs[0].device
    values: dict[str, torch.Tensor] = {o.name: _exact(t) for o, t in zip(spec.operands, inputs, strict=True)}
    space = torch.broadcast_shapes(*(t.shape for t in inputs))
    count = 1
    for dim in spec.reduce_dims:
        count *= space[dim]
    for step in spec.steps:
        want = dtype_of(step.dtype)
        exact = torch.float64 if want.is_floating_point else want
        args = [values[a] if isinstance(a, str) and a != COUNT else count if a == COUNT else a for a in step.args]
        args = [a if isinstance(a, torch.Tensor) else torch.tensor(a, device=device) for a in args]
        if step.op in REDUCTIONS:
            values[step.name] = _reduce(step.op, args[0].expand(space), spec.reduce_dims, exact)
            continue
        if step.op == "cast":
            result = args[0].to(want)
        elif step.op == "where":
            result = torch.where(args[0].bool(), args[1], args[2])
        else:
            if want is not torch.bool:
                args = [a.to(exact) for a in args]
            function = _RENAMED.get(step.op) or getattr(torch, step.op)
            result = function(*args)
        values[step.name] = result.to(exact)
    found = []
    for output in spec.outputs:
        value = values[output.step]
        shape = [1 if output.reduced and d in spec.reduce_dims else n for d, n in enumerate(space)]
        value = value.expand(shape) if value.dim() <= len(shape) else value
        if output.reduced and not output.keepdim:
            value = value.reshape([n for d, n in enumerate(space) if d not in spec.reduce_dims])
        found.append(value)
    return tuple(found)


def _reduce(op: str, value: torch.Tensor, dims: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if op == "sum":
        return value.sum(dims, keepdim=True, dtype=dtype)
    if op in ("amax", "amin"):
        return getattr(torch, op)(value, dims, keepdim=True)
    for dim in dims:
        value = value.prod(dim, keepdim=True, dtype=dtype)
    return value


class Called(Exception):
    """A launcher went to its fallback."""


def build(kernels: Sequence[tuple[KernelSpec, Variant]], device_type: str = "cpu") -> types.ModuleType:
    """A module with the launchers of some kernels, whose fallbacks raise `Called`."""
    text = render([(spec, variant, "_fallback") for spec, variant in kernels], device_type)
    module = types.ModuleType("generated")

    def fallback(*_: object) -> None:
        raise Called

    module.__dict__["_fallback"] = fallback
    exec(compile(text, "generated.py", "exec"), module.__dict__)
    return module


def check(spec: KernelSpec, result: object, inputs: Sequence[torch.Tensor], tolerance: float | None = None) -> None:
    """Compare a launcher's result with the reference, NaN and infinities included."""
    outputs = result if isinstance(result, tuple) else (result,)
    for output, got, want in zip(spec.outputs, outputs, run(spec, inputs), strict=True):
        dtype = dtype_of(output.dtype)
        assert got.dtype is dtype, (spec.name, got.dtype)
        assert got.shape == want.shape, (spec.name, got.shape, want.shape)
        if not dtype.is_floating_point:
            assert torch.equal(got, want.to(dtype)), spec.name
            continue
        limits = {torch.float32: 2e-5, torch.float64: 1e-10, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
        allowed = tolerance or limits[dtype]
        torch.testing.assert_close(
            got.double(),
            want.to(dtype).double(),
            rtol=allowed,
            atol=allowed,
            equal_nan=True,
            msg=lambda m: f"{spec.name}: {m}",
        )
