"""One step as in training, forward and backward, or one call in the other mode: by the original and by candidates."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..reference import modules
from ..transport import values
from . import state
from .compare import GRADIENT

Arguments = Any
"""`(args, kwargs)` of one call."""
COTANGENT_SEED = 11
"""Of the random gradients that flow into the outputs in training mode."""
DRAWN_SEED = 13
"""Of what a step draws, as dropout does: each begins with it, so that two draw alike; timed ones have others."""
KEPT_LIMIT = 1 << 30
"""Bytes of what flows into outputs up to which it is seen that backward leaves it as it was."""
OVERWRITTEN = (
    "Its backward changes the gradient that flows into it, which others may still read, as in x + m(x). Write into a "
    "new tensor."
)
manual_seed = torch.manual_seed


class NoGradient(Exception):
    """Where gradients are compared, an output does not lead back to the inputs and weights, or should not."""


def step(
    module: Any,
    arguments: Arguments,
    mode: str,
    cotangents: list[torch.Tensor | None] | None = None,
    *,
    gradients: bool = False,
    leaves: bool = True,
    between: Arguments | None = None,
    led: bool = False,
    only: str | None = None,
) -> Any:
    """Call the module, with `gradients` where they are recorded; returns what is compared.

    That is its result; for training a dict of the result, the gradients of floating inputs and of parameters, and the
    buffers as they are after the step (running statistics). Gradients that are None count as zeros. Buffers and
    gradients are put back, and the global generators begin anew, so that each step starts alike.

    Parameters
    ----------
    only
        The one weight that requires gradients, as where others are frozen; empty for none, None for all that do.
    leaves, between, led
        See `training_step`.

    Raises
    ------
    NoGradient
        See `training_step`; or backward changed what flowed into it.
    """
    args, kwargs = arguments
    if mode != modules.TRAINING:
        with modules.forward_context(mode, gradients=gradients):
            return module(*args, **kwargs)
    manual_seed(DRAWN_SEED)
    flows = cotangents or []
    before = [flow.clone() for flow in flows if flow is not None] if modules.nbytes_of(flows) <= KEPT_LIMIT else []
    with state.kept(module), frozen(module, only):
        how: dict[str, Any] = {"leaves": leaves, "between": between, "led": led}
        result = training_step(module, arguments, flows, partly=only is not None, **how)
        found = collected(module, arguments, result)
        if not all(map(torch.equal, before, [flow for flow in flows if flow is not None])):
            raise NoGradient(OVERWRITTEN)
        for name, buffer in module.named_buffers():
            found[f"buffer {name} after the step"] = buffer.detach().clone()
    return found


def in_other_mode(module: Any, arguments: Arguments, kept: Sequence[str] = (), draw: int = 0) -> dict[str, Any]:
    """Call the module in `train()` where it is in `eval()`, or the other way; all is put back.

    With parts that are `kept` in `eval()`, as who fine-tunes keeps norms, it is in `train()`. Returns its result, and
    the buffers as they are then, by name; nothing if it has no such parts. Other numbers are drawn by `draw`.
    """
    args, kwargs = arguments
    modes = [(part, part.training) for part in module.modules()]
    parts = dict(module.named_modules())
    if not parts.keys() >= set(kept):
        return {}
    manual_seed(DRAWN_SEED + draw)
    with state.kept(module):
        try:
            module.train(bool(kept) or not module.training)
            for name in kept:
                parts[name].eval()
            with modules.forward_context(gradients=True):
                found = {"output": modules.detached(module(*args, **kwargs))}
        finally:
            for part, training in modes:
                part.training = training
        return found | {f"buffer {name}": buffer.detach().clone() for name, buffer in module.named_buffers()}


@contextlib.contextmanager
def frozen(module: Any, only: str | None) -> Iterator[None]:
    """Have no weight but one require gradients in the block; see `only` of `step`."""
    weights = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    # What calls it otherwise is left as it is.
    others = (
        [] if only is None or (only and only not in weights) else [weights[name] for name in weights if name != only]
    )
    try:
        for weight in others:
            weight.requires_grad_(False)
        yield
    finally:
        for weight in others:
            weight.requires_grad_(True)


def random_states() -> list[torch.Tensor]:
    """Return the states of the generators that a call may use."""
    on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if on_gpu else [])]


def drew() -> bool:
    """Whether the training step that was made last drew from the global generators."""
    after = random_states()
    manual_seed(DRAWN_SEED)
    return not all(map(torch.equal, after, random_states()))


def buffers_after(module: Any, arguments: Arguments, mode: str, *, gradients: bool = False) -> dict[str, torch.Tensor]:
    """Return the module's buffers by name as a call leaves them, and put them back to what they were."""
    args, kwargs = arguments
    with state.kept(module):
        with modules.forward_context(mode, gradients=gradients):
            module(*args, **kwargs)
        return state.held_by(module)


