import torch


def _stark_tf32():
    """Return whether cuDNN may round to TF32."""
    try:
        return torch.backends.cudnn.allow_tf32
    except RuntimeError:  # settings of torch 2.9 are in use
        return torch.backends.cudnn.conv.fp32_precision == "tf32"
