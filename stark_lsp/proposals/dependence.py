"""What of a file the behaviour of one of its classes can depend on.

1. The file is taken apart into statements, those inside `if` and around the class one by one, with what they stand in.
2. Names count that the class reads, and what is read by all that binds or changes a name that counts, transitively.
3. A statement counts if it binds such a name, changes its object (`Model.forward = f`, `setattr`), has a function that
   may (`global`), or hands it to code that nobody can see. Where that is not clear, it counts.

Not everything that mentions the class counts: making an instance, deriving from it, listing it and printing it do not.
Where the file is run as a script only, plain changes count and calls do not.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from stark_lsp.discovery.place import Place
from stark_lsp.discovery.slicing import is_main_block
from stark_lsp.discovery.syntax import BUILTINS, first_line, import_paths, last_line
from stark_lsp.proposals.scopes import FUNCTION, changes, own_nodes, reads, reads_and_changes, root_names, stored, walk

_WILD = frozenset({"exec", "eval", "globals", "vars", "locals"})
"""Built-in functions that read or bind names which nobody sees."""
_HARMLESS = frozenset(
    {"collections", "copy", "dataclasses", "functools", "inspect", "itertools", "json", "logging", "math", "numpy"}
    | {"pprint", "time", "timeit", "torch", "typing", "warnings"}
)
"""Packages whose functions leave alone the classes and plain objects that they are given."""
_SETS_NOTHING = frozenset({"manual_seed", "manual_seed_all", "seed", "set_printoptions", "synchronize", "empty_cache"})
"""Functions of packages that are called for their effect, which is none on what a class computes."""
_OF_CONTAINERS = frozenset({"add", "append", "copy", "extend", "get", "items", "keys", "pop", "update", "values"})
"""Methods that change what a container holds, and not the objects in it."""

Entry = tuple[tuple[str, ...], str]
"""What a statement stands in, and what it says."""


@dataclass
class Dependence:
    """What a class depends on, comparable with that of another text."""

    names: dict[str, list[Entry]] = field(default_factory=dict)
    """For each name that counts, the statements about it, in order."""
    order: list[Entry] = field(default_factory=list)
    """The statements whose order counts."""
    lines: dict[str, int] = field(default_factory=dict)
    """For each name, the line of the last statement about it."""


class Facts:
    """What a statement does, wherever it stands."""

    def __init__(self, node: ast.stmt) -> None:
        self.node = node
        self.binds = stored([node])

    @cached_property
    def dump(self) -> str:
        return ast.dump(self.node)

    @cached_property
    def reads_and_changes(self) -> tuple[set[str], set[str]]:
        return reads_and_changes(self.node)

    @cached_property
    def at_once(self) -> frozenset[str]:
        return frozenset(reads(self.node, later=False))

    @cached_property
    def sets(self) -> frozenset[str]:
        """Names on whose objects it sets an attribute when it is executed."""
        found = changes(self.node, later=False) if {"setattr", "delattr"} & self.at_once else set()
        for part, hidden in walk(self.node, later=False):
            if isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load):
                found |= root_names([part]) - hidden
        return frozenset(found)

    @cached_property
    def calls(self) -> list[ast.Call]:
        found: list[ast.Call] = []
        for part, _ in walk(self.node, later=False):
            found.extend([part] if isinstance(part, ast.Call) else [])
            for decorator in getattr(part, "decorator_list", ()):
                found.extend([ast.Call(decorator, [], [])] if not isinstance(decorator, ast.Call) else [])
        return found

    @cached_property
    def given(self) -> frozenset[str]:
        """Names whose objects it gives to other names."""
        return frozenset(name for value in _values(self.node) for name in _handed(value))

    @cached_property
    def unseen(self) -> bool:
        """Whether it may bind or change anything when it is executed: `exec`, `globals()`, `sys.modules`."""
        if self.at_once & _WILD:
            return True
        for part, _ in walk(self.node, later=False):
            if isinstance(part, (ast.Attribute, ast.Subscript)):
                if not isinstance(part.ctx, ast.Load):
                    if not root_names([part]):
                        return True  # type(net).forward = f
                    if any(isinstance(inner, ast.Attribute) and inner.attr == "__class__" for inner in ast.walk(part)):
                        return True
                if isinstance(part, ast.Attribute) and part.attr in ("__dict__", "__globals__"):
                    return True
                if isinstance(part, ast.Attribute) and part.attr == "modules" and root_names([part]) == {"sys"}:
                    return True
        return False


class _Statement:
    """A statement, and where it stands."""

    def __init__(
        self, facts: Facts, node: ast.stmt, around: tuple[str, ...], needs: frozenset[str], script: bool, inner: bool
    ) -> None:
        self.facts = facts
        self.node = node
        self.around = around
        self.needs = needs
        """Names that decide whether it is executed."""
        self.script = script
        self.inner = inner
        """Whether it stands in a class around the class."""

    @property
    def entry(self) -> Entry:
        return self.around, self.facts.dump

    @cached_property
    def reads(self) -> frozenset[str]:
        return self.needs.union(self.facts.reads_and_changes[0])

    @property
    def may_change(self) -> set[str]:
        return self.facts.reads_and_changes[1]

    @property
    def binds(self) -> frozenset[str]:
        return self.facts.binds

    @property
    def is_import(self) -> bool:
        return isinstance(self.node, (ast.Import, ast.ImportFrom))


def dependence(
    tree: ast.Module, lines: Sequence[str], place: Place, ours: set[int], known: dict[str, Facts]
) -> Dependence:
    """Return what a class depends on.

    Statements with ids in `ours`, which accepted proposals brought, change nothing of others'. `known` is what was
    found out of statements by their text, of another version of the file for instance.
    """
    return _Analysis(tree, lines, place, ours, known).result()


class _Analysis:
    def __init__(
        self, tree: ast.Module, lines: Sequence[str], place: Place, ours: set[int], known: dict[str, Facts]
    ) -> None:
        self.place = place
        self.ours = ours

        def facts(node: ast.stmt) -> Facts:
            text = "\n".join(lines[first_line(node) : last_line(node) + 1])
            found = known.get(text)
            if found is None or type(found.node) is not type(node) or node.col_offset or found.node.col_offset:
                found = known[text] = Facts(node)
            return found

        self.statements = list(_statements(tree.body, place.chain, facts))
        self.imported: dict[str, set[str]] = {}
        """Imported names, with the packages that they come from."""
        self.defined: dict[str, list[_Statement]] = {}
        """Functions and classes of the file."""
        self.target = _Statement(Facts(place.node), place.node, (), frozenset(), False, place.nested)
        for statement in (*self.statements, self.target):
            node = statement.node
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for _, name, path, _ in import_paths(node):
                    self.imported.setdefault(name, set()).add(path.partition(".")[0])
            elif isinstance(node, (*FUNCTION, ast.ClassDef)) and not statement.inner:
                self.defined.setdefault(node.name, []).append(statement)
        self.inner = {node.name for node in place.chain if isinstance(node, ast.ClassDef)}
        for part in (*place.node.decorator_list, *place.node.bases, *place.node.keywords):
            self.inner |= reads(part)  # names that mean something in the bodies of the classes around
        self.names = {*reads(place.node), place.outer.name}
        self.constant = self._constants()

    def result(self) -> Dependence:
        """Let names and statements grow until nothing is added."""
        counted: list[_Statement] = []
        left = self.statements
        while True:
            self.known = self.names | self._aliases()
            self.dangerous = self._dangerous()
            new = [statement for statement in left if self._counts(statement)]
            if not new:
                break
            counted += new
            left = [statement for statement in left if statement not in new]
            self.names.update(*(statement.reads for statement in new))
        if _WILD & self.names:  # what is read by name at run time could be anything
            counted = [statement for statement in self.statements if id(statement.node) not in self.ours]
            self.names.update(*(statement.binds for statement in counted))
        found = Dependence()
        times = Counter(name for s in counted if not s.is_import for name in s.binds | s.may_change)
        moving = {name for name, number in times.items() if number > 1}
        for statement in sorted((*counted, self.target), key=lambda s: (s.node.lineno, s.node.col_offset)):
            if statement is not self.target:
                self._record(statement, found)
            if (statement.binds | statement.may_change | statement.facts.at_once) & moving:
                found.order.append(statement.entry)
        for name, entries in found.names.items():
            if len({said for _, said in entries}) == 1 and entries[0][1].startswith("import "):
                found.names[name] = [((), entries[0][1])]  # wherever it is imported, it stands for the same
        return found

    def _record(self, statement: _Statement, found: Dependence) -> None:
        node = statement.node
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias, name, path, _ in import_paths(node):
                entries = found.names.setdefault(name, [])
                entry = (statement.around, f"import {path}")
                if (name in self.names or alias.name == "*") and entries[-1:] != [((), entry[1])]:
                    entries.append(entry)
                    found.lines[name] = node.lineno
            return
        names = (statement.binds & self.names) or (statement.may_change & self.names) or {""}
        if statement.inner:  # a name of the class around has nothing to do with the module's
            names = {f"{self.place.outer.name}.{name}" for name in names}
        for name in names:
            found.names.setdefault(name, []).append(statement.entry)
            found.lines[name] = node.lineno

    def _counts(self, statement: _Statement) -> bool:
        if statement.inner:
            if (statement.binds | statement.may_change) & self.inner:
                return True
        elif statement.binds & self.names:
            return True
        if id(statement.node) in self.ours:
            return False
        if isinstance(statement.node, ast.ImportFrom) and statement.node.names[0].name == "*":
            return True
        if statement.may_change & (self.names | self._packages()):
            return True
        if statement.facts.sets & self.known or statement.facts.unseen:
            return True
        return not statement.script and any(self._may_change(call, statement) for call in statement.facts.calls)

    def _may_change(self, call: ast.Call, statement: _Statement) -> bool:
        """Whether a call at module level may change something that counts."""
        function = call.func
        root = next(iter(root_names([function])), "")
        as_statement = isinstance(statement.node, ast.Expr) and statement.node.value is call
        known = self.known | self.inner if statement.inner else self.known
        if root in self.dangerous:
            return True
        if isinstance(function, ast.Name):
            if as_statement and root in self.names and root not in self.defined and root not in BUILTINS:
                return True
        elif isinstance(function, ast.Attribute):
            if as_statement and root in self._packages() and function.attr not in _SETS_NOTHING:
                return True
            method = root in self.names or function.attr not in _OF_CONTAINERS
            settled = {*self.imported, *self.defined, *self.constant}
            if root in known - self.imported.keys() and method and (as_statement or root not in settled):
                return True
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        handed = {name for argument in arguments for name in _handed(argument)} & known
        handed -= self.imported.keys() | self.constant | self._functions()
        return bool(handed) and not self._harmless(function, root)

    def _packages(self) -> set[str]:
        """Return imported names of packages that the class uses under whatever name: `torch.set_default_dtype(…)`."""
        used = set().union(*(self.imported.get(name, ()) for name in self.names))
        return {name for name, packages in self.imported.items() if packages & used}

    def _harmless(self, function: ast.expr, root: str) -> bool:
        """Whether a function is known to leave alone what it is given."""
        if isinstance(function, ast.Name) and root in BUILTINS - self.imported.keys() - self.defined.keys():
            return root not in ("setattr", "delattr", "map", "filter", *_WILD)
        if isinstance(function, ast.Name) and root in self.defined:
            return not any(_changes_others(statement.node) for statement in self.defined[root])
        name = function.attr if isinstance(function, ast.Attribute) else root
        return root in self.imported and self.imported[root] <= _HARMLESS and not name.endswith("_")

    def _aliases(self) -> set[str]:
        """Return names that are given objects that count."""
        found: set[str] = set()
        while True:
            known = (self.names | found) - self.imported.keys() - self.constant
            new = {name for statement in self.statements if statement.facts.given & known for name in statement.binds}
            if new <= self.names | found:
                return found
            found |= new

    def _functions(self) -> set[str]:
        """Return names of functions: nobody changes those that he is given."""
        return {name for name, found in self.defined.items() if all(isinstance(s.node, FUNCTION) for s in found)}

    def _dangerous(self) -> set[str]:
        """Return functions and classes of the file that may change what counts once they are called."""
        found: set[str] = set()
        while True:
            new = {
                name
                for name, statements in self.defined.items()
                for statement in statements
                if statement.may_change & self.known or (statement.reads & (found | _WILD))
            } - found
            if not new:
                return found
            found |= new

    def _constants(self) -> set[str]:
        """Return names that stand for what cannot be changed."""
        found: dict[str, bool] = {}
        for statement in self.statements:
            plain = isinstance(statement.node, (ast.Assign, ast.AnnAssign)) and _is_constant(statement.node.value)
            for name in statement.binds:
                found[name] = found.get(name, True) and plain
        return {name for name, plain in found.items() if plain}


def _statements(
    block: Sequence[ast.stmt],
    chain: tuple[ast.stmt, ...],
    facts: Callable[[ast.stmt], Facts],
    around: tuple[str, ...] = (),
    needs: frozenset[str] = frozenset(),
    script: bool = False,
    inner: bool = False,
) -> Iterator[_Statement]:
    """Yield the statements of a block, those inside `if` and around the class one by one, but for the class itself."""
    for node in block:
        if node is chain[-1]:
            continue
        if isinstance(node, ast.If):
            main = is_main_block(node)
            header = ast.copy_location(ast.Expr(node.test), node)
            yield _Statement(Facts(header), header, around, needs, script, inner)
            test, also = ast.dump(node.test), needs | reads(node.test)
            yield from _statements(node.body, chain, facts, (*around, f"if {test}"), also, script or main, inner)
            yield from _statements(node.orelse, chain, facts, (*around, f"else {test}"), also, script, inner)
        elif node in chain:
            shell = _shell(node)
            yield _Statement(Facts(shell), shell, around, needs, script, inner)
            also, inside = needs | reads(shell), inner or isinstance(node, ast.ClassDef)
            for number, part in enumerate(_parts(node)):
                where = (*around, f"{number} {ast.dump(_shell(part))}")
                for name in ("body", "orelse", "finalbody"):
                    block = getattr(part, name, [])
                    yield from _statements(block, chain, facts, (*where, name), also, script, inside)
        else:
            yield _Statement(facts(node), node, around, needs, script, inner)


def _shell(node: ast.AST) -> Any:
    """Return a compound statement, or a part of one, without what stands in it."""
    fields = ("body", "handlers", "cases", "orelse", "finalbody")
    empty: dict[str, list[ast.AST]] = {name: [] for name in fields if hasattr(node, name)}
    return ast.copy_location(type(node)(**{**dict(ast.iter_fields(node)), **empty}), node)


def _parts(node: ast.stmt) -> list[ast.AST]:
    """Return a compound statement and its handlers or cases."""
    return [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]


def _values(node: ast.stmt) -> list[ast.expr]:
    """Return what a statement gives names to."""
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return [node.value] if node.value is not None else []
    inside = list(own_nodes([node]))
    found = [part.iter for part in inside if isinstance(part, ast.For)]
    return [*found, *(part.value for part in inside if isinstance(part, ast.NamedExpr))]


def _handed(value: ast.expr) -> set[str]:
    """Return the names whose objects an expression passes on, and not only something made of them."""
    if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript, ast.Starred)):
        return root_names([value])
    if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        return {name for part in value.elts for name in _handed(part)}
    if isinstance(value, ast.Dict):
        return {name for part in value.values for name in _handed(part)}
    if isinstance(value, ast.IfExp):
        return _handed(value.body) | _handed(value.orelse)
    if isinstance(value, ast.BoolOp):
        return {name for part in value.values for name in _handed(part)}
    return _handed(value.value) if isinstance(value, ast.NamedExpr) else set()


def _changes_others(node: ast.stmt) -> bool:
    """Whether a function, or a method of a class, sets something on an object other than its own."""
    for part in ast.walk(node):
        if isinstance(part, (ast.Attribute, ast.Subscript)) and not isinstance(part.ctx, ast.Load):
            if root_names([part]) != {"self"}:
                return True
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in ("setattr", "delattr"):
            return True
    return False


def _is_constant(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Tuple):
        return all(map(_is_constant, value.elts))
    if isinstance(value, ast.UnaryOp):
        return _is_constant(value.operand)
    if isinstance(value, ast.BinOp):
        return _is_constant(value.left) and _is_constant(value.right)
    return isinstance(value, ast.Constant)
