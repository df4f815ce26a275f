"""The reference in float64: what its results would be without rounding."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from ..correctness import compare, stepping
from ..correctness.difference import difference, relative_errors
from ..correctness.state import State
from . import modules
from .operators import Operators, observe

if TYPE_CHECKING:
    from ..inputs.cases import Case
    from .reference import Reference

SAME_FUNCTION = 0.5
"""A module whose float64 results differ by more than this share is another function there, for instance because it
branches on the dtype."""
_SMALLER = (torch.float32, torch.float16, torch.bfloat16)
_CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)


@contextlib.contextmanager
def widened() -> Iterator[None]:
    """Have code get float64 where it names a smaller type, as `x.float()`, or none, as `torch.zeros(8)`."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Wide():
            yield
    finally:
        torch.set_default_dtype(usual)


class _Wide(TorchFunctionMode):
    """Puts float64 in the place of smaller types that are named."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        func = torch.Tensor.double if func in _CASTS else func
        named = {name: _wide(one) for name, one in (kwargs or {}).items()}
        if func is torch.Tensor.view and any(isinstance(one, torch.dtype) for one in (*args, *named.values())):
            raise TypeError("it reads the bits of a number, which has others in float64")
        return func(*map(_wide, args), **named)


def _wide(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _SMALLER else value


@dataclass(eq=False)
class Exact:
    """A copy of a module in float64."""

    module: Any
    """The reference, with the weights it is to be run with."""
    device: str
    mode: str
    """Where and how it runs."""
    note: Callable[[str], None]
    """Told in words why there are no float64 results, if there are none."""
    state: State | None = None
    """The module's buffers that each call begins with."""

    def __post_init__(self) -> None:
        self._ran = False
        self._by_name = False
        """Whether types that its code names are others too, since it does not run otherwise."""
        self.operators: Operators | None = None
        """What the first call ran; None if it could not be observed."""
        try:
            # The original never leaves its device.
            if self.state is not None:
                self.state.put_back()
            self._wide: Any = modules.copied(self.module).to(self.device)._apply(widen)
            self.state = State(self._wide, dict.fromkeys(self.state.values)) if self.state is not None else None
        except Exception as error:  # noqa: BLE001 - a class need not bear it; said in the notes
            self._wide = None
            self._refuse(error)

    def run(self, arguments: Any, cotangents: list[torch.Tensor | None] | None = None) -> list[torch.Tensor] | None:
        """Return the output tensors (in training mode with gradients and buffers), None where it raises."""
        if self._wide is None:
            return None
        wide = modules.map_tensors(arguments, lambda tensor: widen(tensor.detach().to(self.device)))
        flows = None if cotangents is None else [None if flow is None else widen(flow) for flow in cotangents]

        def call() -> Any:
            if self.state is not None:
                self.state.put_back()
            with widened() if self._by_name else contextlib.nullcontext():
                return stepping.step(self._wide, wide, self.mode, flows)

        try:
            result = self._observed(call) if self.operators is None else call()
            modules.synchronize(self.device)
            self._ran = True
            return [tensor.detach() for tensor in modules.tensors_of(result)]
        except Exception as error:  # noqa: BLE001 - as above
            if not (self._ran or self._by_name):
                self._by_name = True
                return self.run(arguments, cotangents)
            self._refuse(error)
            return None

    def _observed(self, call: Callable[[], Any]) -> Any:
        """Make a call and note what it ran, unless the module does not bear being watched."""
        try:
            result, self.operators = observe(call)
            return result
        except Exception:
            if self.mode == modules.TRAINING:
                raise
        return call()

    def give_up(self) -> None:
        """Stop using it: its results are those of another function."""
        self._wide = None

    @property
    def usable(self) -> bool:
        """Whether there may be results."""
        return self._wide is not None

    def _refuse(self, error: Exception) -> None:
        if self._ran:
            # It does run; these inputs are out of its range.
            return
        self.note(f"No float64 comparison: the class does not run in float64 ({type(error).__name__}).")


def measure(reference: Reference, exact: Exact, case: Case) -> tuple[list[torch.Tensor] | None, list[float] | None]:
    """Return the float64 outputs of a case and the reference's own errors; None, None where there are none."""
    flows = reference.cotangents(case.cotangents_path) if case.cotangents_path else None
    results = exact.run(reference.arguments(case.inputs_path), flows)
    errors = None if results is None else relative_errors(case.outputs.tensors, results)
    names = reference.output_names(case.outputs)
    if errors is None or any(
        error > SAME_FUNCTION
        for error, name in zip(errors, names)
        # Gradients can be zero but for rounding, and are then nothing but error.
        if not name.startswith(compare.GRADIENT) or not math.isfinite(error)
    ):
        exact.give_up()
        return None, None
    for place, (name, found, wide) in enumerate(zip(names, case.outputs.tensors, results or [])):
        if name.startswith(compare.GRADIENT) and errors[place] > compare.NOISE:
            gap = difference(wide, found)
            if gap.norm() <= SAME_FUNCTION * gap.size():
                errors[place] = compare.NOISE  # some elements jump, most do not
    return [tensor.to(case.outputs.tensors[0].device) for tensor in results or []], errors


def widen(tensor: torch.Tensor) -> torch.Tensor:
    """Return a floating or complex tensor in its widest type; others as they are."""
    if tensor.dtype.is_complex:
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.dtype.is_floating_point else tensor
