"""Results kept by what the inputs hold: a sum, a checksum, a few elements as numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..candidate import Candidate
from ..names import own_nodes
from ..words import Refusal, listed
from .state import Function, root_of, written_in

_NUMBERS = listed("item tolist tobytes numpy hexdigest digest __float__ __int__ __index__")
"""Methods that make numbers or bytes of a tensor's elements."""
_CASTS = listed("int float bool complex str repr bytes hash tuple list frozenset")
_SHAPES = listed(
    "shape dtype device layout ndim size dim numel stride is_contiguous is_cuda element_size nelement itemsize "
    "requires_grad is_floating_point get_device storage_offset __len__ names"
)
"""What says nothing about elements."""
_LOOKUPS = listed("get setdefault pop __getitem__ __contains__ update add append insert index")
_OF_TENSORS = listed("data grad requires_grad names")
"""Attributes of every tensor that may be set."""
_DEPTH = 8
_ROUNDS = 4
"""How often all functions are read: what is found travels one call further in each."""


def kept_by_content(candidate: Candidate) -> Iterator[Refusal]:
    """Tables, comparisons and memoised functions that are given numbers made from the inputs."""
    flow = _Flow(candidate)
    written = written_in(candidate) | flow.fed()
    for function in candidate.forward_functions:
        reader = flow.reader(function)
        for node in reader.body:
            for box, key in _lookups(node):
                if reader.is_content(key) and _root(candidate, box) in written:
                    yield Refusal("It keeps results by what its inputs hold.", key.lineno)
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and node.attr not in _OF_TENSORS
                and reader.is_input(node.value)
            ):
                yield Refusal("It keeps results on its input.", node.lineno)
            if isinstance(node, ast.Compare) and any(isinstance(op, (ast.Eq, ast.NotEq)) for op in node.ops):
                sides = [node.left, *node.comparators]
                kept = any(_root(candidate, side) in written for side in sides)
                if kept and any(reader.is_content(side) for side in sides):
                    yield Refusal("It compares what its inputs hold with an earlier input.", node.lineno)
            if (
                isinstance(node, ast.Call)
                and any(reader.is_content(given) for given in _given(node))
                and _is_memoised(candidate, node)
            ):
                yield Refusal("It remembers results of earlier calls.", node.lineno)


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(word.value for word in call.keywords)]


