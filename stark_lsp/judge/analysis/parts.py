"""What a module is made of, as candidates ask whether it still is: its parts, their settings, and what else it reads.

A program holds all of it as constants. Settings are the plain attributes of parts; what is read besides are constants
of the user's file, attributes with a leading underscore, and what an object such as a configuration holds, as far as
the code that a call may run names them.
"""

from __future__ import annotations

import cmath
import collections
import enum
import functools
import hashlib
import inspect
import itertools
import math
import re
import types
from collections.abc import Container, Iterator, Mapping
from typing import Any

import torch

from .constants import globals_of, reached
from .frames import NotTraceable
from .patches import MANGLED, OF_TENSORS, module_paths

MODES = ("Dropout", "BatchNorm", "InstanceNorm", "RNN", "LSTM", "GRU", "MultiheadAttention", "RReLU")
"""Words in the names of torch's classes that do something else in training."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
TRACED = ("transformers.utils.output_capturing.output_capturing_hook",)
"""Hooks that a program does what they do: this one keeps hidden states for a call that returns them."""
FEW = 64
"""The most items of a list or dict that count as a setting: a vocabulary is none."""
LONG = 2000
"""The most characters of what is read besides settings: a vocabulary is none either."""
_NO_SETTINGS = ("logging", "threading", "_thread", "weakref", "re")
"""Of Python's own, whose objects have nothing that a program depends on by name."""
DEEP = 3
"""So many objects deep what a configuration holds is looked for."""
PLAIN = (type(None), bool, int, str, torch.dtype)
SIZES = ("_size", "_keys")
"""What lists and dicts of parameters know of how much they hold."""
MODULES = vars(torch.nn.Module()).keys()
"""Attributes that every module has."""
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
CONSTANTS = (bool, int, float, str, torch.dtype, enum.Enum, range, slice)
"""Kinds of settings that are as they are printed."""
TAKEN = re.compile(r"__.*|_?(?:out|weights)|of_.*")
"""Names that a candidate's forward has for its own."""


def expression(path: str) -> str:
    """Return what a part, or what it holds, is called in `forward`."""
    return "self." + re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", path)


def told(
    module: torch.nn.Module, mode_matters: bool, unread: Container[str] = ()
) -> list[tuple[str, str, dict[str, str], list[str]]]:
    """Return path, class, plain settings and what is `missing` of each part, the module itself first.

    Settings are as they are written. Those of the user's classes themselves are among them, since a module may hide
    them by its own. None are told where a part has two paths, at one of which another may come to stand, or hooks, or a
    setting cannot be written.
    """
    found: list[tuple[str, str, dict[str, str], list[str]]] = []
    if len(list(module.named_modules(remove_duplicate=False))) > len(list(module.modules())):
        return found
    for path, part in module.named_modules():
        held: dict[str, Any] = {}
        for kind in reversed(type(part).__mro__):
            if kind.__module__.partition(".")[0] not in ("torch", "builtins"):
                held |= {name: one for name, one in vars(kind).items() if not isinstance(one, FUNCTIONS)}
        held |= vars(part)
        written = {name: _written(one) for name, one in settings(held, mode_matters, unread).items()}
        if "" in written.values() or (path and _hooks(part)) or isinstance(part, OF_TENSORS):
            return []
        found.append((path, kind_of(part), written, missing(part)))
    return found


def _written(setting: Any) -> str:
    """Return a plain setting as an expression; nothing where there is none."""
    if not isinstance(setting, FUNCTIONS):
        return repr(setting) if _is_written(setting) else ""
    places = {"torch.nn.functional": torch.nn.functional, "torch": torch}
    names = [f"{place}.{setting.__name__}" for place, one in places.items() if _same(one, setting)]
    return next(iter(names), "")


def _same(place: Any, function: Any) -> bool:
    return getattr(place, function.__name__, None) is function


def settings(held: Mapping[str, Any], mode_matters: bool, unread: Container[str] = ()) -> dict[str, Any]:
    """Return the plain settings of a part, but those that no call reads, and the mode where it does not matter."""
    names = [one for one in sorted(held) if (one[0] != "_" or one in SIZES) and (mode_matters or one != "training")]
    names = [one for one in names if one not in unread]
    return {name: held[name] for name in names if is_plain(held[name])}


