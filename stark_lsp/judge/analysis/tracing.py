"""Calls a module once and returns the record."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from typing import Any

import torch

from ..correctness import state, stepping
from ..reference.modules import tensors_of
from . import cost
from .constants import globals_of
from .encode import number
from .frames import NotTraceable
from .patches import HOLDERS, OF_TENSORS, Attributes, is_leaf, module_paths, patched, tensor_path, tied
from .reads import reads
from .recorder import Recorder
from .values import track


def analyze(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Record one call of `module` and return what it computes and what it costs, as JSON values.

    Parameters
    ----------
    module
        The user's module, on its device and in the mode it is timed in.
    args, kwargs
        Real example inputs on the same device.

    Raises
    ------
    NotTraceable
        The computation depends on tensor data, or on something a recording cannot follow.
    """
    held = [*tensors_of((args, kwargs)), *module.parameters()]
    device = held[0].device if held else torch.device("cpu")
    hooked = next((m for m in module.modules() if not is_leaf(m) and (m._forward_hooks or m._forward_pre_hooks)), None)
    if hooked is not None:
        raise NotTraceable(f"{type(hooked).__name__} has forward hooks, which a rewritten forward would not call")
    fork = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
    with torch.no_grad(), fork, state.kept(module):
        recorder, paths = Recorder(device, sys._getframe()), module_paths(module)
        _know_state(module, paths, recorder)
        inputs, given, given_kwargs = _add_inputs(module, args, kwargs, recorder)
        containers = {paths[id(child)]: child for child in module.modules() if isinstance(child, HOLDERS)}
        attributes = Attributes(recorder, paths, globals_of(type(module)), containers)
        module(*args, **kwargs)
        before = reads(module)
        total_ms = cost.measure_ms(lambda: module(*args, **kwargs), device)
        probes = cost.probe(device)
        # The code sees that gradients are recorded, so that it shows where it leaves them out; none are.
        with stepping.frozen(module, ""), torch.enable_grad(), patched(module, recorder, attributes), recorder:
            out = module(*given, **given_kwargs)
            recorder.quiet = True
        recorder.quiet = False
        output = recorder.result(out)
        targets = dict.fromkeys(node["target"] for node in recorder.nodes if node["op"] == "attribute")
        for target in targets:
            attributes.used(target)
        # What only other modules read, as a head that shares an embedding's weight, may be replaced.
        read = [pair for pair in tied(module) if targets.keys() & set(pair)]
        attributes.read |= {f"({one} is {other})": True for one, other in read}
        # What configurations hold in others, in dicts or by properties.
        after = reads(module)
        asked = [text for text, value in before.items() if after.get(text) == value and text not in attributes.read]
        named = {text: re.sub(r'getattr\((\S+), "(\w+)", \.\.\.\)', r"\1.\2", text) for text in asked}
        asked = [text for text in asked if not {named[text], f"repr({named[text]})"} & attributes.read.keys()]
        for text in (one for one in asked if not one.isidentifier()):
            plain = re.fullmatch(r"-?[\d.]+(e-?\d+)?|True|False|None", before[text])
            attributes.read |= {text: ast.literal_eval(before[text])} if plain else {f"repr({text})": before[text]}
        for member in [member for text, member in attributes.members.items() if text not in asked]:
            attributes.note(*member)
        for path, one in containers.items():
            if isinstance(one, OF_TENSORS):
                attributes.follow(one)
                held = one.values() if isinstance(one, torch.nn.ParameterDict) else one
                if not all(isinstance(value, torch.Tensor) for value in held):
                    raise NotTraceable(f"{path} holds what is no parameter")
    return {
        "device": device.type,
        "total_ms": total_ms,
        **probes,
        "training": module.training,
        "inputs": inputs,
        "nodes": recorder.nodes,
        "output": output,
        "guards": recorder.guards,
        "attributes": {**attributes.read, **recorder.dtypes, **attributes.constants()},
        "modules": attributes.followed,
        "read_dtype": recorder.read_dtype,
        "default_dtype": str(torch.get_default_dtype()),
    }


def _know_state(module: torch.nn.Module, paths: dict[int, str], recorder: Recorder) -> None:
    """Tell the recorder every tensor that the module holds, and those its file holds as constants."""
    for child in module.modules():
        path = paths[id(child)]
        for name, tensor in [*child._parameters.items(), *child._buffers.items(), *vars(child).items()]:
            if isinstance(tensor, torch.Tensor):
                recorder.know(tensor, tensor_path(path, child, name))
        namespace = getattr(getattr(type(child), "forward", None), "__globals__", {})
        if not type(child).__module__.startswith("torch."):
            for name, value in list(namespace.items()):
                if isinstance(value, torch.Tensor):
                    recorder.know(value, name)


def _add_inputs(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], recorder: Recorder
) -> tuple[list[dict[str, Any]], tuple[Any, ...], dict[str, Any]]:
    """Name every input by the parameter it is bound to, and hand numbers over as tracked ones."""
    try:
        signature = inspect.signature(module.forward)
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError) as error:
        raise NotTraceable(f"the inputs do not fit forward: {error}") from error
    bound.apply_defaults()
    described: list[dict[str, Any]] = []
    for name, value in list(bound.arguments.items()):
        kind = signature.parameters[name].kind
        bound.arguments[name] = _describe_input(value, name, described, recorder)
        if kind is inspect.Parameter.VAR_POSITIONAL:
            bound.arguments[name] = tuple(bound.arguments[name])
    return described, bound.args, bound.kwargs


def _describe_input(value: Any, expression: str, described: list[dict[str, Any]], recorder: Recorder) -> Any:
    if isinstance(value, torch.Tensor):
        recorder.add_input(value, expression)
        return value
    if value is None or isinstance(value, (bool, int, float, str)):
        described.append({"expression": expression, "value": number(value)})
        return track(value, ["input", expression], recorder.note)
    if isinstance(value, (list, tuple)):
        described.append({"expression": f"len({expression})", "value": len(value)})
        members = [_describe_input(m, f"{expression}[{i}]", described, recorder) for i, m in enumerate(value)]
        if isinstance(value, tuple):
            return type(value)(*members) if hasattr(value, "_fields") else tuple(members)
        return members
    if isinstance(value, dict):
        described.append({"expression": f"len({expression})", "value": len(value)})
        return {k: _describe_input(m, f"{expression}[{k!r}]", described, recorder) for k, m in value.items()}
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            _describe_input(getattr(value, field.name), f"{expression}.{field.name}", described, recorder)
        return value
    raise NotTraceable(f"the input {expression} is a {type(value).__name__}, which cannot be followed")