def _lookups(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Return pairs of a container and what it is asked for."""
    if isinstance(node, ast.Subscript):
        return [(node.value, node.slice)]
    if isinstance(node, ast.Compare) and any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
        return [(box, node.left) for box in node.comparators]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOOKUPS:
        return [(node.func.value, argument) for argument in node.args[:1]]
    return []


def _root(candidate: Candidate, node: ast.AST) -> str:
    """As `root_of`, through method calls as well: `generator.initial_seed()` is state of `generator`."""
    for _ in range(_DEPTH):
        root = root_of(candidate, node)
        if root:
            return root
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        else:
            break
    return ""


def _is_memoised(candidate: Candidate, call: ast.Call) -> bool:
    for made in candidate.names.functions(call.func):
        for item in getattr(made, "decorator_list", []):
            called = item.func if isinstance(item, ast.Call) else item
            if candidate.names.of(called) & {"functools.lru_cache", "functools.cache"}:
                return True
    return any(
        path.startswith(("functools.lru_cache()", "functools.cache()")) for path in candidate.names.of(call.func)
    )


class _Flow:
    """How inputs travel through the functions of a file.

    Attributes
    ----------
    tensors, numbers
        For each function, by identity: names that hold inputs, and names that hold numbers made of their elements.
    giving
        Functions, by identity, that return such numbers.
    """

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.functions = candidate.forward_functions
        self.tensors: dict[int, set[str]] = {id(function): set() for function in self.functions}
        self.numbers: dict[int, set[str]] = {id(function): set() for function in self.functions}
        self.giving: set[int] = set()
        for function in self.functions:
            if function in candidate.forwards:
                rest = [function.args.vararg] if function.args.vararg is not None else []
                self.tensors[id(function)] |= {argument.arg for argument in [*_parameters(function), *rest]}
        for _ in range(_ROUNDS):
            for function in self.functions:
                self.reader(function).spread()

    def reader(self, function: Function) -> _Reader:
        """Return what tells which expressions of a function are such numbers."""
        return _Reader(self, function)

    def fed(self) -> set[str]:
        """Return the state that is given such numbers: as a value, or in a call together with it."""
        found: set[str] = set()
        for function in self.functions:
            reader = self.reader(function)
            for node in reader.body:
                if isinstance(node, ast.Assign) and reader.is_content(node.value):
                    found |= {root_of(self.candidate, target) for target in node.targets}
                elif isinstance(node, ast.Call) and any(reader.is_content(argument) for argument in node.args):
                    owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
                    found |= {root_of(self.candidate, part) for part in [*owner, *node.args]}
        found.discard("")
        return found


def _parameters(function: Function) -> list[ast.arg]:
    given = function.args
    found = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return found[1:] if found and found[0].arg in ("self", "cls", "ctx") else found


class _Reader:
    def __init__(self, flow: _Flow, function: Function) -> None:
        self._flow = flow
        self._names = flow.candidate.names
        self._function = function
        self.body: list[ast.AST] = own_nodes(function)
        self._tensors = flow.tensors[id(function)]
        self._numbers = flow.numbers[id(function)]

    def is_input(self, node: ast.AST) -> bool:
        """Whether an expression is a parameter that is given an input."""
        names = {argument.arg for argument in _parameters(self._function)}
        return isinstance(node, ast.Name) and node.id in names & self._tensors

    def spread(self) -> None:
        """Follow assignments, calls of functions of the file, and what is returned."""
        values = [self._function.body] if isinstance(self._function, ast.Lambda) else []
        for node in self.body:
            for target, value in _bindings(node):
                if isinstance(target, ast.Name):
                    self._note(value, target.id, self._tensors, self._numbers)
            if isinstance(node, ast.Return) and node.value is not None:
                values.append(node.value)
            if isinstance(node, ast.Call):
                self._call(node)
        if any(self.is_content(value) for value in values):
            self._flow.giving.add(id(self._function))

    def _note(self, value: ast.expr, name: str, tensors: set[str], numbers: set[str]) -> None:
        if self.is_content(value):
            numbers.add(name)
        elif self._holds(value):
            tensors.add(name)

    def _call(self, node: ast.Call) -> None:
        for made in self._names.functions(node.func):
            tensors = self._flow.tensors.get(id(made))
            if tensors is None or isinstance(made, ast.ClassDef):
                continue
            numbers = self._flow.numbers[id(made)]
            for parameter, value in zip(_parameters(made), node.args):  # noqa: B905 - Python 3.9
                self._note(value, parameter.arg, tensors, numbers)
            for word in node.keywords:
                if word.arg:
                    self._note(word.value, word.arg, tensors, numbers)

    def is_content(self, node: ast.AST, depth: int = 0) -> bool:
        """Whether an expression is made of numbers that were elements, or sums, of an input."""
        if depth > _DEPTH:
            return False
        if isinstance(node, ast.Name):
            return node.id in self._numbers
        if isinstance(node, ast.Call):
            return self._called(node, depth)
        if isinstance(node, (ast.BinOp, ast.Tuple, ast.List, ast.UnaryOp, ast.JoinedStr, ast.FormattedValue)):
            return any(self.is_content(part, depth + 1) for part in ast.iter_child_nodes(node))
        if isinstance(node, (ast.Subscript, ast.Starred, ast.NamedExpr)):
            return self.is_content(node.value, depth + 1)
        if isinstance(node, ast.IfExp):
            return self.is_content(node.body, depth + 1) or self.is_content(node.orelse, depth + 1)
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            return self.is_content(node.elt, depth + 1)
        return False

    def _called(self, node: ast.Call, depth: int) -> bool:
        given = _given(node)
        made = self._names.functions(node.func)
        if any(id(function) in self._flow.giving for function in made):
            return True
        if isinstance(node.func, ast.Attribute):
            base = node.func.value
            if node.func.attr in _NUMBERS:
                return self._holds(base) or self.is_content(base, depth + 1)
            if self.is_content(base, depth + 1):
                return True
        elif isinstance(node.func, ast.Name) and node.func.id in _CASTS and not made:
            return any(self._holds(argument) or self.is_content(argument, depth + 1) for argument in given)
        # A tensor made of such numbers is one more tensor; anything else may be a checksum.
        of_torch = any(path.startswith("torch.") for path in self._names.of(node.func))
        return not of_torch and not made and any(self.is_content(argument, depth + 1) for argument in given)

    def _holds(self, node: ast.AST) -> bool:
        """Whether an expression mentions an input other than by its shape, dtype or device."""
        if isinstance(node, ast.Attribute) and node.attr in _SHAPES:
            return False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
            return False
        if isinstance(node, ast.Name):
            return node.id in self._tensors
        return any(self._holds(part) for part in ast.iter_child_nodes(node))


def _bindings(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Return targets with their values; the elements of a loop are bound to what it goes over."""
    if isinstance(node, ast.Assign):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs += list(zip(target.elts, node.value.elts))  # noqa: B905 - Python 3.9
            else:
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                pairs += [(part, node.value) for part in parts]
        return pairs
    if isinstance(node, (ast.AugAssign, ast.NamedExpr)):
        return [(node.target, node.value)]
    if isinstance(node, (ast.For, ast.comprehension)):
        parts = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        return [(part, node.iter) for part in parts]
    return []
