"""Backward of what torch.compile makes of a module: Inductor's program for it, and where each of its arguments is from.

Nothing is assumed of how torch hands tensors from the one program to the other: they are told by where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..correctness import stepping
from .frames import NotTraceable


class Step:
    """Differentiates what a module gives, as training does: by inputs and by parameters.

    Parameters
    ----------
    named
        Inputs, parameters and buffers, each with its expression in `forward`; inputs record gradients from now on.
    """

    def __init__(self, named: list[tuple[str, torch.Tensor]]) -> None:
        for expression, tensor in named:
            if tensor.is_floating_point() and not expression.startswith("self."):
                tensor.requires_grad_()
        self._leaves = {text: tensor for text, tensor in reversed(named) if tensor.requires_grad}
        self._flows: list[tuple[torch.Tensor, torch.Tensor]] = []

    def both(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call with backward behind it."""
        return lambda *args, **kwargs: self.back(call(*args, **kwargs))

    def back(self, result: Any) -> dict[str, torch.Tensor | None]:
        """Return the gradient of each leaf by its expression."""
        tensors = stepping.in_order(result)
        # A cell returns its state twice; and what it is given it may return.
        given = {id(leaf) for leaf in self._leaves.values()}
        led = list({key(one): one for one in tensors if one.requires_grad and id(one) not in given}.values())
        if not led:
            raise NotTraceable("nothing that it returns leads back to what it is given")
        self._flows = [(tensor, torch.full_like(tensor, 1.0 + place / 8)) for place, tensor in enumerate(led)]
        outputs, flows = zip(*self._flows)
        # In this thread: what Inductor is told holds for one alone, and a GPU's backward has another.
        with torch.autograd.set_multithreading_enabled(False):
            found = torch.autograd.grad(outputs, list(self._leaves.values()), flows, allow_unused=True)
        return dict(zip(self._leaves, found))

    def found(
        self,
        code: str,
        arguments: list[Any],
        results: list[Any],
        outputs: list[Any],
        gradients: dict[str, torch.Tensor | None],
        sizes: Mapping[Any, str],
    ) -> dict[str, Any]:
        """Return what is to be known of the program for backward.

        Parameters
        ----------
        arguments, results
            Of that program, and
        outputs
            of the one for forward.
        gradients
            What `back` returned.
        sizes
            Names of numbers that it may take; of others, which are products of these, it only has to have as many.

        Returns
        -------
        dict
            `code`; `arguments`, each with `out[0]`, which forward's program returned, or `gradient[0]`, what flows into
            that, as its expression; `gradients`, by expressions of leaves the places of theirs in what it returns.
        """
        places = {key(tensor): place for place, tensor in reversed(list(enumerate(outputs))) if is_tensor(tensor)}
        names = {one: f"out[{place}]" for one, place in places.items()}
        for tensor, flow in self._flows:
            if key(tensor) not in places:
                raise NotTraceable("it returns a view of an input, or another tensor that its program does not make")
            names[key(flow)] = f"gradient[{places[key(tensor)]}]"
        for value in filter(is_tensor, arguments):
            if key(value) not in names:  # autograd may have laid it out anew
                names |= {key(value): names[key(flow)] for _, flow in self._flows if _equal(value, flow)}
        made = {key(tensor): place for place, tensor in reversed(list(enumerate(results))) if is_tensor(tensor)}
        asked = {expression: key(tensor) for expression, tensor in gradients.items() if tensor is not None}
        if not all(one in made for one in asked.values()):
            raise NotTraceable("its gradients are not those that its program for backward returns")
        return {
            "code": code,
            "arguments": [
                argument(value, names) if is_tensor(value) or not sizes else {"expression": sizes.get(value, "")}
                for value in arguments
            ],
            "gradients": {expression: made[one] for expression, one in asked.items()},
        }


def key(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return what tells a tensor from others that are there; how far it is to a second of one is nobody's matter."""
    strides = [step for step, size in zip(tensor.stride(), tensor.shape) if size != 1]
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(strides)


def argument(value: Any, names: Mapping[Any, str]) -> dict[str, Any]:
    """Return what is to be known of an argument of a program, whose expression stands in `names` by `key`.

    A number, which is known by itself, has the expression alone.
    """
    if not is_tensor(value):
        if value in names:
            return {"expression": names[value]}
        raise NotTraceable(f"its program takes a {type(value).__name__}")
    if key(value) not in names:
        what = f"a tensor of {str(value.dtype)[6:]} and shape {tuple(value.shape)}"
        raise NotTraceable(f"it reads {what} that is neither an input nor a parameter or buffer")
    return {
        "expression": names[key(value)],
        "shape": list(value.shape),
        "stride": list(value.stride()),
        "dtype": str(value.dtype).removeprefix("torch."),
    }


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same, wherever they lie."""
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor."""
    return isinstance(value, torch.Tensor)
