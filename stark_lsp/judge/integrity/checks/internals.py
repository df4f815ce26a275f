"""Private parts of modules: other modules under other names, and what runs text as code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import Candidate
from ..uses import CALL, IMPORT, LOAD
from ..words import Refusal, listed
from .imports import REFUSED

_FINE = (
    "torch._dynamo.config",
    "torch._dynamo.reset",
    "torch._dynamo.disable",
    "torch._dynamo.allow_in_graph",
    "torch._dynamo.graph_break",
    "torch._dynamo.is_compiling",
    "torch._dynamo.mark_",
    "torch._dynamo.maybe_mark_dynamic",
    "torch._inductor.config",
    "torch._inductor.list_",
    "torch._C._cuda_getCurrentRawStream",
    "torch._C._cuda_getDeviceCount",
    "torch._C.FileCheck",
    "torch._C._nn.",
    "torch._VF.",
    "torch._utils._flatten_dense_tensors",
    "torch._utils._unflatten_dense_tensors",
    "torch._library.triton.",
    "torch._higher_order_ops.associative_scan",
    "torch._higher_order_ops.flex_attention",
    "torch.cuda._compile_kernel",
    "torch.cuda._lazy_init",
    "torch.cuda._get_device_index",
    "torch.nn.",
    "torch.optim.",
    "torch.ops.",
    "torch.Tensor._",
    "triton.",
)
_PARENTS = ("torch._dynamo", "torch._inductor", "torch._C", "torch._utils", "torch._library", "torch._higher_order_ops")
"""Private modules that something in `_FINE` lies in: `import torch._dynamo` alone is harmless."""
_OPERATORS = tuple(
    f"torch._{name}"
    for name in listed(
        "foreach_ fused_ scaled_ weight_ native_ int_mm int8 softmax log_softmax addmm_ grouped_ assert check "
        "transform efficient_ flash_ cudnn_ thnn_ sparse_ segment_ convert_ cast_ cslt_ nested_ safe_softmax "
        "unsafe_ batch_norm embedding_bag trilinear conj neg_view reshape fft_ dirichlet euclidean_dist cdist_ "
        "cdist amp_ mixed_ masked_ stack unique aminmax dim_arange mkldnn_ nnpack_ rowwise_prune shape_as_tensor "
        "standard_gamma sample_ saturate_ spdiags is_zerotensor is_any_true is_all_true to_cpu triton_ chunk_cat "
    )
)
"""Operators of torch whose names begin with an underscore."""
_PUBLIC = {
    "runs text as code": (
        "timeit doctest gettext lib2to3 sympy numexpr pydoc cgitb cmd turtle idlelib test numpy.testing numpy.f2py "
        "numpy.distutils numpy.exec_command scipy.weave typing.get_type_hints typing.ForwardRef "
        "typing_extensions.get_type_hints typing_extensions.evaluate_forward_ref annotationlib builtins.help "
        "logging.config torch.utils.benchmark torch.utils.bundled_inputs torch.utils.bottleneck torch.package "
        "functools.singledispatch functools.singledispatchmethod pandas.eval"
    ),
    "looks into the running program": (
        "logging.currentframe torch.utils.collect_env torch.utils.model_dump torch.utils.show_pickle "
        "torch.utils.viz torch.jit.frontend torch.monitor"
    ),
    "starts processes or threads, which no kernel needs": "torch.utils.data.datapipes logging.handlers asyncio",
    "makes tensors of memory by its address": "numpy.ctypeslib.as_array torch.UntypedStorage._new_with_weak_ptr",
}
_REFUSED = {name: why for why, names in _PUBLIC.items() for name in names.split()}
_FX_FINE = ("torch.fx", "torch.fx.GraphModule", "torch.fx.symbolic_trace", "torch.fx.Graph", "torch.fx.Node")


def internals(candidate: Candidate) -> Iterator[Refusal]:
    """Private names of modules, and public ones that run text or look into the program."""
    ours = {use.path for use in candidate.reference.uses} if candidate.reference else set()
    for use in candidate.uses:
        own = use.path.startswith(("builtins.", ".", "@", "__future__"))
        if use.path in ours or (own and use.path.split("()")[0] != "builtins.help"):
            continue
        path = use.path.split("(")[0].split("[")[0]
        why = _public(path)
        if why:
            yield Refusal(f"It uses {path.replace('builtins.', '')}, which {why}.", use.line)
        elif path.startswith("torch.fx.") and not _fx_fine(use.path, path, use.kind):
            yield Refusal(f"It uses {path}, which makes code from graphs.", use.line)
        elif _is_private(path) and use.kind in (IMPORT, LOAD, CALL) and path.split(".")[0] not in REFUSED:
            yield Refusal(f"It uses {path}, which is private to {path.split('.')[0]}.", use.line)
        elif use.kind == CALL and path in ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"):
            yield from _workers(use.node)


def _public(path: str) -> str:
    parts = path.split(".")
    for count in range(1, len(parts) + 1):
        why = _REFUSED.get(".".join(parts[:count]))
        if why:
            return why
    return ""


def _fx_fine(whole: str, path: str, kind: str) -> bool:
    if path in ("torch.fx.GraphModule", "torch.fx.Graph", "torch.fx.Node"):
        # As annotations; a graph that torch.compile hands over is called, never made.
        return kind != CALL and "(" not in whole
    return path in _FX_FINE


def _is_private(path: str) -> bool:
    """Whether a path leads through a name of a module that begins with one underscore."""
    parts = path.split(".")
    private = [at for at, part in enumerate(parts) if part.startswith("_") and not part.endswith("__")]
    if not private or private[0] == 0 or path.startswith(_FINE + _OPERATORS) or path in _PARENTS:
        return False
    return not any("?" in part for part in parts[: private[0]])


def _workers(node: ast.AST) -> Iterator[Refusal]:
    for word in getattr(node, "keywords", []):
        if word.arg is None or (
            word.arg == "num_workers" and not (isinstance(word.value, ast.Constant) and word.value.value == 0)
        ):
            yield Refusal("It starts processes that load data; a kernel needs none.", word.value.lineno)
    if len(getattr(node, "args", [])) > 5:
        yield Refusal("It starts processes that load data; a kernel needs none.", getattr(node, "lineno", None))
