import torch
import torch.nn as nn
import torch.nn.functional as F


N = 1024
D = 1024
DEPTH = 16


class Model(nn.Module):
    def __init__(self, d, depth):
        super().__init__()
        layers = []
        for _ in range(depth):
            layers += [nn.Linear(d, d), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(d, d))
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.kaiming_normal_(weight)

    def forward(self, x):
        return self.layers(x)


def get_inputs():
    return [torch.randn(N, D)]


def get_init_inputs():
    return [D, DEPTH]
