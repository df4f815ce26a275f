"""Run a script and note what a class is constructed and called with.

Started as `<python> …/judge/__main__.py record OUT CLASS CALLS SCRIPT [ARGUMENT…]`. CLASS is `package.module:Class`, or
`file.py::Class`. After CALLS calls of the class the process is ended (0 lets it run to its end). OUT is written as JSON
at calls already, whatever becomes of the script.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import json
import math
import multiprocessing
import os
import runpy
import sys
import threading
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from ...contract.secrets import KEY, names_secret

NOTED = 1000
"""Calls that are told apart at most."""
LONGEST = 1000
"""Characters and items of a plain value at most."""
UNKNOWN = "cannot be described"
"""Stands where a value raises while it is looked at."""


def main(out: str, wanted: str, calls: str, script: str, *arguments: str) -> None:
    """Run the script that the arguments name."""
    sys.argv[:] = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")  # else what is compiled makes its calls unseen
    recorder = Recorder(wanted, int(calls), script, out)
    recorder.install()
    sys.excepthook = _told
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        with recorder._lock:  # threads may go on
            recorder.write()


def _told(kind: Any, error: BaseException, trace: Any) -> None:
    """Print an error of the script as without us: our own frames, and those that started it, tell nothing."""
    judge = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    ours = (judge, runpy.run_path.__code__.co_filename)
    frames = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(ours):
            frames.append(trace)
        trace = trace.tb_next
    for frame, following in zip(frames, [*frames[1:], None]):
        frame.tb_next = following
    trace = frames[0] if frames else None
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


class Recorder:
    """Notes constructions and calls of one class.

    Parameters
    ----------
    limit
        Calls after which the script is stopped; 0 for never.
    script
        The script, whose own classes belong to `__main__`.
    out
        The file to write.
    """

    def __init__(self, wanted: str, limit: int, script: str, out: str) -> None:
        file, double, name = wanted.partition("::")
        self._file = os.path.realpath(file) if double else ""
        self._module, _, single = ("", "", "") if double else wanted.rpartition(":")
        self._qualname = name or single
        self._limit = limit
        self._script = os.path.realpath(script)
        self._classes: dict[type, str] = {}
        """The classes of that name, with their files."""
        self._made: dict[int, tuple[Any, Any]] = {}
        """Descriptions of what instances were constructed with, and the instances, so that no id is used again."""
        self._calls: dict[str, dict[str, Any]] = {}
        self._count = 0
        self._out = out
        self._lock = threading.RLock()

    def install(self) -> None:
        """See every class of modules that is defined from now on, and every call of one."""
        import torch

        recorder, module = self, torch.nn.Module
        plain_call = module.__call__

        def defined(cls: Any, /, **kwargs: Any) -> None:
            super(module, cls).__init_subclass__(**kwargs)
            if cls.__qualname__ == recorder._qualname:
                recorder._watch(cls)

        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not recorder._matches(type(self)):
                return plain_call(self, *args, **kwargs)
            call = recorder._described(self, args, kwargs)  # before it, as it may change them
            result = plain_call(self, *args, **kwargs)
            with recorder._lock:
                recorder._note(call)
            return result

        watching: Any = module
        watching.__init_subclass__ = classmethod(defined)
        module.__call__ = called
        found = getattr(sys.modules.get(self._module), self._qualname, None)
        if isinstance(found, type) and issubclass(found, module):
            self._watch(found)  # torch's own classes are there already

    def _matches(self, cls: type) -> bool:
        """Whether a class is the wanted one; a module that re-exports it binds it only after it is defined."""
        if cls not in self._classes:
            return False
        if self._file:
            return self._classes[cls] == self._file
        stem = os.path.splitext(os.path.basename(self._script))[0]
        return (
            cls.__module__ == self._module
            or (cls.__module__ == "__main__" and self._module in (stem, ""))
            or getattr(sys.modules.get(self._module), self._qualname, None) is cls
        )

    def _watch(self, cls: Any) -> None:
        self._classes[cls] = _file_of(cls, self._script)
        plain_init = cls.__init__
        recorder = self

        @functools.wraps(plain_init)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            if type(self) is cls and id(self) not in recorder._made:
                recorder._made[id(self)] = (_passed(plain_init, args, _named(kwargs, None)), self)
            plain_init(self, *args, **kwargs)

        cls.__init__ = init

    def _described(self, module: Any, args: Any, kwargs: Any) -> dict[str, Any]:
        home = type(module).__module__
        return {
            **_passed(type(module).forward, args, _named(kwargs, type(module).forward)),
            "module": home,
            "torch": getattr(sys.modules.get(home), "torch", None) is sys.modules["torch"],
            "training": bool(module.training),
            "dtype": converted_to(module),
            "autocast": autocast(),
            "init": self._made.get(id(module), (None, None))[0],
            "file": self._classes[type(module)],
        }

    def _note(self, call: dict[str, Any]) -> None:
        """Note a call that returned."""
        self._count += 1
        if len(self._calls) < NOTED:
            known = self._calls.setdefault(json.dumps(_form(call)), {**call, "count": 0})
            known["count"] += 1
            _widen(known, call)
            if known["count"] == 1 or self._count <= NOTED:
                self.write()
        if self._limit and self._count >= self._limit:
            self._end()

    def _end(self) -> None:
        """End the process at once: no `except` holds it, no `finally` saves half-trained weights, no thread goes on."""
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            for child in multiprocessing.active_children():  # workers of data loaders, say
                child.terminate()
        finally:
            os._exit(0)

    def write(self) -> None:
        """Write what was seen: the commonest call, of those that can be described if there are any."""
        seen = sorted(self._calls.items(), key=lambda one: (UNKNOWN in one[0], -int(one[1]["count"])))
        unknown = sum(call["count"] for form, call in seen if UNKNOWN in form)
        calls = [{**call, "unknown": unknown} for _, call in seen[:1]]
        told = {
            "defined": any(map(self._matches, self._classes)),
            "constructed": any(self._matches(type(made)) for _, made in self._made.values()),
            "calls": calls,
        }
        scratch = f"{self._out}.{os.getpid()}"
        with open(scratch, "w", encoding="utf-8") as file:
            json.dump(told, file)
        os.replace(scratch, self._out)


def autocast() -> str:
    """Return the dtype that a call made now is cast to, empty for none."""
    import torch

    on = [device for device in ("cuda", "cpu") if torch.is_autocast_enabled(device)]
    return str(torch.get_autocast_dtype(on[0])).replace("torch.", "") if on else ""


def converted_to(module: Any) -> str:
    """Return the dtype of all floating-point weights, empty where there are none or several."""
    import torch

    try:
        state = [value for value in module.state_dict().values() if isinstance(value, torch.Tensor)]
    except Exception:  # noqa: BLE001 - a class of the user's own, or FSDP amid a call; parameters are the most of it
        state = list(module.parameters())
    found = {str(value.dtype).replace("torch.", "") for value in state if value.dtype.is_floating_point}
    return found.pop() if len(found) == 1 else ""


def _file_of(cls: type, script: str) -> str:
    module = sys.modules.get(cls.__module__)
    file = script if cls.__module__ == "__main__" else getattr(module, "__file__", None)
    return os.path.realpath(file) if file else ""


def _passed(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return descriptions of the arguments of a call, those of keywords being there."""
    names = _names(function, len(args))
    described = [describe(one, names_secret(name)) for one, name in zip_longest(args, names, fillvalue="")]
    return {"args": described, "kwargs": kwargs, "names": names}


