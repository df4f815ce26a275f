"""A plain product of large matrices in float32; on a GPU, tensor cores can take it in parts of bfloat16."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """a @ b."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    return [torch.randn(4096, 4096), torch.randn(4096, 4096)]


def get_init_inputs():
    return []
