"""The reference: load the user's class, make its inputs, run it, and keep what it gave.

All of it is made once for each problem. The expected outputs stay in this process's memory.
"""

from __future__ import annotations

import copy
import os
import secrets
import time
from collections.abc import Callable
from typing import Any

import torch

from . import compare, inputs, loading, modules, tensorfile, training, values
from .errors import Bad, blame

FLOAT64_LIMIT = 256 << 20
"""Bytes of inputs up to which the reference is also run in float64."""
FLOAT64_SECONDS = 2.0
"""Longest forward pass for which that is affordable."""
MEMORY_SHARE = 0.25
"""Share of the machine's memory that inputs and expected outputs of all seeds may take."""


class Case:
    """One seed: its input file, and what the reference gives."""

    def __init__(self, inputs_path: str, outputs: tensorfile.Loaded, trained: bool) -> None:
        self.inputs_path = inputs_path
        self.outputs = outputs
        self.trained = trained
        """Whether the weights of `Reference.trained_path` belong to it, not those of the constructor."""


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

    Raises
    ------
    Bad
        The user's file, class or inputs cannot be used.
    """

    def __init__(self, problem: dict[str, Any], seeds: int, folder: str, progress: Callable[[str], None]) -> None:
        self.path: str = problem["path"]
        self.text: str = problem["text"]
        self.qualname: str = problem["qualname"]
        self.mode: str = problem["mode"]
        self._line = int(problem["class_span"]["start"]) + 1
        self.device = choose_device(problem["device"])
        self._folder = folder
        self.notes: list[str] = []
        self.cases: list[Case] = []
        self.own_errors: list[float] | None = None
        self.exact: list[torch.Tensor] | None = None
        """The float64 outputs for the first case."""
        self.inputs_after: tensorfile.Loaded | None = None
        """The first case's inputs after a forward pass, if the reference changes them."""
        progress("Loading the file")
        self.document = loading.load_document(self.path, self.text)
        self._class = loading.find_class(self.document, self.path, self.qualname, self._line)
        self._maker = inputs.InputMaker(self.document, problem["inputs"], self.path)
        progress("Constructing the reference")
        self.init_path = os.path.join(folder, "init.raw")
        self.weights_path = os.path.join(folder, "weights.raw")
        self.trained_path = os.path.join(folder, "trained.raw")
        self.module = self._construct()
        progress("Running the reference")
        self._run(seeds)

    def _construct(self) -> Any:
        """Build the module; its arguments and weights go to files."""
        args, kwargs = self._maker.init_arguments(modules.CONSTRUCTION_SEED)
        self._save(self.init_path, (args, kwargs), "An argument of the constructor cannot be handed to a candidate")
        try:
            torch.manual_seed(modules.CONSTRUCTION_SEED)
            module = self._class(*args, **kwargs)
            state = {key: value for key, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
            tensorfile.save(self.weights_path, state)
            return modules.place(module, self.device, self.mode)
        except torch.cuda.OutOfMemoryError as error:
            raise self._too_large(error) from error
        except (Exception, SystemExit) as error:
            raise blame(
                error,
                f"{self.qualname} cannot be constructed",
                "Check get_init_inputs() or init_args: they are the arguments of __init__.",
                self.path,
                self._line,
            ) from error

    def _save(self, path: str, tree: Any, message: str) -> int:
        try:
            return tensorfile.save(path, tree)
        except values.NotPlain as error:
            raise Bad(
                f"{message}: {error}.",
                "Use tensors, numbers, texts, lists, tuples, dicts and dataclasses of these.",
                self.path,
                self._line,
            ) from error

    def _too_large(self, error: BaseException) -> Bad:
        return blame(error, "The reference does not fit into memory", "Use smaller inputs.", self.path, self._line)

    def _run(self, seeds: int) -> None:
        """Make the cases, and check that the reference can be compared with at all."""
        drawn = secrets.SystemRandom()
        initial = copy.deepcopy(self.module.state_dict())
        trained = training.trained_state(self.module.to("cpu"))
        self.module.to(self.device)
        fit = seeds
        for index in range(seeds):
            # The first cases have the weights of the constructor, the rest such as training leaves.
            is_trained = trained is not None and index >= (seeds + 1) // 2
            if is_trained and not self.cases[-1].trained:
                tensorfile.save(self.trained_path, trained)
                self.module.load_state_dict(trained, strict=False)
            arguments = self._maker.inputs(drawn.randrange(1 << 31))
            path = os.path.join(self._folder, f"case{index}.raw")
            nbytes = self._save(path, arguments, "An input cannot be handed to a candidate")
            begin = time.monotonic()
            outputs, after = self._forward(path)
            took = time.monotonic() - begin
            self.cases.append(Case(path, outputs, is_trained))
            if index == 0:
                self._examine(path, outputs, after, took)
                fit = max(1, int(MEMORY_SHARE * _memory() / max(1, nbytes + _size(outputs))))
                if fit < seeds:
                    self.notes.append(f"The inputs are large: {fit} instead of {seeds} different ones are checked.")
            if index + 1 >= fit:
                break
        self.module.load_state_dict(initial, strict=False)
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def _forward(self, inputs_path: str) -> tuple[tensorfile.Loaded, tensorfile.Loaded]:
        """Return outputs and the inputs afterwards, by way of a file so that both sides are read alike."""
        arguments = self.arguments(inputs_path)
        try:
            with modules.forward_context():
                result = self.module(*arguments[0], **arguments[1])
            modules.synchronize(self.device)
        except torch.cuda.OutOfMemoryError as error:
            raise self._too_large(error) from error
        except MemoryError as error:
            raise self._too_large(error) from error
        except (Exception, SystemExit) as error:
            raise blame(
                error,
                f"The forward pass of {self.qualname} raised",
                "Check that get_inputs() or the table fits forward().",
                self.path,
                self._line,
            ) from error
        path = os.path.join(self._folder, f"expected-{secrets.token_hex(8)}.raw")
        try:
            self._save(path, result, f"{self.qualname} returned something that cannot be compared")
            outputs = tensorfile.load(path)
            self._save(path, arguments, "An input cannot be handed to a candidate")
            after = tensorfile.load(path)
        finally:
            if os.path.exists(path):
                os.unlink(path)
        if not outputs.tensors:
            raise Bad(
                f"{self.qualname} returned no tensor.",
                "Return a tensor, or a tuple, list, dict or dataclass that holds one.",
                self.path,
                self._line,
            )
        return outputs, after

    def arguments(self, inputs_path: str) -> inputs.Arguments:
        """Return fresh inputs of a case on the device."""
        tree = tensorfile.load(inputs_path).tree(self.device, lambda name: loading.lookup(self.document, name))
        return tree[0], tree[1]

    def _examine(self, path: str, outputs: tensorfile.Loaded, after: tensorfile.Loaded, seconds: float) -> None:
        """Refuse a reference that is random; note whether it changes its inputs; run it in float64."""
        again, _ = self._forward(path)
        try:
            compare.compare(outputs, again, compare.Figures())
        except compare.Mismatch as error:
            raise Bad(
                f"{self.qualname} gives different results for equal inputs: {error}",
                "Use eval mode, fix the seed inside forward(), or take the randomness out.",
                self.path,
                self._line,
            ) from error
        before = tensorfile.load(path)
        if not unchanged(before, after):
            self.inputs_after = after
            self.notes.append("The reference changes its inputs in place; a candidate must change them alike.")
        if all(not bool(torch.isfinite(tensor).any()) for tensor in outputs.tensors if tensor.numel()):
            self.notes.append("The reference's outputs hold no finite number.")
        if sum(tensor.numel() * tensor.element_size() for tensor in before.tensors) <= FLOAT64_LIMIT:
            self._run_float64(path, outputs, seconds)

    def _run_float64(self, path: str, outputs: tensorfile.Loaded, seconds: float) -> None:
        """Keep float64 outputs and the reference's own rounding error, where the class can do float64."""
        if seconds > FLOAT64_SECONDS:
            return
        try:
            wide = copy.deepcopy(self.module).double()
            args, kwargs = _widen(self.arguments(path))
            with modules.forward_context():
                result = wide(*args, **kwargs)
            exact = [tensor.detach().cpu() for tensor in modules.tensors_of(result)]
        except Exception as error:  # noqa: BLE001 - a class need not support float64; said in the notes
            self.notes.append(f"No float64 comparison: the class does not run in float64 ({type(error).__name__}).")
            return
        errors = compare.relative_errors(exact, outputs.tensors)
        if errors is None or any(error > 0.5 for error in errors):
            # Not the same function in float64, for instance because it branches on the dtype.
            return
        self.exact, self.own_errors = exact, errors

    def input_tensors(self) -> list[torch.Tensor]:
        """Return the first case's input tensors (CPU)."""
        return tensorfile.load(self.cases[0].inputs_path).tensors

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


def unchanged(before: tensorfile.Loaded, after: tensorfile.Loaded) -> bool:
    """Whether two files hold the same tensors, bit by bit."""
    if len(before.tensors) != len(after.tensors) or before.skeleton != after.skeleton:
        return False
    for a, b in zip(before.tensors, after.tensors):  # noqa: B905 - Python 3.9
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.numel() and not torch.equal(_bits(a), _bits(b)):
            return False
    return True


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor, so that NaN equals itself."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _widen(tree: Any) -> Any:
    """Return arguments with floating tensors in float64."""
    if isinstance(tree, torch.Tensor):
        return tree.double() if tree.dtype.is_floating_point else tree
    if isinstance(tree, tuple) and not hasattr(tree, "_fields"):
        return tuple(_widen(item) for item in tree)
    if isinstance(tree, list):
        return [_widen(item) for item in tree]
    if isinstance(tree, dict):
        return {key: _widen(item) for key, item in tree.items()}
    return tree


def _memory() -> int:
    """Return the machine's memory in bytes."""
    return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))


def _size(loaded: tensorfile.Loaded) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in loaded.tensors)
