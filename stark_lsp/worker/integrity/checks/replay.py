"""Answers from memory: results kept by pointer, content or number of the call, and returned again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Union

from ..candidate import Candidate
from ..names import own_nodes
from ..words import Flag, Refusal

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda]
_POINTERS = frozenset("data_ptr _cdata _version untyped_storage storage_offset".split())
_CONTENT = frozenset("tobytes hash_tensor __hash__".split())
_VIEWS = frozenset(
    "view reshape view_as detach squeeze unsqueeze narrow expand expand_as t transpose permute flatten unflatten select "
    "contiguous get setdefault pop to type as_strided alias".split()
)
_EMPTY = frozenset("empty empty_like empty_strided new_empty zeros zeros_like new_zeros full ones".split())
_WRITES = frozenset("append add setdefault update insert extend appendleft pop clear".split())
_LOOKUPS = frozenset("get setdefault pop __getitem__ __contains__".split())


def kept_by_pointer(candidate: Candidate) -> Iterator[Refusal]:
    """Dictionaries and comparisons keyed by identity, address, version or content of a tensor."""
    for function in candidate.forward_functions:
        tainted = _tainted(candidate, function)
        for node in own_nodes(function):
            if isinstance(node, ast.Call) and "builtins.id" in candidate.names.of(node.func):
                yield Refusal("It looks at the identity of objects, as if to recognise its inputs.", node.lineno)
            elif isinstance(node, ast.Call) and "builtins.hash" in candidate.names.of(node.func):
                yield Refusal("It takes the hash of objects, as if to recognise its inputs.", node.lineno)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CONTENT:
                yield Refusal("It looks at the bytes of its inputs, as if to recognise them.", node.lineno)
            for key in _keys(node):
                if _is_pointer(key, tainted):
                    yield Refusal("It recognises its inputs by their address.", key.lineno)
                elif isinstance(key, ast.Name) and _is_box(candidate, node) and key.id in _parameters(candidate):
                    yield Refusal("It keeps results for each input tensor.", key.lineno)
            if isinstance(node, ast.Compare):
                yield from _compared(candidate, function, node, tainted)
            if isinstance(node, ast.Call) and len(node.args) >= 2:
                called = candidate.names.of(node.func)
                method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                if called & {"torch.equal", "torch.allclose", "torch.all", "torch.isclose"} or method in ("equal", "allclose"):
                    if any(_root(candidate, argument) for argument in node.args):
                        yield Refusal("It compares its input with an earlier one.", node.lineno)


def _parameters(candidate: Candidate) -> set[str]:
    found: set[str] = set()
    for forward in candidate.forwards:
        if isinstance(forward, (ast.FunctionDef, ast.Lambda)):
            found |= {argument.arg for argument in forward.args.args[1:]}
    return found


def _is_box(candidate: Candidate, node: ast.AST) -> bool:
    """Whether what is looked into is a dictionary that outlives the call."""
    base = node.value if isinstance(node, ast.Subscript) else getattr(getattr(node, "func", None), "value", None)
    if isinstance(node, ast.Compare):
        base = node.comparators[0]
    if base is None or not _root(candidate, base):
        return False
    for bound in _bounds(candidate, base):
        source = bound
        if isinstance(source, ast.Dict):
            return True
        if isinstance(source, ast.Call) and any(
            path.split(".")[-1] in ("dict", "WeakKeyDictionary", "OrderedDict", "defaultdict", "WeakTensorKeyDictionary")
            for path in candidate.names.of(source.func)
        ):
            return True
    return False


def _bounds(candidate: Candidate, node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Name):
        bounds = candidate.scopes.of.get(node, candidate.scopes.top).find(node.id) or []
    elif isinstance(node, ast.Attribute):
        bounds = candidate.names.attribute_bounds(node)
    else:
        return []
    return [bound.source for bound in bounds if isinstance(bound.source, ast.AST)]


def _keys(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that something is looked up by."""
    if isinstance(node, ast.Subscript):
        return [node.slice]
    if isinstance(node, ast.Compare) and any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
        return [node.left]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOOKUPS and node.args:
        return [node.args[0]]
    return []


def _tainted(candidate: Candidate, function: Function) -> set[str]:
    """Return the local names that hold an address."""
    names: set[str] = set()
    for _ in range(3):
        for node in own_nodes(function):
            if isinstance(node, ast.Assign) and _is_pointer(node.value, names):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            elif isinstance(node, ast.NamedExpr) and _is_pointer(node.value, names):
                names.add(node.target.id)
    return names


