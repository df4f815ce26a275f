"""The runner's side of checking: one call of the module, with freed memory poisoned before it.

Everything that is returned is a claim of the runner; outputs go to files that the judge compares.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..reference import modules
from ..transport import tensorfile, values
from ..transport.exchange import Exchange
from . import layout, state

Arguments = Any
"""`(args, kwargs)` of one call."""
POISON = 0xFF
"""A byte that makes NaN of any floating type when repeated."""
POISON_SHARE = 0.25
"""Share of a GPU's free memory that is poisoned at most."""
COTANGENT_SEED = 11
"""Of the random gradients that flow into the outputs in training mode."""
DRAWN_SEED = 13
"""Of what a step draws, as dropout does: each begins with it, so that two draw alike; timed ones have others."""
LATE_LIMIT = 1 << 30
"""Bytes of inputs up to which they can arrive late."""
LATE_CYCLES = 4_000_000
"""Clock cycles of the GPU after which they do: some milliseconds, longer than starting a kernel takes."""
OVERWRITTEN = (
    "Its backward changes the gradient that flows into it, which others may still read, as in x + m(x). Write into a "
    "new tensor."
)
WORDS = 1 << 22
"""Words of eight bytes that are weighed at a time."""
_manual_seed = torch.manual_seed
M_PERTURB = -6
"""Parameter of glibc's mallopt(3): fill memory that is allocated."""


class NoGradient(Exception):
    """Where gradients are compared, an output does not lead back to the inputs and weights, or should not."""


class Forward:
    """Makes checked calls, and keeps the outputs of one while others are made."""

    def __init__(self) -> None:
        self._held: list[torch.Tensor] = []

    def run(
        self,
        module: Any,
        lookup: values.Lookup | None,
        *,
        mode: str,
        device: str,
        inputs: str,
        outputs: str,
        inputs_after: str = "",
        cotangents: str = "",
        poison: list[int] | None = None,
        hold: bool = False,
        keep: bool = False,
        held: str = "",
        margin: bool = False,
        fingerprints: bool = False,
        late: bool = False,
        gradients: bool = False,
        leaves: bool = True,
        between: str = "",
        led: bool = False,
        only: str | None = None,
        toggled: bool = False,
        without: Sequence[str] = (),
        exchange: Exchange | None = None,
    ) -> dict[str, Any]:
        """Call the module once on the inputs of a file.

        Parameters
        ----------
        lookup
            Finds the classes of the module's file (see `values.decode`).
        mode
            A value of `core.Mode`; for training, gradients and buffers are part of the outputs.
        inputs, cotangents
            Tensor files to read: the arguments, and the gradient of each output, for which a whole step is made as in
            training.
        outputs, inputs_after, held
            Tensor files to write, the latter two unless empty: what it returned, the arguments as they are now, and the
            outputs that are held.
        poison
            Sizes in bytes of blocks to fill with NaN and free before the call.
        hold, keep
            Hold the outputs, or go on holding those of an earlier call; without either nothing is held any more.
        margin
            Put NaN before and behind each input.
        fingerprints
            Return a number for each input as it is now, see `fingerprint`; cheaper than `inputs_after`.
        late
            Call it before the inputs are there, as happens whenever the GPU is busy: they arrive on the current
            stream, so that kernels that do not wait for it compute from NaN.
        gradients
            Record gradients; for training they are in any case.
        leaves, between, led, only
            See `training_step` and `step`; `between` is a tensor file.
        toggled
            Make no step, but see `in_other_mode`.
        without
            What the names of those begin with that are not written, of what a step gives.
        exchange
            GPU memory shared with the judge, which tensors travel by.

        Returns
        -------
        dict
            `ranges`, from `layout.report`; `odd`, the types of outputs that are no plain tensors (nothing is
            written then); `fingerprints`; `differentiable`, whether gradients lead back from a result.

        Raises
        ------
        BaseException
            Whatever the module raises.
        NoGradient
            An output should have a gradient and has none.
        """
        loaded = tensorfile.load(inputs, device=device, exchange=exchange)
        arguments = loaded.tree(device, lookup, tensorfile.margin_of(loaded.nbytes) if margin else 0)
        del loaded
        mode = modules.TRAINING if cotangents else mode
        flows = tensorfile.load(cotangents, device=device, exchange=exchange).tree(device) if cotangents else None
        others = tensorfile.load(between, device=device, exchange=exchange).tree(device, lookup) if between else None
        arriving = late and device == "cuda" and modules.nbytes_of(arguments) <= LATE_LIMIT
        with poisoned(device, poison or []):
            if arriving:
                arrive_late(modules.tensors_of(arguments))
            how: dict[str, Any] = {"leaves": leaves, "between": others, "led": led, "only": only}
            if toggled:
                result = in_other_mode(module, arguments)
            else:
                result = step(module, arguments, mode, flows, gradients=gradients, **how)
            modules.synchronize(device)
        if without:
            result = {name: one for name, one in result.items() if not name.startswith(tuple(without))}
        differentiable = any(tensor.requires_grad for tensor in modules.tensors_of(result))
        result = modules.detached(result)
        found: list[torch.Tensor] = []
        skeleton = values.encode(result, found)
        odd = sorted({type(tensor).__name__ for tensor in found if type(tensor) not in values.PLAIN})
        if odd:
            return {"odd": odd, "ranges": None, "fingerprints": [], "differentiable": differentiable}
        ranges = layout.report(found, arguments, module, self._held)
        tensorfile.write(outputs, skeleton, found, exchange)
        if inputs_after:
            tensorfile.save(inputs_after, arguments, exchange)
        if held:
            tensorfile.save(held, self._held, exchange)
        if not keep:
            self._held = found if hold else []
        marks = [fingerprint(tensor) for tensor in modules.tensors_of(arguments)] if fingerprints else []
        return {"odd": [], "ranges": ranges, "fingerprints": marks, "differentiable": differentiable}


