"""What every generator needs to know about a spec: collapsed dims, passes over a row, who varies along what.

Adjacent dims in which every operand behaves alike are collapsed into one *group*, so that `[B, S, H] + [H]` is a
matrix with `B * S` rows and `H` columns. The last group is `cols`: operands either advance by one element along it or
stay put.

A reduction ends a *pass* over its row. A step's level counts the reductions below it; all reductions of one level
share a pass, so the number of passes is the least that the dependencies allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import prod

from stark_lsp.playbook.spec import COUNT, REDUCTIONS, KernelSpec, Operand, Step

MAX_RANK = 8
"""The most dims a spec may have."""

_TRANSCENDENTAL = {"exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "tanh", "atan", "sinh", "cosh"}
COSTLY = frozenset(
    _TRANSCENDENTAL
    | {"erf", "sigmoid", "softplus", "log_sigmoid", "pow", "remainder", "floor_div"}
    | {"div", "sqrt", "rsqrt", "reciprocal"}
)
"""Operations worth keeping the result of, rather than computing it again in a later pass."""


class Layout(Enum):
    """How the iteration space lies in memory, seen from the reduction."""

    FLAT = "flat"
    """Pointwise; every operand is of the space's shape or a single value."""
    MATRIX = "matrix"
    """Pointwise with broadcasting: rows times columns."""
    ROWS = "rows"
    """The reduced dims come last: each row is contiguous."""
    COLUMNS = "columns"
    """Dims follow the reduced ones: neighbours in memory belong to different results."""


@dataclass(frozen=True)
class Group:
    """Adjacent dims that are walked as one."""

    dims: tuple[int, ...]
    reduced: bool
    extent: int
    """Example extent."""


@dataclass(frozen=True)
class Pass:
    """One walk over a row."""

    reductions: tuple[Step, ...]
    """What it accumulates; empty for the pass that writes the outputs."""
    elements: tuple[Step, ...]
    """Steps computed for each element, in order."""
    after: tuple[Step, ...]
    """Steps on whole rows that are computed when it has ended, in order."""


def _varies(operand: Operand, space: tuple[int, ...], dim: int) -> bool:
    """Whether an operand advances along a dim of the space; a dim of size 1 on both sides counts as advancing."""
    own = dim - (len(space) - len(operand.shape))
    return own >= 0 and (operand.shape[own] == space[dim])


