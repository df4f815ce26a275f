"""First guesses at the inputs of a class, read off its constructor and its `forward`.

They are guesses: sizes come from the first layer of the constructor, kinds from annotations and from the names
people give such arguments. A person looks at them once, which is quicker than writing them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

BATCH = 8
LENGTH = 128
WIDTH = 512
IMAGE = 32

_SIZES: tuple[tuple[str, int], ...] = (
    (r"vocab", 1000), (r"head", 8), (r"group", 4), (r"kernel", 3), (r"stride|dilation", 1), (r"padding", 1),
    (r"layer|depth|block", 2), (r"class|label|num_out", 10), (r"max_len|seq|length|positions|context", LENGTH),
    (r"in_channels|channels?|planes|filters", 16), (r"batch", BATCH), (r"rank", 8), (r"experts?", 4),
)  # fmt: skip
_INTEGERS = re.compile(
    r"(^|_)(ids?|idx|index|indices|tokens?|labels?|targets?|positions?|input_ids|token_ids)(_|$)", re.IGNORECASE
)
_MASK = re.compile(r"mask", re.IGNORECASE)


@dataclass(frozen=True)
class Guess:
    """One guessed argument."""

    text: str
    """A Python expression."""
    sure: bool = True
    """False if a person has to replace it."""


@dataclass(frozen=True)
class Layer:
    """The first layer of a constructor whose input is known from its arguments."""

    shape: tuple[int, ...]
    """Shape of its input, batch included."""
    vocabulary: int | None = None
    """For an embedding: how many indices there are."""


def constructor_guess(name: str, annotation: ast.expr | None, classes: Mapping[str, ast.ClassDef]) -> Guess:
    """Return a value for a constructor's parameter that has no default."""
    kind = _kind(annotation)
    lower = name.lower()
    if kind == "bool" or (not kind and re.match(r"(use|is|has|with|enable)_|bias$|causal$", lower)):
        return Guess("True")
    if kind == "str":
        return Guess('""', sure=False)
    if re.search(r"(^|_)eps(ilon)?$", lower):
        return Guess("1e-5")
    if re.search(r"drop|(^|_)p(_|$)|prob", lower):
        return Guess("0.0")
    if kind == "float" or re.search(r"scal|alpha|beta|gamma|slope|momentum|factor|value|temperature|weight$", lower):
        return Guess("1.0") if kind != "int" else Guess(str(_size(lower)))
    if kind in classes and _constructs_alone(classes[kind]):
        return Guess(f"{kind}()")
    if re.search(r"shape|dims$|sizes$", lower) or kind in ("tuple", "list", "Sequence", "Tuple", "List"):
        opening, closing = ("[", "]") if kind in ("list", "List", "Sequence") else ("(", "")
        return Guess(f"{opening}{_size(lower)}{closing or ',)'}")
    if kind in ("", "int", "Union", "Optional"):
        sized = (
            kind == "int"
            or re.search(r"dim|size|feature|hidden|width|embed|in_|out_|num|^n_|^d_|units|channels|^[a-z]$", lower)
            or any(re.search(pattern, lower) for pattern, _ in _SIZES)
        )
        if sized:
            return Guess(str(_size(lower)))
    return Guess("None", sure=False)


def forward_guess(name: str, annotation: ast.expr | None, layer: Layer | None, *, first: bool) -> Guess:
    """Return a value for a parameter of `forward` that has no default."""
    kind = _kind(annotation)
    lower = name.lower()
    if kind in ("int", "float", "bool", "str"):
        return Guess({"int": "1", "float": "1.0", "bool": "True", "str": '""'}[kind], sure=kind != "str")
    if layer is not None and layer.vocabulary is not None and (first or _INTEGERS.search(lower)):
        return Guess(f"torch.randint(0, {layer.vocabulary}, {_shape(layer.shape)})")
    if _MASK.search(lower):
        shape = layer.shape[:2] if layer is not None and len(layer.shape) > 2 else (BATCH, LENGTH)
        return Guess(f"torch.ones({', '.join(map(str, shape))}, dtype=torch.bool)", sure=False)
    if _INTEGERS.search(lower):
        rows = layer.shape[:1] if layer is not None else (BATCH,)
        classes = layer.shape[1] if layer is not None and len(layer.shape) > 1 else 10
        return Guess(f"torch.randint(0, {classes}, {_shape(rows)})", sure=False)
    shape = layer.shape if layer is not None and layer.vocabulary is None else (BATCH, WIDTH)
    return Guess(f"torch.randn({', '.join(map(str, shape))})", sure=layer is not None and first)


