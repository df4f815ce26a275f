"""Inductor's Triton functions as a person would write them: what is used once stands where it is used.

Nothing changes what is computed, or in which order memory is read and written: only expressions without an effect move,
within one row of statements and where nothing that they read is assigned in between.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

LONGEST = 100
"""Characters of a statement that something is put into."""
_EFFECTS = {
    "load", "store", "atomic", "reduce", "scan", "sum", "max", "min", "dot", "assume", "barrier", "rand", "sort",
}  # fmt: skip
"""Words in the names of functions whose calls stay where they are, so that a reader finds them."""


def tidied(function: ast.FunctionDef, constants: Sequence[str] = ()) -> ast.FunctionDef:
    """Return a function in fewer statements, changed in place.

    Parameters
    ----------
    constants
        Parameters that the body sets to a number; they are taken out.
    """
    function.args.args = [one for one in function.args.args if one.arg not in constants]
    _Branches(_numbers(function)).visit(function)
    ast.fix_missing_locations(function)
    for block in _blocks(function):
        block[:] = [_plain(statement) for statement in block]
    while _Statements(function).fewer():
        for block in _blocks(function):
            block[:] = [one for one in block if not isinstance(one, ast.Pass)] or [ast.Pass()]
    return function


def constants(function: ast.FunctionDef) -> list[str]:
    """Return the parameters that the body begins with setting to a number."""
    first = takewhile(lambda one: isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant), function.body)
    named = {target.id for one in first for target in one.targets if isinstance(target, ast.Name)}  # type: ignore[attr-defined]
    return [one.arg for one in function.args.args if one.arg in named]


def _numbers(function: ast.FunctionDef) -> dict[str, int]:
    """Return the names that are one whole number throughout."""
    stored = [item.id for item in ast.walk(function) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)]
    found = {}
    for statement in function.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(statement.value, ast.Constant):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if isinstance(target, ast.Name) and stored.count(target.id) == 1 and type(statement.value.value) is int:
                found[target.id] = statement.value.value
    return found


class _Branches(ast.NodeTransformer):
    """Takes the branch that known numbers choose."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Return the statements of that branch."""
        self.generic_visit(node)
        plain = (ast.BoolOp, ast.BinOp, ast.Compare, ast.Constant, ast.Name, ast.boolop, ast.operator, ast.cmpop)
        parts = list(ast.walk(node.test))
        known = all(isinstance(item, (*plain, ast.expr_context)) for item in parts) and all(
            item.id in self._numbers for item in parts if isinstance(item, ast.Name)
        )
        if not known:
            return node
        # Only numbers, names of numbers and operators are left in it.
        chosen = eval(compile(ast.Expression(node.test), "", "eval"), {"__builtins__": {}}, dict(self._numbers))
        return node.body if chosen else node.orelse or ast.Pass()


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield rows of statements, those within others as well."""
    for item in ast.walk(node):
        for name in ("body", "orelse"):
            block = getattr(item, name, None)
            if isinstance(block, list) and block:
                yield block


def _plain(statement: ast.stmt) -> ast.stmt:
    """Return a statement without `[:]`, which takes all of a row."""

    class Plain(ast.NodeTransformer):
        def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
            self.generic_visit(node)
            return node.value if ast.unparse(node.slice) == ":" else node

    return Plain().visit(statement)  # type: ignore[no-any-return]


class _Statements:
    """Those of a function, and which names they read and set.

    What is counted may be too much after a statement is gone, never too little; the next time it is counted anew.
    """

    def __init__(self, function: ast.FunctionDef) -> None:
        self._function = function
        self._reads: Counter[str] = Counter()
        self._stores: Counter[str] = Counter()
        self._read_in: dict[ast.stmt, set[str]] = {}
        self._stored_in: dict[ast.stmt, set[str]] = {}
        for item in ast.walk(function):
            if isinstance(item, ast.Name):
                (self._reads if isinstance(item.ctx, ast.Load) else self._stores)[item.id] += 1
            elif isinstance(item, ast.stmt) and item is not function:
                names = [one for one in ast.walk(item) if isinstance(one, ast.Name)]
                self._read_in[item] = {one.id for one in names if isinstance(one.ctx, ast.Load)}
                self._stored_in[item] = {one.id for one in names if isinstance(one.ctx, ast.Store)}

    def fewer(self) -> bool:
        """Put `pass` for each statement that can be done without; returns whether there was one."""
        found = False
        for block in _blocks(self._function):
            for place in range(len(block)):
                if self._needless(block, place):
                    block[place] = ast.Pass()
                    self._read_in[block[place]] = self._stored_in[block[place]] = set()
                    found = True
        return found

    def _needless(self, block: list[ast.stmt], place: int) -> bool:
        statement = block[place]
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            return False
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if not isinstance(target, ast.Name) or not _movable(statement.value):
            return False
        if self._reads[target.id] == 0:
            return True
        return isinstance(statement, ast.Assign) and self._put(block, place, target.id, statement.value)

    def _put(self, block: list[ast.stmt], place: int, name: str, value: ast.expr) -> bool:
        """Put a value where its name is read in the rest of a block, if it may stand there."""
        literal = _literal(value)
        plain = literal or (value if isinstance(value, ast.Name) else None)
        if plain is None and self._reads[name] > self._stores[name]:
            return False
        needed = {item.id for item in ast.walk(value) if isinstance(item, ast.Name)}
        behind = sum(1 for one in block[place + 1 :] if name in self._read_in[one] for _ in _reads(one, name))
        found: list[tuple[ast.stmt, _Place]] = []
        for statement in block[place + 1 :]:
            here = list(_reads(statement, name)) if name in self._read_in[statement] else []
            stored = self._stored_in[statement] & needed
            simple = isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return))
            if here and not simple and (plain is None or stored):
                return False
            found += [(statement, one) for one in here]
            if stored or len(found) == behind:
                break
        if not found or len(found) != behind or (plain is None and len(found) > 1) or not self._apart(name):
            return False
        if literal is not None:
            if not all(_arithmetic(one.parent, one.held, literal) for _, one in found):
                return False
        elif plain is None and len(ast.unparse(found[0][0])) + len(ast.unparse(value)) - len(name) > LONGEST:
            return False
        for statement, one in found:
            one.put(copy.copy(plain) or value)
            for inner in ast.walk(statement):
                if isinstance(inner, ast.stmt):
                    self._read_in[inner] |= needed
        for other in needed:
            self._reads[other] += len(found)
        return True

    def _apart(self, name: str) -> bool:
        """Whether a name is read only behind the one statement of a block that sets it, as in loops of their own."""
        if name in {one.arg for one in self._function.args.args}:
            return False
        reads = stores = 0
        for block in _blocks(self._function):
            for place, statement in enumerate(block):
                if name in self._stored_in[statement] and name in map(ast.unparse, getattr(statement, "targets", ())):
                    behind = block[place + 1 :]
                    if any(name in self._stored_in[later] for later in behind):
                        return False
                    reads += sum(1 for later in behind if name in self._read_in[later] for _ in _reads(later, name))
                    stores += 1
        return stores == self._stores[name] and reads == self._reads[name]


def _movable(value: ast.expr) -> bool:
    """Whether a value has no effect and no reader looks for it."""
    for item in ast.walk(value):
        if isinstance(item, ast.Call):
            name = ast.unparse(item.func).rpartition(".")[2]
            if _EFFECTS & set(name.split("_")) or name.startswith("_stark"):
                return False
        elif isinstance(item, ast.NamedExpr):
            return False
    return True


def _literal(value: ast.expr) -> ast.expr | None:
    """Return the number that `tl.full([1], 0.5, tl.float32)` fills a block of one with."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) == "tl.full" and len(value.args) == 3):
        return None
    shape, number, dtype = (ast.unparse(one) for one in value.args)
    wanted = {"tl.float32": float, "tl.int32": int, "tl.int64": int}.get(dtype)
    if shape not in ("[1]", "[1, 1]") or wanted is None or not re.fullmatch(r"-?[\d.e+-]+", number):
        return None
    known: float = ast.literal_eval(number)
    return value.args[1] if type(known) is wanted and abs(known) < 2**31 else None


