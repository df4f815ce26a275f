"""A gate with a polynomial: pointwise steps that one kernel can do at once."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        inner = self.scale * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1.0 + torch.tanh(inner))


def get_inputs():
    return [torch.randn(128, 512)]


def get_init_inputs():
    return [0.79788456]
