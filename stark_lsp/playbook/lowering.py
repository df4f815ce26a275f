"""From a region to the spec of its kernel."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass, replace

from stark_lsp.playbook.canonical.registry import FLOATS, HALF, Value
from stark_lsp.playbook.fusible import Fusible, Prepared, Role
from stark_lsp.playbook.graph import Ref
from stark_lsp.playbook.regions import Operand as RegionOperand
from stark_lsp.playbook.regions import Place, Region
from stark_lsp.playbook.spec import COUNT, KernelSpec, Operand, Output, Step

_COMPARISONS = frozenset(["lt", "le", "gt", "ge", "eq", "ne"])
_LOGIC = frozenset(["logical_and", "logical_or", "logical_not"])


@dataclass(frozen=True)
class LoweredKernel:
    """A region's kernel."""

    spec: KernelSpec
    operands: tuple[RegionOperand, ...]
    """What is passed for each operand of the spec, in order."""
    outputs: tuple[int, ...]
    """The nodes whose values come back, in order."""


class Builder:
    """Collects the steps of a kernel; see `canonical.registry.Build`."""

    def __init__(self, names: set[str]) -> None:
        self.steps: list[Step] = []
        self._taken = set(names)

    def step(self, op: str, *args: Value | float, dtype: str | None = None) -> Value:
        """Append one primitive; arguments of other kinds of numbers are converted as torch does."""
        values = [a if isinstance(a, Value) else Value(a, "float" if isinstance(a, float) else "int") for a in args]
        target = dtype or values[0].dtype
        if op in _COMPARISONS:
            values = self._common(values)
            target = "bool"
        elif op in _LOGIC:
            values = [v if v.dtype == "bool" else self.step("ne", v, 0) for v in values]
            target = "bool"
        elif op == "where":
            values = [self._truth(values[0]), *(self._as(v, target) for v in values[1:])]
        elif op in ("isnan", "isinf"):
            target = "bool"
        elif op not in ("cast", "identity"):
            values = [self._as(v, target) for v in values]
        reduced = any(v.reduced for v in values) and all(v.reduced or v.is_number for v in values)
        name = self._name()
        self.steps.append(Step(name, op, tuple(v.what for v in values), target))
        return Value(name, target, reduced)

    def reduce(self, op: str, value: Value, dtype: str | None = None) -> Value:
        """Append a reduction over the kernel's reduce dims."""
        target = dtype or value.dtype
        value = self._as(value, target)
        name = self._name()
        self.steps.append(Step(name, op, (value.what,), target))
        return Value(name, target, reduced=True)

    def count(self) -> Value:
        """Return the number of elements a reduction runs over."""
        return Value(COUNT, "int")

    def rename(self, value: Value, wish: str) -> Value:
        """Give the last step a name the user knows."""
        wish = identifier(wish)
        if not self.steps or self.steps[-1].name != value.what or wish in self._taken:
            return value
        self.steps[-1] = replace(self.steps[-1], name=wish)
        self._taken.add(wish)
        return replace(value, what=wish)

    def _name(self) -> str:
        number = len(self.steps)
        while f"t{number}" in self._taken:
            number += 1
        self._taken.add(f"t{number}")
        return f"t{number}"

    def _truth(self, value: Value) -> Value:
        return value if value.dtype == "bool" else self.step("ne", value, 0)

    def _as(self, value: Value, dtype: str) -> Value:
        if value.is_number or value.dtype == dtype:
            return value
        if value.dtype in HALF and dtype in FLOATS and dtype != "float64":
            return value  # read as float32 anyway
        if dtype in HALF and value.dtype == "float32":
            return value  # rounded when the step is done
        if dtype == "bool":
            return self.step("ne", value, 0)
        target = "float32" if dtype in HALF else dtype
        return self.step("cast", value, dtype=target)

    def _common(self, values: list[Value]) -> list[Value]:
        floats = [v for v in values if v.dtype in FLOATS]
        if floats:
            wide = "float64" if any(v.dtype == "float64" for v in floats) else "float32"
            return [self._as(v, wide) for v in values]
        whole = [v for v in values if not v.is_number and v.dtype != "bool"]
        if any(v.dtype == "float" for v in values):
            return [self._as(v, "float32") for v in values]
        return [self._as(v, "int64") for v in values] if whole or len({v.dtype for v in values}) > 1 else values


def identifier(text: str) -> str:
    """Return `text` as an identifier that is neither a word of Python nor hides torch; kernels see to the rest."""
    name = re.sub(r"\W+", "_", text).strip("_") or "x"
    if name[0].isdigit():
        name = f"x{name}"
    return f"{name}_" if keyword.iskeyword(name) or name in ("torch", "F") else name


def lower(prepared: Prepared, region: Region, name: str, doc: str, source_lines: tuple[str, ...]) -> LoweredKernel:
    """Return the kernel of a region."""
    graph, layout = prepared.graph, region.layout
    taken: set[str] = {name}
    operands: list[Operand] = []
    values: dict[tuple[Ref, str], Value] = {}
    for item in layout.operands:
        meta = graph.meta(item.ref)
        wish = identifier(wished_name(prepared, item.ref))
        unique, number = wish, 2
        while unique in taken:
            unique, number = f"{wish}_{number}", number + 1
        taken.add(unique)
        shape = aligned_shape(meta.shape, item.view, region)
        operands.append(Operand(unique, meta.dtype, shape, not meta.contiguous and not layout.same_order))
        values[item.ref, item.view] = Value(unique, meta.dtype)
    builder = Builder(taken)
    inner: dict[int, Value] = {}
    for node in region.nodes:
        fusible = prepared.fusible[node]
        value = _lower_node(builder, fusible, inner, values, layout.places)
        wish_name = fusible.node.names.get(0)
        inner[node] = builder.rename(value, wish_name) if wish_name else value
    outputs = []
    for node in layout.outputs:
        value = inner[node]
        dtype = graph.nodes[node].meta.dtype
        place = layout.places[node]
        if value.is_number or value.what in {o.name for o in operands} or (place is Place.FULL and value.reduced):
            value = builder.step("identity", value, dtype=dtype)
        outputs.append(Output(str(value.what), dtype, place is not Place.FULL, place is not Place.DROPPED))
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
    bound = fusible.bound
    dropped = places[fusible.node.id] is Place.DROPPED
    bound.tensors = {}
    for name, ref in bound.values.items():
        if not isinstance(ref, Ref):
            continue
        if ref.node in inner:
            bound.tensors[name] = inner[ref.node]
            continue
        wanted = ("channel", "") if name in fusible.operation.channel else ("unsqueeze", "") if dropped else ("",)
        bound.tensors[name] = next(values[ref, view] for view in wanted if (ref, view) in values)
    return fusible.operation.lower(builder, bound)


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