def _named(kwargs: dict[str, Any], function: Any) -> dict[str, Any]:
    """Return descriptions of keyword arguments, without those that are None as by default."""
    try:
        parameters = inspect.signature(function).parameters if function is not None else {}
    except (TypeError, ValueError):
        parameters = {}
    return {
        name: describe(value, names_secret(name))
        for name, value in kwargs.items()
        if not (value is None and name in parameters and parameters[name].default is None)
    }


def _names(function: Any, count: int) -> list[str]:
    """Return by which names the first arguments behind self can be passed; fewer than there are where not all can."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[1 : count + 1]
    except (TypeError, ValueError):
        return []
    return [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]


def describe(value: Any, hidden: bool = False, depth: int = 0) -> dict[str, Any]:
    """Return a value as JSON: tensors by their form, plain values as they are, all else by its type.

    Parameters
    ----------
    hidden
        Whether it goes by the name of a secret.
    """
    try:
        return _described(value, hidden, depth)
    except Exception as error:  # noqa: BLE001 - whatever torch's modes and classes of the user raise; it is told there
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return {"other": f"a {type(value).__qualname__} that {UNKNOWN} ({said})"}


def _described(value: Any, hidden: bool, depth: int) -> dict[str, Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return {"value": value}
    if isinstance(value, str) and ((hidden and value) or KEY.search(value)):
        return {"other": "what looks like a secret, and is not written down"}
    if isinstance(value, str) and len(value) <= LONGEST:
        return {"value": value}
    if isinstance(value, (list, tuple)) and len(value) <= LONGEST and depth < 8 and not hasattr(value, "_fields"):
        return {("list" if isinstance(value, list) else "tuple"): [describe(item, hidden, depth + 1) for item in value]}
    if isinstance(value, dict) and len(value) <= LONGEST and depth < 8 and all(isinstance(key, str) for key in value):
        return {"dict": _fields(value, hidden, depth)}
    if isinstance(value, (torch.dtype, torch.device)):
        return {"code": str(value) if isinstance(value, torch.dtype) else f"torch.device({str(value)!r})"}
    kind = type(value)
    if isinstance(value, enum.Enum) and value.name in kind.__members__ and "<" not in kind.__qualname__:
        return {"enum": f"{kind.__qualname__}.{value.name}", "module": kind.__module__}
    if isinstance(value, type):
        return {"other": f"the class {value.__qualname__}"}
    opaque = isinstance(value, (torch.nn.Module, enum.Enum)) or callable(value) or "<" in kind.__qualname__
    if depth < 8 and not opaque and hasattr(value, "__dict__"):
        if dataclasses.is_dataclass(value):  # its constructor takes no more
            fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init}
        else:
            fields = {name: one for name, one in vars(value).items() if not name.startswith("_")}
        return {
            "object": kind.__qualname__,
            "module": kind.__module__,
            "fields": _fields(fields, hidden, depth),
        }
    return {"other": f"a {kind.__module__}.{kind.__qualname__}"}


def _fields(value: dict[str, Any], hidden: bool, depth: int) -> dict[str, Any]:
    return {name: describe(one, hidden or names_secret(name), depth + 1) for name, one in value.items()}


def _tensor(value: Any) -> dict[str, Any]:
    import torch

    found: dict[str, Any] = {
        "shape": [int(size) for size in value.shape],  # while it is traced, a size is a tensor
        "dtype": str(value.dtype).replace("torch.", ""),
        "device": value.device.type,
    }
    if value.layout is torch.strided and not value.is_contiguous():
        found["strides"] = list(value.stride())
    with torch.no_grad():
        if value.layout is torch.strided and value.numel() and not value.is_complex() and not value.is_meta:
            low, high = value.detach().aminmax() if value.dtype is not torch.bool else (value.all(), value.any())
            low, high = low.item(), high.item()
            if value.dtype.is_floating_point and low <= torch.finfo(value.dtype).min:
                return {"other": f"a {found['dtype']} tensor of shape {found['shape']} that masks, holding {low}"}
            if math.isfinite(low) and math.isfinite(high):
                found["low"], found["high"] = low, high
    return {"tensor": found}


def _form(described: Any) -> Any:
    """Return a description without what differs from call to call of the same form."""
    if isinstance(described, dict):
        return {key: _form(value) for key, value in described.items() if key not in ("low", "high")}
    return [_form(item) for item in described] if isinstance(described, list) else described


def _widen(known: Any, other: Any) -> None:
    """Let the ranges of a description hold those of another one of the same form."""
    if isinstance(known, dict) and isinstance(other, dict):
        for key, value in other.items():
            if key in ("low", "high") and key in known:
                known[key] = (min if key == "low" else max)(known[key], value)
            else:
                _widen(known.get(key), value)
    elif isinstance(known, list) and isinstance(other, list):
        for one, another in zip(known, other):
            _widen(one, another)
