"""The tanh form of GELU, written out in PyTorch operators, as many GPT-style models have it."""

import math

import torch
import torch.nn as nn


class Model(nn.Module):
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), see https://arxiv.org/abs/1606.08415."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


def get_inputs():
    return [torch.randn(2048, 4096)]


def get_init_inputs():
    return []
