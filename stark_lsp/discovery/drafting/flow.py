"""What `forward` does with its arguments, read from its text: how many dimensions they have, and of what sizes.

An argument is followed as long as nothing changes its shape (`x = self.norm(x)`); the first use that tells something
of it wins.
"""

from __future__ import annotations

import ast
from typing import Any

from stark_lsp.core.parsing import last_name
from stark_lsp.discovery.drafting.constructors import DEPTH, UNKNOWN, Constructor, Layer, evaluate, method, parameters
from stark_lsp.discovery.drafting.wants import (
    KEEPING,
    KEEPS,
    Facts,
    function_wants,
    method_wants,
    parameter_shape,
    part_of,
    wants,
)
from stark_lsp.discovery.syntax import find_class, targets

Given = dict[int | str | None, str | None]
"""Which argument that is followed is passed at a place or by a keyword."""


def forward_facts(owner: Constructor) -> dict[str, Facts]:
    """Return what is known of each parameter of `forward`; `parameter.0` for the parts of a tuple."""
    function = method(owner.tree, owner.node, "forward")
    if function is None:
        first = next((want for layer in owner.layers if (want := wants(layer)) is not None), None)
        return {"x": first} if first is not None else {}
    found = _Reader(owner, owner.depth).read(function)
    first = next(iter(found.values()), None)
    if first is not None and first == Facts():
        # Whatever happens to it on the way, it ends in the first layer.
        made = [value for value in owner.own.values() if isinstance(value, Layer)]
        want = next((want for layer in (*made, *owner.layers) if (want := wants(layer)) is not None), None)
        first.learn(want or Facts())
    return found


