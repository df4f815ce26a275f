"""A call of a module that torch.compile is asked about: what goes in, what is told of it, and how results are made."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import torch

from ..correctness import state
from ..reference import modules
from . import parts
from .constants import globals_of
from .frames import NotTraceable
from .inductor_step import argument, is_tensor, key
from .items import Items
from .observed import observe
from .patches import tied
from .reads import reads

_HERE = "\0"


def begin(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Have a first call install the hooks that later ones find, as modules of transformers do."""
    if any(type(part).__module__.startswith("transformers.") for part in module.modules()):
        with torch.no_grad(), state.kept(module):
            module(*args, **kwargs)


class Call:
    """A call of a module: what goes in, and what is told of it whatever takes its place."""

    def __init__(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._seen = observe(module, args, kwargs)
        self._mode_matters = "training" in self._seen.read
        self._mode_matters |= any(parts.minds_mode(type(child)) for child in module.modules())
        self._digest = parts.digest(module, self._mode_matters)
        self._settings = copy.deepcopy(parts.by_name(module))
        self._reads = reads(module, self._seen.read)
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
        self.module, self._given = module, (args, kwargs)
        bound.apply_defaults()
        self.named: list[tuple[str, torch.Tensor]] = []
        """Inputs, and tensors that the module holds, each with the expression it has in `forward`."""
        self._others = {name: one for name, one in bound.arguments.items() if not isinstance(one, torch.Tensor)}
        """Arguments that are no tensors but may hold some, by name."""
        for name, value in bound.arguments.items():
            self.named += [(name, value)] if name not in self._others else Items(value, name).tensors
        self.inputs = self.named[:]
        several = {key(one): text for text, one in self.inputs}
        for text, one in self.inputs:
            if one.numel() and several[key(one)] != text:
                raise NotTraceable(f"its inputs {text} and {several[key(one)]} are one tensor")
        for path, tensor in [*module.named_parameters(), *module.named_buffers()]:
            self.named.append((parts.expression(path), tensor))
        devices = {tensor.device for _, tensor in self.named}
        self.named += [one for one in parts.plain_tensors(module) if one[1].device in devices]
        lists = parts.lists_of_tensors(module)
        self._lists = {text: value for text, value in lists if {one.device for one in value} <= devices}
        """Lists of tensors that parts hold, by expression."""
        listed = [one for text, value in self._lists.items() for one in Items(value, text).tensors]
        self.named += listed
        self._listed = {text for text, _ in listed}
        self._began = self._inside()
        self._before = [tensor._version for _, tensor in self.named]

    def buffers(self) -> dict[str, torch.Tensor]:
        """Return what the module holds and does not learn."""
        held = [(text, one) for text, one in self.named if text.startswith("self.") and text not in self._listed]
        return {text: one for text, one in held if not isinstance(one, torch.nn.Parameter)}

    def changed(self) -> list[str]:
        """Return the expressions of the buffers that calls have changed."""
        changed = {text for (text, tensor), version in zip(self.named, self._before) if tensor._version != version}
        others = [text for text, inside in self._inside().items() if self._began[text] != inside]
        if any(text in self._lists for text in others):
            raise NotTraceable(f"it changes {others[0]}")
        if others or not changed <= self.buffers().keys():
            raise NotTraceable("it changes its inputs in place")
        return sorted(changed)

    def _inside(self) -> dict[str, Any]:
        """Return what arguments that are no tensors, and lists of tensors, hold."""
        found = {text: Items(value, text) for text, value in {**self._others, **self._lists}.items()}
        return {text: (one.asks, [id(tensor) for _, tensor in one.tensors]) for text, one in found.items()}

    def keep_settings(self) -> None:
        """Raise `NotTraceable` if calls have not left the module's settings as they were."""
        if parts.digest(self.module, self._mode_matters) != self._digest:
            now = parts.by_name(self.module)
            names = [one for one in {**self._settings, **now} if now.get(one) != self._settings.get(one)]
            raise NotTraceable(f"it changes its settings{f' ({names[0]})' if names else ''}")

    def _reads_still(self) -> list[tuple[str, str]]:
        """Return what its forward may read besides, and calls do not change."""
        now = reads(self.module, self._seen.read)
        return [(one, value) for one, value in self._reads.items() if now.get(one) == value]

    def random(self) -> NotTraceable:
        """Return what to raise where calls draw numbers."""
        return NotTraceable("it is random" + (" in training mode" if self.module.training else ""))

    def _led(self, result: Any, known: Mapping[str, Any]) -> list[tuple[bool, bool]]:
        """Return of each tensor of a result whether a gradient leads back from it, and whether to weights.

        Both for all where it does not run with gradients; numbers that have none, such as integers, count as if so.
        What is frozen now may not be later.
        """
        frozen = [one for one in self.module.parameters() if _learns(one) and not one.requires_grad]
        found: list[torch.Tensor] = []
        text = _spelled(result, known, found)
        led: list[list[bool]] = []
        for change in (_leaf, torch.Tensor.detach) if len(found) > 1 else ():
            again: list[torch.Tensor] = []
            try:
                with torch.enable_grad(), state.kept(self.module):
                    for one in frozen:
                        one.requires_grad_()
                    args, kwargs = modules.map_tensors(self._given, change)
                    same = _spelled(self.module(*args, **kwargs), known, again) == text
            except Exception:  # noqa: BLE001 - it changes its inputs in place, say, or takes too much memory
                same = False
            for one in frozen:
                one.requires_grad_(False)
            led.append([one.requires_grad or not _learns(one) for one in again] if same else [True] * len(found))
        return list(zip(*led)) or [(True, True)] * len(found)

    def told(
        self, arguments: list[Any], outputs: list[Any], result: Any, changed: list[str], sizes: Mapping[Any, str]
    ) -> dict[str, Any]:
        """Return the part of what `program` returns that is about the module, and how the program is called for it.

        `sizes` has names of numbers that it may take.
        """
        names = {**sizes, **{key(tensor): expression for expression, tensor in reversed(self.named)}}
        known = globals_of(type(self.module))
        led = self._led(result, known)
        given = {id(one): text for text, one in self.inputs if not text.startswith("out[")}
        text, ends = _result(result, outputs, known, [leads for leads, _ in led], given)
        tensors: list[torch.Tensor] = []
        _spelled(result, known, tensors)
        weightless = {key(one) for one, (leads, weighted) in zip(tensors, led) if leads and not weighted}
        read = {key(value) for value in arguments if is_tensor(value)}
        idle = [(text, one) for text, one in self.inputs if key(one) not in read or names[key(one)] != text]
        lists = [Items(value, text) for text, value in self._lists.items() if any(key(one) in read for one in value)]
        same = {id(one): text for text, one in reversed(self.named)}
        listed = [(text, same[id(one)]) for items in lists for text, one in items.tensors if same[id(one)] != text]
        return {
            "arguments": [argument(value, names) for value in arguments],
            "unread": [argument(one, {key(one): expression}) for expression, one in idle],
            "others": {text: Items(value, text).told() for text, value in self._others.items()},
            "lists": [items.told() for items in lists],
            "result": text,
            "ends": ends,
            "weightless": [place for place, one in enumerate(outputs) if is_tensor(one) and key(one) in weightless],
            "tied": [*tied(self.module), *listed],
            "mode_matters": self._mode_matters,
            "changes": changed,
            "module": parts.digest(self.module, self._mode_matters, self._seen.unread),
            "unasked": sorted(self._seen.unread),
            "parts": parts.told(self.module, self._mode_matters, self._seen.unread),
            "reads": self._reads_still(),
        }


def _learns(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_() if _learns(tensor) else tensor


def _result(
    result: Any, outputs: list[Any], known: Mapping[str, Any], led: list[bool], given: Mapping[int, str]
) -> tuple[str, list[int]]:
    """Return how a result is made of what the program returns, and from which of that no gradient leads back.

    A loss and its value for the log may be the same; then that has another place, or is detached.

    Parameters
    ----------
    known, led, given
        Globals of the module's forward, what `Call._led` says, and the expressions of inputs by their ids.
    """
    tensors: list[torch.Tensor] = []
    text = _spelled(result, known, tensors)
    places: dict[Any, list[int]] = {}
    for place, output in enumerate(outputs):
        if is_tensor(output):
            places.setdefault(key(output), []).append(place)
    if not all(id(tensor) in given or key(tensor) in places for tensor in tensors):
        raise NotTraceable("it returns a view of an input, or another tensor that its program does not make")
    attached = {places[key(tensor)][0] for tensor, leads in zip(tensors, led) if leads and id(tensor) not in given}
    ends: list[int] = []
    for tensor, leads in zip(tensors, led):
        if id(tensor) in given:
            text = text.replace(_HERE, given[id(tensor)], 1)
            continue
        free = [place for place in places[key(tensor)] if place not in attached and place not in ends]
        place = places[key(tensor)][0] if leads or not free else free[0]
        if not leads and place not in attached:
            ends.append(place)
        text = text.replace(_HERE, f"out[{place}]" + ".detach()" * (not leads and place in attached), 1)
    return text, sorted({*ends})


def _spelled(result: Any, known: Mapping[str, Any], found: list[torch.Tensor]) -> str:
    """Return a result as it is written, `_HERE` in the place of each tensor; those are appended to `found`."""

    def inner(item: Any) -> str:
        return _spelled(item, known, found)

    if isinstance(result, torch.Tensor):
        found.append(result)
        return _HERE
    if type(result) in (tuple, list):
        items = ", ".join(map(inner, result))
        return f"[{items}]" if type(result) is list else f"({items}{',' if len(result) == 1 else ''})"
    if type(result) is dict and all(isinstance(name, str) for name in result):
        return "{" + ", ".join(f"{name!r}: {inner(item)}" for name, item in result.items()) + "}"
    if result is None or isinstance(result, (bool, int, float, str)):
        return repr(result)
    kind, fields = type(result), _fields(result)
    if fields and known.get(kind.__name__) is kind:
        return f"{kind.__name__}({', '.join(f'{name}={inner(one)}' for name, one in fields.items())})"
    raise NotTraceable(f"it returns a {kind.__name__}")


def _fields(result: Any) -> dict[str, Any]:
    """Return what a named tuple or a dataclass, as those of transformers are, is made of; nothing if it is neither."""
    named = getattr(result, "_fields", ()) if isinstance(result, tuple) else ()
    if dataclasses.is_dataclass(result):
        named = [field.name for field in dataclasses.fields(result) if field.init]
    fields = {name: getattr(result, name) for name in named}
    try:
        again = type(result)(**fields) if fields else None
    except (TypeError, ValueError):
        return {}
    # Its class may make something else of what it is given.
    return fields if all(getattr(again, name, None) is value for name, value in fields.items()) else {}
