"""The recorded call as a typed graph.

`judge/analysis` hands over JSON; here it becomes nodes whose arguments are `Ref` (a tensor), `Scalar` (a number
with its expression), plain values, and tuples, lists, dicts or slices of these. Nothing here knows torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from stark_lsp.playbook.spec import ITEM_BYTES

Expr = list[Any]
"""See `judge/analysis/values.py`."""


@dataclass(frozen=True)
class Ref:
    """A tensor: result `index` of a node."""

    node: int
    index: int = 0


@dataclass(frozen=True)
class Scalar:
    """A number that depends on sizes, on the module's attributes or on a plain input."""

    value: int | float
    expr: tuple[Any, ...]


@dataclass(frozen=True)
class DType:
    """A torch dtype, by name."""

    name: str


@dataclass(frozen=True)
class Device:
    """A torch device, by name or as that of a tensor."""

    name: str = ""
    of: Ref | None = None


@dataclass(frozen=True)
class TorchConstant:
    """A member of the torch namespace such as `contiguous_format`."""

    name: str


@dataclass(frozen=True)
class Construct:
    """A named tuple or dataclass made from its fields."""

    name: str
    fields: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Meta:
    """What is known of a tensor."""

    shape: tuple[int, ...]
    dtype: str
    contiguous: bool = True
    device: str = "cpu"
    stride: tuple[int, ...] | None = None

    @property
    def readable(self) -> bool:
        """Whether a kernel can read it in place: contiguous, or rows that lie apart."""
        return self.contiguous or (bool(self.stride) and self.stride is not None and self.stride[-1] == 1)

    @property
    def permuted(self) -> bool:
        """Whether it fills its memory without gaps, with the dims in another order, as a transposed tensor does."""
        if self.contiguous or self.stride is None:
            return False
        expected = 1
        for step, size in sorted((step, size) for step, size in zip(self.stride, self.shape, strict=True) if size != 1):
            if step != expected:
                return False
            expected *= size
        return True

    @property
    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return self.numel * ITEM_BYTES.get(self.dtype, 4)


@dataclass(frozen=True)
class Frame:
    """A line of the user's code."""

    path: str
    line: int
    """1-based."""
    function: str


@dataclass(frozen=True)
class ModuleInfo:
    """A module of torch.nn that counts as one operation."""

    cls: str
    path: str
    attributes: dict[str, Any]
    tensors: dict[str, Meta | None]
    hooks: bool = False


@dataclass(frozen=True)
class GraphNode:
    """One operation, input, attribute or size."""

    id: int
    op: str
    """`input`, `attribute`, `size`, `call` or `module`."""
    target: str
    """`F.gelu`, `torch.add`, `Tensor.view`; for an input or attribute its expression; for a size the dim."""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[Meta, ...] = ()
    structure: str = "tensor"
    paths: tuple[str, ...] = ()
    """For nested results, how each tensor is reached."""
    frames: tuple[Frame, ...] = ()
    """The user's frames, innermost first."""
    module_path: str = "self"
    """Expression of the user's module whose forward runs this."""
    names: dict[int, str] = field(default_factory=dict)
    """Names the user gave to the results."""
    time_ms: float = 0.0
    bytes: int = 0
    flops: int = 0
    view: bool = False
    fence: bool = False
    """Changes memory that others may see: nothing may move across it."""
    module: ModuleInfo | None = None
    value: Any = None
    in_place: bool = False
    """Was written as an in-place operation, and is safely read as an ordinary one."""
    leads: bool = True
    """Whether gradients lead back from it."""

    @property
    def meta(self) -> Meta:
        """The only (or first) result."""
        return self.outputs[0]

    def refs(self) -> Iterator[Ref]:
        """Yield the tensors it reads, sizes included."""
        yield from refs_in(self.args)
        yield from refs_in(tuple(self.kwargs.values()))


@dataclass(frozen=True)
class Guard:
    """A fact the code relied on."""

    expr: tuple[Any, ...]
    relation: str
    """`is` (a truth value) or `==`."""
    value: Any
    after: int
    """Number of nodes that were known when it was noted."""


@dataclass(frozen=True)
class InputFact:
    """A plain input, or the length of a container among the inputs."""

    expression: str
    value: Any


