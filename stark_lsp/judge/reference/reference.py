"""The reference: load the user's class, make its inputs, run it, and keep what it gave.

All of it is made once for each problem. The expected outputs stay in this process's memory.
"""

from __future__ import annotations

import copy
import itertools
import os
import secrets
import time
from collections.abc import Callable
from typing import Any

import torch

from ...contract.errors import Bad, Degenerate, blame, describe
from ..correctness import backward, compare, forward, layout
from ..inputs import fair, making
from ..inputs.cases import Case, CaseKind
from ..transport import tensorfile, values
from . import examine, loading, memory_plan, modules, training

HOLD_LIMIT = 1 << 30
"""Bytes of outputs up to which the first result is kept while another is made."""
DEVICE_SHARE = 0.05
"""Share of a GPU's memory that expected outputs may take; they are compared there."""
RESCALED = (
    "With the weights of its constructor the result hardly depends on the inputs, so that a constant would pass: it is "
    "judged with these weights scaled so that inputs come through (standard deviation sqrt(2 / fan-in)), with running "
    "statistics to match."
)
UNFIT = "An input cannot be handed to a candidate"
PASSING_SHARE = {"cpu": 0.05, "cuda": 0.2}
"""Share of the memory of a device that one result, or the inputs of the latest case, may take for a short while."""


