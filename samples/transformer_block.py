"""A small pre-norm transformer block: attention stays with PyTorch, the glue around it does not have to."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class NewGELU(nn.Module):
    """The tanh form of GELU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class SelfAttention(nn.Module):
    """Causal multi-head self-attention."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(features, 3 * features)
        self.project = nn.Linear(features, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, features = x.size()
        q, k, v = self.qkv(x).split(features, dim=2)
        shape = (batch, tokens, self.heads, features // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.project(y.transpose(1, 2).reshape(batch, tokens, features))


class Model(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(features)
        self.attention = SelfAttention(features, heads)
        self.norm2 = nn.LayerNorm(features)
        self.expand = nn.Linear(features, 4 * features)
        self.gelu = NewGELU()
        self.contract = nn.Linear(4 * features, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.contract(self.gelu(self.expand(self.norm2(x))))


def get_inputs():
    return [torch.randn(8, 256, 384)]


def get_init_inputs():
    return [384, 6]
