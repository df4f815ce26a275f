"""A linear layer whose features are averaged in groups before the activation."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """2 * gelu of the means of each few features of linear(x)."""

    def __init__(self, features: int, hidden: int, group: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, hidden)
        self.group = group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        x = F.avg_pool1d(x.unsqueeze(1), self.group).squeeze(1)
        return F.gelu(x) * 2.0


def get_inputs():
    return [torch.randn(512, 1024)]


def get_init_inputs():
    return [1024, 2048, 16]
