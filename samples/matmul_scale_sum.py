"""A projection whose result is scaled, clamped and summed over the features."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """sum(clamp(linear(x) * scale, low, high)) for each row."""

    def __init__(self, features: int, hidden: int, scale: float) -> None:
        super().__init__()
        self.linear = nn.Linear(features, hidden)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        y = torch.clamp(y * self.scale, -2.0, 2.0)
        y = y + torch.sigmoid(y)
        return y.sum(dim=1, keepdim=True)


def get_inputs():
    return [torch.randn(4096, 128)]


def get_init_inputs():
    return [128, 4096, 1.5]
