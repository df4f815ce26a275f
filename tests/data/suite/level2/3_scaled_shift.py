"""A sum with weights, then a bound."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return torch.clamp(x * self.weight + self.bias, min=-1.0, max=1.0) * 2.0


def get_inputs():
    return [torch.randn(256, 256)]


def get_init_inputs():
    return [256]
