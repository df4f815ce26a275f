"""Whether a candidate that is called in mode eval leaves buffers as the original does, where that changes some.

Such are caches of keys and values, observers of ranges, counters. Each call, of the original and of a candidate,
checked or timed, begins with what they were at first, so that its result depends on its inputs alone. In training they
are part of what a step gives; where its result depends on them, as on a codebook, timed steps begin so as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from ..inputs.cases import CaseKind
from ..reference import modules
from ..transport import tensorfile, values
from . import compare, layout, stepping
from .nearby import moved
from .state import State, kept
from .stepping import Arguments

if TYPE_CHECKING:
    from ..inputs.cases import Case
    from ..reference.reference import Reference

LIMIT = 1 << 30
"""Bytes of a module's buffers up to which they are compared."""


@dataclass(frozen=True)
class Buffers:
    """What a call of the original leaves."""

    state: State
    """Those that it changes, as they are before it,"""
    after: State
    """as they are after it,"""
    path: str
    """and a file of both."""
    expected: dict[str, torch.Tensor]
    """What a candidate is to leave in them, nothing in training;"""
    further: dict[str, torch.Tensor] = field(default_factory=dict)
    """and what in a call that goes on from there."""


def held(reference: Reference) -> State | None:
    """Return the module's buffers as its first call finds them; None where they are too large."""
    return State(reference.module) if modules.nbytes_of([*reference.module.buffers()]) <= LIMIT else None


def changed(reference: Reference, first: Case, other: Callable[[], Arguments], before: State | None) -> Buffers | None:
    """Return what a call changes each time, or otherwise for other inputs; None where that is nothing.

    What is made once and for all, as a table of positions, is a candidate's own affair.

    Parameters
    ----------
    other
        Makes other inputs.
    before
        What `held` gave before the first call.
    """
    if before is None:
        return None
    there = {name: one for name, one in before.values.items() if one is not None}
    # What was None may not be None again, where something else says that it was made.
    failed = ""
    for begun in (before, before.narrowed(there)):
        try:
            # What was made once stays made, here too.
            with kept(reference.module):
                if reference.mode == modules.TRAINING:
                    return _trained(reference, first, begun)
                return _changed(reference, first, other, begun)
        except Exception as error:  # noqa: BLE001 - not each kind of tensor can be compared; said in the notes
            failed = f"Buffers are not compared: {type(error).__name__}."
    reference.notes.append(failed)
    return None


def _trained(reference: Reference, first: Case, before: State) -> Buffers | None:
    """Return what a step changes if the next one's result depends on it; not so do running statistics."""
    begun = before.values
    before.put_back()
    left = stepping.buffers_after(reference.module, reference.arguments(first.inputs_path), reference.mode)
    found = {name: one for name, one in left.items() if name in begun and not _equal(one, begun[name])}
    if not found:
        return None
    before.narrowed({**begun, **found}).put_back()
    again, _, _ = reference.call(first.inputs_path, first.cotangents_path, keep=False)
    results = [one.outputs.tensors[: first.results] for one in (first, replace(first, outputs=again))]
    same = compare.within(*results, tolerance=reference.tolerance)
    return None if same else _handed(reference, first, before, {name: begun[name] for name in found}, found, {})


def _handed(
    reference: Reference,
    first: Case,
    before: State,
    begun: dict[str, torch.Tensor | None],
    left: dict[str, torch.Tensor],
    expected: dict[str, torch.Tensor],
) -> Buffers:
    """Write into a file what a call finds and leaves."""
    path = os.path.splitext(first.inputs_path)[0] + "-buffers.raw"
    reference.save(path, {"before": begun, "after": left}, "A buffer cannot be handed to a candidate")
    return Buffers(
        before.narrowed(begun), before.narrowed(left), path, {name: one.cpu() for name, one in expected.items()}
    )


