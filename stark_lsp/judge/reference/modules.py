"""Construct a module, set its mode, call it: the same for reference and candidate."""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

CONSTRUCTION_SEED = 42
"""Set before every construction, so that a candidate built in the same way has the same weights."""
TRAINING = "training"
"""The value of `core.Mode.TRAINING`."""
SOME = 64
"""Elements from which a random weight's size says how it is initialized."""


def copied(module: Any) -> Any:
    """Return a deep copy of a module, also where it keeps what it computed, as `self.attention = scores`.

    Such a tensor is no leaf of its graph, and cannot be copied; the copy has its values. So it is with what
    `torch.nn.utils.weight_norm` computes.
    """
    kept = [value for part in module.modules() for value in vars(part).values() if isinstance(value, torch.Tensor)]
    return copy.deepcopy(module, {id(value): value.detach().clone() for value in kept if not value.is_leaf})


def used(module: Any, weights_dtype: str, autocast: str, device: str) -> Any:
    """Return a module as its caller uses it: converted as `module.to(torch.bfloat16)` does, called under autocast.

    Parameters
    ----------
    weights_dtype, autocast
        Names of dtypes, empty for none.
    """
    if weights_dtype:
        module = module.to(getattr(torch, weights_dtype))
    if autocast:
        _cast(module, getattr(torch, autocast), device)
    return module


def _cast(module: Any, dtype: torch.dtype, device: str) -> None:
    """Have a module's forward run under autocast; what is made of its result, such as backward, does not.

    The class is a new one of the same name, so that copies of the module are cast as well, and whatever asks the module
    for its forward, as torch.compile does, gets the one that casts.
    """
    kind = type(module)

    @functools.wraps(kind.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device, dtype):
            return kind.forward(self, *args, **kwargs)

    same = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    module.__class__ = type(kind.__name__, (kind,), {**same, "forward": forward})


def place(module: Any, device: str, mode: str) -> Any:
    """Move a module to `device` and set its mode: a value of `core.Mode`; as constructed, it stays as it is."""
    module = module.to(device)
    if mode == "eval":
        module.eval()
    elif mode == TRAINING:
        module.train()
    return module


FAST = (torch.nn.TransformerEncoderLayer, torch.nn.MultiheadAttention)
"""Layers that compute otherwise under `torch.no_grad()`."""


def change_weights(module: Any, given: Mapping[str, torch.Tensor]) -> None:
    """Change weights and buffers in place, as an optimizer's step does; load them where they are kept otherwise."""
    own = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    if any(name not in own or own[name].shape != value.shape for name, value in given.items()):
        module.load_state_dict(given, strict=False)
        return
    with torch.no_grad():
        for name, value in given.items():
            own[name].copy_(value)
    # Hooks may give a weight out in another form than it has, a transposed one for instance.
    told = module.state_dict()
    if any(name not in told or not torch.equal(told[name].to(value.device), value) for name, value in given.items()):
        module.load_state_dict(given, strict=False)


def sizes_of_weights(module: Any) -> dict[str, float]:
    """Return the root mean square of each weight of some elements, by name; -1 for one with NaN or infinity."""
    sizes = {}
    for name, weight in module.named_parameters():
        if weight.numel() >= SOME and weight.dtype.is_floating_point and weight.layout is torch.strided:
            wide = weight.detach().to(
                torch.promote_types(torch.float32, weight.dtype) if weight.itemsize > 1 else torch.float32
            )
            norm = float(torch.linalg.vector_norm(wide))
            sizes[name] = norm / weight.numel() ** 0.5 if math.isfinite(norm) else -1.0
    return sizes


def layers_as_called(*, gradients: bool) -> None:
    """Have layers of torch compute as they do for a caller who records gradients, or does not, in whatever call.

    Without gradients those of `FAST` are one operator, whose results lie otherwise in memory, and which gives NaN
    where the other way does not.
    """
    torch.backends.mha.set_fastpath_enabled(not gradients)


def forward_context(mode: str = "eval", *, gradients: bool = False) -> Any:
    """Return the context every forward call runs in: for training gradients are recorded in any case."""
    return torch.enable_grad() if gradients or mode == TRAINING else torch.no_grad()


def detached(tree: Any) -> Any:
    """Return a result without what leads back from it."""
    if any(tensor.requires_grad for tensor in tensors_of(tree)):
        return map_tensors(tree, lambda tensor: tensor.detach())
    return tree


def to_device(tree: Any, device: str) -> Any:
    """Return `tree` with its tensors on `device`; lists, tuples and dicts are rebuilt, dataclasses copied."""
    return map_tensors(tree, lambda tensor: tensor.to(device))


def map_tensors(tree: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return `tree` with `change` of each tensor, in order; lists, tuples and dicts are rebuilt, dataclasses copied."""
    return map_leaves(tree, lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf)


def map_leaves(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Do what `map_tensors` does, with Python floats as well."""
    if isinstance(tree, torch.Tensor) or type(tree) is float:
        return change(tree)
    if isinstance(tree, PackedSequence):
        data, sizes, *order = tree
        return PackedSequence(map_leaves(data, change), sizes, *(map_leaves(item, change) for item in order))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_leaves(item, change) for item in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_leaves(item, change) for item in tree)
    if isinstance(tree, dict):
        moved: Any = copy.copy(tree)
        for key, item in tree.items():
            moved[key] = map_leaves(item, change)
        return moved
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        moved = copy.copy(tree)
        for field in dataclasses.fields(tree):
            object.__setattr__(moved, field.name, map_leaves(getattr(tree, field.name), change))
        return moved
    return tree


def replaced(tree: Any, leaves: Mapping[int, Any]) -> Any:
    """Return `tree` with others in the place of some leaves, by their numbers in `leaves_of`."""
    numbers = itertools.count()
    return map_leaves(tree, lambda leaf: leaves.get(next(numbers), leaf))


def leaves_of(tree: Any) -> list[Any]:
    """Return the tensors and Python floats of a tree in order."""
    if isinstance(tree, torch.Tensor) or type(tree) is float:
        return [tree]
    inner: Iterable[Any] = ()
    if isinstance(tree, PackedSequence):
        inner = (tree.data, *tree[2:])
    elif isinstance(tree, (list, tuple)):
        inner = tree
    elif isinstance(tree, dict):
        inner = tree.values()
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        inner = (getattr(tree, field.name) for field in dataclasses.fields(tree))
    return [leaf for item in inner for leaf in leaves_of(item)]


def tensors_of(tree: Any) -> list[torch.Tensor]:
    """Return the tensors of a tree in order."""
    return [leaf for leaf in leaves_of(tree) if isinstance(leaf, torch.Tensor)]


def nbytes_of(tree: Any) -> int:
    """Return the bytes that the elements of a tree's tensors take."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(tree))


def synchronize(device: str) -> None:
    """Wait for all work on the device; errors of kernels surface here."""
    if device == "cuda":
        torch.cuda.synchronize()
