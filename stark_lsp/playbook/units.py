"""What the new forward consists of, in order: operations, kernel calls, and checks of assumptions."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from stark_lsp.playbook.expressions import CannotWrite
from stark_lsp.playbook.fusible import Prepared, Role
from stark_lsp.playbook.graph import Graph, Guard, Ref, Scalar, leaves, scalar_nodes
from stark_lsp.playbook.twins import KernelCall

_RANDOM = ("rand", "dropout", "bernoulli", "multinomial", "normal_", "uniform_", "exponential_")


@dataclass
class Unit:
    """Something that is written as one statement."""

    key: float
    """Where the user had it."""
    nodes: tuple[int, ...]
    kernel: KernelCall | None = None
    guard: list[Guard] = field(default_factory=list)
    reads: list[Ref] = field(default_factory=list)
    """Tensors it reads, and sizes that have a name."""

    @property
    def node(self) -> int:
        """The operation that it is; -1 for a kernel and for checks."""
        return self.nodes[0] if self.nodes and self.kernel is None else -1


class Units:
    """The units of one design: each comes behind what it reads, and as near as possible to where the user had it."""

    def __init__(self, prepared: Prepared, kernels: Sequence[KernelCall]) -> None:
        self.prepared = prepared
        self.graph: Graph = prepared.graph
        self.kernels = kernels
        self.kernel_of = {node: kernel for kernel in kernels for node in kernel.region.nodes}

    def ordered(self) -> list[Unit]:
        """Return the units, each behind what it reads.

        Raises
        ------
        CannotWrite
            The kernels depend on each other in a circle.
        """
        units = self._units()
        maker = {node: index for index, unit in enumerate(units) for node in unit.nodes}
        after = [{maker[ref.node] for ref in unit.reads if ref.node in maker} for unit in units]
        special = [i for i, u in enumerate(units) if u.node >= 0 and keeps_order(self.graph, u.node)]
        for first, second in itertools.pairwise(special):
            after[second].add(first)
        for fence in (i for i in special if self.graph.nodes[units[i].node].fence):
            for index, unit in enumerate(units):
                if unit.key < units[fence].key:
                    after[fence].add(index)
                elif unit.key > units[fence].key:
                    after[index].add(fence)
        sorter = TopologicalSorter(dict(enumerate(after)))
        try:
            sorter.prepare()
        except CycleError as error:
            raise CannotWrite("the kernels depend on each other in a circle") from error
        heap: list[tuple[float, int]] = []
        order: list[Unit] = []
        while sorter.is_active():
            for index in sorter.get_ready():
                heapq.heappush(heap, (units[index].key, index))
            _, index = heapq.heappop(heap)
            order.append(units[index])
            sorter.done(index)
        return order

    def _units(self) -> list[Unit]:
        needed = self.graph.live(self._baked(), self._below)
        units = [
            Unit(max(kernel.region.nodes), kernel.lowered.outputs, kernel)
            for kernel in self.kernels
            if any(node in needed for node in kernel.region.nodes)
        ]
        for node in self.graph.nodes:
            if node.id not in needed or node.id in self.kernel_of or node.op in ("input", "attribute"):
                continue
            if node.op == "size" and not node.names:
                continue
            units.append(Unit(node.id, (node.id,)))
        units += self._guard_units()
        for unit in units:
            unit.reads = self._reads(unit)
        return units

    def _guard_units(self) -> list[Unit]:
        early: list[Guard] = []
        later: list[Unit] = []
        for guard in (*self.graph.guards, *self._baked()):
            bases = [self.graph.nodes[node] for node in scalar_nodes(guard.expr)]
            if all(self.graph.nodes[next(base.refs()).node].op in ("input", "attribute") for base in bases):
                early.append(guard)
            else:
                if any(node.fence and node.id < guard.after for node in self.graph.nodes):
                    raise CannotWrite("forward decides by a size after it has changed memory in place")
                later.append(Unit(guard.after - 0.5, (), guard=[guard]))
        return [*([Unit(-1, (), guard=early)] if early else []), *later]

    def _baked(self) -> list[Guard]:
        """Sizes that a kernel has by value must be what they were."""
        found: dict[int, Guard] = {}
        for kernel in self.kernels:
            for node in kernel.region.nodes:
                if self.prepared.fusible[node].role in (Role.EXPAND, Role.ALIGN):
                    continue
                call = self.prepared.calls[node]
                for value in leaves((call.args, call.kwargs)):
                    for size in scalar_nodes(value.expr) if isinstance(value, Scalar) else ():
                        found[size] = Guard(("node", size), "==", self.graph.nodes[size].value, size + 1)
        return list(found.values())

    def _below(self, node: int) -> list[int]:
        kernel = self.kernel_of.get(node)
        if kernel is None:
            return [ref.node for ref in self.graph.nodes[node].refs()]
        return [*kernel.region.nodes, *(operand.ref.node for operand in kernel.lowered.operands)]

    def _reads(self, unit: Unit) -> list[Ref]:
        if unit.kernel is not None:
            return [operand.ref for operand in unit.kernel.lowered.operands]
        looked_at = [Ref(node) for guard in unit.guard for node in scalar_nodes(guard.expr)]
        return through_sizes(self.graph, looked_at if unit.guard else self.graph.nodes[unit.node].refs())


def through_sizes(graph: Graph, refs: Iterable[Ref]) -> list[Ref]:
    """Return tensors, and in the place of sizes without a name the tensors that they are of."""
    found: list[Ref] = []
    for ref in refs:
        item = graph.nodes[ref.node]
        found += through_sizes(graph, item.refs()) if item.op == "size" and not item.names else [ref]
    return found


def keeps_order(graph: Graph, node: int) -> bool:
    """Whether an operation keeps its place among others like it: it draws random numbers, or changes memory."""
    item = graph.nodes[node]
    return item.fence or any(word in item.target for word in _RANDOM)
