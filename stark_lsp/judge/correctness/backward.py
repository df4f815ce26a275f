"""Whether a candidate that is called where gradients are recorded has the original's.

It need not be exact: kernels round otherwise, and what comes before a kink may fall to its other side. So a gradient is
held against the original's as a whole, by the root mean square, and only where the original's own stays when inputs and
what flows in are moved by their last bits: a gradient that is zero but for rounding does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from ...contract.errors import Bad
from ..reference import modules
from ..transport import tensorfile, values
from . import compare, stepping
from .difference import wide
from .nearby import moved

if TYPE_CHECKING:
    from ..inputs.cases import Case
    from ..reference.reference import Reference

LIMIT = 1 << 30
"""Bytes of inputs and weights up to which gradients are compared."""
SHARE = 64
"""Gradients are compared on a GPU where inputs and weights take no more than one part in so many of its memory."""
STEADY = 0.01
"""Relative change of the original's gradient up to which it says something."""
TOLERANCE = 0.05
"""Relative error of a candidate's; a wrong formula is off by far more."""
CLOSER = 0.01
"""The same where the original's results are within `EXACT` of float64's: one lost row of thousands is off by more."""
EXACT = 1e-5
FLIPS = 30.0
"""So many times the original's change it may be all the same. What of a result falls to the other side of a kink grows
with the rounding, and the gradient's error with its root: kernels may round a thousand times as coarsely."""
DRAWS = 5
"""So often they are moved: one that is zero but for rounding has few values to choose from, and may stay by chance."""
MASKS = 8
"""Draws of dropout and the like by which it is seen how far from none they are."""
LED = 0.25
"""Relative error where inputs lead back to the weights: what is counted twice, or not at all, is off by more."""
LED_BACK = ", where an input was computed from it, as in m(m(x))"
LED_CURE = (
    " Its input was computed from its weights, as in m(m(x)): in backward, differentiate from x.view_as(x) of "
    "each tensor that was saved."
)
NO_LEAVES = ", where its inputs require no gradients"
OF_A_SUM = (
    ", where a sum of the first result is trained, so that what flows in has strides of 0 and other results have none"
)
BUFFER, OUTPUT = "buffer ", "output"
OF_INPUT = f"{compare.GRADIENT}input "
SETTLED = 1e-4
"""Relative change up to which a gradient, if it changed at all, is no mere rounding: that comes so close by chance in
one draw of ten thousand, so two are enough then."""


class NothingToTrain(Bad):
    """No output of the class has a gradient with respect to anything."""


@dataclass(frozen=True)
class Step:
    """One step that a candidate makes, and what of it is compared."""

    how: dict[str, Any]
    """Parameters of `stepping.step` and `training_step`; `between` is a file."""
    expected: dict[str, torch.Tensor]
    """Gradients and outputs by name."""
    limits: dict[str, float]
    """How far off each may be that is compared."""
    where: str = ""
    """What is special about it, for messages."""
    apart: dict[str, float] = field(default_factory=dict)
    """By how much each that draws must be off at least from what is expected of one that does not."""
    cure: str = ""
    """What to do where it is wrong, or raises."""

    def problem(self, found: tensorfile.Loaded) -> str:
        """Return what is wrong with a candidate's step, for a person; empty if nothing."""
        given = compared(found, buffers="toggled" in self.how)
        if not given and self.how.get("toggled"):
            return ""  # its parts have other names, so nobody can set one of them alone
        others = {name: one for name, one in given.items() if name not in self.expected}
        for name, limit in self.limits.items():
            expected, tensor = self.expected[name], given.get(name)
            # What loads the original's weights may call them otherwise.
            renamed = [other for other, one in others.items() if tensor is None and off(expected, one) <= TOLERANCE]
            if renamed:
                del others[renamed[0]]
                continue
            if tensor is None or tensor.shape != expected.shape:
                shape = "none" if tensor is None else f"one of shape {tuple(tensor.shape)}"
                return f"It has {shape} for the {name}, which is of shape {tuple(expected.shape)}{self.where}."
            error = off(expected, tensor)
            if not error <= limit:
                by = f"{error:.0%}" if math.isfinite(error) else "all"
                return f"Its {name} is wrong: off by {by} of the original's (root mean square){self.where}."
        for name, least in self.apart.items():
            if name in given and not off(self.expected[name], given[name]) >= least:
                return f"Its {name} is the same{self.where}."
        return ""


