"""Whether a candidate that is called in mode eval leaves buffers as the original does, where that changes some.

Such are caches of keys and values, observers of ranges, counters. Each call, of the original and of a candidate,
checked or timed, begins with what they were at first, so that its result depends on its inputs alone. In training they
are part of what a step gives.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..reference import modules
from ..transport import tensorfile, values
from . import compare, forward
from .forward import Arguments

if TYPE_CHECKING:
    from ..inputs.cases import Case
    from ..reference.reference import Reference

LIMIT = 1 << 30
"""Bytes of a module's buffers up to which they are compared."""


@dataclass(frozen=True)
class Buffers:
    """What a call of the original leaves."""

    state: dict[str, torch.Tensor]
    """Those that it changes, by name, as they are before it,"""
    before: str
    """a file of them,"""
    expected: tensorfile.Loaded
    """and as they are after it."""


def held(reference: Reference) -> dict[str, torch.Tensor]:
    """Return copies of the module's buffers by name; none where they are too large, or are compared anyway."""
    found = dict(reference.module.named_buffers()) if reference.mode != modules.TRAINING else {}
    fits = sum(one.nbytes for one in found.values()) <= LIMIT
    return {name: one.detach().clone() for name, one in found.items()} if fits else {}


def changed(
    reference: Reference, first: Case, other: Callable[[], Arguments], before: dict[str, torch.Tensor]
) -> Buffers | None:
    """Return what a call changes each time, or otherwise for other inputs; None where that is nothing.

    What is made once and for all, as a table of positions, is a candidate's own affair.

    Parameters
    ----------
    other
        Makes other inputs.
    before
        What `held` gave before the first call.
    """
    try:
        # What was made once stays made, here too.
        with forward.kept_buffers(reference.module):
            return _changed(reference, first, other, before) if before else None
    except Exception as error:  # noqa: BLE001 - not each kind of tensor can be compared; said in the notes
        reference.notes.append(f"Buffers are not compared: {type(error).__name__}.")
        return None


def _changed(
    reference: Reference, first: Case, other: Callable[[], Arguments], before: dict[str, torch.Tensor]
) -> Buffers | None:
    def after(arguments: Arguments | None, before: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        forward.put_back(reference.module, before)
        arguments = arguments or reference.arguments(first.inputs_path)
        return forward.buffers_after(reference.module, arguments, reference.mode)

    found = {name: one for name, one in after(None, before).items() if name in before and not _equal(one, before[name])}
    if not found:
        return None
    again, next_one = after(None, before), after(None, found)
    elsewhere = after(modules.to_device(other(), reference.device), before)
    kept = {
        name: one
        for name, one in found.items()
        # What differs from call to call could not be told from a mistake.
        if one.shape == again[name].shape
        and torch.allclose(one, again[name], equal_nan=True)
        and not (_equal(one, next_one[name]) and _equal(one, elsewhere[name]))
    }
    if not kept:
        return None
    state = {name: before[name] for name in kept}
    path = os.path.splitext(first.inputs_path)[0] + "-buffers.raw"
    reference.save(path, state, "A buffer cannot be handed to a candidate")
    return Buffers(state, path, tensorfile.capture(kept, "cpu"))


def problem(expected: tensorfile.Loaded, found: tensorfile.Loaded, tolerance: compare.Tolerance) -> str:
    """Return what is wrong with the buffers that a candidate leaves, for a person; empty if nothing."""
    given = {path: found.tensors[number] for path, number in values.places(found.skeleton).items()}
    names = values.places(expected.skeleton)
    for path, number in names.items():
        name = path.strip("[']")
        if path not in given:
            # What loads the original's weights may call them otherwise.
            others = [
                one for other, one in given.items() if other not in names and _equal(one, expected.tensors[number])
            ]
            if others:
                continue
            return f"It has no buffer {name}, which a call of the original changes."
        pair = expected.tensors[number], given[path]
        ours, theirs = (tensorfile.capture({f"buffer {name} after a call": one}, "cpu") for one in pair)
        try:
            compare.compare(ours, theirs, compare.Figures(), what="", dense=False, tolerance=tolerance)
        except compare.Mismatch as error:
            return str(error)
    return ""


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two have the same numbers; NaN is one."""
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())
