"""From a region to the spec of its kernel."""

from __future__ import annotations

from dataclasses import dataclass

from stark_lsp.playbook.canonical.builder import Builder, Value
from stark_lsp.playbook.fusible import Fusible, Prepared, Role
from stark_lsp.playbook.graph import Ref
from stark_lsp.playbook.names import identifier, unused
from stark_lsp.playbook.regions import Operand as RegionOperand
from stark_lsp.playbook.regions import Place, Region
from stark_lsp.playbook.spec import KernelSpec, Operand, Output


@dataclass(frozen=True)
class LoweredKernel:
    """A region's kernel."""

    spec: KernelSpec
    operands: tuple[RegionOperand, ...]
    """What is passed for each operand of the spec, in order."""
    outputs: tuple[int, ...]
    """The nodes whose values come back, in order."""


def lower(prepared: Prepared, region: Region, name: str, doc: str, source_lines: tuple[str, ...]) -> LoweredKernel:
    """Return the kernel of a region."""
    graph, layout = prepared.graph, region.layout
    names: list[str] = []
    for item in layout.operands:
        names.append(unused(identifier(wished_name(prepared, item.ref)), {name, *names}))
    builder = Builder({name, *names})
    operands: list[Operand] = []
    values: dict[tuple[Ref, str], Value] = {}
    for item, called in zip(layout.operands, names, strict=True):
        meta = graph.meta(item.ref)
        shape = aligned_shape(meta.shape, item.view, region)
        operands.append(Operand(called, meta.dtype, shape, not meta.contiguous and not layout.same_order))
        values[item.ref, item.view] = builder.value(called, meta.dtype)
    inner: dict[int, Value] = {}
    for node in region.nodes:
        fusible = prepared.fusible[node]
        value = _lower_node(builder, fusible, inner, values, layout.places)
        wish = fusible.node.names.get(0)
        inner[node] = builder.rename(value, identifier(wish)) if wish else value
    outputs = []
    for node in layout.outputs:
        value = inner[node]
        dtype = graph.nodes[node].meta.dtype
        place = layout.places[node]
        if value.is_number or value.what in names or (place is Place.FULL and value.reduced):
            value = builder.step("identity", value, dtype=dtype)
        how = place is not Place.FULL, place is not Place.DROPPED, graph.nodes[node].leads
        outputs.append(Output(str(value.what), dtype, *how))
    spec = KernelSpec(
        name=name, space=layout.space, operands=tuple(operands), steps=tuple(builder.steps), outputs=tuple(outputs),
        reduce_dims=layout.dims, doc=doc, source_lines=source_lines,
    )  # fmt: skip
    return LoweredKernel(spec, layout.operands, layout.outputs)


def _lower_node(
    builder: Builder,
    fusible: Fusible,
    inner: dict[int, Value],
    values: dict[tuple[Ref, str], Value],
    places: dict[int, Place],
) -> Value:
    if fusible.role in (Role.ALIGN, Role.EXPAND):
        return inner[fusible.call.args[0].node]
    assert fusible.operation is not None
    assert fusible.bound is not None
    dropped = places[fusible.node.id] is Place.DROPPED
    tensors: dict[str, Value] = {}
    for name, ref in fusible.bound.values.items():
        if isinstance(ref, Ref) and ref.node in inner:
            tensors[name] = inner[ref.node]
        elif isinstance(ref, Ref):
            wanted = ("channel", "") if name in fusible.operation.channel else ("unsqueeze", "") if dropped else ("",)
            tensors[name] = next(values[ref, view] for view in wanted if (ref, view) in values)
    return fusible.operation.write(builder, fusible.bound, tensors)


def aligned_shape(shape: tuple[int, ...], view: str, region: Region) -> tuple[int, ...]:
    """Return the shape of an operand as it is passed."""
    space, dims = region.layout.space, region.layout.dims
    if view == "channel":
        return (*shape, *(1 for _ in space[2:]))
    if view == "unsqueeze":
        rest = iter(shape)
        return tuple(1 if i in dims else next(rest) for i in range(len(space)))
    return shape


def wished_name(prepared: Prepared, ref: Ref) -> str:
    """Return what the user calls a tensor, or a word for it."""
    node = prepared.graph.nodes[ref.node]
    if node.op == "attribute":
        return node.target.removeprefix("self.").replace(".", "_").replace("[", "_").replace("]", "")
    if node.op == "input":
        return node.target
    if ref.index in node.names:
        return node.names[ref.index]
    if node.module is not None:
        return node.module.path.rpartition(".")[2].strip("[]'")
    return node.target.rpartition(".")[2].strip("_")