class Backward:
    """The original's gradients for one case, and what flows into its outputs for them.

    The inputs are as the user makes them; the reference has the weights that belong to the case.

    Parameters
    ----------
    between
        File of the inputs of a call that a candidate makes between forward and backward, see `stepping.training_step`;
        nothing where the class does not bear it.
    of_a_sum
        Whether the gradient of one output flows in, the same one for all its rows, as below a sum.

    Raises
    ------
    Exception
        The class does not bear it.
    """

    def __init__(self, reference: Reference, case: Case, between: str = "", *, of_a_sum: bool = False) -> None:
        roomy = reference.device == "cuda" and _nbytes(reference, case) <= torch.cuda.mem_get_info()[1] // SHARE
        self.device = reference.device if roomy else "cpu"
        """Where they are compared."""
        self.cotangents_path = case.cotangents_path or reference.write_cotangents(case.inputs_path, of_a_sum=of_a_sum)
        flows = reference.cotangents(self.cotangents_path)
        arguments = reference.arguments(case.inputs_path)
        self.expected = self._step(reference, arguments, flows)
        # Beside gradients a step gives the buffers as they are after it: a cache of keys may be most of a module.
        self.nbytes = modules.nbytes_of(self.expected) + modules.nbytes_of([*reference.module.buffers()])
        changes = self.changes(reference, case, self.expected, partial(self._step, reference))
        self.exact = case.own_errors is not None and max(case.own_errors, default=1.0) <= EXACT
        """Whether the original's results are close to float64's."""
        self.limits = {
            name: min(TOLERANCE, max(CLOSER, FLIPS * max(seen))) if self.exact else TOLERANCE
            for name, seen in changes.items()
            if steady(seen)
        }
        """How far each that says something may be off."""
        self.between = ""
        """As it was given, where the original's own gradients stay."""
        if between and self.limits:
            same = self._borne(reference, case, between=reference.arguments(between))
            self.between = between if len(same) == len(self.limits) else ""
        self._of_a_sum = of_a_sum
        self._first = self._borne(reference, case, leaves=False) if of_a_sum else list(self.limits)
        """What it gives all the same where inputs require no gradients."""

    def changes(
        self,
        reference: Reference,
        case: Case,
        expected: dict[str, torch.Tensor],
        step: Callable[[Any, list[torch.Tensor | None]], dict[str, torch.Tensor]],
    ) -> dict[str, list[float]]:
        """Return how much what a step gives changes when inputs and what flows in move by their last bits, by draw."""
        flows = reference.cotangents(self.cotangents_path)
        changes: dict[str, list[float]] = {name: [] for name in expected}
        for seed in range(DRAWS):
            near = partial(moved, seed=seed, autocast=reference.autocast)
            other = step(
                modules.map_tensors(reference.arguments(case.inputs_path), near),
                [None if flow is None else near(flow) for flow in flows],
            )
            for name, seen in changes.items():
                seen.append(off(expected[name], other[name]))
            if seed > 0 and all(not steady(seen) or _settled(seen) for seen in changes.values()):
                break
        return changes

    def _names(self, *, inputs: bool) -> list[str]:
        """Return the gradients that say something, of inputs or of weights."""
        gradients = [name for name in self.limits if name.startswith(compare.GRADIENT)]
        return [name for name in gradients if name.startswith(OF_INPUT) is inputs]

    def plain(self, *, leaves: bool) -> list[Step]:
        """Return the step that a candidate is asked for; `leaves` says whether its inputs require gradients."""
        names = self.limits if leaves else [name for name in self._first if not name.startswith(OF_INPUT)]
        where = [OF_A_SUM] * self._of_a_sum + [NO_LEAVES] * (not leaves)
        how = {"leaves": leaves, "between": self.between, "without": [BUFFER]}
        return [Step(how, self.expected, {name: self.limits[name] for name in names}, "".join(where))]

    def uses(self, reference: Reference, case: Case, *, toggled: bool) -> list[Step]:
        """Return the steps of other uses than to train all of the class alone.

        Parameters
        ----------
        toggled
            Whether the other mode is one of them, where the original gives something else there.
        """
        inputs, weights = self._names(inputs=True), self._names(inputs=False)
        found: list[Step] = []
        if inputs and weights:
            led = self._led(reference, case)
            how: dict[str, Any] = {"led": True, "without": [BUFFER, OUTPUT, OF_INPUT]}
            found += [Step(how, led, dict.fromkeys(led, LED), LED_BACK, cure=LED_CURE)] if led else []
            how, same = {"only": "", "without": [BUFFER, OUTPUT]}, self._borne(reference, case, only="")
            limits = {name: self.limits[name] for name in inputs if name in same}
            found.append(Step(how, self.expected, limits, ", where all its weights are frozen"))
        if len(weights) > 1:
            # As a bias that alone is trained.
            least = min(weights, key=lambda name: self.expected[name].numel())
            how = {"only": least[len(compare.GRADIENT) :], "leaves": False}
            limits = {least: self.limits[least]} if least in self._borne(reference, case, **how) else {}
            how["without"] = [BUFFER, OUTPUT, OF_INPUT]
            found.append(Step(how, self.expected, limits, ", where nothing else requires gradients"))
        others = [self._toggled(reference, case), self._frozen(reference, case)] if toggled else []
        return [step for step in (*found, *others) if step is not None and (step.limits or step.apart)]

    def _toggled(self, reference: Reference, case: Case) -> Step | None:
        """Return the call in `train()` where it is judged in `eval()`, or the other way, if that makes a difference."""

        def called(draw: int = 0, *, near: bool = False) -> dict[str, torch.Tensor]:
            return self._called(reference, case, draw=draw, near=near)

        usual = {f"buffer {name}": buffer.detach().to(self.device) for name, buffer in reference.module.named_buffers()}
        usual |= self.expected
        where = f" after {'eval' if reference.module.training else 'train'}(): go by self.training"
        how: dict[str, Any] = {"toggled": []}
        try:
            expected = called()
            if stepping.drew():
                # Who draws in another order has other masks, which are as far from none.
                drawn = [called(draw) for draw in range(1, MASKS + 1)]
                apart = {
                    name: [off(usual[name], one[name]) for one in drawn] for name in self._names_of(expected, usual)
                }
                least = {name: min(offs) / 2 for name, offs in apart.items() if min(offs) >= max(*offs, TOLERANCE) / 2}
                return Step(how, usual, {}, where, least)
            near = called(near=True)
        except Exception:  # noqa: BLE001 - the user's class, which may want more in that mode; nothing is asked then
            return None
        steady = [name for name, one in expected.items() if name in near and off(one, near[name]) <= STEADY]
        other = [name for name in steady if name not in usual or not off(usual[name], expected[name]) <= TOLERANCE]
        if not other:
            return None
        # What it holds but does not change is its own affair.
        kept = [name for name in steady if name in other or not name.startswith(BUFFER)]
        return Step(how, expected, dict.fromkeys(kept, TOLERANCE), f",{where}")

    def _frozen(self, reference: Reference, case: Case) -> Step | None:
        """Return the call in `train()` with norms in `eval()`, as who fine-tunes has them; None without such parts."""
        norms = [
            name
            for name, part in reference.module.named_modules()
            if name and isinstance(part, torch.nn.modules.batchnorm._NormBase) and part.track_running_stats
        ]
        if not norms:
            return None
        try:
            expected = self._called(reference, case, norms)
            near = {} if stepping.drew() else self._called(reference, case, norms, near=True)
        except Exception:  # noqa: BLE001 - the user's class; nothing is asked of candidates then
            return None
        names = [name for name in near if name.startswith(OUTPUT) and off(expected[name], near[name]) <= STEADY]
        where = f", in train() with {norms[0]} in eval(): go by the `training` of that part"
        return Step({"toggled": norms}, expected, dict.fromkeys(names, TOLERANCE), where)

    def _called(
        self, reference: Reference, case: Case, kept: Sequence[str] = (), *, draw: int = 0, near: bool = False
    ) -> dict[str, torch.Tensor]:
        """Return what a call in another mode gives, see `stepping.in_other_mode`."""
        reference.begin()
        arguments = reference.arguments(case.inputs_path)
        if near:
            arguments = modules.map_tensors(arguments, partial(moved, seed=0, autocast=reference.autocast))
        found = stepping.in_other_mode(reference.module, arguments, kept, draw)
        return compared(tensorfile.capture(found, self.device), buffers=True)

    @staticmethod
    def _names_of(found: dict[str, torch.Tensor], usual: dict[str, torch.Tensor]) -> list[str]:
        """Return the outputs that are of the same shape in both modes."""
        outputs = [name for name in found if name.startswith(OUTPUT) and name in usual]
        return [name for name in outputs if found[name].shape == usual[name].shape]

    def _led(self, reference: Reference, case: Case) -> dict[str, torch.Tensor]:
        """Return the weights' gradients where inputs lead back to them, of those that say something."""
        flows, inputs = reference.cotangents(self.cotangents_path), reference.arguments(case.inputs_path)
        near = modules.map_tensors(inputs, partial(moved, seed=0, autocast=reference.autocast))
        try:
            found, other = (self._step(reference, arguments, flows, led=True) for arguments in (inputs, near))
        except Exception:  # noqa: BLE001 - the user's class; nothing is asked of candidates then
            return {}
        return {name: found[name] for name in self._names(inputs=False) if off(found[name], other[name]) <= STEADY}

    def _borne(self, reference: Reference, case: Case, **how: Any) -> list[str]:
        """Return what the original gives all the same in another step, see `stepping.step`."""
        flows, arguments = reference.cotangents(self.cotangents_path), reference.arguments(case.inputs_path)
        try:
            found = self._step(reference, arguments, flows, **how)
        except Exception:  # noqa: BLE001 - the user's class; nothing is asked of candidates then
            return []
        limits = self.limits.items()
        return [name for name, limit in limits if name in found and off(self.expected[name], found[name]) <= limit]

    def _step(
        self,
        reference: Reference,
        arguments: Any,
        flows: list[torch.Tensor | None],
        between: Any = None,
        **how: Any,
    ) -> dict[str, torch.Tensor]:
        reference.begin()
        results = stepping.step(reference.module, arguments, modules.TRAINING, flows, between=between, **how)
        return compared(tensorfile.capture(results, self.device))

    @property
    def flows(self) -> bool:
        """Whether anything but zeros comes through."""
        return any(one.any() for name, one in self.expected.items() if name.startswith(compare.GRADIENT))