def _arithmetic(parent: ast.AST, held: ast.expr, literal: ast.expr) -> bool:
    """Whether a number may stand in the place of a block of one: beside something else, which gives shape and type.

    Whole numbers only where they are compared: a sum of them with others may be wider than these.
    """
    whole = isinstance(ast.literal_eval(literal), int)
    if isinstance(parent, ast.BinOp) and not whole:
        others = [parent.left, parent.right]
    elif isinstance(parent, ast.Compare) and len(parent.comparators) == 1:
        others = [parent.left, *parent.comparators]
    else:
        return False
    return all(one is held or not isinstance(one, (ast.Constant, ast.UnaryOp)) for one in others)


@dataclass
class _Place:
    """Where a name is read."""

    parent: ast.AST
    field: str
    index: int | None
    held: ast.expr

    def put(self, value: ast.expr) -> None:
        """Put a value there."""
        if self.index is None:
            setattr(self.parent, self.field, value)
        else:
            getattr(self.parent, self.field)[self.index] = value


def _reads(node: ast.AST, name: str) -> Iterator[_Place]:
    for parent in ast.walk(node):
        for field, held in ast.iter_fields(parent):
            for index, item in enumerate(held if isinstance(held, list) else [held]):
                if isinstance(item, ast.Name) and item.id == name and isinstance(item.ctx, ast.Load):
                    yield _Place(parent, field, index if isinstance(held, list) else None, item)
