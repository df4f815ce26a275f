"""The reference: which inputs and weights the user's class is compared with, and what it gave.

All of it is made once for each problem. The expected outputs stay in this process's memory.
"""

from __future__ import annotations

import copy
import itertools
import os
import secrets
import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from ...contract.errors import Bad, Degenerate, describe
from ..correctness import backward, buffers, compare, converted, layout, nearby, repeated, state, stepping
from ..inputs import fair, making
from ..inputs.cases import Case, CaseKind
from ..processes.limits import memory_limit
from ..timing import kept
from ..transport import tensorfile, values
from . import examine, memory_plan, modules, training
from .original import UNFIT, Original

RESCALED = (
    "With the weights of its constructor the result hardly depends on the inputs, so that a constant would pass: it is "
    "judged with these weights scaled so that inputs come through (standard deviation sqrt(2 / fan-in)), with running "
    "statistics to match."
)
SLOW = (
    "Its attention layers of PyTorch have a fast path under torch.no_grad() that computes otherwise, and is left out "
    "here, also where figures say no_grad. For inference alone: gradients=off."
)


class Reference(Original):
    """The user's class, ready to be compared with.

    Parameters
    ----------
    problem
        `core.Problem` in wire form.
    special_inputs
        Whether to make cases of other batch sizes and lengths, strided, large and non-finite inputs.
    gradients
        Whether calls are made where gradients are recorded, if the class bears that.
    loaded
        Told when the class is constructed and not run yet.

    Raises
    ------
    Bad
        The user's file, class or inputs cannot be used.
    """

    def __init__(
        self,
        problem: dict[str, Any],
        seeds: int,
        folder: str,
        progress: Callable[[str], None],
        *,
        special_inputs: bool = True,
        gradients: bool = True,
        loaded: Callable[[Original], None] = lambda original: None,
    ) -> None:
        super().__init__(problem, folder, progress)
        loaded(self)
        modules.layers_as_called(gradients=gradients)
        self.gradients = gradients
        """Whether timed calls, and every other case, are made where gradients are recorded."""
        self.differentiable = False
        """Whether gradients then lead back from a result, as its parameters have some."""
        self.backward: backward.Backward | None = None
        """The gradients that a candidate is to have where it is called in eval mode; None where none are compared."""
        self.moved: backward.Backward | None = None
        """The same with other weights than the constructor's: a factor of one, or of zero, may be left out there."""
        self.uses: tuple[Case, backward.Backward, list[backward.Step]] | None = None
        """Steps of other uses than to train it once, with other weights if it has any, and their case."""
        self.in_place = False
        """Whether it follows weights that are changed in place, as those that are loaded."""
        self.draws = False
        """Whether a training step draws random numbers."""
        self.kept: list[str] = []
        """Attributes and globals that each call changes, such as `self.stats`."""
        self.buffers: buffers.Buffers | None = None
        """What a call in mode eval leaves in the buffers that it changes; None where it changes none."""
        self.further: Case | None = None
        """Begins with what the first call leaves there."""
        self.notes: list[str] = []
        self.cases: list[Case] = []
        """Cases with inputs as the user makes them: first with the weights of the constructor, then with others."""
        self.special: list[Case] = []
        """Cases with special inputs; a few of them with the other weights."""
        self._numbers = itertools.count()
        self._moving = threading.Lock()
        self.trained_path = os.path.join(folder, "trained.raw")
        progress("Running the reference")
        try:
            self._run(seeds, special_inputs)
        except examine.Constant as error:
            if not self._rescaled():
                raise
            self.gradients = gradients
            try:
                self._run(seeds, special_inputs)
            except Degenerate:
                raise error from None

    def _run(self, seeds: int, special_inputs: bool) -> None:
        """Make the cases, and check that the reference can be compared with at all."""
        drawn = secrets.SystemRandom()
        initial = copy.deepcopy(self.module.state_dict())
        trained = training.trained_state(self.module.to("cpu"))
        self.module.to(self.device)
        held = buffers.held(self)
        # The first cases have the weights of the constructor, the rest such as training leaves.
        first = self._seeded(drawn.randrange(1 << 31), CaseKind.SEEDED, 0)
        self._record(first)
        self.buffers = buffers.changed(self, first, lambda: self._made(drawn.randrange(1 << 31)), held)
        self.state = None if self.buffers is None else self.buffers.state
        examination = examine.Examination(self, first)
        examination.run()
        self.backward = backward.prepare(self, first, of_a_sum=True)
        self.plan = self._planned(first, examination.call_s, seeds)
        note = self.plan.note(seeds)
        self.notes += [note] if note else []
        seeds = self.plan.cases
        plain = seeds if trained is None else (seeds + 1) // 2
        for index in range(1, plain):
            self._seeded(drawn.randrange(1 << 31), CaseKind.SEEDED, index)
        examination.measure_sums()
        alike = [case.inputs_path for case in self.cases[1:2]]
        examine.refuse_constant(self, lambda: self._made(drawn.randrange(1 << 31)))
        unusual = fair.SpecialCases(self, examination) if special_inputs else None
        if unusual is not None:
            other = self.loaded(alike[0]) if alike else self._made(drawn.randrange(1 << 31))
            # Gigabytes stay where they are; a small part of them is all that is made into something else.
            own = self.arguments(first.inputs_path) if self.plan.large else self.loaded(first.inputs_path)
            unusual.make(own, other)
            del own, other
        if trained is not None:
            tensorfile.save(self.trained_path, trained)
            self.begin()
            self.in_place = self._follows(trained)
            self.module.load_state_dict(trained, strict=False)
        for index in range(plain, seeds):
            case = self._seeded(drawn.randrange(1 << 31), CaseKind.MOVED_WEIGHTS, index)
            if index == plain:
                examination.measure_moved(case)
                if self.backward is not None:
                    between = self.cases[0].inputs_path if self.buffers is None else ""
                    self.moved = backward.prepare(self, case, between)
        if unusual is not None and trained is not None:
            unusual.make_moved()
        self.uses = self._uses(initial, toggled=special_inputs)
        self.begin()
        self.module.load_state_dict(initial, strict=False)
        self._latest = None
        self.further = buffers.go_on(self, examination.measure_moved)
        if self.device == "cuda":
            self._pack()

    def _uses(
        self, initial: dict[str, torch.Tensor], *, toggled: bool
    ) -> tuple[Case, backward.Backward, list[backward.Step]] | None:
        """Return the steps of other uses than to train it once, and their case: of a large batch a part will do."""
        trained = any(case.trained for case in (*self.special, *self.cases))
        if not trained:
            self.begin()
            self.module.load_state_dict(initial, strict=False)
        alone = self.mode == modules.TRAINING or (self.backward is not None and not trained)
        cases = [*(case for case in self.special if case.kind is CaseKind.BATCH), *self.cases]
        used = next((case for case in cases if case.trained == trained), None)
        if used is None or (self.moved is None and not alone):
            return None
        gradients = backward.prepare(self, used, trains=True)
        if gradients is None:
            return None
        steps = [] if self.moved is None else gradients.uses(self, used, toggled=toggled)
        further: list[backward.Step | None] = [repeated.prepare(gradients, self, used)]
        # What is converted stays so: it comes last.
        further += [converted.prepare(gradients, self, used)] if toggled and self.mode != modules.TRAINING else []
        return used, gradients, [step for step in (*steps, *further) if step is not None]

    def _pack(self) -> None:
        """Lay what special cases keep on the GPU anew: in parts of long blocks it would keep these from being freed."""
        kept = [case for case in self.special if case.outputs.tensors and case.outputs.tensors[0].is_cuda]
        for case in kept:
            case.outputs = case.outputs.copied("cpu")
        torch.cuda.empty_cache()
        for case in kept:
            case.outputs = case.outputs.copied(self.device)

    def _rescaled(self) -> bool:
        """Give it weights that let the inputs through, and begin anew; returns whether there are any."""
        args, kwargs = self.arguments(self.cases[0].inputs_path)
        self.begin()
        if not training.rescale(self.module, lambda: self.module(*args, **kwargs)):
            return False
        self._save_weights(self.module)
        self.cases, self._held, self.notes, self._kept = [], [], [RESCALED], 0
        self.changes_inputs = self.differentiable = False
        self.backward = self.moved = self.uses = None
        self.state = None
        self._numbers = itertools.count()
        return True

    def _planned(self, first: Case, seconds: float, seeds: int) -> memory_plan.Plan:
        """Return how much of this problem is made and kept at a time."""
        weights = modules.nbytes_of(dict(self.module.state_dict()))
        sizes = memory_plan.Sizes(
            first.inputs_nbytes, first.outputs.nbytes, weights, self._working, seconds, self._making_s
        )
        if self.device == "cpu":
            return memory_plan.on_cpu(sizes, seeds, memory_limit(1.0))
        free, total = torch.cuda.mem_get_info()
        free += torch.cuda.memory_reserved()
        if lacking := memory_plan.lacking(sizes, free):
            raise self.refusal(f"{lacking}.", "Use smaller inputs, or another GPU.")
        return memory_plan.on_gpu(sizes, seeds, memory_limit(1.0), free, total)

    def _record(self, first: Case) -> None:
        """See whether the class bears being called where gradients are recorded, and what they lead back from."""
        if not self.gradients or self.mode == modules.TRAINING:
            self.gradients = self.mode == modules.TRAINING
            return
        try:
            args, kwargs = self.arguments(first.inputs_path)
            with modules.forward_context(self.mode, gradients=True):
                result = self._measured(lambda: self.module(*args, **kwargs))
            self.differentiable = any(tensor.requires_grad for tensor in modules.tensors_of(result))
            if any(isinstance(part, modules.FAST) for part in self.module.modules()):
                self.notes.append(SLOW)
        except Exception as error:  # noqa: BLE001 - the user's class; said in the notes
            self.gradients = first.recorded = False
            kind = describe(error)
            self.notes.append(f"Called under torch.no_grad(): where gradients are recorded it does not run ({kind}).")

    def _seeded(self, seed: int, kind: CaseKind, index: int) -> Case:
        """Add a case with inputs as the user makes them."""
        words = "" if index == 0 else f"with other inputs, number {index + 1}"
        if kind is CaseKind.MOVED_WEIGHTS:
            words = f"with other weights than the constructor gives, inputs number {index + 1}"
        # Whoever keeps the gradients that flow in is wrong later; of the first two, inputs alone make the difference.
        case = self.case(kind, words, self._made(seed), f"case{index}.raw", flows=max(0, index - 1))
        if self.cases:
            case.own_errors = self.cases[0].own_errors
        self.cases.append(case)
        return case

    def case(
        self, kind: CaseKind, words: str, arguments: making.Arguments, name: str, *, keep: bool = True, flows: int = 0
    ) -> Case:
        """Return a case of these inputs, run once.

        Parameters
        ----------
        name
            Of the inputs' file.
        flows
            Number of the gradients that flow into outputs in training.
        keep
            See `call`; without it there may be no file, and the case is to be used before there is another one.

        Raises
        ------
        Bad
            The inputs cannot be handed over, or the forward pass raises.
        """
        path = os.path.join(self.folder, name)
        # What is there need not be read again.
        self._latest = None
        nbytes = modules.nbytes_of(arguments)
        if self._passing(nbytes):
            self._latest = path, self._copy(arguments, self.device, UNFIT)
        if keep or self._latest is None:
            nbytes = self.save(path, arguments, UNFIT)
        forms = [torch.empty_like(tensor, device="meta") for tensor in modules.tensors_of(arguments)]
        del arguments
        cotangents = self.write_cotangents(path, flows) if self.mode == modules.TRAINING else ""
        outputs, ranges, after = self.call(path, cotangents, keep=keep, hold=not self.cases)
        recorded = self.gradients and next(self._numbers) % 2 == 0
        if self.cases and self.gradients and not recorded and kind in (CaseKind.SEEDED, CaseKind.MOVED_WEIGHTS):
            words += ", under torch.no_grad()"
        results = sum(name.startswith("output") for name in self.output_names(outputs))
        case = Case(kind, words, path, nbytes, forms, outputs, results, layout.shared(ranges), cotangents, recorded)
        case.inputs_after = after
        return case

    def nearby(self, case: Case, *, all_move: bool = False) -> Generator[tensorfile.Loaded, None, None]:
        """Yield what it gives for a case's inputs moved by their last bits, see `correctness.nearby`.

        With `all_move` its weights and buffers are moved as well.

        What is exact comes first, where that is known: it is that of no inputs closer by.
        """
        exact = case.exact or []
        if [one.shape for one in exact] == [one.shape for one in case.outputs.tensors]:
            yield replace(case.outputs, tensors=exact)
        # Candidates are checked in several threads.
        with self._moving:
            before: dict[str, torch.Tensor] | None = None
            flows = self.cotangents(case.cotangents_path) if case.cotangents_path else None
            place = next((weight.device for weight in modules.tensors_of(dict(self.module.state_dict()))), None)
            try:
                self._call(lambda: self.module.to(self.device))
                self.begin()
                if case.trained:
                    before = copy.deepcopy(self.module.state_dict())
                    self.module.load_state_dict(tensorfile.load(self.trained_path).tree("cpu"), strict=False)
                for draw in range(1, nearby.DRAWS + 1):
                    self.begin()
                    if case.further and self.buffers is not None:
                        self.buffers.after.put_back()
                    given, weights = self.arguments(case.inputs_path), [*self.module.parameters()]
                    weights += self.module.buffers() if all_move else ()
                    rounded = self.tolerance.rounded_to
                    with nearby.drawn(given, weights, draw, rounded, all_move=all_move) as arguments:
                        result = self._call(partial(stepping.step, self.module, arguments, self.mode, flows))
                    yield self._capture(result, UNFIT, keep=False)
            except (Bad, torch.cuda.OutOfMemoryError):
                return  # Out of its range, or of memory: then nothing is known of what is close by.
            finally:
                if before is not None:
                    self.begin()
                    self.module.load_state_dict(before, strict=False)
                if place is not None:
                    self.module.to(place)
                if self.device == "cuda":
                    torch.cuda.empty_cache()

    def _follows(self, trained: dict[str, torch.Tensor]) -> bool:
        """Say `in_place`; a hook of a class may work something out when weights are loaded, and not else."""

        def called() -> list[torch.Tensor]:
            torch.manual_seed(stepping.DRAWN_SEED)
            self.begin()
            with state.kept(self.module), torch.no_grad():
                args, kwargs = self.arguments(self.cases[0].inputs_path)
                return [tensor.float() for tensor in modules.tensors_of(self.module(*args, **kwargs))]

        try:
            modules.change_weights(self.module, trained)
            changed = called()
            self.module.load_state_dict(trained, strict=False)
            loaded = called()
        except Exception:  # noqa: BLE001 - the user's class; it is asked again
            return False
        sizes = [float(one.abs().max()) for one in loaded if one.numel()]
        offs = [float((a - b).abs().max()) for a, b in zip(changed, loaded) if b.numel()]
        return all(off <= 0.01 * size for off, size in zip(offs, sizes))

    def write_cotangents(self, inputs_path: str, number: int = 0, *, of_a_sum: bool = False) -> str:
        """Write random gradients for the outputs to a file, other ones by number, and return its path.

        Those `of_a_sum` over the rows of the first output alone are one row in memory, and others have none.
        """
        self.begin()
        with state.kept(self.module):
            result = self._call(lambda: stepping.training_step(self.module, self.arguments(inputs_path), []))
        flows = stepping.random_cotangents(result, number)
        if not any(flow is not None for flow in flows):
            cure = "Use mode eval, or return a result that depends on weights or floating inputs."
            message = f"No output of {self.qualname} has a gradient, so there is nothing to train."
            raise self.refusal(message, cure, backward.NothingToTrain)
        if of_a_sum:
            number, flow = next((at, flow) for at, flow in enumerate(flows) if flow is not None)
            flows[number:] = [flow[:1].expand_as(flow) if flow.dim() > 1 else flow]
        path = os.path.splitext(inputs_path)[0] + "-sum" * of_a_sum + "-cotangents.raw"
        tensorfile.save(path, flows)
        return path

    @property
    def what(self) -> str:
        """What `compare.compare` is to call the outputs; a training step's tree has names of its own."""
        return "" if self.mode == modules.TRAINING else "output"

    def compare(
        self,
        expected: tensorfile.Loaded,
        found: tensorfile.Loaded,
        own_errors: list[float] | None = None,
        **nearby: Any,
    ) -> None:
        """Hold one of its results against another as a candidate's is; parameters as of `compare.compare`."""
        figures = compare.Figures()
        compare.compare(expected, found, figures, own_errors, self.what, tolerance=self.tolerance, **nearby)

    def output_names(self, outputs: tensorfile.Loaded) -> list[str]:
        """Return what each output tensor is called in messages, in the order of `outputs.tensors`."""
        named = {number: compare.name_of(self.what, path) for path, number in values.places(outputs.skeleton).items()}
        return [named[index] for index in range(len(outputs.tensors))]

    def marks(self, case: Case) -> list[int]:
        """Return the marks of a case's inputs, see `kept.marks`."""
        if case.marks is None:
            case.marks = kept.marks(self._tree(self.before(case.inputs_path), self.device), self.device)
        return case.marks
