"""A recurrent classifier: many short kernels, so that on a GPU launching them is most of the time."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """The last step of a stacked LSTM, through a linear layer."""

    def __init__(self, features: int, hidden: int, layers: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def get_inputs():
    return [torch.randn(10, 256, 128)]


def get_init_inputs():
    return [128, 256, 3, 10]