def arrive_late(tensors: list[torch.Tensor]) -> None:
    """Fill tensors on a GPU with NaN (integers: -1) until the current stream gets to writing their values.

    Whatever is started on this stream afterwards meets the values, as in any program.
    """
    # By `data`, so that their versions do not tell of it.
    pieces = [tensorfile.bytes_of(tensor.data) for tensor in tensors]
    values_of = [piece.clone() for piece in pieces]
    for piece in pieces:
        piece.fill_(POISON)
    torch.cuda.synchronize()
    torch.cuda._sleep(LATE_CYCLES)
    for piece, value in zip(pieces, values_of):
        piece.copy_(value)
        # Its memory must not be given to another stream before the copy is made.
        value.record_stream(torch.cuda.current_stream())


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
    _manual_seed(DRAWN_SEED)
    flows = cotangents or []
    before = [flow.clone() for flow in flows if flow is not None] if modules.nbytes_of(flows) <= LATE_LIMIT else []
    with state.kept(module), frozen(module, only):
        how: dict[str, Any] = {"leaves": leaves, "between": between, "led": led}
        result = training_step(module, arguments, flows, partly=only is not None, **how)
        found = collected(module, arguments, result)
        if not all(map(torch.equal, before, [flow for flow in flows if flow is not None])):
            raise NoGradient(OVERWRITTEN)
        for name, buffer in module.named_buffers():
            found[f"buffer {name} after the step"] = buffer.detach().clone()
    return found


def in_other_mode(module: Any, arguments: Arguments, draw: int = 0) -> dict[str, Any]:
    """Call the module in `train()` where it is in `eval()`, or the other way; all is put back.

    Returns its result, and the buffers as they are then, by name; other numbers are drawn by `draw`.
    """
    args, kwargs = arguments
    modes = [(part, part.training) for part in module.modules()]
    _manual_seed(DRAWN_SEED + draw)
    with state.kept(module):
        try:
            module.train(not module.training)
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
    _manual_seed(DRAWN_SEED)
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
    for number, tensor in enumerate(differentiable(arguments)):
        found[f"gradient of input {number + 1}"] = _gradient(tensor)
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            found[f"gradient of {name.replace('_orig_mod.', '')}"] = _gradient(parameter)
            parameter.grad = None
    return found