@dataclass(frozen=True)
class Program:
    """A spec, analysed. Build it once for each kernel; everything below is derived."""

    spec: KernelSpec

    @cached_property
    def pattern(self) -> dict[str, tuple[bool, ...]]:
        """For each operand and each dim of the space: does it advance along that dim."""
        space = self.spec.space
        return {o.name: tuple(_varies(o, space, d) for d in range(len(space))) for o in self.spec.operands}

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The collapsed dims, outermost first; one group of extent 1 for a space without dims."""
        found: list[tuple[tuple[object, ...], list[int]]] = []
        split_last = not self.spec.reduce_dims and self._wants_strides
        last = len(self.spec.space) - 1
        for dim in range(len(self.spec.space)):
            key = (dim in self.spec.reduce_dims, *(p[dim] for p in self.pattern.values()))
            if found and found[-1][0] == key and not (split_last and dim == last):
                found[-1][1].append(dim)
            else:
                found.append((key, [dim]))
        return tuple(
            Group(tuple(dims), bool(key[0]), prod(self.spec.space[d] for d in dims)) for key, dims in found
        ) or (Group((), False, 1),)

    @cached_property
    def _wants_strides(self) -> bool:
        return any(o.strided and len(o.shape) > 1 and all(self.pattern[o.name]) for o in self.spec.operands)

    def advances(self, operand: str, group: Group) -> bool:
        """Whether an operand advances along a group."""
        return not group.dims or self.pattern[operand][group.dims[0]]

    @cached_property
    def outer(self) -> tuple[Group, ...]:
        """Groups before the reduced ones; for a pointwise spec all but the last."""
        if not self.spec.reduce_dims:
            return self.groups[:-1]
        first = next(i for i, g in enumerate(self.groups) if g.reduced)
        return self.groups[:first]

    @cached_property
    def reduced(self) -> tuple[Group, ...]:
        """The reduced groups."""
        return tuple(g for g in self.groups if g.reduced)

    @cached_property
    def inner(self) -> tuple[Group, ...]:
        """Groups behind the reduced ones."""
        if not self.spec.reduce_dims:
            return ()
        last = max(i for i, g in enumerate(self.groups) if g.reduced)
        return self.groups[last + 1 :]

    @cached_property
    def layout(self) -> Layout:
        """Which generator the spec needs."""
        if self.spec.reduce_dims:
            return Layout.COLUMNS if self.inner else Layout.ROWS
        return Layout.MATRIX if self.outer else Layout.FLAT

    @cached_property
    def rows(self) -> int:
        """Example number of rows."""
        return prod(g.extent for g in self.outer)

    @cached_property
    def cols(self) -> int:
        """Example number of elements along the last group."""
        return self.groups[-1].extent

    @cached_property
    def length(self) -> int:
        """Example number of elements a reduction runs over."""
        return prod(g.extent for g in self.reduced)

    # ------------------------------------------------------------------ values

    @cached_property
    def steps(self) -> dict[str, Step]:
        """Steps by name."""
        return {s.name: s for s in self.spec.steps}

    @cached_property
    def operands(self) -> dict[str, Operand]:
        """Operands by name."""
        return {o.name: o for o in self.spec.operands}

    @cached_property
    def element_values(self) -> frozenset[str]:
        """Operands and steps that differ from element to element of a row."""
        walked = self.reduced if self.spec.reduce_dims else self.groups[-1:]
        values = {o for o in self.operands if any(self.advances(o, g) for g in walked)}
        for step in self.spec.steps:
            if step.op not in REDUCTIONS and any(a in values for a in step.args if isinstance(a, str)):
                values.add(step.name)
        return frozenset(values)

    @cached_property
    def level(self) -> dict[str, int]:
        """How many passes must have ended before a value is known."""
        levels = dict.fromkeys(self.operands, 0) | {COUNT: 0}
        for step in self.spec.steps:
            below = max((levels[a] for a in step.args if isinstance(a, str)), default=0)
            levels[step.name] = below + (step.op in REDUCTIONS)
        return levels

    @cached_property
    def needed(self) -> frozenset[str]:
        """Values that some output depends on."""
        return self.closure({o.step for o in self.spec.outputs}, stop=frozenset())

    def closure(self, names: set[str], stop: frozenset[str]) -> frozenset[str]:
        """`names` and all they are computed from; what is in `stop` is included but not looked behind."""
        seen: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name in seen or name == COUNT:
                continue
            seen.add(name)
            if name in self.steps and (name not in stop or name in names):
                todo.extend(a for a in self.steps[name].args if isinstance(a, str))
        return frozenset(seen)

    @cached_property
    def divisors(self) -> frozenset[str]:
        """Steps on whole rows by which elements are divided."""
        found = set()
        for step in self.spec.steps:
            if step.op == "div" and step.name in self.element_values and isinstance(step.args[0], str):
                found.add(step.args[1])
        return frozenset(n for n in self.steps if n in found and n not in self.element_values)

    @cached_property
    def shifted(self) -> frozenset[str]:
        """Steps that are `exp(x - amax(x))`: their argument is never above 0."""
        found = set()
        for step in self.spec.steps:
            inner = self.steps.get(str(step.args[0])) if step.op == "exp" else None
            if inner is None or inner.op != "sub":
                continue
            top = self.steps.get(str(inner.args[1]))
            if top is not None and top.op == "amax" and top.args[0] == inner.args[0]:
                found.add(step.name)
        return frozenset(found)

    @cached_property
    def element_outputs(self) -> tuple[str, ...]:
        """Steps written for each element, in the outputs' order."""
        return tuple(o.step for o in self.spec.outputs if not o.reduced)

    @cached_property
    def row_values(self) -> frozenset[str]:
        """Operands and steps that are the same for all elements of a row."""
        return frozenset(self.level) - self.element_values

    def _elements(self, roots: set[str]) -> tuple[Step, ...]:
        names = self.closure(roots, self.row_values)
        return tuple(s for s in self.spec.steps if s.name in names and s.name in self.element_values)

    def _row_steps(self, level: int) -> tuple[Step, ...]:
        return tuple(
            s
            for s in self.spec.steps
            if s.name in self.needed
            and s.name not in self.element_values
            and s.op not in REDUCTIONS
            and self.level[s.name] == level
        )

    @cached_property
    def before(self) -> tuple[Step, ...]:
        """Steps on whole rows that need no pass."""
        return self._row_steps(0)

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """The passes over a row, in order; the last one writes the outputs if any has an element for each element."""
        reductions = [s for s in self.spec.steps if s.op in REDUCTIONS and s.name in self.needed]
        depth = max((self.level[s.name] for s in reductions), default=0)
        found = []
        for level in range(1, depth + 1):
            now = tuple(s for s in reductions if self.level[s.name] == level)
            roots = {a for s in now for a in s.args if isinstance(a, str) and a in self.element_values}
            found.append(Pass(now, self._elements(roots), self._row_steps(level)))
        if self.element_outputs:
            roots = {name for name in self.element_outputs if name in self.element_values}
            found.append(Pass((), self._elements(roots), ()))
        return tuple(found)

    def reads(self, one: Pass) -> tuple[str, ...]:
        """Operands that a pass reads for each element, in the spec's order."""
        used = {a for s in (*one.elements, *one.reductions) for a in s.args if isinstance(a, str)}
        if not one.reductions:
            used |= set(self.element_outputs)
        return tuple(o for o in self.operands if o in used and o in self.element_values)

    @cached_property
    def element_reads(self) -> tuple[str, ...]:
        """Operands that some pass reads for each element, in the spec's order."""
        found = {operand for one in self.passes for operand in self.reads(one)}
        return tuple(o for o in self.operands if o in found)

    @cached_property
    def row_reads(self) -> tuple[str, ...]:
        """Operands that hold one value for a row, in the spec's order."""
        return tuple(o for o in self.operands if o in self.needed and o not in self.element_values)

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """Costly element steps of a reducing pass that a later pass needs again: worth a scratch row."""
        seen: dict[str, int] = {}
        again: set[str] = set()
        for number, one in enumerate(self.passes):
            for step in one.elements:
                if seen.setdefault(step.name, number) != number:
                    again.add(step.name)
        front = set()
        for number, one in enumerate(self.passes):
            users = [*one.elements, *one.reductions]
            for user in users:
                for arg in user.args:
                    if arg in again and user.name not in again and number > seen[str(arg)]:
                        front.add(str(arg))
            if not one.reductions:
                front |= {name for name in self.element_outputs if name in again}

        def costly(name: str) -> bool:
            below = self.closure({name}, self.row_values) - self.row_values
            return any(n in self.steps and self.steps[n].op in COSTLY for n in below)

        return tuple(name for name in self.steps if name in front and costly(name))
