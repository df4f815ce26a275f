"""What a call may read besides tensors and the plain settings of parts, as conditions ask for it.

That is constants of the user's file, attributes with a leading underscore, and what an object such as a configuration
holds, as far as the code that a call may run names them, or calls were seen to read them.
"""

from __future__ import annotations

import cmath
import collections
import enum
import functools
import inspect
import itertools
import re
import types
from collections.abc import Container, Iterator
from typing import Any

import torch

from .constants import globals_of, reached
from .parts import FEW, FUNCTIONS, MODULES, PLAIN, TAKEN, is_plain, is_users, is_written
from .patches import MANGLED, module_paths

LONG = 2000
"""The most characters of what is read besides settings: a vocabulary is none."""
DEEP = 3
"""So many objects deep what a configuration holds is looked for."""
_UNSEEN = ("logging", "threading", "_thread", "weakref", "re")
"""Modules of Python's own whose objects are not looked into."""


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
    if type(value).__module__.partition(".")[0] in _UNSEEN:
        return type(value).__module__ != "re"
    if isinstance(value, torch.nn.Module) or _kept("", value):
        return not isinstance(value, torch.nn.Module)
    if isinstance(value, (list, tuple, dict)) and not is_written(value):
        items = [*value.values()] if isinstance(value, dict) else [*value]
        plain = not isinstance(value, dict) or all(type(key) in PLAIN for key in value)
        return plain and len(value) <= FEW and all(_asked(one, known, deep) for one in items)
    held = getattr(value, "__dict__", None)
    return deep > 0 and held is not None and all(_asked(one, known, deep - 1) for one in held.values())


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
    foreign = kind.__module__.partition(".")[0] in ("torch", "builtins", "numpy", *_UNSEEN)
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
    elif not isinstance(value, (list, tuple, dict)) or is_written(value) or len(value) > FEW:
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
    return held if is_written(held, infinite=True) else []


def _kept(text: str, value: Any) -> tuple[str, str] | None:
    """Return what asks for a setting, and what it is now, both as they are written; None of what is no setting."""
    if isinstance(value, enum.Enum):
        return f'getattr({text}, "name", None)', repr(value.name)
    if isinstance(value, (*FUNCTIONS, types.MethodType, type)):
        return f'getattr({text}, "__name__", None)', repr(value.__name__)
    if isinstance(value, (set, frozenset)) and len(value) <= FEW and all(map(is_written, value)):
        return f"sorted({text}, key=repr)", repr(sorted(value, key=repr))
    if isinstance(value, collections.deque) and len(value) <= FEW and is_written(list(value)):
        return f"list({text})", repr(list(value))
    if isinstance(value, torch.device):
        return f'getattr({text}, "type", None)', repr(value.type)  # kernels run on another one of that type, too
    numbers = type(value) is bytes or (type(value) is complex and cmath.isfinite(value))
    written = numbers or isinstance(value, range) or (is_written(value) and len(repr(value)) <= LONG)
    if not written and isinstance(value, (float, list, tuple, dict)) and is_written(value, infinite=True):
        return (f"repr({text})", repr(repr(value))) if len(repr(value)) <= LONG else None
    return (text, repr(value)) if written else None


def _named_type(text: str, value: Any) -> str:
    return f"type({text}).__name__ == {type(value).__name__!r}"


def _is_declared(owner: Any, name: str) -> bool:
    """Whether all objects of a class have something under a name."""
    kind = owner if isinstance(owner, type) else type(owner)
    known = [vars(one).get("__annotations__", ()) for one in kind.__mro__]
    return inspect.getattr_static(kind, name, ...) is not ... or any(name in one for one in known)


def _is_code(value: Any) -> bool:
    return isinstance(value, (*FUNCTIONS, property, staticmethod, classmethod, functools.cached_property))


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
