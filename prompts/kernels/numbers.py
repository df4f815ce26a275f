import functools

import torch


@functools.lru_cache(None)
def NAME(device):
    """Make a tensor of the numbers that forward makes it of, once for each device."""
    with torch.inference_mode(False):
        return torch.tensor(
            NUMBERS, device=device
        )  # fmt: skip