def steady(changes: list[float]) -> bool:
    """Whether a gradient says something; a change may be NaN."""
    return all(change <= STEADY for change in changes)


def _settled(changes: list[float]) -> bool:
    """Whether further draws would show nothing new."""
    return all(0.0 < change <= SETTLED for change in changes)


def compared(loaded: tensorfile.Loaded, *, buffers: bool = False) -> dict[str, torch.Tensor]:
    """Return the gradients of a step, and its outputs, or buffers, that are no integers, by name."""
    found = {}
    for path, number in values.places(loaded.skeleton).items():
        tensor = loaded.tensors[number]
        number = tensor.is_floating_point() or tensor.is_complex()
        if path.startswith(f"['{compare.GRADIENT}") or (buffers and number and path.startswith("['buffer ")):
            found[path.strip("[']")] = tensor
        elif path.startswith("['output") and number:
            found[compare.name_of("output", path)] = tensor
    return found


def prepare(
    reference: Reference, case: Case, between: str = "", *, of_a_sum: bool = False, trains: bool = False
) -> Backward | None:
    """Return the original's gradients; None where there are none, or they cannot be had.

    In mode `training`, where every case has them, they are had for further steps alone, if it `trains`.
    """
    passed = reference.mode == modules.TRAINING and not trains
    if not reference.gradients or passed or _nbytes(reference, case) > LIMIT:
        return None
    try:
        # Without parameters, too, somebody trains through it; hardly where nothing but zeros comes through.
        found = Backward(reference, case, between, of_a_sum=of_a_sum)
        return found if reference.differentiable or found.flows else None
    except NothingToTrain:
        return None
    except Exception as error:  # noqa: BLE001 - the user's class, which may never have been trained
        if of_a_sum:
            return prepare(reference, case, between)
        kind = type(error.__cause__ or error).__name__
        reference.notes.append(f"Gradients are not compared: backward of the original raised {kind}.")
        return None


def _nbytes(reference: Reference, case: Case) -> int:
    """Return the bytes of inputs and weights, which are those of their gradients, and of buffers."""
    return case.inputs_nbytes + modules.nbytes_of([*reference.module.parameters(), *reference.module.buffers()])


def off(expected: torch.Tensor, found: torch.Tensor) -> float:
    """Return the root mean square of the difference, relative to the expected one's; NaN where there is one.

    Infinity for what is of another shape, as results may be in another mode.
    """
    if expected.shape != found.shape:
        return math.inf
    size = float(torch.linalg.vector_norm(wide(expected)))
    difference = float(torch.linalg.vector_norm(wide(found) - wide(expected)))
    return difference / size if size else (0.0 if difference == 0.0 else math.inf)