def digest(module: torch.nn.Module, mode_matters: bool, unread: Container[str] = ()) -> str:
    """Return a digest of a module's parts and plain settings; none may have a hook but those of `TRACED`.

    It is what `_stark_weights` in `prompts/kernels/weights.py` compares with, there for the user's module.

    Raises
    ------
    NotTraceable
        A part has hooks.
    """
    whole: list[tuple[Any, ...]] = []
    for path, part in module.named_modules():
        hooks = [] if part is module else _hooks(part)
        if any(hook not in TRACED for hook in hooks):
            raise NotTraceable(f"{path} has hooks")
        children = [(child, kind_of(one)) for child, one in part._modules.items()]
        plain = settings(vars(part), mode_matters, unread)
        whole.append((path, children, {name: as_told(one) for name, one in plain.items()}, hooks, _named(part)))
    return hashlib.sha256(repr(whole).encode()).hexdigest()[:16]


def _named(part: torch.nn.Module) -> list[tuple[str, bool]]:
    """Return the names of what is registered on a part, or a tensor that is not, and whether it is missing."""
    loose = {name: one for name, one in vars(part).items() if isinstance(one, torch.Tensor)}
    held = {**part._parameters, **part._buffers, **part._modules, **loose}
    return sorted((name, one is None) for name, one in held.items())


def missing(part: torch.nn.Module) -> list[str]:
    """Return the names of the parameters, buffers and parts that a part might have, such as a bias, and has not."""
    return [name for name, none in _named(part) if none]


