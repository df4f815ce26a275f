"""Try inputs for a class: construct it and call it once, and tell what the failure was about.

The document is loaded once; each try runs the functions that would be written into it. A failure is told with all that
helps to mend the inputs: the message, the statement that failed in the class and the comparisons in it with their
values, the module that refused its input, and how far the call came.
"""

from __future__ import annotations

import ast
import linecache
import math
import sys
import types
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from . import loading, modules, tensorfile, values
from .errors import describe
from .inputs import as_arguments
from .reference import choose_device

LARGE = 2 << 30
"""Bytes of weights from which a class is too large to be tried."""
_SMALL = (bool, int, float, str, tuple, list, type, type(None))
"""Arguments that make no class too large; configurations do."""
SHOWN = 60
"""Numbers and names that are told of one place at most."""
STAGES = ("init", "construct", "inputs", "forward", "output")
"""What a try goes through."""


class Trial:
    """Tries inputs for one class of a document.

    Parameters
    ----------
    path, text, qualname
        The document and the class.
    device
        Value of `core.DeviceChoice`.

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
        stage, steps = "init", _Steps()
        try:
            arguments = self._call(init, "get_init_inputs")
            stage = "construct"
            module = self._construct(init, arguments, mode)
            stage = "inputs"
            torch.manual_seed(modules.CONSTRUCTION_SEED)
            args, kwargs = modules.to_device(self._call(inputs, "get_inputs"), self._device)
            values.encode((args, kwargs), [])
            stage = "forward"
            with modules.forward_context(mode), steps:
                output = module(*args, **kwargs)
            stage = "output"
            self._check(output)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code; told to whoever mends its inputs
            return {"ok": False, "stage": stage, "steps": steps.count, **self._failure(error, stage)}
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
        module = modules.construct(self._class, args, kwargs, self._device, mode)
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
        if not any(torch.isfinite(tensor).any() for tensor in tensors if tensor.numel()):
            raise NoOutput("the output has no finite value")

    def _failure(self, error: BaseException, stage: str) -> dict[str, Any]:
        frames = []
        trace = error.__traceback__
        while trace is not None:
            frames.append((trace.tb_frame, trace.tb_lineno))
            trace = trace.tb_next
        own = [
            (frame, line)
            for frame, line in frames
            if isinstance(frame.f_locals.get("self"), self._class) and not frame.f_code.co_name.endswith("_call_impl")
        ]
        refusing = next(
            (frame for frame, _ in reversed(frames) if isinstance(frame.f_locals.get("self"), torch.nn.Module)), None
        )
        missing = _parameters(error, frames, self._class, stage)
        return {
            "kind": type(error).__name__,
            "message": str(error)[:2000],
            "said": describe(error),
            "statements": [_statement(frame, line) for frame, line in own[:1] + own[-1:]],
            "facts": [fact for frame, line in reversed(frames[-6:]) for fact in _facts(frame, line)][:SHOWN],
            "module": _module(refusing) if refusing is not None else None,
            "of": missing,
            "unset": _unset(error, frames),
            "nothing": _nothing(frames),
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


def _parameters(error: BaseException, frames: list[Any], cls: Any, stage: str) -> dict[str, Any]:
    """Return what the parameters are called that the class is constructed or called with, and which have defaults."""
    import inspect

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
    return str(getattr(annotation, "__name__", "") if isinstance(annotation, type) else annotation).replace(
        "typing.", ""
    )


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
    """Return what a module is that refused its input: its kind, its sizes, and the shapes it was given."""
    module = frame.f_locals["self"]
    names = [cls.__name__ for cls in type(module).__mro__ if cls.__module__.startswith("torch.nn")]
    sizes = {
        name: value if isinstance(value, int) else list(value)
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, bool)
        and (
            isinstance(value, int)
            or (isinstance(value, (tuple, list)) and value and all(type(item) is int for item in value))
        )
    }
    shapes = [
        list(value.shape)
        for name, value in frame.f_locals.items()
        if isinstance(value, torch.Tensor) and name != "self"
    ]
    made = "_parameters" in vars(module)  # not before its own constructor called nn.Module's
    weights = [list(weight.shape) for weight in list(module.parameters(recurse=False))[:4]] if made else []
    return {
        "kind": names[0] if names else type(module).__name__,
        "sizes": dict(list(sizes.items())[:SHOWN]),
        "shapes": shapes[:8],
        "weights": weights,
    }


def _nothing(frames: list[Any]) -> list[str]:
    """Return the variables that stand for None in the innermost failing statement that is no torch's."""
    for frame, line in reversed(frames):
        if not frame.f_globals.get("__name__", "").startswith("torch."):
            node = _node_at(linecache.getlines(frame.f_code.co_filename), frame, line)
            names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)] if node is not None else []
            return [name for name in dict.fromkeys(names) if frame.f_locals.get(name, "") is None][:12]
    return []


