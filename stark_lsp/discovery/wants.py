"""What layers want of their input."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from stark_lsp.discovery.constructors import UNKNOWN, Layer


@dataclass
class Facts:
    """What is known of one argument of `forward`."""

    rank: int | None = None
    least: int = 0
    """It has at least so many dimensions."""
    sizes: dict[int, int] = field(default_factory=dict)
    """Known sizes by dimension, from the front or from the back."""
    kind: str = ""
    """A kind of `drafts.Tensor`, empty if nothing is known."""
    high: int = 0
    parts: int = 0
    """How many values it is unpacked into, if it is a tuple."""
    like: str = ""
    """Another argument of the same shape."""
    plain: str = ""
    """An expression, if it is no tensor at all."""

    def learn(self, other: Facts) -> None:
        """Take over what is not known yet."""
        if self.parts or self.plain:
            return
        agree = self.rank is None or other.rank is None or self.rank == other.rank
        self.rank = self.rank if self.rank is not None else other.rank
        self.least = max(self.least, other.least)
        if agree:
            for place, size in other.sizes.items():
                self.sizes.setdefault(place, size)
        self.kind = self.kind or other.kind
        self.high = self.high or other.high
        self.parts = self.parts or other.parts
        self.like = self.like or other.like


def part_of(whole: Facts, place: int, count: int) -> Facts:
    """Return what is known of one of several that are joined.

    Parameters
    ----------
    place
        The dimension they are joined at.
    count
        How many they are, 0 if there are others besides them.
    """
    index = place % whole.rank if whole.rank else place
    sizes: dict[int, int] = {}
    for other, size in whole.sizes.items():
        if (other % whole.rank if whole.rank else other) != index:
            sizes[other] = size
        elif count and size % count == 0:
            sizes[other] = size // count
    return Facts(rank=whole.rank, least=whole.least, sizes=sizes)


_ATTENTION = ("MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer", "TransformerEncoder")
KEEPS = re.compile(
    r"(Norm(\dd|2D)?|Dropout(\dd)?|DropPath|StochasticDepth|Identity|GELU|ReLU6?|SiLU|Swish|Mish|Tanh|Sigmoid|Softmax|ELU"
    r"|LeakyReLU|PReLU|Hardswish|Hardsigmoid|Softplus|LayerScale|QuickGELU)$",
    re.IGNORECASE,
)
"""Layers whose output has the shape of their input."""


def wants(layer: Layer) -> Facts | None:
    """Return what a layer wants of its (first) input, None if that is not known."""
    kind = layer.kind
    found = re.fullmatch(r"(?:Lazy|Sync)?(Conv|ConvTranspose|BatchNorm|InstanceNorm)([123])?d?", kind)
    if found and (found[2] or kind == "SyncBatchNorm"):
        channels = layer.number(0, "in_channels", "num_features")
        dims = int(found[2] or 2)
        sizes = {1: channels} if channels else {}
        if found[1] == "BatchNorm" and dims == 1:
            return Facts(sizes=sizes)
        return Facts(rank=dims + 2, sizes=sizes)
    if re.fullmatch(
        r"(Adaptive)?(Max|Avg)Pool2d|Upsample(.*2d)?|PixelShuffle|PixelUnshuffle|.*Pad2d|Dropout2d|Unfold", kind
    ):
        return Facts(rank=4)
    if re.fullmatch(r"(Adaptive)?(Max|Avg)Pool1d", kind):
        return Facts(rank=3)
    if kind == "GroupNorm":
        channels = layer.number(1, "num_channels")
        return Facts(least=3, sizes={1: channels}) if channels else None
    if kind in ("Embedding", "EmbeddingBag"):
        entries = layer.number(0, "num_embeddings")
        return Facts(kind="randint", high=entries or 1000)
    if kind in ("Linear", "LazyLinear", "NonDynamicallyQuantizableLinear"):
        width = layer.number(0, "in_features")
        return Facts(least=1, sizes={-1: width} if width else {})
    if kind in ("LayerNorm", "RMSNorm"):
        shape = layer.get(0, "normalized_shape")
        norm = shape if isinstance(shape, list) else [shape]
        if all(type(size) is int for size in norm) and norm:
            return Facts(least=len(norm), sizes={index - len(norm): size for index, size in enumerate(norm)})
        return None
    if kind in _ATTENTION or kind in ("LSTM", "GRU", "RNN"):
        width = layer.number(0, "embed_dim", "d_model", "input_size")
        if kind == "TransformerEncoder":
            return next((want for one in layer.inner if (want := wants(one))), Facts(rank=3))
        return Facts(rank=3, sizes={-1: width} if width else {})
    if kind == "Bilinear":
        width = layer.number(0, "in1_features")
        return Facts(sizes={-1: width} if width else {})
    if kind in ("Sequential", "ModuleList", "checkpoint_wrapper", "weight_norm", "spectral_norm"):
        for one in layer.inner:
            want = wants(one)
            if want is not None:
                return want
            if not KEEPS.search(one.kind):
                return None
        return None
    return _by_name(layer)


def _by_name(layer: Layer) -> Facts | None:
    """Return what a layer of another package most likely wants, by what it and its arguments are called."""
    first = layer.get(0)
    width = first if type(first) is int and first > 0 else None
    channels = layer.number(-1, "in_channels", "in_chs", "in_chans", "inp", "inplanes", "in_planes")
    if channels is not None or re.search(r"Conv|BatchNorm|Norm2d|2d$|SqueezeExc|^SE", layer.kind):
        size = channels or width
        if "1d" in layer.kind or "3d" in layer.kind:
            return Facts(rank=3 if "1d" in layer.kind else 5, sizes={1: size} if size else {})
        return Facts(rank=4, sizes={1: size} if size else {})
    named = layer.number(-1, "dim", "embed_dim", "hidden_size", "in_features", "d_model", "input_dim", "in_dim")
    if named is not None or re.search(r"Attention|Attn|Mlp|MLP|FFN|FeedForward|Norm|Linear|Dense", layer.kind):
        size = named or width
        return Facts(least=2, sizes={-1: size}) if size else None
    return None


def parameter_shape(layer: object) -> list[int] | None:
    """Return the shape of a parameter, None if it is none or not all of it is known."""
    if not isinstance(layer, Layer) or layer.kind != "Parameter":
        return None
    sizes = [size for size in layer.args if type(size) is int]
    return sizes if sizes and len(sizes) == len(layer.args) else None


__all__ = ["KEEPS", "UNKNOWN", "Facts", "parameter_shape", "part_of", "wants"]
