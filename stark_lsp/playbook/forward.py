"""The new forward: the recorded operations in order, with kernels in the place of regions.

1. *Units* are what is written: a node, a kernel call, or a check of an assumption; they are ordered so that every unit
   comes after what it reads, and as near as possible to where the user had it.
2. A result used once, by an operation of the same line, is written inside that operation.
3. Results get the user's names; a name is given again once its old holder is no longer needed, as the user does it.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Sequence
from typing import Any

from stark_lsp.playbook.expressions import Writer, constant, ordinary, parse, unparse
from stark_lsp.playbook.fusible import Prepared
from stark_lsp.playbook.graph import Graph, GraphNode, Guard, Ref, refs_in
from stark_lsp.playbook.lowering import wished_name
from stark_lsp.playbook.names import identifier
from stark_lsp.playbook.twins import KernelCall, passed
from stark_lsp.playbook.units import Unit, Units, keeps_order, through_sizes

MAX_INSIDE = 3
"""At most this many operations are written inside another."""
WIDTH = 108
"""Longest line of a comment."""
_SIZE = re.compile(r"(?P<name>\w+) = (?P<of>[\w.]+)\.size\((?P<dim>\d)\)")


class ForwardWriter:
    """Writes the forward of one design.

    Parameters
    ----------
    reserved
        Names of the file that must not be hidden.
    parameters
        Names of forward's parameters.
    bail_out
        The expression that hands over to the original forward.
    """

    def __init__(
        self,
        prepared: Prepared,
        kernels: Sequence[KernelCall],
        *,
        torch: str,
        functional: str,
        reserved: set[str],
        parameters: Sequence[str],
        bail_out: str,
    ) -> None:
        self.prepared = prepared
        self.graph: Graph = prepared.graph
        self.kernels = kernels
        self.reserved = reserved | {"self"} | set(keyword.kwlist) | set(dir(builtins))
        self.parameters = tuple(parameters)
        self.bail_out = bail_out
        self.writer = Writer(self._expression, torch, functional)
        self.names: dict[Ref, str] = {}
        self.inside: dict[int, ast.expr] = {}
        self.holders: dict[str, Ref | None] = {}
        self.last_use: dict[Ref, int] = {}
        self.now = 0

    # ---- what is written, in which order -----------------------------------------------------------

    def write(self) -> list[str]:
        """Return the statements.

        Raises
        ------
        CannotWrite
            An operation has no spelling in source.
        """
        units = Units(self.prepared, self.kernels).ordered()
        within = self._written_inside(units)
        self._find_last_uses(units, within)
        last_check = max((i for i, u in enumerate(units) if u.guard), default=-1)
        for name in self.parameters:
            self.holders[name] = None
        lines: list[str] = []
        for self.now, unit in enumerate(units):
            keep = self.parameters if self.now <= last_check else ()
            lines += self._statement(unit, within, keep)
        self.now = len(units)
        result = unparse(self.writer.value(self.graph.output))
        if lines and lines[-1].startswith(f"{result} = ") and result.isidentifier():
            lines[-1] = f"return {lines[-1].removeprefix(f'{result} = ')}"
        else:
            lines.append(f"return {result}")
        return self._sizes_together(lines)

    def _sizes_together(self, lines: list[str]) -> list[str]:
        """Write `b = x.size(0)`, `t = x.size(1)`, … as `b, t = x.size()` where these are all sizes of x."""
        nodes = self.graph.nodes
        named = [(n, self.graph.meta(ref)) for ref, n in self.names.items() if ref.index < len(nodes[ref.node].outputs)]
        named += [(node.target, node.meta) for node in self.graph.nodes if node.op in ("input", "attribute")]
        ranks: dict[str, int] = {}
        for name, meta in named:
            # What a name stands for in turn may have more sizes or fewer.
            ranks[name] = len(meta.shape) if ranks.get(name, len(meta.shape)) == len(meta.shape) else 0
        result: list[str] = []
        index = 0
        while index < len(lines):
            first = _SIZE.fullmatch(lines[index])
            rank = ranks.get(first["of"], 0) if first is not None else 0
            group = [found for line in lines[index : index + rank] if (found := _SIZE.fullmatch(line))]
            if rank > 1 and [m.group("of", "dim") for m in group] == [(group[0]["of"], str(d)) for d in range(rank)]:
                result.append(f"{', '.join(m['name'] for m in group)} = {group[0]['of']}.size()")
            else:
                rank = 1
                result.append(lines[index])
            index += rank
        return result

    # ---- names ------------------------------------------------------------------------------------

    def _written_inside(self, units: list[Unit]) -> dict[int, int]:
        """Return the nodes written inside another operation, with the position of the statement they end up in."""
        if any(node.fence for node in self.graph.nodes):
            return {}
        uses: dict[int, list[tuple[int, int]]] = {}
        for index, unit in enumerate(units):
            for ref in unit.reads:
                uses.setdefault(ref.node, []).append((index, unit.node))
        returned = list(refs_in(self.graph.output))
        for ref in returned:
            uses.setdefault(ref.node, []).append((len(units), -1))
        inside: dict[int, int] = {}
        weight: dict[int, int] = {}
        for unit in units:
            if unit.node < 0:
                continue
            node = self.graph.nodes[unit.node]
            found = uses.get(node.id, [])
            if len(found) != 1 or node.names or node.structure != "tensor" or node.op == "size" or not node.outputs:
                continue
            user_position, user = found[0]
            if user_position == len(units) and len(returned) == 1 and weight.get(node.id, 0) < MAX_INSIDE:
                inside[node.id] = user_position
                continue
            if user < 0:
                continue
            other = self.graph.nodes[user]
            if other.op == "size" or _line(other) != _line(node) or keeps_order(self.graph, node.id):
                continue
            total = weight.get(node.id, 0) + 1 + weight.get(user, 0)
            if total > MAX_INSIDE:
                continue
            weight[user] = total
            inside[node.id] = user_position
        resolved = {}
        for node_id, at in inside.items():
            while at < len(units) and units[at].node in inside:
                at = inside[units[at].node]
            resolved[node_id] = at
        return resolved

    def _find_last_uses(self, units: list[Unit], within: dict[int, int]) -> None:
        for index, unit in enumerate(units):
            at = within.get(unit.node, index)
            for ref in unit.reads:
                self.last_use[ref] = max(self.last_use.get(ref, 0), at)
        for base in through_sizes(self.graph, refs_in(self.graph.output)):
            self.last_use[base] = len(units)

    def _expression(self, ref: Ref) -> ast.expr:
        node = self.graph.nodes[ref.node]
        if ref.node in self.inside:
            return self.inside[ref.node]
        if node.op in ("input", "attribute"):
            return parse(node.target)
        if node.op == "size" and ref not in self.names:
            return self._size(node)
        if node.structure == "nested":
            return parse(self.names[Ref(ref.node)] + node.paths[ref.index])
        return ast.Name(self.names[ref], ast.Load())

    def _size(self, node: GraphNode) -> ast.expr:
        base = unparse(self._expression(next(node.refs())))
        if not base.isidentifier() and not base.replace(".", "_").isidentifier():
            base = f"({base})"
        if node.target in ("dim", "numel"):
            return parse(f"{base}.{node.target}()")
        return parse(f"{base}.size({node.target})")

    def _new_name(self, ref: Ref, keep: Sequence[str]) -> str:
        node = self.graph.nodes[ref.node]
        wish = node.names.get(ref.index)
        if wish is None:
            wish = identifier(wished_name(self.prepared, ref))
            wish = {"getitem": "part", "T": "transposed"}.get(wish, wish)
        wish = wish.lower() if wish.isupper() and node.op != "size" and ref.index not in node.names else wish
        if wish in self.reserved or keyword.iskeyword(wish):
            wish = f"{wish}_"
        name, number = wish, 2
        while name in self.reserved or (name in self.holders and (name in keep or self._alive(name))):
            name, number = f"{wish}_{number}", number + 1
        self.holders[name] = ref
        self.names[ref] = name
        return name

    def _alive(self, name: str) -> bool:
        holder = self.holders[name]
        if holder is None:
            # A parameter: alive as long as an input that is reached through it is read.
            return any(
                self.last_use.get(Ref(node.id), -1) > self.now
                for node in self.graph.nodes
                if node.op == "input" and _root(node.target) == name
            )
        node = self.graph.nodes[holder.node]
        if node.structure == "nested":
            return any(r.node == holder.node and at > self.now for r, at in self.last_use.items())
        return self.last_use.get(holder, -1) > self.now

    # ---- statements -------------------------------------------------------------------------------

    def _statement(self, unit: Unit, within: dict[int, int], keep: Sequence[str]) -> list[str]:
        if unit.guard:
            return self._guard_statement(unit.guard)
        if unit.kernel is not None:
            return self._kernel_statement(unit.kernel, keep)
        node = self.graph.nodes[unit.node]
        if node.op == "size":
            size = unparse(self._size(node))
            return [f"{self._new_name(Ref(node.id), keep)} = {size}"]
        if node.target == "Tensor.__setitem__":
            subscript = ast.Subscript(self.writer.value(node.args[0]), self.writer.value(node.args[1]), ast.Store())
            return [f"{unparse(subscript)} = {unparse(self.writer.value(node.args[2]))}"]
        expression = self._operation(node)
        if node.id in within:
            self.inside[node.id] = expression
            return []
        text = unparse(expression)
        if not node.outputs:
            return [text]
        if node.structure == "sequence":
            used = [Ref(node.id, i) in self.last_use for i in range(len(node.outputs))]
            targets = [self._new_name(Ref(node.id, i), keep) if u else "_" for i, u in enumerate(used)]
            return [f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {text}"]
        return [f"{self._new_name(Ref(node.id), keep)} = {text}"]

    def _operation(self, node: GraphNode) -> ast.expr:
        if node.op == "module" and node.module is not None and not node.in_place:
            args = [self.writer.value(item) for item in node.args]
            keywords = [ast.keyword(key, self.writer.value(item)) for key, item in node.kwargs.items()]
            return ast.Call(parse(node.module.path), args, keywords)
        call = self.prepared.calls.get(node.id)
        if call is None or (node.in_place and node.fence):
            if node.module is None:
                return self.writer.call(node.target, node.args, node.kwargs)
            args = [self.writer.value(item) for item in node.args]
            return ast.Call(parse(node.module.path), args, [])
        target = ordinary(call.target) if node.in_place else call.target
        return self.writer.call(target, call.args, call.kwargs)

    def _kernel_statement(self, kernel: KernelCall, keep: Sequence[str]) -> list[str]:
        args = [passed(unparse(self._expression(o.ref)), o, kernel.region) for o in kernel.lowered.operands]
        targets = [self._new_name(Ref(node), keep) for node in kernel.lowered.outputs]
        lines = [f"# {kernel.comment}"[:WIDTH]] if kernel.comment else []
        return [*lines, f"{', '.join(targets)} = {kernel.launcher}({', '.join(args)})"]

    def _guard_statement(self, guards: list[Guard]) -> list[str]:
        parts = list(dict.fromkeys(unparse(self._violated(guard)) for guard in guards))
        return [f"if {' or '.join(parts)}:", f"    {self.bail_out}"]

    def _violated(self, guard: Guard) -> ast.expr:
        expression = self.writer.number(guard.expr)
        if guard.relation == "is":
            return ast.UnaryOp(ast.Not(), expression) if guard.value else expression
        return ast.Compare(expression, [ast.NotEq()], [constant(guard.value)])


def _root(expression: str) -> str:
    """Return the variable an expression starts from: `xs` for `xs[0].y`."""
    end = next((i for i, c in enumerate(expression) if not (c.isalnum() or c == "_")), len(expression))
    return expression[:end]


def _line(node: GraphNode) -> tuple[Any, ...]:
    return tuple((f.path, f.line, f.function) for f in node.frames)
