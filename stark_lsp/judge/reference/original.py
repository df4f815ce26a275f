"""The user's class as it was loaded: constructed, given inputs, called, and measured meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from ...contract.errors import Bad, blame, first_line
from ..correctness import compare, layout, stepping
from ..correctness.state import State
from ..inputs import making
from ..processes.limits import memory_limit
from ..transport import tensorfile, values
from . import loading, modules

HOLD_LIMIT = 1 << 30
"""Bytes of outputs up to which the first result is kept while another is made."""
DEVICE_SHARE = 0.05
"""Share of a GPU's memory that expected outputs may take; they are compared there."""
CONVERTED = {torch.bfloat16: "bfloat16", torch.float16: "float16", torch.float64: "float64"}
"""What callers convert a class to, by the dtype of its inputs."""
UNFIT = "An input cannot be handed to a candidate"
PASSING_SHARE = {"cpu": 0.05, "cuda": 0.2}
"""Share of the memory of a device that one result, or the inputs of the latest case, may take for a short while."""


class Original:
    """The user's class on its device; parameters and errors as of `Reference`."""

    def __init__(self, problem: dict[str, Any], folder: str, progress: Callable[[str], None]) -> None:
        self.path: str = problem["path"]
        self.text: str = problem["text"]
        self.qualname: str = problem["qualname"]
        self.mode: str = problem["mode"]
        self.line = int(problem["class_span"]["start"]) + 1
        """1-based line of the class."""
        self.device = choose_device(problem["device"])
        self.folder = folder
        self.weights_dtype = ""
        """The dtype that the class is converted to after it was constructed, empty for none."""
        self.autocast = ""
        """The dtype that its calls are cast to, empty for none."""
        self.tolerance = compare.USUAL
        """How far results may be from its own."""
        self.unconverted = ""
        """Why it is not converted to the dtype of its inputs; empty where it is, or has no need to."""
        self.changes_inputs = False
        """Whether a call changes its inputs in place."""
        self.state: State | None = None
        """Buffers that calls change, as each call finds them; None where there are none."""
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
        with loading.reading():
            self.document = loading.load_document(self.path, self.text)
        self._class = loading.find_class(self.document, self.path, self.qualname, self.line)
        self._maker = making.InputMaker(self.document, problem["inputs"], self.path)
        progress("Constructing the reference")
        self.init_path = os.path.join(folder, "init.raw")
        self.weights_path = os.path.join(folder, "weights.raw")
        self.module = self._construct()

    def _construct(self) -> Any:
        """Build the module; its arguments and weights go to files."""
        args, kwargs = self._maker.init_arguments(modules.CONSTRUCTION_SEED)
        self.save(self.init_path, (args, kwargs), "An argument of the constructor cannot be handed to a candidate")
        try:
            torch.manual_seed(modules.CONSTRUCTION_SEED)
            with loading.reading():
                module = self._class(*args, **kwargs)
            self._refuse_lazy(module)
            self.autocast = self._maker.autocast
            self.tolerance = compare.Tolerance(self.autocast)
            self.weights_dtype = self._maker.weights_dtype or ("" if self.autocast else self._inputs_want(module))
            module = modules.used(module, self.weights_dtype, self.autocast, self.device)
            self._save_weights(module)
            self.begun = modules.sizes_of_weights(module)
            """How large its weights are when it is constructed."""
            return modules.place(module, self.device, self.mode)
        except Bad:
            raise
        except torch.cuda.OutOfMemoryError as error:
            raise self._too_large(error) from error
        except (Exception, SystemExit) as error:
            cure = "Check get_init_inputs() or init_args: they are the arguments of __init__."
            raise blame(error, f"{self.qualname} cannot be constructed", cure, self.path, self.line) from error

    def _refuse_lazy(self, module: Any) -> None:
        """Refuse layers whose weights have no shape yet: kernels that read these would fail in a user's first call."""
        state = itertools.chain(module.named_parameters(), module.named_buffers())
        layers = dict.fromkeys(name.rpartition(".")[0] for name, one in state if is_lazy(one))
        if layers:
            raise self.refusal(
                f"The weights of {', '.join(layers)} in {self.qualname} have no shape before a first call (lazy).",
                "Give the sizes, for instance nn.Linear in place of nn.LazyLinear; print() of the module after a call "
                "shows them.",
            )

    def _inputs_want(self, module: Any) -> str:
        """Return what a class is to be converted to that was constructed in float32, empty for nothing.

        A class that is used in bfloat16 is converted by its caller, of whom a file says nothing: where its inputs
        are of such a dtype, and it runs converted, that is meant. (As it is it may run as well, in float32, which a
        norm that multiplies by its weight last makes of everything.) A table can say `float32`.
        """
        state = [value for value in module.state_dict().values() if isinstance(value, torch.Tensor)]
        if {value.dtype for value in state if value.dtype.is_floating_point} != {torch.float32}:
            return ""
        # Without memory, where the function bears that; by a maker of its own, which notes what it does not bear.
        made = making.InputMaker(self.document, self._maker.spec, self.path).inputs(modules.CONSTRUCTION_SEED, "meta")
        floating = {tensor.dtype for tensor in modules.tensors_of(made) if tensor.dtype.is_floating_point}
        if len(floating) != 1 or not floating <= set(CONVERTED):
            return ""
        args, kwargs = modules.to_device(self._maker.inputs(modules.CONSTRUCTION_SEED, self.device), self.device)
        dtype = CONVERTED[floating.pop()]
        try:
            with torch.no_grad():
                modules.place(modules.copied(module).to(getattr(torch, dtype)), self.device, self.mode)(*args, **kwargs)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's class; as it is, it is called again
            self.unconverted = (
                f"The inputs are {dtype}, but converted to that the class does not run ({first_line(error)}), so it is "
                "judged as it is constructed. The dtype it is meant to have can be said by `dtype` in its input table."
            )
            return ""
        return dtype

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
        with self._plain(message):
            return tensorfile.save(path, tree)

    def refusal(self, message: str, cure: str, kind: type[Bad] = Bad) -> Bad:
        """Return an error that is about the class."""
        return kind(message, cure, self.path, self.line)

    @contextlib.contextmanager
    def _plain(self, message: str) -> Iterator[None]:
        """Refuse what is not plain in the block."""
        try:
            yield
        except values.NotPlain as error:
            cure = "Use tensors, numbers, texts, lists, tuples, dicts, dataclasses and modules of these."
            raise self.refusal(f"{message}: {error}.", cure) from error

    def _too_large(self, error: BaseException) -> Bad:
        return blame(error, "The reference does not fit into memory", "Use smaller inputs.", self.path, self.line)

    def loaded(self, path: str) -> making.Arguments:
        """Return the inputs of a file on the CPU."""
        return self._tree(tensorfile.load(path), "cpu")

    def _made(self, seed: int) -> making.Arguments:
        """Return inputs as the user makes them."""
        # The first use of a GPU takes seconds of its own.
        modules.synchronize(self.device)
        begin = time.monotonic()
        made = self._maker.inputs(seed, self.device)
        modules.synchronize(self.device)
        self._making_s = min(self._making_s or float("inf"), time.monotonic() - begin)
        return made

    def arguments(self, inputs_path: str) -> making.Arguments:
        """Return fresh inputs of a case on the device."""
        loaded = self.before(inputs_path)
        if self._latest is not None and loaded is self._latest[1]:
            loaded = loaded.copied()
        return self._tree(loaded, self.device)

    def before(self, inputs_path: str) -> tensorfile.Loaded:
        """Return inputs on the device, to look at them only."""
        if self._latest is not None and self._latest[0] == inputs_path:
            return self._latest[1]
        return tensorfile.load(inputs_path, device=self.device)

    def cotangents(self, path: str) -> list[torch.Tensor | None]:
        """Return the gradients that flow into the outputs of a case."""
        return list(tensorfile.load(path, device=self.device).tree(self.device))

    def _tree(self, loaded: tensorfile.Loaded, device: str) -> making.Arguments:
        args, kwargs = loaded.tree(device, lambda name: loading.lookup(self.document, name))
        return args, kwargs

    def call(
        self, inputs_path: str, cotangents: str, *, with_inputs: bool = False, keep: bool = True, hold: bool = False
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
        hold
            Whether the result lives until the next one is there, so that memory that is used again is seen.

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
        self.begin()
        result = self._call(lambda: stepping.step(self.module, arguments, self.mode, flows))
        unfit = f"{self.qualname} returned something that cannot be compared"
        found: list[torch.Tensor] = []
        with self._plain(unfit):
            values.encode(result, found)
        ranges = layout.report(found, arguments, self.module, self._held)
        self._held = found if hold and modules.nbytes_of(result) <= HOLD_LIMIT else []
        outputs = self._capture(result, unfit, keep)
        after = None
        if with_inputs or self.changes_inputs:
            after = self._capture(arguments, UNFIT, keep)
        if not outputs.tensors:
            cure = "Return a tensor, or a tuple, list, dict or dataclass that holds one."
            raise self.refusal(f"{self.qualname} returned no tensor.", cure)
        return outputs, ranges, after

    def begin(self) -> None:
        """Have the next call begin with the buffers that the first one began with."""
        if self.state is not None:
            self.state.put_back()

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return self._measured(call)
        except (torch.cuda.OutOfMemoryError, MemoryError) as error:
            raise self._too_large(error) from error
        except (Exception, SystemExit) as error:
            cure = "Check that get_inputs() or the table fits forward()."
            raise blame(error, f"The forward pass of {self.qualname} raised", cure, self.path, self.line) from error

    def _passing(self, nbytes: int) -> bool:
        """Whether so many bytes may lie on the device for a short while."""
        free = torch.cuda.mem_get_info()[0] if self.device == "cuda" else memory_limit(1.0)
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
            self._working = max(self._working, taken - modules.nbytes_of(result))
        return result

    def _capture(self, tree: Any, message: str, keep: bool) -> tensorfile.Loaded:
        """Return a copy of a tree; on the GPU while there is room for it."""
        nbytes = modules.nbytes_of(tree)
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
        with self._plain(message):
            return tensorfile.capture(tree, device)

    def release(self) -> None:
        """Give the device's memory back; the module stays on the CPU."""
        if self.device == "cuda":
            self.module = self.module.cpu()
            torch.cuda.empty_cache()


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