def _unset(error: BaseException, frames: list[Any]) -> list[str]:
    """Return what stands for None in the innermost failing statements, and such fields of configurations at hand.

    If that is nothing although the message is about None: what does so in the functions of these statements.
    """
    found: dict[str, None] = {}
    words: set[str] = set()
    near = frames[-6:]
    for frame, line in reversed(near):
        node = _node_at(linecache.getlines(frame.f_code.co_filename), frame, line)
        for part in ast.walk(node) if node is not None and not hasattr(node, "body") else ():
            if isinstance(part, ast.Attribute) and _value(frame, part) is None:
                found[part.attr] = None
                words |= set(part.attr.split("_"))
    for frame, _ in near:
        for value in list(frame.f_locals.values()):
            if not isinstance(value, (torch.nn.Module, type)) and hasattr(value, "__dict__"):
                for name, field in list(vars(value).items())[:400]:
                    if field is None and not name.startswith("_") and words & set(name.split("_")) - {"num", "n"}:
                        found[name] = None
    for frame, line in near if not found and "None" in str(error) else ():
        function = _function_at(linecache.getlines(frame.f_code.co_filename), frame, line)
        for part in ast.walk(function) if function is not None else ():
            if (
                isinstance(part, ast.Attribute)
                and ast.unparse(part.value) != "self"
                and part.attr[0] != "_"
                and _value(frame, part) is None
            ):
                found[part.attr] = None
    return list(found)[:12]


def _statement(frame: types.FrameType, line: int) -> dict[str, Any]:
    """Return the text of a statement, and which of the names in it stand for what."""
    source = linecache.getlines(frame.f_code.co_filename)
    node = _node_at(source, frame, line)
    text = ast.unparse(node) if node is not None else (source[line - 1].strip() if 0 < line <= len(source) else "")
    return {
        "function": frame.f_code.co_name,
        "text": text[:1000],
        "names": {name: _kind(value) for name, value in frame.f_locals.items() if name in text and name != "self"},
    }


def _kind(value: Any) -> Any:
    """Return a shape, a number, or the name of a type."""
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype)}
    if value is None or (isinstance(value, (bool, int, float)) and math.isfinite(value)):
        return {"value": value}
    return {"type": type(value).__name__}


def _node_at(source: list[str], frame: types.FrameType, line: int) -> ast.stmt | None:
    """Return the smallest statement of the frame's function at a line."""
    tree = _parsed(frame.f_code.co_filename, source)
    found: ast.stmt | None = None
    for node in ast.walk(tree) if tree is not None else ():
        around = isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
        if isinstance(node, ast.stmt) and around and (found is None or node.lineno >= found.lineno):
            found = node
    return found


def _function_at(source: list[str], frame: types.FrameType, line: int) -> ast.FunctionDef | None:
    """Return the function of a frame."""
    tree = _parsed(frame.f_code.co_filename, source)
    found = [
        node
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.FunctionDef)
        and node.name == frame.f_code.co_name
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return found[-1] if found else None


_TREES: dict[str, Any] = {}


def _parsed(path: str, source: list[str]) -> Any:
    if path not in _TREES:
        try:
            _TREES[path] = ast.parse("".join(source)) if source else None
        except (SyntaxError, ValueError, RecursionError):
            _TREES[path] = None
    return _TREES[path]


_READ = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.BinOp, ast.Tuple, ast.UnaryOp, ast.Call)


def _facts(frame: types.FrameType, line: int) -> list[dict[str, Any]]:
    """Return the comparisons, remainders and look-ups around a failing line, with the values of both sides.

    They are evaluated again only if they read values: names, attributes, items, sizes.
    """
    source = linecache.getlines(frame.f_code.co_filename)
    tree = _parsed(frame.f_code.co_filename, source)
    if tree is None:
        return []
    found: list[dict[str, Any]] = []
    tests: list[ast.AST] = []
    statement = _node_at(source, frame, line)
    if statement is not None and not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        tests.append(statement.test if isinstance(statement, (ast.If, ast.While)) else statement)
    if isinstance(statement, ast.Raise):
        tests += [
            node.test
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and node.lineno <= line <= (node.end_lineno or node.lineno)
        ][-2:]
    for test in tests:
        for node in ast.walk(test):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                for operator, left, right in zip(node.ops, sides, sides[1:]):  # noqa: B905 - Python 3.9
                    found += _pair(frame, type(operator).__name__, left, right)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.FloorDiv)):
                found += _pair(frame, type(node.op).__name__, node.left, node.right)
            elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.expr):
                keys = _value(frame, node.value)
                if isinstance(keys, dict) and all(isinstance(key, str) for key in keys):
                    found.append({"op": "Keys", "left": ast.unparse(node.slice), "keys": list(keys)[:SHOWN]})
    return found


def _pair(frame: types.FrameType, operator: str, left: ast.expr, right: ast.expr) -> list[dict[str, Any]]:
    one, other = _value(frame, left), _value(frame, right)
    if not (_told(one) and _told(other)):
        return []
    return [
        {
            "op": operator,
            "left": ast.unparse(left)[:200],
            "right": ast.unparse(right)[:200],
            "values": [_plain(one), _plain(other)],
        }
    ]


def _told(value: Any) -> bool:
    return isinstance(value, (int, float, str, type(None))) or (
        isinstance(value, (tuple, list, set, frozenset)) and all(isinstance(item, (int, str)) for item in value)
    )


def _plain(value: Any) -> Any:
    return list(value)[:SHOWN] if isinstance(value, (tuple, list, set, frozenset)) else value


def _value(frame: types.FrameType, node: ast.expr) -> Any:
    """Return what an expression that only reads stands for; `sys` if that cannot be told."""
    for part in ast.walk(node):
        if isinstance(part, ast.expr) and not isinstance(part, (*_READ, ast.List, ast.Set)):
            return sys
        if isinstance(part, ast.Call):
            name = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
            if name not in ("size", "dim", "len", "ndimension", "keys"):
                return sys
    try:
        return eval(  # the user's own expression, once more
            compile(ast.Expression(node), "<fact>", "eval"), frame.f_globals, dict(frame.f_locals)
        )
    except Exception:  # noqa: BLE001 - then nothing is known of it
        return sys
