"""The gate of a SwiGLU feed-forward layer: bias, SiLU and product."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """SiLU(gate + gate_bias) * (up + up_bias), see https://arxiv.org/abs/2002.05202."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.gate_bias = nn.Parameter(torch.zeros(features))
        self.up_bias = nn.Parameter(torch.zeros(features))

    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        gate = gate + self.gate_bias
        up = up + self.up_bias
        return F.silu(gate) * up


def get_inputs():
    return [torch.randn(2048, 5632), torch.randn(2048, 5632)]


def get_init_inputs():
    return [5632]
