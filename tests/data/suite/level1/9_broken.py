"""Not a problem: the file ends in the midst of a line."""

import torch

class Model(torch.nn.Module:
