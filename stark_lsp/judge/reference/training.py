"""Weights as training would leave them, so that a candidate cannot rely on how they are initialized.

A bias that starts at zero or a scale that starts at one makes a kernel that ignores it look right.
Some cases are therefore compared with every parameter moved a little, and with running statistics
that have seen data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..transport import claims

SEED = 7
SHARE = 0.1
"""How far a parameter is moved, as a share of its own spread."""
LEAST_SPREAD = 0.5
"""Spread taken for a parameter whose elements are all equal, such as a bias of zeros; or, if that is more,"""
OF_SIZE = 2.0
"""so many times its size: a gradient that leaves out a scale of ones is then off by a fifth, not within tolerance."""
ALIKE = 2.0
"""Factor by which weights that are drawn alike differ at most."""
LEAST, MOST = 1e-12, 1e6
"""Sizes of weights that somebody meant, not what was in memory."""
LAYERS = (torch.nn.Linear, torch.nn.modules.conv._ConvNd)
"""Whose weights are rescaled."""
NORMS = torch.nn.modules.batchnorm._BatchNorm
NOTICED = 0.05
"""Share of a weight's scale that changes something."""


def trained_state(module: Any) -> dict[str, torch.Tensor] | None:
    """Return a state dict with moved parameters, None if the module has nothing to move.

    Buffers stay as they are (masks and tables are part of the function), but for the running
    statistics of normalization layers.
    """
    state = {key: value for key, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    statistics = {
        f"{name}.{part}".lstrip(".")
        for name, child in module.named_modules()
        if hasattr(child, "running_mean") and hasattr(child, "running_var")
        for part in ("running_mean", "running_var")
    }
    generator = torch.Generator().manual_seed(SEED)
    moved: dict[int, torch.Tensor] = {}
    result = {}
    for key in sorted(state):
        value = state[key]
        numbers = value.is_floating_point() or value.is_complex()
        if key not in parameters | statistics or not numbers or not value.numel():
            result[key] = value
            continue
        # Tied weights stay tied.
        place = value.data_ptr()
        if place not in moved:
            whole, value = value, torch.view_as_real(value) if value.is_complex() else value
            noise = torch.randn(value.shape, generator=generator, dtype=torch.float32)
            spread = float(value.float().std()) if value.numel() > 1 else 0.0
            if not spread > 1e-6:
                spread = max(LEAST_SPREAD, OF_SIZE * abs(float(value.flatten()[0])))
                noise.clamp_(-3.0, 3.0)  # what must be positive stays so
            step = SHARE * spread * noise
            stepped = (value.float() + (step.abs() if key.endswith("running_var") else step)).to(value.dtype)
            moved[place] = torch.view_as_complex(stepped) if whole.is_complex() else stepped
        result[key] = moved[place]
    return result if moved else None


def begins_otherwise(original: Mapping[str, float], claimed: object) -> str:
    """Say which weight of a candidate is initialized otherwise, given `modules.sizes_of_weights`; empty if none is.

    Whoever trains from scratch would begin elsewhere, with `torch.zeros` or `torch.empty` in a constructor nowhere.
    """
    found = claimed if isinstance(claimed, dict) else {}
    for name, size in original.items():
        if name not in found or not (size == 0.0 or LEAST <= size <= MOST):
            continue
        own = claims.number(found[name])
        if own is None or max(own, size) > ALIKE * min(own, size):
            of = "that are not finite" if own is None else f"of {own:.3g}"
            return (
                f"Constructed anew, its {name} begins with values {of}, the original's with {size:.3g} (root mean "
                "square), so that training from scratch begins elsewhere. Initialize it as the original does."
            )
    return ""


def rescale(module: Any, call: Callable[[], Any]) -> bool:
    """Give linear layers and convolutions weights of the scale that keeps what flows through them as large as it is.

    With torch's own initialization what a deep network makes of its inputs shrinks from layer to layer, until nothing
    but biases is left of it. Directions of weights stay; statistics of normalizations become those of one call.

    Returns whether anything of the module was changed by more than a little; `call` calls it once.
    """
    changed = off_scale(module)
    with torch.no_grad():
        for layer in _layers(module):
            layer.weight.mul_(_factor(layer))
        if changed:
            _measure_statistics(module, call)
    return changed


def off_scale(module: Any) -> bool:
    """Whether `rescale` would change the weights by more than a little."""
    return any(abs(_factor(layer) - 1.0) > NOTICED for layer in _layers(module))


def _layers(module: Any) -> list[Any]:
    """Return the layers whose weights are rescaled; of those that share a tied weight one."""
    layers = [layer for layer in module.modules() if isinstance(layer, LAYERS) and "weight" in layer._parameters]
    return list({id(layer.weight): layer for layer in layers}.values())


def _factor(layer: Any) -> float:
    """Return what takes a layer's weight to its scale; 1 where it has none."""
    weight = layer.weight
    inputs = weight.shape[0] // layer.groups if getattr(layer, "transposed", False) else weight.shape[1]
    wanted = math.sqrt(2.0 / max(1, inputs * math.prod(weight.shape[2:])))
    spread = float(weight.detach().float().std()) if weight.numel() > 1 and weight.is_floating_point() else 0.0
    return wanted / spread if math.isfinite(spread) and spread > 0.0 else 1.0


def _measure_statistics(module: Any, call: Callable[[], Any]) -> None:
    """Have running statistics be those of one call; where it raises, they stay as they are."""
    layers = [layer for layer in module.modules() if isinstance(layer, NORMS) and layer.running_mean is not None]
    before = [
        (layer.training, layer.momentum, {name: buffer.clone() for name, buffer in layer.named_buffers()})
        for layer in layers
    ]
    failed = False
    for layer in layers:
        layer.train()
        layer.momentum = 1.0
    try:
        call()
    except (RuntimeError, ValueError):
        # Such as one value for each channel.
        failed = True
    for layer, (training, momentum, buffers) in zip(layers, before):
        layer.train(training)
        layer.momentum = momentum
        for name, buffer in layer.named_buffers():
            if failed or name == "num_batches_tracked":
                buffer.copy_(buffers[name])