def training_step(
    module: Any,
    arguments: Arguments,
    cotangents: list[torch.Tensor | None],
    *,
    leaves: bool = True,
    between: Arguments | None = None,
    led: bool = False,
    partly: bool = False,
) -> Any:
    """Run forward and backward once; gradients are left in `.grad` of floating inputs and of parameters.

    Parameters
    ----------
    cotangents
        For each output tensor, as `in_order` has them, the gradient that flows into it; None for one that has none,
        such as indices.
    leaves
        Whether inputs require gradients; those of a first layer do not, and outputs that lead back to nothing else then
        have none.
    between
        What the module is called with between forward and backward, as where two towers share it.
    led
        Whether inputs lead back to the weights, see `_led_back`.
    partly
        Whether outputs may lead back to nothing that requires gradients.

    Returns
    -------
    Any
        What `forward` returned.

    Raises
    ------
    NoGradient
        An output with a cotangent does not require gradients, or one without does.
    """
    for tensor in differentiable(arguments):
        tensor.requires_grad_(leaves)
        tensor.grad = None
    for parameter in module.parameters():
        parameter.grad = None
    args, kwargs = _led_back(module, arguments) if led else arguments
    with modules.forward_context(modules.TRAINING):
        result = module(*args, **kwargs)
        if between is not None:
            module(*between[0], **between[1])
        found = in_order(result)
        for number, (tensor, flow) in enumerate(zip(found, cotangents)):
            if flow is None and tensor.requires_grad:
                raise NoGradient(
                    f"Output number {number + 1} requires gradients, and the original's does not: who trains through "
                    "it would learn something else, and .numpy() raises. Detach it."
                )
        pairs = [(tensor, flow) for tensor, flow in zip(found, cotangents) if flow is not None]
        pairs = pairs if leaves and not partly else [pair for pair in pairs if pair[0].requires_grad]
        for number, (tensor, flow) in enumerate(pairs):
            if not tensor.requires_grad:
                raise NoGradient(
                    f"Output number {number + 1} does not lead back to the inputs and weights, so nothing could be "
                    "trained through it. Put the kernel into a torch.autograd.Function; its backward may compute the "
                    "PyTorch form anew and differentiate that."
                )
            if tensor.shape != flow.shape:
                raise NoGradient(
                    f"Output number {number + 1} has shape {tuple(tensor.shape)}, not {tuple(flow.shape)} as the "
                    "reference's, so there is no gradient for it."
                )
        if pairs:
            torch.autograd.backward([tensor for tensor, _ in pairs], [flow.to(tensor.dtype) for tensor, flow in pairs])
    return result


