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
from ..timing import kept
from ..transport import tensorfile, values
from ..transport.exchange import Exchange
from . import layout
from .converted import converted as call_converted
from .repeated import backward_again
from .stepping import in_other_mode, step

POISON = 0xFF
"""A byte that makes NaN of any floating type when repeated."""
POISON_SHARE = 0.25
"""Share of a GPU's free memory that is poisoned at most."""
LATE_LIMIT = 1 << 30
"""Bytes of inputs up to which they can arrive late."""
LATE_CYCLES = 4_000_000
"""Clock cycles of the GPU after which they do: some milliseconds, longer than starting a kernel takes."""
M_PERTURB = -6
"""Parameter of glibc's mallopt(3): fill memory that is allocated."""


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
        margin: bool = False,
        marks: Sequence[str] = (),
        late: bool = False,
        gradients: bool = False,
        leaves: bool = True,
        between: str = "",
        led: bool = False,
        only: str | None = None,
        again: bool = False,
        converted: str = "",
        toggled: Sequence[str] | None = None,
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
        outputs, inputs_after
            Tensor files to write, the latter unless empty: what it returned, and the arguments as they are now.
        poison
            Sizes in bytes of blocks to fill with NaN and free before the call.
        hold, keep
            Hold the outputs, or go on holding those of an earlier call; without either nothing is held any more.
        margin
            Put NaN before and behind each input.
        marks
            Which marks to return, see `kept.marks`: of the `inputs` as they are now, of the outputs that are `held`.
        late
            Call it before the inputs are there, as happens whenever the GPU is busy: they arrive on the current
            stream, so that kernels that do not wait for it compute from NaN.
        gradients
            Record gradients; for training they are in any case.
        leaves, between, led, only
            See `training_step` and `step`; `between` is a tensor file.
        again
            Make another step, see `backward_again`.
        converted
            Make no step, but convert the module to this dtype, see `converted.converted`.
        toggled
            Make no step, but see `in_other_mode`: which parts stay in `eval()` there.
        without
            What the names of those begin with that are not written, of what a step gives.
        exchange
            GPU memory shared with the judge, which tensors travel by.

        Returns
        -------
        dict
            `ranges`, from `layout.report`; `odd`, the types of outputs that are no plain tensors (nothing is
            written then); `marks`, by name; `differentiable`, whether gradients lead back from a result.

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
            if toggled is not None:
                result = in_other_mode(module, arguments, toggled)
            elif converted:
                result = call_converted(module, arguments, converted)
            elif again:
                result = backward_again(module, arguments, flows or [])
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
            return {"odd": odd}
        ranges = layout.report(found, arguments, module, self._held)
        tensorfile.write(outputs, skeleton, found, exchange)
        if inputs_after:
            tensorfile.save(inputs_after, arguments, exchange)
        marked = {name: kept.marks({"inputs": arguments, "held": self._held}[name], device) for name in marks}
        if not keep:
            self._held = found if hold else []
        return {"odd": [], "ranges": ranges, "marks": marked, "differentiable": differentiable}


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