@dataclass(frozen=True)
class Graph:
    """The recorded call."""

    nodes: tuple[GraphNode, ...]
    output: Any
    guards: tuple[Guard, ...]
    attributes: dict[str, Any]
    """Plain attributes the code read, by expression."""
    modules: dict[str, tuple[str, bool, Any]]
    """Parts whose own code is rewritten here, by path: the class, whether the user's file has it by that name, and of
    containers how many parts these have."""
    input_facts: tuple[InputFact, ...]
    device: str
    total_ms: float
    bandwidth_gbs: float
    overhead_ms: float
    training: bool
    read_dtype: bool
    default_dtype: str = "torch.float32"
    """What PyTorch made of numbers without a dtype, such as `torch.arange(8) / 8`."""

    def meta(self, ref: Ref) -> Meta:
        """What is known of a tensor."""
        return self.nodes[ref.node].outputs[ref.index]

    def users(self) -> dict[int, list[int]]:
        """For each node, the nodes that read it, in order."""
        users: dict[int, list[int]] = {node.id: [] for node in self.nodes}
        for node in self.nodes:
            for used in dict.fromkeys(r.node for r in node.refs()):
                users[used].append(node.id)
        return users

    def live(self, guards: Iterable[Guard] = (), below: Callable[[int], Iterable[int]] | None = None) -> set[int]:
        """Return the nodes that the result, an assumption, or a change of shared memory depends on.

        Parameters
        ----------
        guards
            Further assumptions.
        below
            Gives the nodes that one depends on; what it reads if not given.
        """
        below = below or (lambda node: [ref.node for ref in self.nodes[node].refs()])
        stack = [ref.node for ref in refs_in(self.output)]
        stack += [node.id for node in self.nodes if node.fence]
        stack += [node for guard in (*self.guards, *guards) for node in scalar_nodes(guard.expr)]
        live: set[int] = set()
        while stack:
            node = stack.pop()
            if node not in live:
                live.add(node)
                stack += below(node)
        return live

    def with_node(self, node: GraphNode) -> tuple[Graph, Ref]:
        """Return a graph with one more node, and its tensor."""
        return replace(self, nodes=(*self.nodes, node)), Ref(node.id)


def scalar_nodes(expr: Any) -> Iterator[int]:
    """Yield the size nodes of an expression."""
    if isinstance(expr, (tuple, list)):
        if len(expr) == 2 and expr[0] == "node":
            yield int(expr[1])
        else:
            for part in expr[1:]:
                yield from scalar_nodes(part)


def leaves(value: Any) -> Iterator[Any]:
    """Yield what a nested argument holds."""
    if isinstance(value, slice):
        value = (value.start, value.stop, value.step)
    elif isinstance(value, Construct):
        value = dict(value.fields)
    if isinstance(value, (tuple, list, dict)):
        for member in value.values() if isinstance(value, dict) else value:
            yield from leaves(member)
    else:
        yield value


def refs_in(value: Any) -> Iterator[Ref]:
    """Yield every `Ref` of a nested argument; a scalar yields the size nodes it is made from."""
    for leaf in leaves(value):
        if isinstance(leaf, Ref):
            yield leaf
        elif isinstance(leaf, Scalar):
            yield from map(Ref, scalar_nodes(leaf.expr))
        elif isinstance(leaf, Device) and leaf.of is not None:
            yield leaf.of


def map_refs(value: Any, change: Callable[[Ref], Ref]) -> Any:
    """Return a nested argument with every tensor replaced by `change` of it."""
    if isinstance(value, Ref):
        return change(value)
    if isinstance(value, Device) and value.of is not None:
        return Device(of=change(value.of))
    if isinstance(value, tuple):
        return tuple(map_refs(member, change) for member in value)
    if isinstance(value, list):
        return [map_refs(member, change) for member in value]
    if isinstance(value, dict):
        return {key: map_refs(member, change) for key, member in value.items()}
    if isinstance(value, slice):
        return slice(*(map_refs(part, change) for part in (value.start, value.stop, value.step)))
    if isinstance(value, Construct):
        return Construct(value.name, tuple((name, map_refs(member, change)) for name, member in value.fields))
    return value


