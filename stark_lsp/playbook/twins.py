"""Kernel calls, and what each launcher falls back to: the same operations as a function of PyTorch."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass

from stark_lsp.playbook.expressions import Writer, ordinary, unparse
from stark_lsp.playbook.fusible import Prepared, Role
from stark_lsp.playbook.graph import Ref
from stark_lsp.playbook.lowering import LoweredKernel
from stark_lsp.playbook.names import identifier, unused
from stark_lsp.playbook.regions import Operand, Region

MAX_INSIDE = 4
"""At most so many operations are written in one statement."""


@dataclass(frozen=True)
class KernelCall:
    """A region, and the launcher that computes it."""

    region: Region
    lowered: LoweredKernel
    launcher: str
    comment: str = ""


def passed(expression: str, operand: Operand, region: Region) -> str:
    """Return how a tensor is passed to a launcher, aligned with the kernel's space."""
    if operand.view == "channel":
        ones = ", ".join("1" for _ in region.layout.space[2:])
        return f"{expression}.view(-1, {ones})"
    if operand.view == "unsqueeze":
        return expression + "".join(f".unsqueeze({dim})" for dim in region.layout.dims)
    return expression


def twin(prepared: Prepared, kernel: KernelCall, name: str, torch: str, functional: str) -> list[str]:
    """Return the kernel's region as a function of PyTorch operations: what the launcher falls back to."""
    lowered, region = kernel.lowered, kernel.region
    names: dict[tuple[Ref, str], str] = {}
    lines: list[str] = []
    taken = {torch, functional, *(operand.name for operand in lowered.spec.operands)}
    for spec_operand, operand in zip(lowered.spec.operands, lowered.operands, strict=True):
        names[operand.ref, operand.view] = spec_operand.name
        if operand.view == "channel":
            lines.append(f"{spec_operand.name} = {spec_operand.name}.flatten()")
        elif operand.view == "unsqueeze":
            back = "".join(f".squeeze({dim})" for dim in reversed(region.layout.dims))
            lines.append(f"{spec_operand.name} = {spec_operand.name}{back}")
    results: dict[int, ast.expr] = {}
    weights: dict[int, int] = {}
    wanted = ["", "channel", "unsqueeze"]

    def expression(ref: Ref) -> ast.expr:
        if ref.node in results:
            return results[ref.node]
        return ast.Name(next(names[ref, view] for view in wanted if (ref, view) in names), ast.Load())

    uses = Counter(ref.node for node in region.nodes for ref in prepared.graph.nodes[node].refs())
    uses.update(lowered.outputs)
    writer = Writer(expression, torch, functional, baked=True)
    for node in region.nodes:
        fusible = prepared.fusible[node]
        wanted = ["channel", ""] if fusible.operation is not None and fusible.operation.channel else ["unsqueeze", ""]
        if fusible.role is Role.EXPAND:
            source = fusible.call.args[0].node
            results[node], weights[node] = results[source], MAX_INSIDE
            continue
        target = ordinary(fusible.call.target) if fusible.node.in_place else fusible.call.target
        value = writer.call(target, fusible.call.args, fusible.call.kwargs)
        if fusible.node.structure == "sequence":
            value = ast.Subscript(value, ast.Constant(0), ast.Load())
        weight = 1 + sum(weights.get(ref.node, 0) for ref in fusible.node.refs())
        if uses[node] == 1 and not fusible.node.names and weight <= MAX_INSIDE:
            # Used once, under no name of the user's: written where it is used.
            results[node], weights[node] = value, weight
            continue
        result = unused(identifier(fusible.node.names.get(0) or f"t{len(results)}"), taken)
        taken.add(result)
        results[node] = ast.Name(result, ast.Load())
        lines.append(f"{result} = {unparse(value)}")
    lines.append(f"return {', '.join(unparse(results[node]) for node in lowered.outputs)}")
    parameters = ", ".join(operand.name for operand in lowered.spec.operands)
    return [f"def {name}({parameters}):", *(f"    {line}" for line in lines)]
