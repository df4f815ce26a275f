"""Kernel calls, and what each launcher falls back to: the same operations as a function of PyTorch."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from stark_lsp.playbook.expressions import Writer, ordinary, unparse
from stark_lsp.playbook.fusible import Prepared, Role
from stark_lsp.playbook.graph import Ref
from stark_lsp.playbook.lowering import LoweredKernel, identifier
from stark_lsp.playbook.regions import Operand, Region


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
    taken = {operand.name for operand in lowered.spec.operands}
    for spec_operand, operand in zip(lowered.spec.operands, lowered.operands, strict=True):
        names[operand.ref, operand.view] = spec_operand.name
        if operand.view == "channel":
            lines.append(f"{spec_operand.name} = {spec_operand.name}.flatten()")
        elif operand.view == "unsqueeze":
            back = "".join(f".squeeze({dim})" for dim in reversed(region.layout.dims))
            lines.append(f"{spec_operand.name} = {spec_operand.name}{back}")
    results: dict[int, str] = {}
    wanted = ["", "channel", "unsqueeze"]

    def expression(ref: Ref) -> ast.expr:
        if ref.node in results:
            return ast.Name(results[ref.node], ast.Load())
        return ast.Name(next(names[ref, view] for view in wanted if (ref, view) in names), ast.Load())

    writer = Writer(expression, torch, functional, baked=True)
    for node in region.nodes:
        fusible = prepared.fusible[node]
        wanted = ["channel", ""] if fusible.operation is not None and fusible.operation.channel else ["unsqueeze", ""]
        if fusible.role is Role.EXPAND:
            results[node] = results[fusible.call.args[0].node]
            continue
        target = ordinary(fusible.call.target) if fusible.node.in_place else fusible.call.target
        text = unparse(writer.call(target, fusible.call.args, fusible.call.kwargs))
        if fusible.node.structure == "sequence":
            text += "[0]"
        wish = identifier(fusible.node.names.get(0) or f"t{len(results)}")
        result, number = wish, 2
        while result in taken or result in (torch, functional):
            result, number = f"{wish}_{number}", number + 1
        taken.add(result)
        results[node] = result
        lines.append(f"{result} = {text}")
    lines.append(f"return {', '.join(results[node] for node in lowered.outputs)}")
    parameters = ", ".join(operand.name for operand in lowered.spec.operands)
    return [f"def {name}({parameters}):", *(f"    {line}" for line in lines)]
