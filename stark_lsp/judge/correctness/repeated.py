"""Whether backward may run more than once through one graph, and its gradients be differentiated, as the original's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..reference import modules
from ..transport import tensorfile
from . import state, stepping
from .backward import LED, Backward, Step, compared, off, steady
from .compare import GRADIENT

if TYPE_CHECKING:
    from ..inputs.cases import Case
    from ..reference.reference import Reference

SECOND, THIRD = " by a second backward", " by a third backward"
"""Behind the name of a gradient that another backward through the same graph gave, the third to be differentiated."""
FURTHER = f"{GRADIENT}the gradients with respect to "
"""Before the name of what their own gradient is of."""
ANOTHER = {
    SECOND: "another when backward runs a second time (retain_graph=True)",
    THIRD: "another when it is to be differentiated (create_graph=True)",
    "": "wrong (create_graph=True, as for a gradient penalty)",
}
CURE = (
    " In backward return new tensors, take what was saved from ctx.saved_tensors, and where torch.is_grad_enabled() "
    "is true, differentiate the PyTorch form with create_graph=True."
)
NOT_AT_ALL = 0.75
"""Relative error where few bits decide much: what is not differentiated is off by all."""


@dataclass(frozen=True)
class Again(Step):
    """The step that goes through the graph three times; what raises is left out of it."""

    def problem(self, found: tensorfile.Loaded) -> str:
        """Return what is wrong with a candidate's step, for a person; empty if nothing."""
        given = compared(found)
        for name, limit in self.limits.items():
            first, again, which = name.partition(" by a ")
            one, other = given.get(name), given.get(first) if again else self.expected[name]
            if one is not None and other is not None and not off(other, one) <= limit:
                return f"Its {first} is {ANOTHER[again + which]}."
        return ""

    def raised(self, found: tensorfile.Loaded) -> bool:
        """Whether it raises where the original does not: who asks for that is told."""
        given = " ".join(compared(found))
        return any(kind not in given for kind in (SECOND, THIRD, FURTHER) if kind in " ".join(self.expected))


def backward_again(module: Any, arguments: Any, cotangents: Sequence[torch.Tensor | None]) -> dict[str, torch.Tensor]:
    """Return gradients by name as they are after two more backwards, what these give, and their own gradients.

    Twice as much flows in then, with the other sign, and what that gives is scaled back: what is kept for all calls
    shows. Their own, of a weighted sum of those of inputs, are those of a gradient penalty; of all without such inputs.
    """
    stepping.manual_seed(stepping.DRAWN_SEED)
    for tensor in stepping.differentiable(arguments):
        tensor.requires_grad_()
    args, kwargs = arguments
    leaves = stepping.leaves_of(module, arguments)
    found: dict[str, torch.Tensor] = {}

    def through(starts: Sequence[torch.Tensor], flows: Any, **how: bool) -> list[tuple[str, torch.Tensor | None]]:
        gradients = torch.autograd.grad(starts, [*leaves.values()], flows, allow_unused=True, **how)
        return [*zip(leaves, gradients)]

    with state.kept(module), modules.forward_context(modules.TRAINING):
        outputs = stepping.in_order(module(*args, **kwargs))
        pairs = [(one, flow) for one, flow in zip(outputs, cotangents) if flow is not None and one.requires_grad]
        starts, flows = [one for one, _ in pairs], [-2 * flow.to(one.dtype) for one, flow in pairs]
        try:
            first = through(starts, [flow / -2 for flow in flows], retain_graph=True)
            second = through(starts, flows, retain_graph=True)
            found = {f"{GRADIENT}{name}": stepping.or_zeros(one, leaves[name]) for name, one in first}
            found |= {f"{GRADIENT}{name}{SECOND}": stepping.or_zeros(one, leaves[name]) / -2 for name, one in second}
            third = through(starts, flows, create_graph=True)
            slopes = [(name, stepping.or_zeros(one, leaves[name])) for name, one in third]
            found |= {f"{GRADIENT}{name}{THIRD}": one.detach() / -2 for name, one in slopes}
            asked = [one for name, one in slopes if "input 1" not in leaves or name.startswith("input ")]
            sums = [_weighted(one) for one in asked if one.requires_grad]
            further = through(sums, None) if sums else [(name, None) for name in leaves]
            found |= {f"{FURTHER}{name}": stepping.or_zeros(one, leaves[name]) for name, one in further}
        except Exception:  # noqa: BLE001 - whatever the class raises; what is not there raised
            return found
    return found


def prepare(gradients: Backward, reference: Reference, case: Case) -> Again | None:
    """Return the step and what the original gives in it; None where it says nothing, or the original does not bear it.

    Its gradients of gradients are taken for right where PyTorch alone makes them: a `torch.autograd.Function` of the
    user's may have none, and those of `weight_norm` are not what they should be.
    """

    def step(arguments: Any, flows: Sequence[torch.Tensor | None]) -> dict[str, torch.Tensor]:
        reference.begin()
        found = backward_again(reference.module, arguments, flows)
        return compared(tensorfile.capture(found, gradients.device))

    try:
        expected = step(reference.arguments(case.inputs_path), reference.cotangents(gradients.cotangents_path))
        changes = gradients.changes(reference, case, expected, step)
        own = _of_pytorch_alone(reference, case)
    except Exception:  # noqa: BLE001 - the user's class; nothing is asked of candidates then
        return None
    coarse = LED if gradients.exact else NOT_AT_ALL
    limits: dict[str, float] = {}
    for name, limit in gradients.limits.items():
        limits |= {name + SECOND: limit, name + THIRD: coarse} if name + THIRD in expected else {}
    limits |= dict.fromkeys((name for name in expected if own and name.startswith(FURTHER)), coarse)
    kept = {
        name: limit
        for name, limit in limits.items()
        if expected[name].any() and steady(changes[name]) and _holds(expected, name, limit)
    }
    return Again({"again": True}, expected, kept, cure=CURE) if kept else None


def _holds(expected: dict[str, torch.Tensor], name: str, limit: float) -> bool:
    """Whether the original's own gradient stays when backward runs again."""
    return name.startswith(FURTHER) or off(expected[name.partition(" by a ")[0]], expected[name]) <= limit


def _of_pytorch_alone(reference: Reference, case: Case) -> bool:
    """Whether nothing but PyTorch's own operators, and those that are right, leads back from its results."""
    reference.begin()
    args, kwargs = reference.arguments(case.inputs_path)
    with state.kept(reference.module), modules.forward_context(modules.TRAINING):
        outputs = stepping.in_order(reference.module(*args, **kwargs))
    ahead, seen = [one.grad_fn for one in outputs], set()
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        if isinstance(node, torch.autograd.function.BackwardCFunction) or "WeightNorm" in type(node).__name__:
            return False
        seen.add(node)
        ahead += [one for one, _ in node.next_functions]
    return True


def _weighted(tensor: torch.Tensor) -> torch.Tensor:
    """Return the sum of its elements times what varies from place to place: a norm's gradients sum to zero."""
    parts = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    shares = torch.arange(parts.numel(), device=parts.device).cos().view(parts.shape)
    return (parts * shares).sum()