class _Reader:
    """One pass over the statements of a function."""

    def __init__(self, owner: Constructor | None, depth: int, tree: ast.Module | None = None) -> None:
        self._owner = owner
        self._tree = owner.tree if owner is not None else tree
        self._depth = depth
        self._facts: dict[str, Facts] = {}
        self._same: dict[str, str] = {}
        """Names that stand for an argument, or for something of its shape."""
        self._dims: dict[str, tuple[str, int]] = {}
        """Names that stand for a size of an argument."""
        self._joined: dict[str, tuple[list[str], int, bool]] = {}
        """Those that were joined, the dimension, and whether they are all of it."""
        self._names: dict[str, Any] = {"self": owner.own if owner is not None else {}}

    def read(self, function: ast.FunctionDef) -> dict[str, Facts]:
        rest = [(function.args.vararg, None, False)] if function.args.vararg is not None else []
        pairs = parameters(function, bound=self._owner is not None)
        for argument, default, _ in (*pairs, *rest):
            self._facts[argument.arg] = Facts()
            self._same[argument.arg] = argument.arg
            value = evaluate(default, {}) if default is not None else UNKNOWN
            if isinstance(value, (bool, int, str)):
                self._names[argument.arg] = value
        self._block(function.body)
        for whole, (parts, place, all_of_it) in self._joined.items():
            for part in parts:
                self._learn(part, part_of(self._facts[whole], place, len(parts) if all_of_it else 0))
        return {name: facts for name, facts in self._facts.items() if name not in self._joined}

    # --- statements -----------------------------------------------------------------------------------

    def _block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            source = self._flow(statement.value)
            for target in targets(statement):
                self._assign(target, statement.value, source)
        elif isinstance(statement, ast.AugAssign):
            self._flow(ast.BinOp(statement.target, statement.op, statement.value))
        elif isinstance(statement, ast.If):
            self._flow(statement.test)
            test = evaluate(statement.test, self._names)
            if test is UNKNOWN or isinstance(test, Layer) or isinstance(statement.test, ast.Compare):
                self._block(statement.body)
                self._block(statement.orelse)
            else:
                self._block(statement.body if test else statement.orelse)
        elif isinstance(statement, ast.For):
            self._loop(statement.target, statement.iter)
            self._block(statement.body)
        elif isinstance(statement, (ast.While, ast.With, ast.Try)):
            self._block(statement.body)
        elif isinstance(statement, ast.Assert):
            self._flow(statement.test)
        elif isinstance(statement, (ast.Expr, ast.Return)) and statement.value is not None:
            self._flow(statement.value)

    def _assign(self, target: ast.expr, value: ast.expr, source: str | None) -> None:
        if isinstance(target, ast.Name):
            self._same.pop(target.id, None)
            self._dims.pop(target.id, None)
            self._names[target.id] = evaluate(value, self._names)
            if source is not None:
                self._same[target.id] = source
            size = self._size_of(value)
            if size is not None:
                self._dims[target.id] = size
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value, source)

    def _unpack(self, target: ast.Tuple | ast.List, value: ast.expr, source: str | None) -> None:
        count = len(target.elts)
        starred = any(isinstance(item, ast.Starred) for item in target.elts)
        shape = self._shape_of(value)
        if shape is not None:
            name, start, stop = shape
            if start == 0 and stop is None:
                self._learn(name, Facts(least=count - 1) if starred else Facts(rank=count))
            elif start < 0 and stop is None:
                self._learn(name, Facts(least=-start))
            for index, item in enumerate(target.elts):
                if isinstance(item, ast.Name) and not starred:
                    self._same.pop(item.id, None)
                    self._dims[item.id] = (name, start + index)
            return
        if source is not None and isinstance(value, ast.Name) and not starred:
            facts = self._facts.get(source)
            if facts is not None and facts.rank is None:
                facts.parts = facts.parts or count
                for index, item in enumerate(target.elts):
                    if isinstance(item, ast.Name):
                        part = f"{source}.{index}"
                        self._facts.setdefault(part, Facts())
                        self._same[item.id] = part
                return
        values = value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == count else []
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "map" and len(value.args) > 1:
            # In `q, k = map(f, (q, k))` most functions keep shapes.
            values = getattr(value.args[1], "elts", [])
        for index, item in enumerate(target.elts):
            if isinstance(item, ast.Name):
                self._same.pop(item.id, None)
                if index < len(values) and (one := self._flow(values[index])) is not None:
                    self._same[item.id] = one

    def _loop(self, target: ast.expr, over: ast.expr) -> None:
        if isinstance(over, ast.Call) and getattr(over.func, "id", "") in ("enumerate", "zip", "reversed"):
            items = [ast.Constant(0), *over.args] if over.func.id == "enumerate" else over.args  # type: ignore[attr-defined]
            targets = target.elts if isinstance(target, ast.Tuple) else [target]
            for one, item in zip(targets, items, strict=False):
                self._loop(one, item)
            return
        value = evaluate(over, self._names)
        value = value.inner if isinstance(value, Layer) else value
        if isinstance(target, ast.Name):
            self._same.pop(target.id, None)
            if isinstance(value, list) and value:
                self._names[target.id] = value[0]
            if isinstance(over, ast.Name) and over.id in self._same:
                name = self._same[over.id]
                facts = self._facts[name]
                if facts.rank is None and "." not in name:
                    facts.parts = facts.parts or 2
                    self._facts.setdefault(f"{name}.0", Facts())
                    self._same[target.id] = f"{name}.0"

    # --- expressions ----------------------------------------------------------------------------------

    def _learn(self, name: str, facts: Facts) -> None:
        if name in self._facts:
            self._facts[name].learn(facts)

    def _shape_of(self, node: ast.expr) -> tuple[str, int, int | None] | None:
        """Return whose shape an expression is, and from which dimension to which."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            inner = self._shape_of(node.value)
            if inner is not None:
                start, stop = evaluate(node.slice.lower, {}), evaluate(node.slice.upper, {})
                start = start if type(start) is int else 0
                return inner[0], start, stop if type(stop) is int else None
            return None
        if isinstance(node, ast.Attribute) and node.attr == "shape":
            name = self._flow(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
            if node.args:
                return None
            name = self._flow(node.func.value)
        else:
            return None
        return (name, 0, None) if name is not None else None

    def _size_of(self, node: ast.expr) -> tuple[str, int] | None:
        """Return which size of which argument an expression is."""
        if isinstance(node, ast.Name):
            return self._dims.get(node.id)
        if isinstance(node, ast.Subscript):
            shape, index = self._shape_of(node.value), evaluate(node.slice, {})
            return (shape[0], index) if shape is not None and type(index) is int else None
        function = node.func if isinstance(node, ast.Call) and node.args else None
        if isinstance(function, ast.Attribute) and function.attr == "size" and isinstance(node, ast.Call):
            name, index = self._flow(function.value), evaluate(node.args[0], {})
            return (name, index) if name is not None and type(index) is int else None
        return None

    def _flow(self, node: ast.expr | None) -> str | None:
        """Learn from an expression; returns the argument whose shape it has, if it has one's."""
        if node is None:
            return None
        if isinstance(node, ast.Name):
            return self._same.get(node.id)
        if isinstance(node, ast.Call):
            return self._called(node)
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, ast.IfExp):
            self._flow(node.test)
            one, other = self._flow(node.body), self._flow(node.orelse)
            return one or other
        if isinstance(node, ast.UnaryOp):
            return self._flow(node.operand)
        if isinstance(node, ast.NamedExpr):
            source = self._flow(node.value)
            self._assign(node.target, node.value, source)
            return source
        if isinstance(node, ast.Compare):
            self._compare(node)
        elif isinstance(node, ast.Subscript):
            self._item(node)
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self._flow(child)
                elif isinstance(child, ast.comprehension):
                    self._loop(child.target, child.iter)
        return None

    def _binary(self, node: ast.BinOp) -> str | None:
        left, right = self._flow(node.left), self._flow(node.right)
        if isinstance(node.op, ast.MatMult):
            shape = parameter_shape(evaluate(node.right, self._names))
            if left is not None and shape is not None and len(shape) == 2:
                self._learn(left, Facts(sizes={-1: shape[0]}))
            return None
        if isinstance(node.op, ast.Mod):
            return None
        for name, other in ((left, node.right), (right, node.left)):
            shape = parameter_shape(evaluate(other, self._names))
            if name is not None and shape:
                known = {i - len(shape): size for i, size in enumerate(shape) if size > 1}
                self._learn(name, Facts(sizes=known, least=len(shape)))
        if left is not None and right is not None and left != right:
            former, later = sorted((left, right), key=list(self._facts).index)
            self._facts[later].like = self._facts[later].like or former
        return left or right

    def _compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            for one, other in ((left, right), (right, left)):
                size, value = self._size_of(one), evaluate(other, self._names)
                if size is not None and type(value) is int and value > 0 and isinstance(operator, (ast.Eq, ast.NotEq)):
                    self._learn(size[0], Facts(sizes={size[1]: value}))
            self._flow(left)
            self._flow(right)

    def _item(self, node: ast.Subscript) -> None:
        size = self._size_of(node)
        if size is not None:
            self._learn(size[0], Facts(least=size[1] + 1 if size[1] >= 0 else -size[1]))
            return
        name = self._flow(node.value)
        if name is not None and isinstance(node.slice, ast.Tuple):
            items = [item for item in node.slice.elts if not (isinstance(item, ast.Constant) and item.value is None)]
            if not any(isinstance(item, ast.Constant) and item.value is ... for item in items):
                self._learn(name, Facts(least=len(items)))
        if not isinstance(node.slice, ast.Slice):
            self._flow(node.slice)

    def _called(self, node: ast.Call) -> str | None:
        function = node.func
        places = enumerate(a.value if isinstance(a, ast.Starred) else a for a in node.args)
        given: Given = {key: self._flow(value) for key, value in (*places, *((k.arg, k.value) for k in node.keywords))}
        if isinstance(function, ast.Attribute):
            owner = self._flow(function.value)
            if owner is not None:
                self._learn(owner, method_wants(function.attr, node))
                return owner if function.attr in KEEPING else None
            if isinstance(function.value, ast.Name) and function.value.id == "self":
                layer = evaluate(function, self._names)
                if not isinstance(layer, Layer) and self._owner is not None:
                    target = method(self._owner.tree, self._owner.node, function.attr)
                    if target is not None:
                        self._enter(target, self._owner, given)
                    return None
        layer = evaluate(function, self._names)
        if isinstance(layer, list) and layer:
            layer = layer[0]
        if isinstance(layer, Layer):
            return self._through(layer, given)
        kind = last_name(function)
        if isinstance(function, ast.Name) and self._tree is not None:
            target = next((n for n in self._tree.body if isinstance(n, ast.FunctionDef) and n.name == kind), None)
            if target is not None:
                self._enter(target, None, given)
                return None
        return self._of_function(kind, node, given)

    def _enter(self, function: ast.FunctionDef, owner: Constructor | None, given: Given) -> None:
        """Follow a method or function of the file."""
        if self._depth < DEPTH:
            pairs = parameters(function, bound=owner is not None)
            inner = _Reader(owner, self._depth + 1, self._tree).read(function)
            self._passed(inner, [argument.arg for argument, _, _ in pairs], given)

    def _passed(self, inner: dict[str, Facts], names: list[str], given: Given) -> None:
        """Learn what is known of the parameters that arguments are passed for."""
        places = dict(enumerate(names))
        for key, name in given.items():
            facts = inner.get(places.get(key, "") if isinstance(key, int) else key or "")
            if name is not None and facts is not None:
                self._learn(name, facts)

    def _through(self, layer: Layer, given: Given) -> str | None:
        """Follow a call of a layer."""
        first = given.get(0)
        local = self._local(layer)
        if local is not None:
            inner = forward_facts(local)
            function = method(local.tree, local.node, "forward")
            pairs = parameters(function) if function is not None else []
            self._passed(inner, [argument.arg for argument, _, _ in pairs] or ["x"], given)
            return first if KEEPS.search(layer.kind) else None
        want = wants(layer)
        if layer.kind in ("CrossEntropyLoss", "NLLLoss") and 1 in given:
            return self._of_function("cross_entropy", None, given)
        if layer.kind == "MultiheadAttention" and want is not None:
            for key in (0, 1, 2, "query", "key", "value"):
                if (one := given.get(key)) is not None:
                    self._learn(one, want)
            return first
        if want is not None and first is not None:
            self._learn(first, want)
        parts = layer.inner if layer.kind in ("Sequential", "ModuleList") else [layer]
        return first if all(KEEPS.search(one.kind) for one in parts) else None

    def _local(self, layer: Layer) -> Constructor | None:
        if self._tree is None or self._depth >= DEPTH:
            return None
        if layer.kind in ("Sequential", "ModuleList") and layer.inner:
            return self._local(layer.inner[0])
        found = find_class(self._tree, layer.kind) if layer.bare else []
        return Constructor(self._tree, found[-1], layer.args, layer.kwargs, self._depth + 1) if found else None

    def _of_function(self, kind: str, node: ast.Call | None, given: Given) -> str | None:
        """Learn from a function of torch, its functional part or einops."""
        first, second = given.get(0), given.get(1)
        if kind in ("cat", "concat", "concatenate") and node is not None and node.args:
            return self._join(node)
        if kind in ("cross_entropy", "nll_loss") and 1 in given:
            if first is not None:
                self._learn(first, Facts(least=2))
            if second is not None:
                known = self._facts[first].sizes if first is not None else {}
                self._learn(second, Facts(kind="randint", high=known.get(1) or known.get(-1) or 10))
                self._facts[second].rank = self._facts[second].rank or 1
            return None
        if node is None or (kind != "einsum" and (kind == "apply" or first is None)):
            return None
        for place, facts in function_wants(kind, node, self._names):
            if (name := given.get(place)) is not None:
                self._learn(name, facts)
        return first if kind in KEEPING else None

    def _join(self, node: ast.Call) -> str | None:
        """Return a name for what `torch.cat` makes of arguments."""
        items = node.args[0].elts if isinstance(node.args[0], (ast.Tuple, ast.List)) else []
        parts = [name for item in items if (name := self._flow(item)) is not None]
        given = [*node.args[1:2], *(k.value for k in node.keywords if k.arg in ("dim", "axis"))]
        place = evaluate(given[0], self._names) if given else 0
        if not parts or type(place) is not int:
            return None
        whole = ast.unparse(node)
        self._facts[whole] = Facts(least=place + 1 if place >= 0 else -place)
        self._joined[whole] = list(dict.fromkeys(parts)), place, len(parts) == len(items)
        return whole
