"""Answers from memory: results kept by pointer or content, and returned again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import Candidate
from ..names import own_nodes
from ..words import Flag, Refusal, listed
from .state import Function, buffers, forward_parameters, held, root_of, written_in

_POINTERS = listed("data_ptr _cdata _version untyped_storage storage_offset")
_CONTENT = listed("tobytes hash_tensor __hash__")
_LOOKUPS = listed("get setdefault pop __getitem__ __contains__")
_COMPARING = listed("torch.equal torch.allclose torch.all torch.isclose")


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
                elif isinstance(key, ast.Name) and _is_box(candidate, node) and key.id in forward_parameters(candidate):
                    yield Refusal("It keeps results for each input tensor.", key.lineno)
            if isinstance(node, ast.Compare):
                yield from _compared(candidate, function, node, tainted)
            if isinstance(node, ast.Call) and len(node.args) >= 2:
                method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                compares = method in ("equal", "allclose") or candidate.names.of(node.func) & _COMPARING
                if compares and any(root_of(candidate, argument) for argument in node.args):
                    yield Refusal("It compares its input with an earlier one.", node.lineno)


def _is_box(candidate: Candidate, node: ast.AST) -> bool:
    """Whether what is looked into is a dictionary that outlives the call."""
    base = node.value if isinstance(node, ast.Subscript) else getattr(getattr(node, "func", None), "value", None)
    if isinstance(node, ast.Compare):
        base = node.comparators[0]
    if base is None or not root_of(candidate, base):
        return False
    for bound in _bounds(candidate, base):
        source = bound
        if isinstance(source, ast.Dict):
            return True
        if isinstance(source, ast.Call) and any(
            path.split(".")[-1]
            in ("dict", "WeakKeyDictionary", "OrderedDict", "defaultdict", "WeakTensorKeyDictionary")
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
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("tuple", "str", "int", "frozenset", "list")
    ):
        return any(_is_pointer(argument, tainted) for argument in node.args)
    return False


def _compared(candidate: Candidate, function: Function, node: ast.Compare, tainted: set[str]) -> Iterator[Refusal]:
    sides = [node.left, *node.comparators]
    if any(_is_pointer(side, tainted) for side in sides) and any(root_of(candidate, side) for side in sides):
        yield Refusal("It recognises its inputs by their address.", node.lineno)
    parameters = forward_parameters(candidate)
    if any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
        named = any(isinstance(side, ast.Name) and side.id in parameters for side in sides)
        if named and any(root_of(candidate, side) for side in sides):
            yield Refusal("It compares its input with an earlier one.", node.lineno)


def kept_results(candidate: Candidate) -> Iterator[Refusal]:
    """What a forward pass stores on `self` or globally must not be what it returns."""
    stored = written_in(candidate)
    rooms = buffers(candidate)
    for function in candidate.forward_functions:
        body = own_nodes(function)
        returned = [node.value for node in body if isinstance(node, ast.Return) and node.value is not None]
        if isinstance(function, ast.Lambda):
            returned = [function.body]
        if not _gives_results(candidate, function):
            continue
        for value in returned:
            for part in value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]:
                root = held(candidate, function, part, 0)
                if root and (root in stored or root in rooms):
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


def memoised(candidate: Candidate) -> Iterator[Refusal]:
    """`functools.lru_cache` on what is given tensors."""
    parameters = forward_parameters(candidate)
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


def kept_state(candidate: Candidate) -> Iterator[Flag]:
    """Something is kept between calls that is not returned."""
    ours = written_in(candidate.reference) if candidate.reference is not None else set()
    held = sorted(root for root in written_in(candidate) - ours if root.startswith("self."))
    if held:
        names = ", ".join(root.partition(".")[2] for root in held[:3])
        yield Flag(f"It keeps {names} between calls.", candidate.main.lineno if candidate.main else None)