def differentiable(arguments: Arguments) -> list[torch.Tensor]:
    """Return the tensors of the arguments that can have a gradient, each once."""
    found: dict[int, torch.Tensor] = {}
    for tensor in modules.tensors_of(arguments):
        if tensor.is_leaf and (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
            found.setdefault(id(tensor), tensor)
    return list(found.values())


def _gradient(tensor: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a leaf, zeros if nothing flowed into it; always contiguous."""
    if tensor.grad is None:
        return torch.zeros_like(tensor, memory_format=torch.contiguous_format)
    return tensor.grad.contiguous()


def fingerprint(tensor: torch.Tensor) -> int:
    """Return a number that changes when any element does, and hardly ever stays when several do.

    Words of eight bytes are weighed by odd numbers that depend on their place and summed modulo 2**64: each weight is
    invertible, so one changed word always changes the sum.
    """
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    whole = flat.numel() - flat.numel() % 8
    words = flat[:whole].view(torch.int64)
    total = sum(int(byte) << (8 * index) for index, byte in enumerate(flat[whole:].tolist()))
    weights = torch.arange(min(WORDS, words.numel()), device=tensor.device) * -7046029254386353131 * 2 + 1
    for begin in range(0, words.numel(), WORDS):
        part = words[begin : begin + WORDS]
        total = (total * 6364136223846793005 + int((part * weights[: part.numel()]).sum())) % (1 << 64)
    return total


@contextlib.contextmanager
def poisoned(device: str, sizes: list[int]) -> Iterator[None]:
    """Fill memory that the call will be given with NaN, so that reading before writing shows in its result.

    On a CPU, glibc fills all memory it hands out meanwhile. On a GPU, torch's cache of freed blocks (where results of
    earlier calls lie) is filled, and blocks of the sizes given.
    """
    if device != "cpu":
        _poison_cuda(sizes)
        yield
        return
    # Small blocks come from lists that mallopt does not reach.
    blocks = [torch.full((size,), POISON, dtype=torch.uint8) for size in sizes if size <= 1 << 16 for _ in range(8)]
    del blocks
    mallopt = _mallopt()
    if mallopt is not None:
        # The low byte of the value is inverted for what is allocated; 0 as a whole would switch it off.
        mallopt(M_PERTURB, 0x100 | (POISON ^ 0xFF))
    try:
        yield
    finally:
        if mallopt is not None:
            mallopt(M_PERTURB, 0)


def _mallopt() -> Callable[[int, int], int] | None:
    """Return glibc's mallopt, None where the C library has none that does this."""
    if not sys.platform.startswith("linux") or not hasattr(os, "confstr"):
        return None
    with contextlib.suppress(ValueError, OSError, AttributeError):
        if (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
            function = ctypes.CDLL(None).mallopt
            function.argtypes, function.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
            return function
    return None


def _poison_cuda(sizes: list[int]) -> None:
    """Fill free blocks of torch's cache, then blocks of the given sizes; all are free again afterwards."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    left = int(free * POISON_SHARE)
    inactive = [
        int(block["size"])
        for segment in torch.cuda.memory_snapshot()
        for block in segment["blocks"]
        if block["state"] == "inactive"
    ]
    blocks = []
    # Each inactive block is the best fit for its own size, so that all of them are taken. Twice the sizes of the
    # outputs: one for the output, one for what is computed on the way.
    for size in inactive + [size for size in sizes for _ in range(2)]:
        if 0 < size <= left:
            with contextlib.suppress(torch.cuda.OutOfMemoryError):
                blocks.append(torch.full((size,), POISON, dtype=torch.uint8, device="cuda"))
                left -= size
    torch.cuda.synchronize()
    blocks.clear()
