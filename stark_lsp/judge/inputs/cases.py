"""Cases: the inputs a candidate is checked with, and what the reference gives for them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch

from ..transport import tensorfile


class CaseKind(str, Enum):
    """What is special about the inputs of a case."""

    SEEDED = "seeded"
    """As the user's function or table makes them, from a seed of its own."""
    MOVED_WEIGHTS = "moved-weights"
    """The same, with weights such as training leaves."""
    BATCH = "batch"
    """Another size of the first dimension."""
    LENGTH = "length"
    """Another size of a dimension behind the first."""
    STRIDED = "strided"
    """The same values, not contiguous in memory."""
    VALUES = "values"
    """Other values of the usual size: one input changed alone, other signs, equal last bits."""
    LARGE = "large"
    """Values of large magnitude."""
    EDGE = "edge"
    """Zeros, tiny values, NaN, infinities, negative zero, denormals."""


@dataclass(eq=False)
class Case:
    """One set of inputs."""

    kind: CaseKind
    """What is special about it."""
    words: str
    """The same for messages, such as "with a batch of 3 instead of 16"; empty for the first case."""
    inputs_path: str
    """Tensor file of the arguments."""
    inputs_nbytes: int
    forms: list[torch.Tensor]
    """Shapes, strides and dtypes of the inputs, as tensors without memory."""
    outputs: tensorfile.Loaded
    """What the reference gives; with gradients and buffers in training mode."""
    results: int
    """How many of the outputs are results of `forward`; in training mode gradients and buffers follow."""
    sharing: list[set[str]]
    """For each output whose memory the reference's shares (see `layout.shared`)."""
    cotangents_path: str
    """Tensor file of the gradients that flow into the outputs, in training mode."""
    recorded: bool
    """Whether it is called where gradients are recorded."""
    own_errors: list[float] | None = None
    """For each output tensor the reference's relative error against float64, where it was affordable."""
    ieee: list[torch.Tensor] | None = None
    """Of the first case, what results without TF32 are held against, where these are to be looked at: see `ieee`,"""
    ieee_errors: list[float] | None = None
    """and how far the reference's own are off from that."""
    exact: list[torch.Tensor] | None = None
    """The float64 outputs, kept for the first case only; of a large one those of its first samples."""
    inputs_after: tensorfile.Loaded | None = None
    """The inputs after the call, where the reference changes them."""
    marks: list[int] | None = None
    """Of the inputs, once they were needed, see `Reference.marks`."""
    finite_alone: bool = False
    """Whether the values of its outputs say nothing, since float64 gives others, but that they are finite."""
    further: bool = False
    """Whether it begins with the buffers that the first call leaves, not with what that finds."""

    def __post_init__(self) -> None:
        self.trained = self.kind is CaseKind.MOVED_WEIGHTS
        """Whether the weights of `Reference.trained_path` belong to it, not those of the constructor."""
