"""Volumes that are upsampled, normalized, and averaged down again."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A transposed convolution, batch norm, and average pooling twice."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose3d(channels, filters, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm3d(filters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x))
        return F.avg_pool3d(F.avg_pool3d(x, 2), 2)


def get_inputs():
    return [torch.randn(4, 8, 16, 24, 24)]


def get_init_inputs():
    return [8, 16]