def _changed(reference: Reference, first: Case, other: Callable[[], Arguments], before: State) -> Buffers | None:
    def after(state: State, arguments: Arguments | None = None) -> dict[str, torch.Tensor]:
        state.put_back()
        arguments = arguments or reference.arguments(first.inputs_path)
        return stepping.buffers_after(reference.module, arguments, reference.mode)

    begun = before.values
    found = {name: one for name, one in after(before).items() if name in begun and not _equal(one, begun[name])}
    if not found:
        return None
    again, next_one = after(before), after(before.narrowed({**begun, **found}))
    elsewhere = after(before, modules.to_device(other(), reference.device))
    lasting = {
        name: one
        for name, one in found.items()
        # What differs from call to call could not be told from a mistake.
        if _close(one, again[name]) and not (_equal(one, next_one[name]) and _equal(one, elsewhere[name]))
    }
    if not lasting:
        return None
    state = {name: begun[name] for name in lasting}
    resumed = after(before.narrowed({**begun, **found, **state}))
    if not all(_close(one, resumed[name]) for name, one in lasting.items()):
        # A flag that says whether they were ever seen belongs to them.
        state = {name: begun[name] for name in found}
    return _handed(reference, first, before, state, {name: found[name] for name in state}, lasting)


def go_on(reference: Reference, measure: Callable[[Case], None]) -> Case | None:
    """Return a case that begins with what the first call leaves, with other inputs; None where there is none.

    A candidate is to read what is in buffers, and to write them where gradients are recorded as well.
    """
    left, base = reference.buffers, reference.cases[:2][-1]
    if left is None or not left.expected:
        return None

    def after(arguments: Arguments) -> dict[str, torch.Tensor]:
        reference.begin()
        return stepping.buffers_after(reference.module, arguments, reference.mode, gradients=reference.gradients)

    path, reference.state = base.inputs_path, left.after
    try:
        outputs, ranges, inputs_after = reference.call(path, "")
        again, _, _ = reference.call(path, "", keep=False)
        case = replace(
            base,
            kind=CaseKind.SEEDED,
            words="going on from what another call leaves in buffers",
            outputs=outputs,
            sharing=layout.shared(ranges),
            inputs_after=inputs_after,
            recorded=reference.gradients,
            own_errors=reference.cases[0].own_errors,
            ieee=None,
            ieee_errors=None,
            exact=None,
            further=True,
        )
        reference.compare(outputs, again)
        measure(case)
        found = after(reference.arguments(path))
        near = after(
            modules.map_tensors(reference.arguments(path), partial(moved, seed=0, autocast=reference.autocast))
        )
    except Exception:  # noqa: BLE001 - a cache may be full by then, or what comes next another function
        return None
    finally:
        reference.state = left.state
        reference.begin()
    # What rounding decides could not be told from a mistake.
    left.further.update(
        (name, found[name].cpu())
        for name in left.expected
        if name in found
        and name in near
        and found[name].shape == near[name].shape
        and compare.within([found[name]], [near[name]], tolerance=reference.tolerance)
    )
    return case


def problem(expected: dict[str, torch.Tensor], found: tensorfile.Loaded, tolerance: compare.Tolerance) -> str:
    """Return what is wrong with the buffers that a candidate leaves, for a person; empty if nothing."""
    given = named(found)
    for name, tensor in expected.items():
        if name not in given:
            # What loads the original's weights may call them otherwise.
            if any(_equal(one, tensor) for other, one in given.items() if other not in expected):
                continue
            return f"It has no buffer {name}, which a call of the original changes."
        pair = tensor, given[name]
        ours, theirs = (tensorfile.capture({f"buffer {name} after a call": one}, "cpu") for one in pair)
        try:
            compare.compare(ours, theirs, compare.Figures(), what="", dense=False, tolerance=tolerance)
        except compare.Mismatch as error:
            return str(error)
    return ""


def named(found: tensorfile.Loaded) -> dict[str, torch.Tensor]:
    """Return the buffers that a candidate's process wrote by name."""
    return {path[2:-2]: found.tensors[number] for path, number in values.places(found.skeleton).items()}


def _equal(one: torch.Tensor, other: torch.Tensor | None) -> bool:
    """Whether two have the same numbers; NaN is one."""
    alike = other is not None and one.shape == other.shape
    return alike and bool(((one == other) | ((one != one) & (other != other))).all())


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, equal_nan=True)