def _is_pointer(node: ast.AST, tainted: set[str]) -> bool:
    """Whether an expression is an address, or a tuple or text with one; sums and remainders are not."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _POINTERS:
        return True
    if isinstance(node, ast.Attribute) and node.attr in ("_cdata", "_version"):
        return True
    if isinstance(node, ast.Name):
        return node.id in tainted
    if isinstance(node, (ast.Tuple, ast.List)):
        return any(_is_pointer(item, tainted) for item in node.elts)
    if isinstance(node, ast.JoinedStr):
        return any(_is_pointer(part.value, tainted) for part in node.values if isinstance(part, ast.FormattedValue))
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return _is_pointer(node.elt, tainted)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitXor, ast.Add)):
        return _is_pointer(node.left, tainted) and _is_pointer(node.right, tainted)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("tuple", "str", "int", "frozenset", "list"):
        return any(_is_pointer(argument, tainted) for argument in node.args)
    return False


def _compared(candidate: Candidate, function: Function, node: ast.Compare, tainted: set[str]) -> Iterator[Refusal]:
    sides = [node.left, *node.comparators]
    if any(_is_pointer(side, tainted) for side in sides) and any(_root(candidate, side) for side in sides):
        yield Refusal("It recognises its inputs by their address.", node.lineno)
    parameters = _parameters(candidate)
    if any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
        named = any(isinstance(side, ast.Name) and side.id in parameters for side in sides)
        if named and any(_root(candidate, side) for side in sides):
            yield Refusal("It compares its input with an earlier one.", node.lineno)


def kept_results(candidate: Candidate) -> Iterator[Refusal]:
    """What a forward pass stores on `self` or globally must not be what it returns."""
    written = _written(candidate)
    buffers = _buffers(candidate)
    for function in candidate.forward_functions:
        body = own_nodes(function)
        returned = [node.value for node in body if isinstance(node, ast.Return) and node.value is not None]
        if isinstance(function, ast.Lambda):
            returned = [function.body]
        if not _gives_results(candidate, function):
            continue
        for value in returned:
            for part in value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]:
                root = _held(candidate, function, part, 0)
                if root and (root in written or root in buffers):
                    yield Refusal(
                        "It returns a tensor that it keeps between calls; results must be new ones.", part.lineno
                    )


def _gives_results(candidate: Candidate, function: Function) -> bool:
    """Whether what a function returns is what forward returns, directly or through other functions."""
    if function in candidate.forwards:
        return True
    queue: list[ast.AST] = [*candidate.forwards]
    seen: set[ast.AST] = set()
    while queue:
        current = queue.pop()
        if current in seen:
            continue
        seen.add(current)
        for node in own_nodes(current):
            value = node.value if isinstance(node, (ast.Return, ast.Assign)) else None
            if isinstance(value, ast.Call):
                for made in candidate.names.functions(value.func):
                    if made is function:
                        return True
                    if isinstance(made, (ast.FunctionDef, ast.Lambda)) and isinstance(node, ast.Return):
                        queue.append(made)
    return False


def _root(candidate: Candidate, node: ast.AST) -> str:
    """Return `self.name` or `name` if an expression is state that outlives the call, else an empty text."""
    while True:
        if isinstance(node, (ast.Subscript, ast.Starred)):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
            node = node.func.value
        elif (
            isinstance(node, ast.Call)
            and "builtins.getattr" in candidate.names.of(node.func)
            and len(node.args) > 1
            and isinstance(node.args[0], ast.Name)
        ):
            said = candidate.folder.fold(node.args[1])
            return f"self.{said.value}" if said and node.args[0].id == "self" else ""
        else:
            break
    if isinstance(node, ast.Attribute):
        owner = node.value
        if isinstance(owner, ast.Name) and (owner.id == "self" or owner.id in candidate.classes):
            return f"self.{node.attr}"
        if (isinstance(owner, ast.Attribute) and owner.attr == "__class__") or (
            isinstance(owner, ast.Call) and getattr(owner.func, "id", "") == "type"
        ):
            return f"self.{node.attr}"
        if any(path.endswith(".__dict__") for path in candidate.names.of(node)):
            return "self.?"
    if isinstance(node, ast.Name):
        scope = candidate.scopes.of.get(node, candidate.scopes.top)
        bounds = scope.find(node.id)
        if bounds is not None and candidate.scopes.top.names.get(node.id) is bounds and scope is not candidate.scopes.top:
            return node.id
        # A default of a parameter is kept between calls as well.
        if bounds and any(isinstance(bound.source, (ast.Dict, ast.List)) and bound.scope.node is not scope.node for bound in bounds):
            return node.id
    return ""


def _held(candidate: Candidate, function: Function, node: ast.AST, depth: int) -> str:
    """Return the state that an expression is, through local names."""
    if depth > 4:
        return ""
    root = _root(candidate, node)
    if root:
        return root
    base = node
    while isinstance(base, ast.Subscript) or (
        isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute) and base.func.attr in _VIEWS
    ):
        base = base.value if isinstance(base, ast.Subscript) else base.func.value
    if isinstance(base, ast.Name):
        for part in own_nodes(function):
            values: list[ast.expr] = []
            if isinstance(part, ast.Assign) and any(isinstance(t, ast.Name) and t.id == base.id for t in part.targets):
                values = [part.value]
                # `self.out = y = ...`: the same tensor is kept.
                for target in part.targets:
                    kept = _root(candidate, target)
                    if kept and kept != base.id:
                        return kept
            elif isinstance(part, ast.NamedExpr) and part.target.id == base.id:
                values = [part.value]
            for value in values:
                found = _held(candidate, function, value, depth + 1)
                if found:
                    return found
    if isinstance(node, ast.IfExp):
        return _held(candidate, function, node.body, depth + 1) or _held(candidate, function, node.orelse, depth + 1)
    if isinstance(node, ast.NamedExpr):
        return _held(candidate, function, node.value, depth + 1)
    return ""


def _written(candidate: Candidate) -> set[str]:
    """Return the state that a forward pass assigns, without libraries and compiled functions."""
    found: set[str] = set()
    for function in candidate.forward_functions:
        for node in own_nodes(function):
            targets: list[tuple[ast.expr, ast.expr | None]] = []
            if isinstance(node, ast.Assign):
                targets = [(target, node.value) for target in node.targets]
            elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
                targets = [(node.target, node.value)]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WRITES:
                targets = [(node.func.value, node.args[-1] if node.args else None)]
            elif isinstance(node, ast.Call) and "builtins.setattr" in candidate.names.of(node.func) and len(node.args) > 2:
                said = candidate.folder.fold(node.args[1])
                found.add(f"self.{said.value if said else '?'}")
            for target, value in targets:
                for one in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                    root = _root(candidate, one)
                    if root and not (value is not None and _is_tool(candidate, value)):
                        found.add(root)
    return found


def _is_tool(candidate: Candidate, value: ast.expr) -> bool:
    """Whether a value is a library, a compiled function or a plain number rather than a tensor."""
    if isinstance(value, (ast.Constant, ast.Compare, ast.BoolOp)):
        return True
    paths = candidate.names.of(value)
    if any("cpp_extension" in path or path.startswith(("ctypes.", "torch.compile")) for path in paths):
        return True
    if isinstance(value, ast.Call):
        return any(path.startswith(("torch.compile", "ctypes.", "torch.jit.")) for path in candidate.names.of(value.func))
    return False


def _buffers(candidate: Candidate) -> set[str]:
    """Return the attributes and globals made as room for results: empty tensors, or zeros that a forward writes into."""
    found: set[str] = set()
    filled = _filled(candidate)
    for cls in candidate.classes.values():
        for name, bounds in candidate.scopes.attributes.get(cls, {}).items():
            if any(_is_room(candidate, bound.source, f"self.{name}" in filled) for bound in bounds):
                found.add(f"self.{name}")
        for node in ast.walk(cls):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "register_buffer":
                if len(node.args) > 1:
                    said = candidate.folder.fold(node.args[0])
                    name = f"self.{said.value if said else '?'}"
                    if _is_room(candidate, node.args[1], name in filled):
                        found.add(name)
    for name, bounds in candidate.scopes.top.names.items():
        if any(_is_room(candidate, bound.source, name in filled) for bound in bounds):
            found.add(name)
    return found


def _is_room(candidate: Candidate, source: object, filled: bool) -> bool:
    if not isinstance(source, ast.Call):
        return False
    name = next((path.split(".")[-1] for path in candidate.names.of(source.func) if path.startswith("torch.")), "")
    if not name and isinstance(source.func, ast.Attribute):
        name = source.func.attr
    return name in _EMPTY and (name.startswith(("empty", "new_empty")) or filled)


def _filled(candidate: Candidate) -> set[str]:
    """Return the state that is given to calls in a forward pass, which may write into it."""
    found: set[str] = set()
    for function in candidate.forward_functions:
        for node in own_nodes(function):
            if isinstance(node, ast.Call):
                inputs = [*node.args, *(word.value for word in node.keywords)]
                if isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_") and not node.func.attr.startswith("_"):
                    found.add(_root(candidate, node.func.value))
                for argument in inputs:
                    inner = argument
                    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "data_ptr":
                        inner = inner.func.value
                    found.add(_root(candidate, inner))
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                found.add(_root(candidate, node.value))
    found.discard("")
    return found


def memoised(candidate: Candidate) -> Iterator[Refusal]:
    """`functools.lru_cache` on what is given tensors."""
    parameters = _parameters(candidate)
    for function in candidate.forward_functions:
        if isinstance(function, ast.Lambda):
            continue
        cached = any(
            path.split("()")[0] in ("functools.lru_cache", "functools.cache", "functools.cached_property")
            for item in function.decorator_list
            for path in candidate.names.of(item)
        )
        if not cached:
            continue
        if function in candidate.forwards:
            yield Refusal("It remembers results of earlier calls.", function.lineno)
        for node in candidate.forward_nodes:
            if isinstance(node, ast.Call) and function in candidate.names.functions(node.func):
                given = [*node.args, *(word.value for word in node.keywords)]
                if any(isinstance(argument, ast.Name) and argument.id in parameters for argument in given):
                    yield Refusal("It remembers results of earlier calls.", function.lineno)
    for node in candidate.forward_nodes:
        if isinstance(node, ast.Call):
            paths = candidate.names.of(node.func)
            if paths & {"functools.lru_cache()()", "functools.cache()", "functools.lru_cache()"} and any(
                isinstance(argument, ast.Name) and argument.id in parameters for argument in node.args
            ):
                yield Refusal("It remembers results of earlier calls.", node.lineno)


def call_counters(candidate: Candidate) -> Iterator[Refusal]:
    """A number that grows with each call, and decides what is done."""
    ours = _counted(candidate.reference) if candidate.reference is not None else {}
    counted = _counted(candidate)
    for root, line in counted.items():
        if root in ours:
            continue
        if _decides(candidate, root):
            yield Refusal("It counts its calls and behaves by their number.", line)
    for function in candidate.forward_functions:
        for node in own_nodes(function):
            if isinstance(node, ast.Call) and "builtins.next" in candidate.names.of(node.func) and node.args:
                if _root(candidate, node.args[0]) or "itertools.count()" in candidate.names.of(node.args[0]):
                    yield Refusal("It counts its calls and behaves by their number.", node.lineno)


def _counted(candidate: Candidate) -> dict[str, int]:
    """Return the state that grows by itself in a forward pass, with the line."""
    found: dict[str, int] = {}
    for function in candidate.forward_functions:
        for node in own_nodes(function):
            if isinstance(node, ast.AugAssign):
                root = _root(candidate, node.target)
                if root and not _is_tensor_sum(node):
                    found.setdefault(root, node.lineno)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
                for target in node.targets:
                    root = _root(candidate, target)
                    if root and root in {_root(candidate, part) for part in ast.walk(node.value)}:
                        found.setdefault(root, node.lineno)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
                root = _root(candidate, node.func.value)
                if root and node.args and not _is_tool(candidate, node.args[0]):
                    found.setdefault(root, node.lineno)
    return found


def _is_tensor_sum(node: ast.AugAssign) -> bool:
    return not isinstance(node.value, ast.Constant) and isinstance(node.op, (ast.MatMult,))


def _decides(candidate: Candidate, root: str) -> bool:
    """Whether state takes part in a condition, or in choosing an element."""
    for function in candidate.forward_functions:
        for node in own_nodes(function):
            tests: list[ast.AST] = []
            if isinstance(node, (ast.If, ast.IfExp, ast.While)):
                tests = [node.test]
            elif isinstance(node, (ast.Compare, ast.BoolOp)):
                tests = [node]
            elif isinstance(node, ast.Subscript):
                tests = [node.slice]
            elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.FloorDiv, ast.Mult)):
                tests = [node]
            for test in tests:
                if any(_root(candidate, part) == root for part in ast.walk(test)):
                    return True
    return False


def kept_state(candidate: Candidate) -> Iterator[Flag]:
    """Something is kept between calls that is not returned."""
    ours = _written(candidate.reference) if candidate.reference is not None else set()
    held = sorted(root for root in _written(candidate) - ours if root.startswith("self."))
    if held:
        names = ", ".join(root.partition(".")[2] for root in held[:3])
        yield Flag(f"It keeps {names} between calls.", candidate.main.lineno if candidate.main else None)
