"""Weights as training would leave them, so that a candidate cannot rely on how they are initialized.

A bias that starts at zero or a scale that starts at one makes a kernel that ignores it look right.
Some cases are therefore compared with every parameter moved a little, and with running statistics
that have seen data.
"""

from __future__ import annotations

from typing import Any

import torch

SEED = 7
SHARE = 0.1
"""How far a parameter is moved, as a share of its own spread."""
LEAST_SPREAD = 0.5
"""Spread taken for a parameter whose elements are all equal, such as a bias of zeros."""


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
        if key not in parameters | statistics or not value.is_floating_point() or not value.numel():
            result[key] = value
            continue
        # Tied weights stay tied.
        place = value.data_ptr()
        if place not in moved:
            noise = torch.randn(value.shape, generator=generator, dtype=torch.float32)
            spread = float(value.float().std()) if value.numel() > 1 else 0.0
            step = SHARE * (spread if spread > 1e-6 else LEAST_SPREAD) * noise
            moved[place] = (value.float() + (step.abs() if key.endswith("running_var") else step)).to(value.dtype)
        result[key] = moved[place]
    return result if moved else None
