"""Try inputs for a class: construct it and call it once, and tell what the failure was about.

The document is loaded once; each try runs the functions that would be written into it. A failure is told with all that
helps to mend the inputs: the message, the statement that failed in the class and the comparisons in it with their
values, the module that refused its input, and how far the call came.
"""

from __future__ import annotations

import inspect
import time
import traceback
import types
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ...contract.errors import describe
from ..correctness.difference import finite
from ..reference import loading, modules
from ..reference.original import choose_device
from ..transport import tensorfile, values
from .blame import SHOWN, facts_of, nothing_of, statement_of, unset_of
from .making import as_arguments

LARGE = 2 << 30
"""Bytes of weights from which a class is too large to be tried."""
SEEDS = (modules.CONSTRUCTION_SEED, 43, 44)
"""Inputs are to run whatever numbers they hold, as random lengths or indices may not."""
AGAIN_S = 2.0
"""Seconds after which no further seed is tried."""
_SMALL = (bool, int, float, str, tuple, list, type, type(None))
"""Arguments that make no class too large; configurations do."""


class Trial:
    """Tries inputs for one class of a document, on a device that is a value of `core.DeviceChoice`.

    Raises
    ------
    Bad
        The document cannot be loaded, or has no such class.
    """

    def __init__(self, path: str, text: str, qualname: str, device: str) -> None:
        self._path = path
        self._document = loading.load_document(path, text)
        self._class: Any = loading.find_class(self._document, path, qualname, None)
        self._device = choose_device(device)
        self._made: tuple[str, Any] | None = None
        """The module that was constructed last, and the text of its arguments."""

    def attempt(self, init: str, inputs: str, mode: str) -> dict[str, Any]:
        """Try one pair of functions, `get_init_inputs` (its text may be empty) and `get_inputs`.

        Returns
        -------
        `{"ok": true}` or what a failure was about.
        """
        began = time.monotonic()
        for seed in SEEDS:
            stage, steps = "init", _Steps()
            try:
                arguments = self._call(init, "get_init_inputs")
                stage = "construct"
                module = self._construct(init, arguments, mode)
                stage = "inputs"
                torch.manual_seed(seed)
                args, kwargs = modules.to_device(self._call(inputs, "get_inputs"), self._device)
                values.encode((args, kwargs), [])
                stage = "forward"
                with modules.forward_context(mode), steps:
                    output = module(*args, **kwargs)
                stage = "output"
                self._check(output)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code; told to whoever mends its inputs
                return {"ok": False, "stage": stage, "steps": steps.count, **self._failure(error)}
            if time.monotonic() - began > AGAIN_S:
                break
            # What it remembers of a call is nothing that its inputs are to blame for.
            self._made = None
        return {"ok": True}

    def _call(self, source: str, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not source:
            return (), {}
        namespace = dict(vars(self._document))
        exec(compile(source, "<inputs>", "exec", dont_inherit=True), namespace)
        return as_arguments(namespace[name](), name, self._path, None)

    def _construct(self, init: str, arguments: Any, mode: str) -> Any:
        if self._made is not None and self._made[0] == init:
            return self._made[1]
        self._made = None
        tensors: list[torch.Tensor] = []
        skeleton = values.encode(arguments, tensors)
        # As candidates get them, who are constructed in another process.
        args, kwargs = values.decode(skeleton, tensors, lambda name: loading.lookup(self._document, name))
        if not all(isinstance(value, _SMALL) for value in (*args, *kwargs.values())):
            self._refuse_large(args, kwargs)
        torch.manual_seed(modules.CONSTRUCTION_SEED)
        module = modules.place(self._class(*args, **kwargs), self._device, mode)
        self._made = init, module
        return module

    def _refuse_large(self, args: Any, kwargs: Any) -> None:
        """Ask for the size without taking the memory, where the constructor bears that."""
        try:
            with torch.device("meta"):
                module = self._class(*args, **kwargs)
                size = sum(weight.numel() * weight.element_size() for weight in module.parameters())
        except Exception:  # noqa: BLE001 - whatever is wrong is found again, without the device
            return
        if size > LARGE:
            raise TooLarge(f"the weights would take {size / 2**30:.1f} GiB")

    def _check(self, output: Any) -> None:
        tensors = modules.tensors_of(tensorfile.capture(output, "cpu").tree("cpu"))
        if not tensors:
            raise NoOutput("the output holds no tensor")
        if not any(finite(tensor).any() for tensor in tensors if tensor.numel()):
            raise NoOutput("the output has no finite value")

    def _failure(self, error: BaseException) -> dict[str, Any]:
        frames = list(traceback.walk_tb(error.__traceback__))
        own = [
            (frame, line)
            for frame, line in frames
            if isinstance(frame.f_locals.get("self"), self._class) and not frame.f_code.co_name.endswith("_call_impl")
        ]
        refusing = next(
            (frame for frame, _ in reversed(frames) if isinstance(frame.f_locals.get("self"), torch.nn.Module)), None
        )
        return {
            "kind": type(error).__name__,
            "message": str(error)[:2000],
            "said": describe(error),
            "statements": [statement_of(frame, line) for frame, line in own[:1] + own[-1:]],
            "facts": [fact for frame, line in reversed(frames[-6:]) for fact in facts_of(frame, line)][:SHOWN],
            "module": _module(refusing) if refusing is not None else None,
            "of": _parameters(self._class),
            "unset": unset_of(error, frames),
            "nothing": nothing_of(frames),
            "own": self._numbers(frames),
        }

    def _numbers(self, frames: list[Any]) -> dict[str, int]:
        """Return the sizes that the module holds, and those of the modules inside it that were called."""
        found: dict[str, int] = _own_numbers(self._made[1]) if self._made is not None else {}
        for frame, _ in reversed(frames):
            inner = frame.f_locals.get("self")
            if isinstance(inner, torch.nn.Module) and not type(inner).__module__.startswith("torch."):
                found = {**found, **{name: n for name, n in _own_numbers(inner).items() if name not in found}}
        return dict(list(found.items())[:SHOWN])


class TooLarge(Exception):
    """A class that is too large to be tried."""


class NoOutput(Exception):
    """A call whose result could not be compared with anything."""


class _Steps(TorchFunctionMode):
    """Counts the calls of torch, to know how far a forward came."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.count += 1
        return result


def _parameters(cls: Any) -> dict[str, Any]:
    """Return what the parameters are called that the class is constructed or called with, and which have defaults."""
    found: dict[str, Any] = {}
    for name, function in (("init", cls.__init__), ("forward", cls.forward)):
        try:
            parameters = list(inspect.signature(function).parameters.values())[1:]
        except (TypeError, ValueError):
            continue
        found[name] = [
            {
                "name": parameter.name,
                "required": parameter.default is parameter.empty,
                "kind": parameter.kind.name,
                "annotation": _annotation(parameter.annotation, parameter.empty),
            }
            for parameter in parameters[:SHOWN]
        ]
    return found


def _annotation(annotation: Any, empty: Any) -> str:
    if annotation is empty:
        return ""
    if isinstance(annotation, str):
        return annotation
    name = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return name.replace("typing.", "")


def _own_numbers(module: Any) -> dict[str, int]:
    """Return the sizes that a module and its configuration hold, by name; those of a pair with its place."""
    found: dict[str, int] = {}
    for holder in (module, *(value for value in vars(module).values() if hasattr(value, "__dict__"))):
        if isinstance(holder, torch.nn.Module) and holder is not module:
            continue
        for name, value in list(vars(holder).items())[:200]:
            items = value if isinstance(value, (tuple, list)) else [value]
            for index, number in enumerate(items[:8]):
                if type(number) is int and 1 < number <= 1 << 16:
                    found.setdefault(f"{name}.{index}" if items is value else name, number)
    return dict(list(found.items())[:SHOWN])


def _module(frame: types.FrameType) -> dict[str, Any]:
    """Return what a module is that refused its input: its sizes, those of its weights, and the shapes it was given."""
    module = frame.f_locals["self"]
    sizes = {}
    for name, value in vars(module).items():
        listed = isinstance(value, (tuple, list)) and value and all(type(item) is int for item in value)
        if not name.startswith("_") and not isinstance(value, bool) and (isinstance(value, int) or listed):
            sizes[name] = list(value) if listed else value
    shapes = [list(value.shape) for value in frame.f_locals.values() if isinstance(value, torch.Tensor)]
    made = "_parameters" in vars(module)  # not before its own constructor called nn.Module's
    weights = [list(weight.shape) for weight in list(module.parameters(recurse=False))[:4]] if made else []
    return {
        "sizes": dict(list(sizes.items())[:SHOWN]),
        "shapes": shapes[:8],
        "weights": weights,
    }
