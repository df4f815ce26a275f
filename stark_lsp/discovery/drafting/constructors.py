"""What a constructor makes of its arguments: the numbers and the layers that stand behind `self`.

Text is read, nothing is run: what is not a plain number, text, tuple, configuration or layer is `UNKNOWN`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stark_lsp.core.parsing import last_name
from stark_lsp.discovery.syntax import find_class, targets

DEPTH = 5
"""How deep classes of the file are followed into each other."""
_LARGEST = 1 << 40


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()
"""What cannot be told from the text."""


@dataclass
class Layer:
    """A call that makes a layer, a parameter or anything else a constructor keeps."""

    kind: str
    """The last part of what is called."""
    args: list[Any]
    kwargs: dict[str, Any]
    inner: list[Layer] = field(default_factory=list)
    """The layers it holds, for containers."""
    bare: bool = False
    """Whether it is called by a name alone, as classes of the file are."""

    def get(self, index: int, *names: str) -> Any:
        """Return an argument by its name or its place, `UNKNOWN` if it is not given."""
        for name in names:
            if name in self.kwargs:
                return self.kwargs[name]
        return self.args[index] if 0 <= index < len(self.args) else UNKNOWN

    def number(self, index: int, *names: str) -> int | None:
        """Return an argument if it is a whole number above zero; of a tuple the last one."""
        value = self.get(index, *names)
        if isinstance(value, (tuple, list)) and value:
            value = value[-1]
        return value if type(value) is int and value > 0 else None


Namespace = dict[str, Any]
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_SAME = frozenset({"to_2tuple", "to_1tuple", "to_3tuple", "to_ntuple", "pair", "_pair", "make_divisible", "Parameter"})
"""Functions whose result stands for their argument, as far as sizes go."""
_SHAPES = frozenset({"empty", "zeros", "ones", "randn", "rand", "full"})


def evaluate(node: ast.expr | None, names: Namespace) -> Any:
    """Return the value an expression stands for, `UNKNOWN` if that cannot be told.

    Parameters
    ----------
    names
        What is known; a dict stands for an object with attributes.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names.get(node.id, UNKNOWN)
    if isinstance(node, ast.Attribute):
        owner = evaluate(node.value, names)
        return owner.get(node.attr, UNKNOWN) if isinstance(owner, dict) else UNKNOWN
    if isinstance(node, (ast.Tuple, ast.List)):
        return [evaluate(item, names) for item in node.elts if not isinstance(item, ast.Starred)]
    if isinstance(node, ast.Subscript):
        owner, index = evaluate(node.value, names), evaluate(node.slice, names)
        if type(owner) is int:  # to_2tuple(16)[0]
            return owner
        if isinstance(owner, list) and type(index) is int and -len(owner) <= index < len(owner):
            return owner[index]
        return UNKNOWN
    if isinstance(node, ast.BinOp):
        return _calculate(_OPERATORS.get(type(node.op)), evaluate(node.left, names), evaluate(node.right, names))
    if isinstance(node, ast.UnaryOp):
        value = evaluate(node.operand, names)
        if isinstance(node.op, ast.Not):
            return not value if value is not UNKNOWN and not isinstance(value, Layer) else UNKNOWN
        return -value if isinstance(node.op, ast.USub) and type(value) in (int, float) else UNKNOWN
    if isinstance(node, ast.BoolOp):
        return _either(node, names)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        compare = _COMPARISONS.get(type(node.ops[0]))
        return _calculate(compare, evaluate(node.left, names), evaluate(node.comparators[0], names))
    if isinstance(node, ast.IfExp):
        test = evaluate(node.test, names)
        if test is UNKNOWN:
            value = evaluate(node.body, names)
            return value if value is not UNKNOWN else evaluate(node.orelse, names)
        return evaluate(node.body if test else node.orelse, names)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return [evaluate(node.elt, names)]
    if isinstance(node, ast.Call):
        return _call(node, names)
    return UNKNOWN


