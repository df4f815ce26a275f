"""A loss as detection models use it: a long pointwise chain that ends in one number."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Sigmoid focal loss, averaged, see https://arxiv.org/abs/1708.02002."""

    def __init__(self, alpha: float, gamma: float) -> None:
        super().__init__()
        self.alpha = alpha
        self.gamma = gamma

    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        p = torch.sigmoid(logits)
        cross_entropy = F.softplus(-logits) * targets + F.softplus(logits) * (1 - targets)
        p_t = p * targets + (1 - p) * (1 - targets)
        alpha_t = self.alpha * targets + (1 - self.alpha) * (1 - targets)
        loss = alpha_t * (1 - p_t).pow(self.gamma) * cross_entropy
        return loss.mean()


def get_inputs():
    return [torch.randn(2048, 4096), (torch.rand(2048, 4096) < 0.1).float()]


def get_init_inputs():
    return [0.25, 2.0]
