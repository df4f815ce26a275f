"""Attention weights: scale the scores, mask them, softmax over the keys."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """softmax(scores / sqrt(d) masked), over the last dimension."""

    def __init__(self, head_size: int) -> None:
        super().__init__()
        self.scale = head_size**-0.5

    def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scaled = scores * self.scale
        masked = scaled.masked_fill(mask, float("-inf"))
        return torch.softmax(masked, dim=-1)


def get_inputs():
    causal = torch.triu(torch.ones(1024, 1024, dtype=torch.bool), diagonal=1)
    return [torch.randn(2, 8, 1024, 1024), causal]


def get_init_inputs():
    return [64]