class Reference:
    """The user's class, ready to be compared with.

    Parameters
    ----------
    problem
        `core.Problem` in wire form.
    seeds
        How many different inputs to make.
    folder
        Private folder for input files.
    progress
        Told what begins.
    special_inputs
        Whether to make cases of other batch sizes, strided, large and non-finite inputs.
    gradients
        Whether calls are made where gradients are recorded, if the class bears that.

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
    ) -> None:
        self.path: str = problem["path"]
        self.text: str = problem["text"]
        self.qualname: str = problem["qualname"]
        self.mode: str = problem["mode"]
        self.gradients = gradients
        """Whether timed calls, and every other case, are made where gradients are recorded."""
        self.differentiable = False
        """Whether gradients then lead back from a result."""
        self.backward: backward.Backward | None = None
        """The gradients that a candidate is to have where it is called in eval mode; None where none are compared."""
        self.line = int(problem["class_span"]["start"]) + 1
        """1-based line of the class."""
        self.device = choose_device(problem["device"])
        self.folder = folder
        self.notes: list[str] = []
        self.cases: list[Case] = []
        """Cases with inputs as the user makes them: first with the weights of the constructor, then with others."""
        self.special: list[Case] = []
        """Cases with special inputs; a few of them with the other weights."""
        self.changes_inputs = False
        """Whether a call changes its inputs in place."""
        self._numbers = itertools.count()
        self._kept = 0
        """Bytes of results that are kept on the GPU."""
        self._held: list[torch.Tensor] = []
        self._latest: tuple[str, tensorfile.Loaded] | None = None
        """Inputs of the latest case on the device, and their file."""
        self._working = 0
        self.call_s = 0.0
        """Of the latest call."""
        self._making_s = 0.0
        progress("Loading the file")
        self.document = loading.load_document(self.path, self.text)
        self._class = loading.find_class(self.document, self.path, self.qualname, self.line)
        self._maker = making.InputMaker(self.document, problem["inputs"], self.path)
        progress("Constructing the reference")
        self.init_path = os.path.join(folder, "init.raw")
        self.weights_path = os.path.join(folder, "weights.raw")
        self.trained_path = os.path.join(folder, "trained.raw")
        self.module = self._construct()
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

    def _construct(self) -> Any:
        """Build the module; its arguments and weights go to files."""
        args, kwargs = self._maker.init_arguments(modules.CONSTRUCTION_SEED)
        self.save(self.init_path, (args, kwargs), "An argument of the constructor cannot be handed to a candidate")
        try:
            torch.manual_seed(modules.CONSTRUCTION_SEED)
            module = self._class(*args, **kwargs)
            self._save_weights(module)
            return modules.place(module, self.device, self.mode)
        except torch.cuda.OutOfMemoryError as error:
            raise self._too_large(error) from error
        except (Exception, SystemExit) as error:
            raise blame(
                error,
                f"{self.qualname} cannot be constructed",
                "Check get_init_inputs() or init_args: they are the arguments of __init__.",
                self.path,
                self.line,
            ) from error

    def _save_weights(self, module: Any) -> None:
        state = {key: value for key, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
        tensorfile.save(self.weights_path, state)

    def save(self, path: str, tree: Any, message: str) -> int:
        """Write a tree to a file; returns the bytes of it.

        Raises
        ------
        Bad
            It holds what cannot be handed over.
        """
        try:
            return tensorfile.save(path, tree)
        except values.NotPlain as error:
            raise self._not_plain(message, error) from error

    def _not_plain(self, message: str, error: values.NotPlain) -> Bad:
        return Bad(
            f"{message}: {error}.",
            "Use tensors, numbers, texts, lists, tuples, dicts, dataclasses and modules of these.",
            self.path,
            self.line,
        )

    def _too_large(self, error: BaseException) -> Bad:
        return blame(error, "The reference does not fit into memory", "Use smaller inputs.", self.path, self.line)

    def _run(self, seeds: int, special_inputs: bool) -> None:
        """Make the cases, and check that the reference can be compared with at all."""
        drawn = secrets.SystemRandom()
        initial = copy.deepcopy(self.module.state_dict())
        trained = training.trained_state(self.module.to("cpu"))
        self.module.to(self.device)
        # The first cases have the weights of the constructor, the rest such as training leaves.
        first = self._seeded(drawn.randrange(1 << 31), CaseKind.SEEDED, 0)
        self._record(first)
        examination = examine.Examination(self, first)
        examination.run()
        self.backward = backward.prepare(self, first)
        self.plan = self._planned(first, examination.call_s, seeds)
        note = self.plan.note(seeds)
        self.notes += [note] if note else []
        seeds = self.plan.cases
        plain = seeds if trained is None else (seeds + 1) // 2
        for index in range(1, plain):
            self._seeded(drawn.randrange(1 << 31), CaseKind.SEEDED, index)
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
            self.module.load_state_dict(trained, strict=False)
        for index in range(plain, seeds):
            case = self._seeded(drawn.randrange(1 << 31), CaseKind.MOVED_WEIGHTS, index)
            if index == plain:
                examination.measure_moved(case)
        if unusual is not None and trained is not None:
            unusual.make_moved()
        self.module.load_state_dict(initial, strict=False)
        self._latest = None
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def _rescaled(self) -> bool:
        """Give it weights that let the inputs through, and begin anew; returns whether there are any."""
        args, kwargs = self.arguments(self.cases[0].inputs_path)

        def call() -> None:
            self.module(*args, **kwargs)

        if not training.rescale(self.module, call):
            return False
        self._save_weights(self.module)
        self.cases, self._held, self.notes, self._kept = [], [], [RESCALED], 0
        self.changes_inputs = self.differentiable = False
        self.backward = None
        self._numbers = itertools.count()
        return True

    def _planned(self, first: Case, seconds: float, seeds: int) -> memory_plan.Plan:
        """Return how much of this problem is made and kept at a time."""
        weights = nbytes_of(dict(self.module.state_dict()))
        sizes = memory_plan.Sizes(
            first.inputs_nbytes, first.outputs.nbytes, weights, self._working, seconds, self._making_s
        )
        if self.device == "cpu":
            return memory_plan.on_cpu(sizes, seeds, _memory())
        free, total = torch.cuda.mem_get_info()
        free += torch.cuda.memory_reserved()
        if lacking := memory_plan.lacking(sizes, free):
            raise Bad(f"{lacking}.", "Use smaller inputs, or another GPU.", self.path, self.line)
        return memory_plan.on_gpu(sizes, seeds, _memory(), free, total)

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
        except Exception as error:  # noqa: BLE001 - the user's class; said in the notes
            self.gradients = first.recorded = False
            kind = describe(error)
            self.notes.append(f"Called under torch.no_grad(): where gradients are recorded it does not run ({kind}).")

    def loaded(self, path: str) -> making.Arguments:
        """Return the inputs of a file on the CPU."""
        tree = self._tree(tensorfile.load(path), "cpu")
        return tree[0], tree[1]

    def _made(self, seed: int) -> making.Arguments:
        """Return inputs as the user makes them."""
        # The first use of a GPU takes seconds of its own.
        modules.synchronize(self.device)
        begin = time.monotonic()
        made = self._maker.inputs(seed, self.device)
        modules.synchronize(self.device)
        self._making_s = min(self._making_s or float("inf"), time.monotonic() - begin)
        return made

    def _seeded(self, seed: int, kind: CaseKind, index: int) -> Case:
        """Add a case with inputs as the user makes them."""
        words = "" if index == 0 else f"with other inputs, number {index + 1}"
        if kind is CaseKind.MOVED_WEIGHTS:
            words = f"with other weights than the constructor gives, inputs number {index + 1}"
        case = self.case(kind, words, self._made(seed), f"case{index}.raw")
        if self.cases:
            case.own_errors = self.cases[0].own_errors
        self.cases.append(case)
        return case

    def case(self, kind: CaseKind, words: str, arguments: making.Arguments, name: str, *, keep: bool = True) -> Case:
        """Return a case of these inputs, run once.

        Parameters
        ----------
        name
            Of the inputs' file.
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
        nbytes = nbytes_of(arguments)
        if self._passing(nbytes):
            self._latest = path, self._copy(arguments, self.device, UNFIT)
        if keep or self._latest is None:
            nbytes = self.save(path, arguments, UNFIT)
        forms = [torch.empty_like(tensor, device="meta") for tensor in modules.tensors_of(arguments)]
        del arguments
        cotangents = self.write_cotangents(path) if self.mode == modules.TRAINING else ""
        outputs, ranges, after = self.call(path, cotangents, keep=keep)
        recorded = self.gradients and next(self._numbers) % 2 == 0
        if self.cases and self.gradients and not recorded and kind in (CaseKind.SEEDED, CaseKind.MOVED_WEIGHTS):
            words += ", under torch.no_grad()"
        case = Case(kind, words, path, outputs, layout.shared(ranges))
        case.recorded = recorded
        case.results = sum(name.startswith("output") for name in self.output_names(outputs))
        case.cotangents_path = cotangents
        case.inputs_nbytes = nbytes
        case.forms = forms
        case.inputs_after = after if self.changes_inputs else None
        return case

    def write_cotangents(self, inputs_path: str) -> str:
        """Write random gradients for the outputs to a file, and return its path."""
        with forward.kept_buffers(self.module):
            result = self._call(lambda: forward.training_step(self.module, self.arguments(inputs_path), []))
        flows = forward.random_cotangents(result)
        if not any(flow is not None for flow in flows):
            raise Bad(
                f"No output of {self.qualname} has a gradient, so there is nothing to train.",
                "Use mode eval, or return a result that depends on weights or floating inputs.",
                self.path,
                self.line,
            )
        path = os.path.splitext(inputs_path)[0] + "-cotangents.raw"
        tensorfile.save(path, flows)
        return path

    def call(
        self, inputs_path: str, cotangents: str, *, with_inputs: bool = False, keep: bool = True
    ) -> tuple[tensorfile.Loaded, layout.Ranges, tensorfile.Loaded | None]:
        """Call the module once on the inputs of a file.

        Parameters
        ----------
        inputs_path, cotangents
            Files of the inputs, and of what flows into the outputs for a training step.
        with_inputs
            Return the inputs as they are afterwards.
        keep
            Whether what is returned lives as long as the reference.

        Returns
        -------
        tuple
            Outputs; where they and everything else lay; the inputs afterwards if wanted.

        Raises
        ------
        Bad
            It raises, or returns what cannot be compared.
        """
        arguments = self.arguments(inputs_path)
        flows = self.cotangents(cotangents) if cotangents else None
        result = self._call(lambda: forward.step(self.module, arguments, self.mode, flows))
        unfit = f"{self.qualname} returned something that cannot be compared"
        found: list[torch.Tensor] = []
        try:
            values.encode(result, found)
        except values.NotPlain as error:
            raise self._not_plain(unfit, error) from error
        ranges = layout.report(found, arguments, self.module, self._held)
        # The first result lives until the second is there, so that memory that is used again is seen.
        self._held = found if not self.cases and nbytes_of(result) <= HOLD_LIMIT else []
        outputs = self._capture(result, unfit, keep)
        after = None
        if with_inputs or self.changes_inputs:
            after = self._capture(arguments, UNFIT, keep)
        if not outputs.tensors:
            raise Bad(
                f"{self.qualname} returned no tensor.",
                "Return a tensor, or a tuple, list, dict or dataclass that holds one.",
                self.path,
                self.line,
            )
        return outputs, ranges, after

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return self._measured(call)
        except (torch.cuda.OutOfMemoryError, MemoryError) as error:
            raise self._too_large(error) from error
        except (Exception, SystemExit) as error:
            raise blame(
                error,
                f"The forward pass of {self.qualname} raised",
                "Check that get_inputs() or the table fits forward().",
                self.path,
                self.line,
            ) from error

    def _passing(self, nbytes: int) -> bool:
        """Whether so many bytes may lie on the device for a short while."""
        free = torch.cuda.mem_get_info()[0] if self.device == "cuda" else _memory()
        return nbytes <= PASSING_SHARE[self.device] * free

    def _measured(self, call: Callable[[], Any]) -> Any:
        """Make a call, and note how long it takes and what memory it needs meanwhile."""
        modules.synchronize(self.device)
        before = 0
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        begin = time.monotonic()
        result = call()
        modules.synchronize(self.device)
        self.call_s = time.monotonic() - begin
        if self.device == "cuda":
            taken = torch.cuda.max_memory_allocated() - before
            self._working = max(self._working, taken - nbytes_of(result))
        return result

    def _capture(self, tree: Any, message: str, keep: bool) -> tensorfile.Loaded:
        """Return a copy of a tree; on the GPU while there is room for it."""
        nbytes = nbytes_of(tree)
        place = "cpu"
        if self.device == "cuda":
            _, total = torch.cuda.mem_get_info()
            if not keep:
                place = "cuda" if self._passing(nbytes) else "cpu"
            elif self._kept + nbytes <= DEVICE_SHARE * total:
                self._kept += nbytes
                place = "cuda"
        return self._copy(tree, place, message)

    def _copy(self, tree: Any, device: str, message: str) -> tensorfile.Loaded:
        try:
            return tensorfile.capture(tree, device)
        except values.NotPlain as error:
            raise self._not_plain(message, error) from error

    def cotangents(self, path: str) -> list[torch.Tensor | None]:
        """Return the gradients that flow into the outputs of a case."""
        return list(tensorfile.load(path, device=self.device).tree(self.device))

    @property
    def what(self) -> str:
        """What `compare.compare` is to call the outputs; a training step's tree has names of its own."""
        return "" if self.mode == modules.TRAINING else "output"

    def output_names(self, outputs: tensorfile.Loaded) -> list[str]:
        """Return what each output tensor is called in messages, in the order of `outputs.tensors`."""
        leaves = values.flatten(outputs.skeleton)
        named = {
            leaf["v"]: compare.name_of(self.what, path)
            for path, leaf in leaves
            if isinstance(leaf, dict) and leaf.get("k") == "tensor"
        }
        return [named[index] for index in range(len(outputs.tensors))]

    def arguments(self, inputs_path: str) -> making.Arguments:
        """Return fresh inputs of a case on the device."""
        loaded = self.before(inputs_path)
        if self._latest is not None and loaded is self._latest[1]:
            loaded = _copied(loaded)
        tree = self._tree(loaded, self.device)
        return tree[0], tree[1]

    def before(self, inputs_path: str) -> tensorfile.Loaded:
        """Return inputs on the device, to look at them only."""
        if self._latest is not None and self._latest[0] == inputs_path:
            return self._latest[1]
        return tensorfile.load(inputs_path, device=self.device)

    def _tree(self, loaded: tensorfile.Loaded, device: str) -> Any:
        return loaded.tree(device, lambda name: loading.lookup(self.document, name))

    def fingerprints(self, case: Case) -> list[int]:
        """Return the fingerprints of a case's inputs (see `forward.fingerprint`)."""
        if case.fingerprints is None:
            case.fingerprints = [forward.fingerprint(tensor) for tensor in self.before(case.inputs_path).tensors]
        return case.fingerprints

    @property
    def own_errors(self) -> list[float] | None:
        """For each output the reference's own relative error against float64, on the first case; None if unknown."""
        return self.cases[0].own_errors

    def release(self) -> None:
        """Give the device's memory back; the module stays on the CPU."""
        if self.device == "cuda":
            self.module = self.module.cpu()
            torch.cuda.empty_cache()


def nbytes_of(tree: Any) -> int:
    """Return the bytes that the elements of a tree's tensors take."""
    return sum(tensor.numel() * tensor.element_size() for tensor in modules.tensors_of(tree))


def _copied(loaded: tensorfile.Loaded) -> tensorfile.Loaded:
    """Return the same in memory of its own."""
    copies = [
        tensorfile.bytes_of(tensor).clone().view(tensor.dtype).as_strided(tensor.shape, tensor.stride())
        for tensor in loaded.tensors
    ]
    return tensorfile.Loaded(loaded.skeleton, copies, loaded.heads)


def choose_device(wanted: str) -> str:
    """Return `cpu` or `cuda`.

    Raises
    ------
    Bad
        CUDA is asked for, and torch sees no GPU.
    """
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        build = "" if torch.version.cuda else " (a build without CUDA)"
        raise Bad(
            f"Device cuda was asked for, but torch {torch.__version__}{build} sees no GPU.",
            "Choose device cpu or auto, or install a CUDA build of torch and check nvidia-smi.",
        )
    return "cuda" if wanted != "cpu" and available else "cpu"


def _memory() -> int:
    """Return the machine's memory in bytes."""
    return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))
