"""Which nodes of a graph can be part of a kernel, and what each of them is there.

Modules of torch.nn become calls of functions (`canonical/modules.py`), sizes of pointwise results become sizes of
what went in, so that nothing hangs on a value that a kernel keeps to itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from stark_lsp.playbook.canonical import REGISTRY, Bound, Operation, bind
from stark_lsp.playbook.canonical.builder import Builder
from stark_lsp.playbook.canonical.modules import Call, ModuleTensor, attributes_used, function_call
from stark_lsp.playbook.canonical.registry import SUPPORTED, Unsupported
from stark_lsp.playbook.graph import Graph, GraphNode, Ref, map_refs, refs_in


class Role(Enum):
    """What a node is inside a kernel."""

    POINTWISE = "pointwise"
    ROW = "row"
    """It reduces."""
    ALIGN = "align"
    """It puts back dims of size 1 that a reduction dropped."""
    EXPAND = "expand"
    """It repeats a reduced value along the reduced dims."""


@dataclass(frozen=True)
class Fusible:
    """A node that can be part of a kernel."""

    node: GraphNode
    call: Call
    role: Role
    space: tuple[int, ...]
    operation: Operation | None = None
    bound: Bound | None = None
    dims: tuple[int, ...] = ()
    keeps_shape: bool = True
    keepdim: bool = False

    @property
    def word(self) -> str:
        """The word for it in names and advice."""
        return self.operation.name if self.operation is not None else self.role.value

    @property
    def kernels(self) -> int:
        """About how many kernels PyTorch launches for it."""
        if self.operation is None or self.operation.name == "identity":
            return 0
        return self.operation.kernels

    @property
    def several_passes(self) -> bool:
        """Whether it walks over its row more than once, or back over it after reducing."""
        return self.role is Role.ROW and (self.keeps_shape or self.word in ("var", "std", "logsumexp"))

    def refs(self) -> tuple[Ref, ...]:
        """The tensors it reads, without sizes."""
        return tuple(refs_in((self.call.args, self.call.kwargs)))


@dataclass(frozen=True)
class Prepared:
    """A graph with what is known of its nodes."""

    graph: Graph
    fusible: dict[int, Fusible]
    calls: dict[int, Call]
    """Every call node as a function call where it has that form."""
    module_attributes: dict[str, Any]
    """Attributes of torch.nn modules that a fused form depends on, by expression."""


def prepare(graph: Graph) -> Prepared:
    """Return the graph with parameters of modules as nodes, and its fusible nodes."""
    known = {node.target: Ref(node.id) for node in graph.nodes if node.op == "attribute"}
    calls: dict[int, Call] = {}
    attributes: dict[str, Any] = {}
    for node in graph.nodes:
        if node.op == "call":
            calls[node.id] = Call(node.target, node.args, node.kwargs)
        elif node.op == "module" and node.module is not None:
            function = function_call(node.module)
            if function is None:
                continue
            info = node.module

            def place(value: Any, info: Any = info) -> Any:
                nonlocal graph
                if not isinstance(value, ModuleTensor):
                    return value
                expression = f"{info.path}.{value.name}"
                if expression not in known:
                    added = GraphNode(len(graph.nodes), "attribute", expression, outputs=(info.tensors[value.name],))
                    graph, known[expression] = graph.with_node(added)
                return known[expression]

            calls[node.id] = Call(
                function.target,
                (*node.args, *map(place, function.args)),
                {**node.kwargs, **{key: place(value) for key, value in function.kwargs.items()}},
            )
            used = {name: info.attributes[name] for name in attributes_used(info) if name in info.attributes}
            used |= {name: None for name, tensor in info.tensors.items() if tensor is None}
            attributes |= {f"{info.path}.{name}": value for name, value in used.items()}
    graph = _fence_what_stays_in_place(graph, calls)
    fusible: dict[int, Fusible] = {}
    for node in graph.nodes:
        found = _classify(graph, node, calls.get(node.id))
        if found is not None:
            fusible[node.id] = found
    graph = _resolve_sizes(graph, fusible)
    return Prepared(graph, fusible, calls, attributes)


def _fence_what_stays_in_place(graph: Graph, calls: dict[int, Call]) -> Graph:
    """An in-place operation that has no ordinary form here is written as it is, and nothing may move across it."""
    nodes = [
        replace(node, fence=True)
        if node.in_place and (node.id not in calls or calls[node.id].target not in REGISTRY)
        else node
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))


def _classify(graph: Graph, node: GraphNode, call: Call | None) -> Fusible | None:
    if call is None or node.fence or not node.outputs or node.structure == "nested":
        return None
    metas = [graph.meta(ref) for ref in refs_in((call.args, call.kwargs)) if graph.nodes[ref.node].op != "size"]
    if any(meta.dtype not in SUPPORTED or meta.device != graph.device for meta in (*metas, node.meta)):
        return None
    if node.meta.numel == 0 or not metas:
        return None
    view = _view(node, call)
    if view is not None:
        return view
    operation = REGISTRY.get(call.target)
    if operation is None or (node.view and operation.name != "identity"):
        return None
    try:
        bound = bind(operation, call.args, call.kwargs, node.meta, graph.meta)
        operation.check(bound)
        dims = operation.dims(bound)
        builder = Builder(set())
        operation.write(builder, bound, {name: builder.value(name, meta.dtype) for name, meta in bound.metas.items()})
    except Unsupported:
        return None
    if any(isinstance(v, (tuple, list)) and any(True for _ in refs_in(v)) for v in bound.values.values()):
        return None
    if dims is None:
        return Fusible(node, call, Role.POINTWISE, node.meta.shape, operation, bound)
    source = bound.metas.get("input") or bound.metas["x1"]
    extent = 1
    for dim in dims:
        extent *= source.shape[dim]
    if extent < 2 or (node.structure == "sequence" and _uses_second(graph, node.id)):
        return None
    return Fusible(
        node, call, Role.ROW, source.shape, operation, bound, dims, operation.keeps_shape, operation.keepdim(bound)
    )


def _uses_second(graph: Graph, node: int) -> bool:
    used = [ref for other in graph.nodes for ref in other.refs()] + list(refs_in(graph.output))
    return any(ref.node == node and ref.index > 0 for ref in used)


def _view(node: GraphNode, call: Call) -> Fusible | None:
    """Views that put reduced dims back; they only count inside a kernel that did the reduction."""
    last = call.target.rpartition(".")[2]
    if last == "unsqueeze":
        return Fusible(node, call, Role.ALIGN, node.meta.shape)
    if last == "__getitem__" and len(call.args) == 2:
        key = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
        if any(k is None for k in key) and all(k is None or k is ... or k == slice(None) for k in key):
            return Fusible(node, call, Role.ALIGN, node.meta.shape)
    if last in ("expand", "expand_as"):
        return Fusible(node, call, Role.EXPAND, node.meta.shape)
    return None


def _resolve_sizes(graph: Graph, fusible: dict[int, Fusible]) -> Graph:
    """Let sizes be read from what a pointwise result was made from, where the shapes agree."""

    def source(ref: Ref) -> Ref:
        found = fusible.get(ref.node)
        if found is None or ref.index:
            return ref
        if found.role is Role.POINTWISE or (found.role is Role.ROW and found.keeps_shape):
            shape = graph.meta(ref).shape
            others = [r for r in found.refs() if graph.nodes[r.node].op not in ("attribute", "size")]
            if others and all(graph.meta(r).shape == shape for r in others):
                return source(others[0])
        return ref

    nodes = [
        replace(node, args=tuple(map_refs(arg, source) for arg in node.args)) if node.op == "size" else node
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))
