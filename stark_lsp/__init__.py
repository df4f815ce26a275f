"""STARK for your editor: verified kernels for PyTorch modules."""

__version__ = "0.1.0"
