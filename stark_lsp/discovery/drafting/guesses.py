"""Values for arguments, from their names, their annotations and what is known of them.

They are guesses until a call with them has run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from stark_lsp.discovery.drafting.annotations import inside, kind_of, literal, of_numbers, parts_of
from stark_lsp.discovery.drafting.drafts import Plain, Record, Several, Tensor, Value
from stark_lsp.discovery.drafting.wants import Facts

BATCH = 2
LENGTH = 40
WIDTH = 512
IMAGE = 32
HEADS = 8
GROWN = {BATCH: 8, LENGTH: 128}
"""Inputs are tried with small batches and lengths; those that run are written with these, if they run as well."""

GRIDS = {1: "40", 2: "8, 5", 3: "2, 4, 5"}  # of `LENGTH` places, by the number of dimensions
PLANE = {"h": "8", "w": "5", "height": "8", "width": "5"}  # the same, one by one
_GRID = re.compile(r"(^|_)(shapes?|hw|thw|size|resolution|grid_size|input_dimensions)$")
_SIZES: tuple[tuple[str, int], ...] = (
    (r"^(ax|axis|dim)_?\d$|axis", 1), (r"vocab|n_token|num_embeddings|num_tokens", 1000),
    (r"^n_?(embd?|embed|hidden|inner|model|feat)", WIDTH), (r"head_(dim|size)|dim_head|d_head|d_k$|d_v$|headdim", 64),
    (r"head", HEADS), (r"group", 4), (r"kernel|ksize|^ks?$", 3), (r"stride|dilation|shift", 1), (r"padding", 1),
    (r"layer|depth|block(?!_size)|repeat|iters?$|steps$|stages?$|levels?$|scales$|hops?$", 2),
    (r"class|label|num_out|n_out", 10), (r"im(g|age)_?size", 224), (r"resolution|feat_size", 14), (r"patch", 16),
    (r"spatial|temporal|grid|partition", 8), (r"window|win_size", 8), (r"expand|expansion|ratio|mult", 4),
    (r"max_len|seq|length|position|context|block_size|tokens", 1024), (r"in_chans|img_channels|image_channels", 3),
    (r"channels?|planes|filters|chs?$|^c(in|out|1|2|_in|_out)?$|inp$|oup$", 64),
    (r"factor|scale", 2),
    (r"reduc|squeeze", 4), (r"batch", BATCH), (r"rank|^r$", 8), (r"top_?k|num_selected", 2), (r"experts?", 4),
    (r"state|d_conv", 16), (r"inter|ffn|ff_dim|mlp|dim_feedforward|d_ff", 4 * WIDTH),
    (r"index|idx|_id$|pad_token", 0), (r"num_|^n_|number", 4),
)  # fmt: skip
_INTEGERS = re.compile(
    r"(^|_)(ids?|idx|index|indices|tokens?|labels?|targets?|positions?|input_ids|token_ids|timesteps?|input_pos)(_|$)",
    re.IGNORECASE,
)
EDGES = "edge_index"
"""What the edges of a graph are called: two rows of numbers of its nodes."""
_LENGTHS = re.compile(r"(^|_)(lengths?|lens|seqlens)$")
_MASK = re.compile(r"mask", re.IGNORECASE)
_CONFIG = re.compile(r"(^|_)(config|cfg|conf|args|hparams|params|opts?|options|settings|hp)$", re.IGNORECASE)


def is_config(name: str) -> bool:
    """Say whether an argument is called as configurations are."""
    return bool(_CONFIG.search(name))


def constructor_guess(
    name: str,
    annotation: ast.expr | None,
    classes: Mapping[str, ast.ClassDef],
    compared: tuple[str, ...] = (),
    *,
    planes: bool = False,
) -> Value:
    """Return a value for a constructor's parameter that has no default.

    Parameters
    ----------
    compared
        Texts that the constructor compares the parameter with.
    planes
        Whether the class works on images.
    """
    kind = kind_of(annotation)
    lower = name.lower()
    choice = literal(annotation)
    if choice is not None:
        return Plain(choice)
    if compared and kind in ("", "str", "Optional", "Union"):
        return Plain(f'"{compared[0]}"')
    if kind in classes and _is_enum(classes[kind]):
        member = next(
            (
                t.id
                for s in classes[kind].body
                if isinstance(s, ast.Assign)
                for t in s.targets
                if isinstance(t, ast.Name)
            ),
            "",
        )
        return Plain(f"{kind}.{member}")
    if kind == "bool" or (not kind and re.match(r"(use|is|has|with|enable|apply|do)_|bias$|causal$", lower)):
        return Plain("False" if "causal" not in lower and kind == "bool" and not re.search("bias", lower) else "True")
    if kind == "None":
        return Plain("None")
    if kind_of(inside(annotation)) == "Module":
        return Plain("nn.ReLU()" if re.search("act|nonlin", lower) else "nn.Identity()", sure=False)
    if re.search(r"norm(_layer|_cls|_class|_type|alization)?$", lower) and kind not in ("str", "float", "int"):
        return Plain("nn.BatchNorm2d" if planes else "nn.LayerNorm", sure=False)
    made_of = kind not in ("int", "float", "str") and not re.match(r"(n|num|nb)_", lower)
    if kind in ("Callable", "Type", "type") or (made_of and re.search(r"_layer$|_fn$|_func$|_cls$|_class$", lower)):
        return Plain("nn.ReLU" if re.search("act|nonlin", lower) else "nn.Identity", sure=False)
    if re.search(r"(^|_)(act|activation|hidden_act|nonlinearity|act_fn)(_|$)", lower) or lower.endswith(
        "activation_function"
    ):
        return Plain('"gelu"' if kind in ("", "str") else "nn.GELU()", sure=False)
    if kind == "str":
        return Plain('""', sure=False)
    if kind == "dtype" or lower == "dtype":
        return Plain("torch.float32")
    if kind == "device" or lower == "device":
        return Plain('"cpu"')
    if re.search(r"(^|_)eps(ilon)?$", lower):
        return Plain("1e-5")
    if re.search(r"theta|rope_base", lower):
        return Plain("10000.0")
    if kind in ("list", "List") and re.search(r"drop|prob|ratio|scale", lower):
        return Several((Plain("0.0" if re.search("drop|prob", lower) else "1.0"),) * 2, "[]")
    if re.search(r"drop|(^|_)p(_|$)|prob|dropout", lower):
        return Plain("0.0")
    if kind == "float" or re.search(
        r"scal|alpha|beta|gamma|slope|momentum|factor|value(?!_heads)|temperature|weight$|margin|lambda|std$|_range$",
        lower,
    ):
        return Plain("1.0") if kind != "int" else Plain(str(size_of(lower)))
    if kind in classes and _constructs_alone(classes[kind]):
        return Record(f"{kind}")
    if kind in classes and classes[kind].body:
        return Record(kind, tuple(_fields(classes[kind], classes)))
    if is_config(lower) and not kind:
        return Record("SimpleNamespace", open=True)
    if kind and re.search(r"(Config|Cfg|Args|Settings|Params|Options)$", kind):
        return Record(kind)
    if kind in ("Tensor", "Parameter"):
        return Tensor((WIDTH,), sure=False)
    if re.search(r"shape$|dims$|sizes$|resolution$", lower) or kind in ("tuple", "list", "Sequence", "Tuple", "List"):
        return _sequence(lower, kind, annotation)
    if kind in ("", "int", "Union", "Optional", "Any"):
        sized = kind == "int" or re.search(
            r"dim|size|feature|hidden|width|embed|embd|in_|out_|input|output|num|^n_|^d_|_d$|units|channels|^[a-z]$|model|inner",
            lower,
        )
        if sized or any(re.search(pattern, lower) for pattern, _ in _SIZES):
            return Plain(str(size_of(lower)))
    return Plain("None", sure=False)


def namespace_guess(name: str) -> Value:
    """Return a value for a field of a configuration."""
    if name == "_attn_implementation":
        return Plain('"eager"')
    if name.endswith("_types"):
        return Several((Plain('"full_attention"'),) * 4, "[]")
    if name.startswith("rope_") and re.search("parameters$|scaling$", name):
        return Plain('{"rope_type": "default", "rope_theta": 10000.0}')
    if re.search(r"intermediate|ffn|mlp_dim|hidden_dim$", name):
        return Plain(str(4 * WIDTH))
    if re.match(r"(use|is|has|with|enable|do|tie)_", name) or re.search(r"bias|causal|flash", name):
        return Plain("True" if "bias" in name else "False")
    return constructor_guess(name, None, {})


def layer_class(name: str) -> Plain:
    """Return a class of layers for a parameter that is called to make one."""
    kinds = (("conv", "Conv2d"), ("linear|proj|fc", "Linear"), ("act|nonlin", "ReLU"), ("drop", "Dropout"))
    found = next((kind for pattern, kind in kinds if re.search(pattern, name.lower())), "Identity")
    return Plain(f"nn.{found}", sure=False)


def _sequence(lower: str, kind: str, annotation: ast.expr | None, nested: bool = False) -> Value:
    size = (
        14 if re.search(r"resolution|shape|input_size", lower) and not re.search("im(g|age)", lower) else size_of(lower)
    )
    item = annotation.slice if isinstance(annotation, ast.Subscript) else None
    if kind_of(item) in ("tuple", "Tuple", "list", "List"):
        rows = (_sequence(lower, kind_of(item), item, nested=True),) * 2
        return Several(rows, "[]" if kind in ("list", "List") else "()")
    if nested:
        size = 2 if size == WIDTH else size
    items = 2 if kind in ("tuple", "Tuple") or re.search(r"resolution|window|patch|kernel|stride", lower) else 1
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple):
        inner = [item for item in annotation.slice.elts if not (isinstance(item, ast.Constant) and item.value is ...)]
        items = len(inner)
        if any(isinstance(item, ast.Constant) for item in annotation.slice.elts):
            items = 2
    opening = "[]" if kind in ("list", "List", "Sequence") else "()"
    return Several(tuple(Plain(str(size)) for _ in range(items)), opening)


def call_guess(name: str, annotation: ast.expr | None, facts: Facts, width: int, heads: int = HEADS) -> Value:
    """Return a value for a parameter of `forward`.

    Parameters
    ----------
    width
        Size of the last dimension, or of the channels, where nothing tells it.
    """
    kind = kind_of(annotation)
    lower = name.lower()
    if kind in ("int", "float", "bool", "str", "None"):
        plain = {"int": "1", "float": "1.0", "bool": "False", "str": '""', "None": "None"}[kind]
        if kind == "int" and facts.rank is None:
            plain = PLANE.get(lower, str(call_size(lower)))
        return Plain(plain, sure=kind != "str")
    if kind == "Optional":
        return Plain("None")
    if lower == EDGES:
        return Tensor((2, 2 * LENGTH), "randint", LENGTH, sure=False)
    noted = _noted(annotation)
    if noted is not None:
        facts.learn(noted)
    if of_numbers(annotation):
        grid = GRIDS[min(facts.parts or parts_of(annotation), 3)]
        return Plain(f"({grid})" if kind in ("tuple", "Tuple") else f"[{grid}]")
    if kind == "" and _GRID.search(lower) and facts.rank is None and not facts.sizes:
        return Plain(f"({GRIDS[2]})")
    side = lower.rpartition("_")[2]
    if kind == "" and side in ("height", "width") and facts == Facts():
        return Plain(PLANE[side])
    if kind in ("dict", "Dict", "OrderedDict", "Mapping"):
        return Several((Tensor(_shape(lower, facts, width, heads), sure=False),), "{}")
    if facts.parts or kind in ("tuple", "Tuple", "list", "List", "Sequence"):
        items = facts.parts or parts_of(annotation)
        inner = Tensor(_shape(lower, facts, width, heads), "randn", sure=facts.parts > 0)
        return Several((inner,) * items, "()" if kind not in ("list", "List") else "[]")
    sizes = _shape(lower, facts, width, heads)
    whole = bool(_INTEGERS.search(lower)) and "emb" not in lower
    if len(sizes) == 2 and not facts.sizes and (_MASK.search(lower) or whole):
        sizes = (BATCH, LENGTH)
    if facts.kind == "randint" or kind == "LongTensor":
        return Tensor(sizes, "randint", facts.high or 10)
    if kind == "BoolTensor" or _MASK.search(lower):
        return Tensor(sizes, "mask", sure=False)
    if "cu_seqlens" in lower:
        return Plain(f"torch.tensor([0, {LENGTH}], dtype=torch.int32)")
    if re.search(r"top_?k|expert|routing|router", lower) and facts.rank is None:
        index = re.search(r"ind|ids|experts$", lower)
        return Tensor((BATCH, 2), "randint" if index else "rand", facts.high or 4, sure=False)
    if _LENGTHS.search(lower) and len(sizes) == 1 and kind != "FloatTensor":
        return Tensor(sizes, "lengths", LENGTH, sure=False)
    if "freqs_cis" in lower:
        return Tensor(sizes, "phase", sure=False)
    if whole and not facts.sizes and facts.rank in (None, 1, 2) and kind != "FloatTensor":
        return Tensor(sizes, "randint", facts.high or 10, sure=False)
    return Tensor(sizes, sure=facts.rank is not None)


def call_size(lower: str) -> int:
    """Return a number for a whole number that `forward` takes."""
    if re.search(r"start|offset|pos|layer|idx|index|step", lower):
        return 0
    return next((size for pattern, size in _SIZES if re.search(pattern, lower)), 1)


def _shape(lower: str, facts: Facts, width: int, heads: int) -> tuple[int, ...]:
    rank = facts.rank
    if rank is None:
        rank = max(facts.least, _rank(lower, facts))
    known = {
        place if place >= 0 else rank + place: size for place, size in facts.sizes.items() if -rank <= place < rank
    }
    if rank >= 4 and (rank - 1) in known and 1 not in known and facts.rank is not None and rank == 4:
        usual = [BATCH, IMAGE, IMAGE, width]  # channels last
        if re.match(r"(q|k|v|query|key|value|xq|xk|xv)(_|s?$)|.*(query|key|value|attn)", lower):
            usual = [BATCH, heads, LENGTH, 64]
    elif rank == 4 and re.match(r"(q|k|v|query|key|value|xq|xk|xv)(_states|_layer|s?$)", lower):
        usual = [BATCH, heads, LENGTH, 64]
    else:
        usual = {
            0: [],
            1: [BATCH],
            2: [BATCH, width],
            3: [BATCH, LENGTH, width],
            4: [BATCH, width, IMAGE, IMAGE],
            5: [2, width, 8, 16, 16],
        }.get(rank, [BATCH, *([4] * (rank - 2)), width])
    if facts.kind == "randint" and rank in (1, 2):
        usual = [BATCH, LENGTH][:rank]
    if rank == 3 and 1 in known and 2 not in known:
        usual = [BATCH, width, LENGTH]
    return tuple(known.get(place, size) for place, size in enumerate(usual))


def _rank(lower: str, facts: Facts) -> int:
    """Return how many dimensions an argument of that name usually has."""
    if facts.kind == "randint":
        return 2
    if facts.least >= 3 or (1 in facts.sizes and -1 not in facts.sizes):
        return 4 if facts.least != 3 or 1 in facts.sizes else 3
    if re.search(r"im(g|ages?)s?$|pixel|feature_map|feats?$|fmap|skip|low|high|residual_map", lower):
        return 4
    if re.search(r"hidden|tokens|embeds?|states|memory|context|src|tgt|seq|query|key|value|sentence", lower):
        return 3
    if re.search(r"^t$|timestep|labels?|targets?|class_ids", lower) or _LENGTHS.search(lower):
        return 1
    if re.search(r"emb|cond|style|logits|scores?|noise_level|sigma|^c$|^z$", lower):
        return 2
    return 3 if -1 in facts.sizes and facts.least > 0 else 2


def _noted(annotation: ast.expr | None) -> Facts | None:
    """Return what an annotation such as `Float[Tensor, "b n 64"]` tells."""
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
        return None
    text = annotation.slice.elts[-1]
    kind = kind_of(annotation.value)
    if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
        return None
    axes = text.value.split()
    if any(axis.startswith("*") or axis == "..." for axis in axes):
        return Facts(least=len(axes))
    sizes = {index: int(axis) for index, axis in enumerate(axes) if axis.isdigit()}
    kinds = {"Int": "randint", "Int64": "randint", "Int32": "randint", "Integer": "randint", "Bool": "mask"}
    return Facts(rank=len(axes), sizes=sizes, kind=kinds.get(kind, ""))


def size_of(name: str) -> int:
    """Return the usual size of what is called so."""
    return next((size for pattern, size in _SIZES if re.search(pattern, name)), WIDTH)


def _is_enum(node: ast.ClassDef) -> bool:
    return any(re.search(r"Enum$|Flag$", ast.unparse(base)) for base in node.bases)


def _fields(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> list[tuple[str, Value]]:
    """Return values for what a class of the file, a configuration say, must be given."""
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            arguments = statement.args.args[1:]
            required = arguments[: len(arguments) - len(statement.args.defaults)]
            return [(a.arg, constructor_guess(a.arg, a.annotation, {})) for a in required]
    return [
        (s.target.id, constructor_guess(s.target.id, s.annotation, {}))
        for s in node.body
        if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name) and s.value is None
    ]


def _constructs_alone(node: ast.ClassDef) -> bool:
    """Say whether a class of the file (a configuration, say) can be made without arguments."""
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            arguments = statement.args
            required = len(arguments.posonlyargs) + len(arguments.args) - 1 - len(arguments.defaults)
            return required <= 0 and all(default is not None for default in arguments.kw_defaults)
    fields = [statement for statement in node.body if isinstance(statement, ast.AnnAssign)]
    return bool(fields) and all(statement.value is not None for statement in fields)