def read_graph(data: dict[str, Any], eager_ms: float | None = None) -> Graph:
    """Return the typed graph of an analysis.

    Parameters
    ----------
    eager_ms
        What one call of the module takes, as the baseline has it. Operations are timed one by one and at another
        moment; their times become shares of this one, so that no part is ever said to take longer than the whole.
    """
    nodes = tuple(_node(item) for item in data["nodes"])
    whole = max(sum(node.time_ms for node in nodes), data["total_ms"])
    total_ms = eager_ms if eager_ms is not None and eager_ms > 0 else data["total_ms"]
    if whole > 0:
        nodes = tuple(replace(node, time_ms=node.time_ms * total_ms / whole) for node in nodes)
    moved = sum(node.bytes for node in nodes)
    # A module that moves its data faster than the probe copied shows that the probe was disturbed.
    bandwidth_gbs = max(data["bandwidth_gbs"], moved / (total_ms * 1e6) if total_ms > 0 else 0.0)
    return Graph(
        nodes=nodes,
        output=_value(data["output"]),
        guards=tuple(Guard(_tuple(g["expr"]), g["relation"], g["value"], g["after"]) for g in data["guards"]),
        attributes={name: _value_plain(value) for name, value in data["attributes"].items()},
        modules={
            path: (one["class"], one["named"], _value_plain(one.get("length"))) for path, one in data["modules"].items()
        },
        input_facts=tuple(InputFact(item["expression"], _value_plain(item["value"])) for item in data["inputs"]),
        device=data["device"],
        total_ms=total_ms,
        bandwidth_gbs=bandwidth_gbs,
        overhead_ms=data["overhead_ms"],
        training=data["training"],
        read_dtype=data["read_dtype"],
        default_dtype=data.get("default_dtype", "torch.float32"),
    )


def _meta(data: dict[str, Any]) -> Meta:
    return Meta(tuple(data["shape"]), data["dtype"], data["contiguous"], data["device"],
                None if data["stride"] is None else tuple(data["stride"]))  # fmt: skip


def _node(data: dict[str, Any]) -> GraphNode:
    module = data.get("module")
    in_place = bool(data.get("mutates"))
    safe = bool(data.get("safe_in_place"))
    return GraphNode(
        id=data["id"], op=data["op"], target=str(data["target"]),
        args=tuple(map(_value, data.get("args") or ())),
        kwargs={key: _value(item) for key, item in data.get("kwargs") or ()},
        outputs=tuple(map(_meta, data.get("outputs", ()))), structure=data.get("structure", "tensor"),
        paths=tuple(data.get("paths", ())), module_path=data.get("module_path", "self"),
        frames=tuple(Frame(f["path"], f["line"], f["function"]) for f in data.get("frames", ())),
        names={int(index): name for index, name in data.get("names", {}).items()},
        time_ms=data.get("time_ms", 0.0) or 0.0, bytes=data.get("bytes", 0), flops=data.get("flops", 0),
        view=bool(data.get("view")), fence=in_place and not safe, leads=data.get("leads", True),
        module=None if module is None else ModuleInfo(
            module["class"], module["path"],
            {key: _value_plain(value) for key, value in module["attributes"].items()},
            {key: None if value is None else _meta(value) for key, value in module["tensors"].items()},
            module["hooks"] or not module["library"].startswith("torch.nn.modules"),
        ),
        value=data.get("value"), in_place=in_place and safe,
    )  # fmt: skip


def _tuple(expr: Any) -> tuple[Any, ...]:
    return tuple(_tuple(part) if isinstance(part, list) else part for part in expr)


def _value_plain(value: Any) -> Any:
    if isinstance(value, dict) and "float" in value:
        return float(value["float"])
    if isinstance(value, list):
        return tuple(_value_plain(item) for item in value)
    return value


def _value(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    (kind, content), *_ = data.items()
    if kind == "ref":
        return Ref(*content)
    if kind == "scalar":
        return Scalar(_value_plain(content), _tuple(data["expr"]))
    if kind == "float":
        return float(content)
    if kind == "list":
        return [_value(item) for item in content]
    if kind == "tuple":
        return tuple(_value(item) for item in content)
    if kind == "dict":
        return {_value(key): _value(item) for key, item in content}
    if kind == "slice":
        return slice(*(_value(item) for item in content))
    if kind == "call":
        return Construct(content, tuple((name, _value(item)) for name, item in data["fields"]))
    simple = {"ellipsis": lambda _: ..., "dtype": DType, "device": Device, "torch": TorchConstant}
    if kind == "device_of":
        return Device(of=Ref(*content))
    return simple[kind](content)
