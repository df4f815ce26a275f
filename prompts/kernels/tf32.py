import torch


def _stark_tf32():
    """Return whether cuDNN may round to TF32."""
    conv = getattr(torch.backends.cudnn, "conv", None)  # since torch 2.9
    return conv.fp32_precision == "tf32" if conv else torch.backends.cudnn.allow_tf32