def _led_back(module: Any, arguments: Arguments) -> Arguments:
    """Return arguments of the same values whose gradients flow on into every weight, as where it is applied twice.

    Each leaf has nothing added to it, which was computed from the weights.
    """
    total = sum(weight.double().sum() for weight in module.parameters() if weight.requires_grad)
    nothing = total - total.detach()  # type: ignore[attr-defined]
    leaves = {id(tensor) for tensor in differentiable(arguments)}
    made: dict[int, torch.Tensor] = {}

    def led(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in leaves and id(tensor) not in made:
            # What varies from place to place: a norm's gradients sum to zero.
            shares = torch.arange(tensor.numel(), device=tensor.device).cos().view(tensor.shape)
            made[id(tensor)] = tensor + (nothing * shares).to(tensor.dtype)
        return made.get(id(tensor), tensor)

    return modules.map_tensors(arguments, led)


class TimedStep:
    """Forward and backward as they are timed, with the same random cotangents for each module of a problem."""

    def __init__(self) -> None:
        self._flows: list[torch.Tensor | None] | None = None

    def __call__(self, module: Any, arguments: Arguments) -> dict[str, Any]:
        """Run one step; returns its result and gradients, so that a step that was left out shows."""
        # New leaves: what times calls may write to its own tensors again, which leaves with gradients do not bear.
        arguments = modules.map_tensors(arguments, lambda tensor: tensor.detach())
        if self._flows is None:
            self._flows = random_cotangents(training_step(module, arguments, []))
        return collected(module, arguments, training_step(module, arguments, self._flows))


def random_cotangents(result: Any, number: int = 0) -> list[torch.Tensor | None]:
    """Return random gradients for the outputs that lead back to something, None for others; `number` says which."""
    # One for each device: where they are needed, gigabytes take milliseconds.
    generators: dict[torch.device, torch.Generator] = {}

    def random(tensor: torch.Tensor) -> torch.Tensor:
        device = tensor.device
        if device not in generators:
            generators[device] = torch.Generator(device).manual_seed(COTANGENT_SEED + number)
        kind = torch.complex64 if tensor.is_complex() else torch.float32
        return torch.randn(tensor.shape, generator=generators[device], device=device, dtype=kind).to(tensor.dtype)

    return [random(tensor) if tensor.requires_grad else None for tensor in in_order(result)]


def in_order(result: Any) -> list[torch.Tensor]:
    """Return the tensors of a result in the order of their paths."""
    tensors: list[torch.Tensor] = []
    return [tensors[number] for number in values.places(values.encode(result, tensors)).values()]


def collected(module: Any, arguments: Arguments, result: Any) -> dict[str, Any]:
    """Return result and gradients of a step by name; gradients of parameters are taken away from them."""
    found: dict[str, Any] = {"output": modules.map_tensors(result, lambda tensor: tensor.detach())}
    found |= {GRADIENT + name: or_zeros(leaf.grad, leaf) for name, leaf in leaves_of(module, arguments).items()}
    for parameter in module.parameters():
        parameter.grad = None
    return found


def leaves_of(module: Any, arguments: Arguments) -> dict[str, torch.Tensor]:
    """Return what may have a gradient by name."""
    found = {f"input {at + 1}": one for at, one in enumerate(differentiable(arguments))}
    weights = [(name, one) for name, one in module.named_parameters() if one.requires_grad]
    return found | {name.replace("_orig_mod.", ""): one for name, one in weights}


def differentiable(arguments: Arguments) -> list[torch.Tensor]:
    """Return the tensors of the arguments that can have a gradient, each once."""
    found: dict[int, torch.Tensor] = {}
    for tensor in modules.tensors_of(arguments):
        if tensor.is_leaf and (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
            found.setdefault(id(tensor), tensor)
    return list(found.values())


def or_zeros(gradient: torch.Tensor | None, leaf: torch.Tensor) -> torch.Tensor:
    """Return a gradient, zeros if nothing flowed into the leaf; always dense and contiguous."""
    if gradient is not None and gradient.layout is not torch.strided:
        gradient = gradient.to_dense()  # of an embedding that is `sparse`
    if gradient is None or gradient._is_zerotensor():  # which has no memory, as the second derivative of abs
        return torch.zeros_like(leaf, memory_format=torch.contiguous_format)
    return gradient.contiguous()