def _either(node: ast.BoolOp, names: Namespace) -> Any:
    values = [evaluate(value, names) for value in node.values]
    if isinstance(node.op, ast.Or):
        return next((value for value in values if value is not UNKNOWN and value), values[-1])
    if any(value is UNKNOWN for value in values):
        return UNKNOWN
    return next((value for value in values if not value), values[-1])


def _calculate(function: Callable[[Any, Any], Any] | None, left: Any, right: Any) -> Any:
    if function is None or left is UNKNOWN or right is UNKNOWN or isinstance(left, Layer) or isinstance(right, Layer):
        return UNKNOWN
    try:
        value = function(left, right)
    except (TypeError, ValueError, ArithmeticError):
        return UNKNOWN
    if isinstance(value, (int, float)):
        return value if abs(value) < _LARGEST else UNKNOWN
    return value if not isinstance(value, (list, str)) or len(value) < 1000 else UNKNOWN


def _call(node: ast.Call, names: Namespace) -> Any:
    kind = last_name(node.func)
    args = [evaluate(argument, names) for argument in node.args if not isinstance(argument, ast.Starred)]
    kwargs = {keyword.arg: evaluate(keyword.value, names) for keyword in node.keywords if keyword.arg}
    if kind in ("int", "round", "max", "min", "abs", "len", "ceil", "float", "tuple", "list", "sum"):
        return _builtin(kind, args)
    if kind in _SAME and args:
        return args[0]
    if kind in _SHAPES and args:
        sizes = args[0] if isinstance(args[0], list) else args
        return Layer("Parameter", sizes, {})
    if kind == "getattr" and len(args) >= 2 and isinstance(args[0], dict):
        return args[0].get(args[1], args[2] if len(args) > 2 else UNKNOWN)
    inner: list[Layer] = []
    for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
        value = evaluate(argument.value if isinstance(argument, ast.Starred) else argument, names)
        items = value if isinstance(value, list) else [value]
        inner += [item for item in items if isinstance(item, Layer)]
    return Layer(kind, args, kwargs, inner, isinstance(node.func, ast.Name))