def first_layer(init: ast.FunctionDef | None, values: Mapping[str, int]) -> Layer | None:
    """Return the first layer a constructor makes whose input shape its arguments tell.

    Parameters
    ----------
    init
        The constructor.
    values
        Whole numbers that its parameters and the constants of the file stand for.
    """
    if init is None:
        return None
    known = dict(values)
    for statement in ast.walk(init):  # `self.dim = dim`
        if isinstance(statement, ast.Assign):
            number = evaluate(statement.value, known)
            for target in statement.targets:
                if number is not None:
                    known[ast.unparse(target)] = number
    calls = [part for part in ast.walk(init) if isinstance(part, ast.Call)]
    for call in sorted(calls, key=lambda part: (part.lineno, part.col_offset)):
        layer = _layer(call, known)
        if layer is not None:
            return layer
    return None


def evaluate(node: ast.expr | None, values: Mapping[str, int]) -> int | None:
    """Return the whole number an expression of sums and products stands for, None if it is not known."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value if abs(node.value) < 1 << 40 else None
    if isinstance(node, (ast.Name, ast.Attribute)):
        return values.get(ast.unparse(node))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int" and node.args:
        return evaluate(node.args[0], values)
    if isinstance(node, ast.BinOp):
        left, right = evaluate(node.left, values), evaluate(node.right, values)
        if left is None or right is None or max(abs(left), abs(right)) > 1 << 40:
            return None
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, (ast.FloorDiv, ast.Div)) and right:
            return left // right
    return None


def _layer(call: ast.Call, values: Mapping[str, int]) -> Layer | None:
    kind = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}

    def size(index: int, *names: str) -> int | None:
        node = next((keywords[name] for name in names if name in keywords), None)
        if node is None and len(call.args) > index:
            node = call.args[index]
        if isinstance(node, (ast.Tuple, ast.List)) and node.elts:
            node = node.elts[-1]
        number = evaluate(node, values)
        return number if number is not None and number > 0 else None

    found = re.fullmatch(r"(?:Lazy)?(Conv|ConvTranspose|BatchNorm|InstanceNorm)([123])d", kind)
    if found:
        channels = size(0, "in_channels", "num_features")
        rank = int(found[2])
        if channels is None:
            return None
        if rank == 1 and found[1] == "BatchNorm":
            return Layer((BATCH, channels))
        return Layer((BATCH, channels, *{1: (LENGTH,), 2: (IMAGE, IMAGE), 3: (16, 16, 16)}[rank]))
    if kind == "GroupNorm":
        channels = size(1, "num_channels")
        return Layer((BATCH, channels, IMAGE, IMAGE)) if channels else None
    if kind == "Embedding":
        entries = size(0, "num_embeddings")
        return Layer((BATCH, LENGTH), entries) if entries else None
    if kind in ("Linear", "LayerNorm", "RMSNorm"):
        width = size(0, "in_features", "normalized_shape")
        return Layer((BATCH, width) if kind == "Linear" else (BATCH, LENGTH, width)) if width else None
    if kind in ("LSTM", "GRU", "RNN", "MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer"):
        width = size(0, "input_size", "embed_dim", "d_model")
        return Layer((LENGTH, BATCH, width)) if width else None
    if kind == "Parameter" and call.args and isinstance(call.args[0], ast.Call):
        maker = call.args[0]
        shape = maker.args[0].elts if maker.args and isinstance(maker.args[0], ast.Tuple) else maker.args
        sizes = [evaluate(node, values) for node in shape]
        if len(sizes) == 1 and sizes[0]:
            return Layer((BATCH, LENGTH, sizes[0]))
    return None


def _kind(annotation: ast.expr | None) -> str:
    """Return the last part of an annotation's name (`int`, `Tensor`, `Tuple`), empty if there is none."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError):
            return ""
    if isinstance(annotation, ast.BinOp):  # int | None
        return _kind(annotation.left)
    if isinstance(annotation, ast.Subscript):
        outer = _kind(annotation.value)
        return _kind(annotation.slice) if outer == "Optional" else outer
    if isinstance(annotation, ast.Attribute):
        return annotation.attr
    return annotation.id if isinstance(annotation, ast.Name) else ""


def _size(name: str) -> int:
    return next((size for pattern, size in _SIZES if re.search(pattern, name)), WIDTH)


def _shape(sizes: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"


def _constructs_alone(node: ast.ClassDef) -> bool:
    """Say whether a class of the file (a configuration, say) can be made without arguments."""
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            arguments = statement.args
            required = len(arguments.posonlyargs) + len(arguments.args) - 1 - len(arguments.defaults)
            return required <= 0 and all(default is not None for default in arguments.kw_defaults)
    fields = [statement for statement in node.body if isinstance(statement, ast.AnnAssign)]
    return bool(fields) and all(statement.value is not None for statement in fields)
