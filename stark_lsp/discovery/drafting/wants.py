"""What layers and functions want of their input."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from stark_lsp.discovery.drafting.constructors import UNKNOWN, Layer, Namespace, evaluate


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

    def learn(self, other: Facts) -> None:
        """Take over what is not known yet."""
        if self.parts:
            return
        agree = self.rank is None or other.rank is None or self.rank == other.rank
        self.rank = self.rank if self.rank is not None else other.rank
        self.least = max(self.least, other.least)
        if agree:
            for place, size in other.sizes.items():
                self.sizes.setdefault(place, size)
        self.kind = self.kind or other.kind
        self.high = self.high or other.high
        self.parts = other.parts
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


KEEPING = frozenset(
    {
        "float", "half", "double", "bfloat16", "contiguous", "to", "cuda", "cpu", "clone", "detach", "type_as",
        "type", "relu", "sigmoid", "tanh", "exp", "log", "softmax", "abs", "masked_fill", "clamp", "add", "mul",
        "sub", "div", "gelu", "silu", "dropout", "leaky_relu", "elu", "softplus", "normalize", "layer_norm",
        "rms_norm", "square", "sqrt", "rsqrt", "pow", "neg", "requires_grad_", "long", "int", "bool", "log_softmax",
        "cumsum", "relu_", "clamp_min", "nan_to_num", "maybe_autocast", "checkpoint", "drop_path",
    }
)  # fmt: skip
"""Functions and methods whose result has the shape of their input."""
_PLANES = re.compile(r"(conv2d|interpolate|(adaptive_)?(max|avg)_pool2d|pixel_(un)?shuffle|unfold|grid_sample)$")
_EINOPS = frozenset({"rearrange", "reduce", "repeat"})
_AXIS = frozenset({"mean", "sum", "chunk", "split", "unbind", "softmax", "size", "argmax", "max", "flatten", "squeeze"})


def method_wants(kind: str, node: ast.Call) -> Facts:
    """Return what a call of a tensor's method tells of the tensor."""
    numbers = [value for a in node.args if type(value := evaluate(a, {})) is int]
    named = [k.value for k in node.keywords if k.arg in ("dim", "axis", "start_dim")]
    numbers += [value for a in named if type(value := evaluate(a, {})) is int]
    if kind == "permute" and len(node.args) > 1:
        return Facts(rank=len(node.args))
    if kind in ("transpose", "swapaxes", "movedim") or (kind in _AXIS and numbers):
        return Facts(least=max((n + 1 if n >= 0 else -n for n in numbers[:2] if abs(n) < 6), default=0))
    return Facts()


def function_wants(kind: str, node: ast.Call, names: Namespace) -> Iterator[tuple[int, Facts]]:
    """Yield what a call of a function of torch, its functional part or einops tells of arguments, by their places."""
    second = node.args[1] if len(node.args) > 1 else None
    if kind in _EINOPS and isinstance(second, ast.Constant):
        if isinstance(second.value, str):
            yield 0, _pattern(second.value, node, names)
    elif kind == "einsum" and node.args and isinstance(node.args[0], ast.Constant):
        terms = str(node.args[0].value).split("->")[0].split(",")
        yield from ((1 + i, Facts(rank=len(term.replace(" ", "")))) for i, term in enumerate(terms) if "." not in term)
    elif kind in ("scaled_dot_product_attention", "bmm"):
        rank, count = (3, 2) if kind == "bmm" else (4, 3)
        yield from ((place, Facts(rank=rank)) for place in range(count))
    if _PLANES.search(kind):
        yield 0, Facts(rank=4)
    if second is None:
        return
    value = evaluate(second, names)
    shape = parameter_shape(value)
    if kind == "embedding":
        yield 0, Facts(kind="randint", high=shape[0] if shape else 1000)
    elif kind == "linear" and shape is not None and len(shape) > 1:
        yield 0, Facts(sizes={-1: shape[1]})
    elif kind in ("conv1d", "conv2d", "conv_transpose2d") and shape is not None and len(shape) > 1:
        yield 0, Facts(rank=len(shape), sizes={1: shape[0 if "transpose" in kind else 1]})
    elif kind == "layer_norm" and isinstance(value, list) and value and all(type(size) is int for size in value):
        yield 0, Facts(sizes={i - len(value): size for i, size in enumerate(value)})


def _pattern(pattern: str, node: ast.Call, names: Namespace) -> Facts:
    """Return what the left side of an einops pattern tells."""
    axes = re.findall(r"\([^)]*\)|[^\s()]+", pattern.split("->")[0])
    if any("..." in axis for axis in axes):
        return Facts(least=len(axes))
    given = {k.arg: evaluate(k.value, names) for k in node.keywords if k.arg}
    sizes: dict[int, int] = {}
    for index, axis in enumerate(axes):
        size = 1
        for name in axis.strip("()").split():
            value = int(name) if name.isdigit() else given.get(name, UNKNOWN)
            size = size * value if type(value) is int and size else 0
        if size > 1 or axis == "1":
            sizes[index] = size
    return Facts(rank=len(axes), sizes=sizes)