def _builtin(kind: str, args: list[Any]) -> Any:
    if not args or any(value is UNKNOWN or isinstance(value, (Layer, dict)) for value in args):
        return UNKNOWN
    functions: dict[str, Callable[..., Any]] = {
        "int": int, "round": round, "max": max, "min": min, "abs": abs, "len": len, "float": float, "tuple": list,
        "list": list, "sum": sum, "ceil": lambda value: -int(-value // 1),
    }  # fmt: skip
    try:
        return functions[kind](*args)
    except (TypeError, ValueError, OverflowError):
        return UNKNOWN


def constants(tree: ast.Module) -> Namespace:
    """Return the numbers and texts that names of a file stand for."""
    names: Namespace = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            value = evaluate(node.value, names)
            for target in node.targets:
                if isinstance(target, ast.Name) and isinstance(value, (int, float, str, list)):
                    names[target.id] = value
    return names


def method(tree: ast.Module, node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """Return a method of a class or of its bases in the same file."""
    for cls in lineage(tree, node):
        for statement in cls.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                return statement
    return None


def lineage(tree: ast.Module, node: ast.ClassDef) -> list[ast.ClassDef]:
    """Return a class and its bases in the same file."""
    found: list[ast.ClassDef] = []
    seen: set[str] = set()
    pending = [node]
    while pending:
        current = pending.pop(0)
        found.append(current)
        for base in current.bases:
            written = ast.unparse(base)
            if written not in seen and written.replace(".", "").isidentifier():
                seen.add(written)
                pending.extend(find_class(tree, written)[-1:])
    return found


def parameters(function: ast.FunctionDef, *, bound: bool = True) -> list[tuple[ast.arg, ast.expr | None, bool]]:
    """Return the parameters, each with its default and whether it is passed by name only.

    Parameters
    ----------
    bound
        Whether it is a method, whose first one is `self`.
    """
    arguments = [*function.args.posonlyargs, *function.args.args]
    defaults: list[ast.expr | None] = [None] * (len(arguments) - len(function.args.defaults))
    pairs = list(zip(arguments, [*defaults, *function.args.defaults], strict=True))
    static = any(getattr(decorator, "id", "") == "staticmethod" for decorator in function.decorator_list)
    found = [(argument, default, False) for argument, default in (pairs[1:] if bound and not static else pairs)]
    keywords = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return [*found, *((argument, default, True) for argument, default in keywords)]


class Constructor:
    """An instance of a class of the file, as far as its text tells."""

    def __init__(
        self, tree: ast.Module, node: ast.ClassDef, args: list[Any], kwargs: dict[str, Any], depth: int = 0
    ) -> None:
        self.tree = tree
        self.node = node
        self.depth = depth
        self.own: Namespace = {}
        """What stands behind `self`."""
        self.layers: list[Layer] = []
        """What was made without a name, in order."""
        for cls in reversed(lineage(tree, node)):
            for statement in cls.body:
                if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
                    value = evaluate(statement.value, {})
                    self.own.update({t.id: value for t in targets(statement) if isinstance(t, ast.Name)})
        init = method(tree, node, "__init__")
        if init is not None:
            self._run(init, args, kwargs, 0)

    def _run(self, init: ast.FunctionDef, args: list[Any], kwargs: dict[str, Any], depth: int) -> None:
        names = constants(self.tree)
        names["self"] = self.own
        for index, (argument, default, _) in enumerate(parameters(init)):
            value = kwargs.get(argument.arg, args[index] if index < len(args) else UNKNOWN)
            names[argument.arg] = evaluate(default, names) if value is UNKNOWN and default is not None else value
        self._statements(init.body, names, init, depth)

    def _statements(self, body: list[ast.stmt], names: Namespace, init: ast.FunctionDef, depth: int) -> None:
        for statement in body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
                value = evaluate(statement.value, names)
                for target in targets(statement):
                    self._bind(target, value, names)
            elif isinstance(statement, ast.AugAssign):
                value = evaluate(ast.BinOp(statement.target, statement.op, statement.value), names)
                self._bind(statement.target, value, names)
            elif isinstance(statement, ast.If):
                test = evaluate(statement.test, names)
                if test is UNKNOWN or isinstance(test, Layer):
                    self._statements(statement.orelse, names, init, depth)
                    self._statements(statement.body, names, init, depth)
                else:
                    self._statements(statement.body if test else statement.orelse, names, init, depth)
            elif isinstance(statement, (ast.For, ast.While, ast.With)):
                self._statements(statement.body, names, init, depth)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                self._expression(statement.value, names, init, depth)

    def _bind(self, target: ast.expr, value: Any, names: Namespace) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Attribute):
            owner = evaluate(target.value, names)
            if isinstance(owner, dict):
                owner[target.attr] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            values = value if isinstance(value, list) and len(value) == len(target.elts) else None
            for index, item in enumerate(target.elts):
                one = value if type(value) is int else UNKNOWN
                self._bind(item, values[index] if values is not None else one, names)

    def _expression(self, call: ast.Call, names: Namespace, init: ast.FunctionDef, depth: int) -> None:
        """Follow `super().__init__(...)`, `self.layers.append(...)` and calls of own methods that make layers."""
        if not isinstance(call.func, ast.Attribute):
            return
        made = _call(call, names)
        if call.func.attr == "__init__":
            base = next(
                (m for cls in lineage(self.tree, self.node) for m in cls.body
                 if isinstance(m, ast.FunctionDef) and m.name == "__init__" and m.lineno != init.lineno), None
            )  # fmt: skip
            if base is not None and depth < DEPTH and isinstance(made, Layer):
                self._run(base, made.args, made.kwargs, depth + 1)
            elif isinstance(made, Layer):
                self.layers += made.inner
        elif call.func.attr in ("append", "add_module") and isinstance(made, Layer):
            holder = evaluate(call.func.value, names)
            if isinstance(holder, list):
                holder += made.inner
            elif isinstance(holder, Layer):
                holder.inner += made.inner
            else:
                self.layers += made.inner
        elif call.func.attr == "register_buffer" and isinstance(made, Layer):
            name, value = made.get(0), made.get(1)
            if isinstance(name, str):
                self.own[name] = value
