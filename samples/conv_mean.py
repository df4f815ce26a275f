"""The end of an image classifier: a convolution, batch norm, scale and shift, and the mean over all places."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """tanh of what each channel is on average; all of it is linear up to there, so sums can come first."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, padding=1)
        self.norm = nn.BatchNorm2d(filters)
        self.shift = nn.Parameter(torch.randn(filters, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x)) * 0.5 + self.shift
        return torch.tanh(x.mean(dim=(2, 3)))


def get_inputs():
    return [torch.randn(16, 32, 64, 64)]


def get_init_inputs():
    return [32, 64]