def plain_tensors(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Return the tensors that parts hold as attributes alone, by the expressions that they have in `forward`."""
    found = [(path, *item) for path, part in module.named_modules() for item in vars(part).items()]
    return [
        (expression(f"{path}.{name}".lstrip(".")), one)
        for path, name, one in found
        if type(one) is torch.Tensor and not one.requires_grad and not TAKEN.fullmatch(name) and not MANGLED.match(name)
    ]


def lists_of_tensors(module: torch.nn.Module) -> list[tuple[str, Any]]:
    """Return the lists and tuples of tensors alone that the user's parts hold, by their expressions in `forward`."""
    paths = module_paths(module)
    users = [part for part in module.modules() if type(part).__module__.partition(".")[0] != "torch"]
    return [
        (f"{paths[id(part)]}.{name}", held)
        for part in users
        for name, held in vars(part).items()
        if type(held) in (tuple, list) and held and name.isidentifier()
        if not TAKEN.fullmatch(name) and not MANGLED.match(name)
        if all(type(one) is torch.nn.Parameter or (type(one) is torch.Tensor and not one.requires_grad) for one in held)
    ]


def unasked(module: torch.nn.Module) -> bool:
    """Whether a part holds numbers that no condition asks for, as a long list, a set or an array of numpy's does."""
    held = [one for part in module.modules() for name, one in vars(part).items() if name not in MODULES]
    kinds = (list, tuple, dict, set, frozenset, range)
    return any(
        type(one).__module__ == "numpy" or (isinstance(one, kinds) and not is_plain(one))
        for one in held
        if not (isinstance(one, (list, tuple)) and any(isinstance(x, (torch.Tensor, torch.nn.Module)) for x in one))
    )


def by_name(module: torch.nn.Module) -> dict[str, Any]:
    """Return the plain settings of all parts by the expressions that they have in `forward`, as a digest has them."""
    parts = list(module.named_modules())
    named = [(path, *item) for path, part in parts for item in settings(vars(part), True).items()]
    return {expression(f"{path}.{name}".lstrip(".")): as_told(value) for path, name, value in named}


def _hooks(part: torch.nn.Module) -> list[str]:
    """Return the names of the hooks that a call of a part runs."""
    held = [hook for kind in HOOKS for hook in vars(part).get(kind, {}).values()]
    return [f"{getattr(hook, '__module__', '')}.{getattr(hook, '__name__', '')}" for hook in held]


def kind_of(part: Any) -> str:
    """Return a part's class as candidates have it, which tell torch.nn's own from others of that name."""
    name = type(part).__name__
    return f"nn.{name}" if getattr(torch.nn, name, None) is type(part) else name


def minds_mode(kind: type) -> bool:
    """Whether modules of a class may do something else in training, by torch's names or by what its source says."""
    for one in kind.__mro__:
        if one.__module__.partition(".")[0] == "torch":
            if any(word in one.__name__ for word in MODES):
                return True
        elif one is not object:
            try:
                source = inspect.getsource(one)
            except (OSError, TypeError):
                return True
            if "training" in source or "dropout" in source:
                return True
    return False


def is_users(kind: type) -> bool:
    """Whether a class is a user's; a parametrized one is, which PyTorch makes of it."""
    return any(one.__module__.partition(".")[0] not in ("torch", "builtins") for one in kind.__mro__)


def all_asked(module: torch.nn.Module) -> bool:
    """Whether conditions tell all that the user's parts hold from anything else that a call may read there.

    They do not tell closures from each other, say, nor parts in a plain list, and what made these may be a setting that
    no call reads.
    """
    known = {id(part) for part in module.modules()}
    if any("<" in type(part).__qualname__ for part in module.modules() if is_users(type(part))):
        return False
    held = [value for part in module.modules() for name, value in vars(part).items() if name not in MODULES]
    return all(_asked(value, known, DEEP) for value in held)


def _asked(value: Any, known: Container[int], deep: int) -> bool:
    if id(value) in known or isinstance(value, torch.Tensor):
        return True
    if isinstance(value, functools.partial):
        return all(_asked(one, known, deep) for one in (value.func, value.args, value.keywords))
    if isinstance(value, types.MethodType):
        return False
    if isinstance(value, (types.FunctionType, type)):  # by their names, which those made in functions may share
        return "<" not in value.__qualname__
    if type(value).__module__.partition(".")[0] in _NO_SETTINGS:
        return type(value).__module__ != "re"
    if isinstance(value, torch.nn.Module) or _kept("", value):
        return not isinstance(value, torch.nn.Module)
    if isinstance(value, (list, tuple, dict)) and not _is_written(value):
        items = [*value.values()] if isinstance(value, dict) else [*value]
        plain = not isinstance(value, dict) or all(type(key) in PLAIN for key in value)
        return plain and len(value) <= FEW and all(_asked(one, known, deep) for one in items)
    held = getattr(value, "__dict__", None)
    return deep > 0 and held is not None and all(_asked(one, known, deep - 1) for one in held.values())


def is_plain(value: Any) -> bool:
    """Whether a value is a setting: a number, a text, a function, or a few of these together."""
    if isinstance(value, (tuple, list, dict)):
        items = [*value, *value.values()] if isinstance(value, dict) else value
        return len(value) <= FEW and all(map(is_plain, items))
    if isinstance(value, functools.partial):
        return is_plain([value.func, value.args, value.keywords])
    return value is None or isinstance(value, (*CONSTANTS, *FUNCTIONS))


def as_told(value: Any) -> Any:
    """Return a setting as a digest is made of it, where a function has no address."""
    if isinstance(value, dict):
        return {as_told(key): as_told(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(map(as_told, value)) if type(value) in (tuple, list) else value
    if isinstance(value, functools.partial):
        return as_told([value.func, value.args, value.keywords])
    return value.__name__ if isinstance(value, FUNCTIONS) else value


def owners(module: torch.nn.Module) -> list[tuple[type, Any, str]]:
    """Return each part, and each object such as a configuration that one holds, with that part's class and an
    expression."""
    found: list[tuple[type, Any, str]] = []
    shortest: dict[int, str] = {}
    paths = module_paths(module)
    for part in module.modules():
        before = paths[id(part)]
        for name, value in vars(part).items():
            if name.isidentifier() and name not in MODULES:
                for one, text in _objects(value, f"{before}.{name}", DEEP):
                    found.append((type(part), one, shortest.setdefault(id(one), text)))
        found.append((type(part), part, before))
    return found


def reads(module: torch.nn.Module, read: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return what a call may read besides tensors and settings, with the values, both as they are written.

    Names of attributes that were seen to be `read` are among those that are looked for.
    """
    found: dict[str, str] = {}
    shapes: dict[str, str] = {}
    seen: set[tuple[int, str]] = set()
    own, own_names = globals_of(type(module)), f"_{type(module).__name__.lstrip('_')}__"
    hidden = inspect.signature(module.forward).parameters
    users = {kind for kind in map(type, module.modules()) if is_users(kind)}

    def take(owner: Any, name: str, text: str, value: Any) -> None:
        if (id(owner), name) not in seen and value is not ...:
            seen.add((id(owner), name))
            for before, one in _spread(value, text):
                kind = next((kind for kind in (dict, list, tuple) if isinstance(one, kind)), None)
                if kept := _kept(before, one):
                    found.update([kept])
                    if isinstance(one, (set, frozenset, collections.deque)):
                        shapes[before] = _named_type(before, one)
                elif kind is not None and len(one) <= FEW:
                    size = repr(list(one)) if kind is dict else len(one)
                    asked = f"{'list' if kind is dict else 'len'}({before})"
                    shapes[before] = f"isinstance({before}, {kind.__name__}) and {asked} == {size}"

    held = owners(module)
    for kind in users:
        things = {one if isinstance(one, type) else type(one) for holder, one, _ in held if holder is kind}
        constants, names, perhaps = reached(globals_of(kind), [kind, *things - users])
        for name in constants.keys() - hidden.keys() if globals_of(kind) is own else ():
            if not TAKEN.fullmatch(name):
                take(own, name, name, own[name])
        # A class that inherits from this one may have others of what forward calls.
        ours = [*itertools.takewhile(is_users, kind.__mro__)] if kind is type(module) else []
        for name in {name for one in ours for name in (names | read) & vars(one).keys()} - {"forward"}:
            value = inspect.getattr_static(kind, name)
            more = ".__func__" if isinstance(value, classmethod) else ""
            if name[:2] == "__" or MANGLED.match(name):
                continue
            if _is_code(value):
                found[f"type(self).{name}{more} == __class__.{name}{more}"] = "True"
            elif is_plain(value) and not isinstance(value, (list, dict)) and name not in vars(module):
                take(module, name, f"self.{name}", value)
        for owner, before in ((one, text) for holder, one, text in held if holder is kind):
            told = len(found) + len(shapes)
            for name in (one for one in names | read if one != "forward" and one[:2] != "__"):
                sure = name not in perhaps and _is_declared(owner, name)
                text = f"{before}.{name}" if sure else f'getattr({before}, "{name}", ...)'
                if before == "self" and name.startswith(own_names):
                    text = f"self.{name[len(own_names) - 2 :]}"  # the new class is called otherwise, and so are its own
                take(owner, name, text, _held_by(owner, name))
            if len(found) + len(shapes) > told and not isinstance(owner, torch.nn.Module):
                shapes[before] = _named_type(before, owner)
            found |= dict(_absent(owner, name, before) for name in perhaps if not _has(owner, name))
    # What holds others has to be there before these are asked for.
    return {shapes[one]: "True" for one in sorted(shapes, key=lambda text: (len(text), text))} | dict(
        sorted(found.items())
    )


def _is_declared(owner: Any, name: str) -> bool:
    """Whether all objects of a class have something under a name."""
    kind = owner if isinstance(owner, type) else type(owner)
    known = [vars(one).get("__annotations__", ()) for one in kind.__mro__]
    return inspect.getattr_static(kind, name, ...) is not ... or any(name in one for one in known)


def _is_code(value: Any) -> bool:
    return isinstance(value, (*FUNCTIONS, property, staticmethod, classmethod, functools.cached_property))


def _named_type(text: str, value: Any) -> str:
    return f"type({text}).__name__ == {type(value).__name__!r}"


def _spread(value: Any, text: str) -> Iterator[tuple[str, Any]]:
    """Go through what a setting holds that is not written as a whole, the outermost first, each with its expression."""
    if isinstance(value, functools.partial):
        yield from _spread((value.args, value.keywords), f"({text}.args, {text}.keywords)")
    elif _bound(value):
        yield text, value
        cells = f'[one.cell_contents for one in getattr({text}, "__closure__", None) or ()]'
        if value.__closure__:
            yield cells, _bound(value)[: len(value.__closure__)]
        if value.__defaults__:
            yield f'getattr({text}, "__defaults__", None)', value.__defaults__
    elif not isinstance(value, (list, tuple, dict)) or _is_written(value) or len(value) > FEW:
        yield text, value
    elif not isinstance(value, dict) or all(type(key) in PLAIN for key in value):
        yield text, value
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _spread(one, f"{text}[{key!r}]")


def _bound(value: Any) -> list[Any]:
    """Return what a function that was made in another one takes along from around it, and as defaults, if all that is
    plain."""
    inner = isinstance(value, types.FunctionType) and re.search("<locals>|<lambda>", value.__qualname__)
    if not inner or str(value.__module__).startswith("torch."):
        return []
    cells = value.__closure__ or ()
    if any(one == types.CellType() for one in cells):
        return []
    held = [*(one.cell_contents for one in cells), *(value.__defaults__ or ())]
    return held if _is_written(held, infinite=True) else []


def _kept(text: str, value: Any) -> tuple[str, str] | None:
    """Return what asks for a setting, and what it is now, both as they are written; None of what is no setting."""
    if isinstance(value, enum.Enum):
        return f'getattr({text}, "name", None)', repr(value.name)
    if isinstance(value, (*FUNCTIONS, types.MethodType, type)):
        return f'getattr({text}, "__name__", None)', repr(value.__name__)
    if isinstance(value, (set, frozenset)) and len(value) <= FEW and all(map(_is_written, value)):
        return f"sorted({text}, key=repr)", repr(sorted(value, key=repr))
    if isinstance(value, collections.deque) and len(value) <= FEW and _is_written(list(value)):
        return f"list({text})", repr(list(value))
    if isinstance(value, torch.device):
        return f'getattr({text}, "type", None)', repr(value.type)  # kernels run on another one of that type, too
    numbers = type(value) is bytes or (type(value) is complex and cmath.isfinite(value))
    written = numbers or isinstance(value, range) or (_is_written(value) and len(repr(value)) <= LONG)
    if not written and isinstance(value, (float, list, tuple, dict)) and _is_written(value, infinite=True):
        return (f"repr({text})", repr(repr(value))) if len(repr(value)) <= LONG else None
    return (text, repr(value)) if written else None


def _objects(value: Any, text: str, deep: int) -> Iterator[tuple[Any, str]]:
    """Go through an object such as a configuration and those that it holds, each with its expression."""
    if isinstance(value, (list, tuple, dict)) and not is_plain(value):
        for before, one in _spread(value, text):
            if one is not value and not isinstance(one, (list, tuple, dict)):
                yield from _objects(one, before, deep)
        return
    if isinstance(value, types.MethodType):
        yield from _objects(value.__self__, f"{text}.__self__", deep)
        return
    kind = value if isinstance(value, type) else type(value)
    foreign = kind.__module__.partition(".")[0] in ("torch", "builtins", "numpy", *_NO_SETTINGS)
    if deep and not foreign and not is_plain(value) and not issubclass(kind, (torch.nn.Module, torch.Tensor)):
        for name in names_in(value):
            if name.isidentifier() and (one := _held_by(value, name)) is not ...:
                yield from _objects(one, f"{text}.{name}", deep - 1)
        yield value, text


def names_in(value: Any) -> list[str]:
    """Return the names of what an object holds, or a class, with nobody seeing that they are asked for."""
    if isinstance(value, type):
        return [*vars(value)]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*(object.__getattribute__(value, "__dict__") if type(value).__dictoffset__ else ()), *slots]


def _held_by(owner: Any, name: str) -> Any:
    """Return what an object has under a name, by a property or a look into another name too; `...` if nothing.

    Of modules only what is theirs and no setting: names with an underscore, and what is not plain.
    """
    if isinstance(owner, torch.nn.Module):
        value = vars(owner).get(name, ...) if name not in MODULES else ...
        return value if name[0] == "_" or not is_plain(value) or _bound(value) else ...
    try:
        value = getattr(owner, name)
    except Exception:  # noqa: BLE001 - the user's class
        return ...
    if isinstance(value, (types.MethodType, type)) and name not in names_in(owner):
        return ...
    # Some have None for whatever they have not.
    return ... if value is None and inspect.getattr_static(owner, name, ...) is ... else value


def _has(owner: Any, name: str) -> bool:
    try:
        return hasattr(owner, name)
    except Exception:  # noqa: BLE001 - the user's class
        return True


def _absent(owner: Any, name: str, text: str) -> tuple[str, str]:
    """Return what says that an object has nothing under a name that its code may ask for, and what that is now."""
    if isinstance(owner, torch.nn.Module):
        # Not asked for where a digest is compared, which has the names.
        return f'hasattr({text}, "{name}")', "False"
    return f'(getattr({text}, "{name}", None) is None)', "True"


def _is_written(setting: Any, *, infinite: bool = False) -> bool:
    """Whether a setting is what its text says; with `infinite` whether infinities and NaN are all that is not."""
    if isinstance(setting, (tuple, list, dict)):
        items = [*setting, *setting.values()] if isinstance(setting, dict) else setting
        return type(setting) in (tuple, list, dict) and all(_is_written(one, infinite=infinite) for one in items)
    return infinite or math.isfinite(setting) if type(setting) is float else type(setting) in PLAIN
