"""Names by scope: which of the module level a piece of Python reads, binds or changes.

A variable of a function, lambda or comprehension hides the module's name inside it; one of a class body does so only
for the class body itself. Where that is not clear, the answer is the larger one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from stark_lsp.discovery.syntax import parse

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSION = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

Scoped = tuple[ast.AST, frozenset[str]]
"""A node, and the names that scopes around it hide."""


def arguments_of(arguments: ast.arguments) -> frozenset[str]:
    """Return the names of a function's parameters."""
    return frozenset(part.arg for part in ast.walk(arguments) if isinstance(part, ast.arg))


def hidden_in(function: ast.FunctionDef | ast.AsyncFunctionDef, hidden: frozenset[str]) -> frozenset[str]:
    """Return the names that are hidden in the body of a function, given those that are where it stands."""
    declared = {name for node in own_nodes(function.body) if isinstance(node, ast.Global) for name in node.names}
    return (hidden | arguments_of(function.args) | stored(function.body)) - declared


def variables_of(node: Comprehension) -> frozenset[str]:
    """Return the names that a comprehension gives to what it goes through."""
    parts = (part for generator in node.generators for part in ast.walk(generator.target))
    return frozenset(part.id for part in parts if isinstance(part, ast.Name))


def own_nodes(statements: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, not descending into scopes inside it."""
    pending = list(statements)
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, COMPREHENSION):
            pending.extend(part for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
        elif not isinstance(node, (*FUNCTION, ast.ClassDef, ast.Lambda)):
            pending.extend(_children(node))


def _children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right below one, as `ast.iter_child_nodes` does but without contexts, and quicker."""
    if isinstance(node, (ast.Name, ast.Constant)):
        return []
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found.extend(part for part in value if isinstance(part, ast.AST))
        elif isinstance(value, ast.AST) and name != "ctx":
            found.append(value)
    return found


def stored(statements: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that a scope binds or unbinds itself; a star import counts for none."""
    return frozenset(name for node in own_nodes(statements) for name in stored_by(node))


def stored_by(node: ast.AST) -> set[str]:
    """Return the names that a node itself, not one inside it, binds or unbinds in its scope."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        return {node.id}
    if isinstance(node, (*FUNCTION, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names if alias.name != "*"}
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        return {node.name}
    return {node.rest} if isinstance(node, ast.MatchMapping) and node.rest else set()


def declared_global(node: ast.AST) -> frozenset[str]:
    """Return the names that anything inside declares as `global`, and so may bind."""
    return frozenset(name for part in ast.walk(node) if isinstance(part, ast.Global) for name in part.names)


def walk(node: ast.AST, *, later: bool = True) -> Iterator[Scoped]:
    """Yield every node inside, each with the names hidden from it.

    Parameters
    ----------
    node
        A statement or expression of the module level.
    later
        Whether bodies of functions count, too, which are executed only once they are called.
    """
    pending: list[Scoped] = [(node, frozenset())]
    while pending:
        part, hidden = pending.pop()
        yield part, hidden
        if isinstance(part, FUNCTION):
            now = [*part.decorator_list, *_defaults(part.args), *annotations_of(part)]
            pending.extend((inner, hidden) for inner in now)
            if later:
                own = hidden_in(part, hidden)
                pending.extend((inner, own) for inner in part.body)
        elif isinstance(part, ast.Lambda):
            pending.extend((inner, hidden) for inner in _defaults(part.args))
            if later:
                pending.append((part.body, hidden | arguments_of(part.args)))
        elif isinstance(part, COMPREHENSION):
            first = part.generators[0].iter
            own = hidden | variables_of(part)
            pending.append((first, hidden))
            for child in _children(part):
                inside = _children(child) if isinstance(child, ast.comprehension) else [child]
                pending.extend((inner, own) for inner in inside if inner is not first)
        else:
            pending.extend((inner, hidden) for inner in _children(part))


def reads(node: ast.AST, *, later: bool = True) -> set[str]:
    """Return the names of the module level that a piece reads; those it binds itself before are among them."""
    return {name for part, hidden in walk(node, later=later) for name in _read_by(part) if name not in hidden}


def changes(node: ast.AST, *, later: bool = True) -> set[str]:
    """Return the names of the module level whose objects a piece changes: `Model.forward = f`, `setattr(Model, …)`."""
    return {name for part, hidden in walk(node, later=later) for name in _changed_by(part) if name not in hidden}


def reads_and_changes(node: ast.AST) -> tuple[set[str], set[str]]:
    """Return what `reads` and `changes` do, the latter with what is `global`, in one go."""
    read: set[str] = set()
    changed: set[str] = set()
    for part, hidden in walk(node):
        read.update(name for name in _read_by(part) if name not in hidden)
        changed.update(name for name in _changed_by(part) if name not in hidden)
        if isinstance(part, ast.Global):
            changed.update(part.names)
    return read, changed


def _read_by(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.Name):
        return () if isinstance(node.ctx, ast.Store) else (node.id,)
    if isinstance(node, ast.AugAssign):
        return root_names([node.target])
    return {name for annotation in annotations_of(node) for name in _quoted(annotation)}


def _changed_by(node: ast.AST) -> Iterable[str]:
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        return root_names([node])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
        return root_names(node.args[:1])
    return ()


def root_names(expressions: Iterable[ast.expr]) -> set[str]:
    """Return `a` for each `a`, `a.b` and `a[0].b`."""
    names: set[str] = set()
    for expression in expressions:
        while isinstance(expression, (ast.Attribute, ast.Subscript, ast.Starred)):
            expression = expression.value
        if isinstance(expression, ast.Name):
            names.add(expression.id)
    return names


def without(statements: Iterable[ast.stmt], gone: set[int]) -> list[ast.stmt]:
    """Return statements without those whose ids are in `gone`, at whatever depth; what changes is copied."""
    kept: list[ast.stmt] = []
    for statement in statements:
        if id(statement) not in gone:
            kept.append(statement if isinstance(statement, FUNCTION) else _pruned(statement, gone))
    return kept


def _pruned(node: ast.stmt, gone: set[int]) -> ast.stmt:
    changed: dict[str, list[ast.AST]] = {}
    for field in ("body", "handlers", "cases", "orelse", "finalbody"):
        inner = getattr(node, field, None)
        if not isinstance(inner, list) or not inner:
            continue
        if isinstance(inner[0], ast.stmt):
            new: list[ast.AST] = [*without(inner, gone)] or [ast.Pass()]
        else:
            new = [_pruned(part, gone) for part in inner]
        if len(new) != len(inner) or any(a is not b for a, b in zip(new, inner, strict=True)):
            changed[field] = new
    if not changed:
        return node
    return ast.copy_location(type(node)(**{**dict(ast.iter_fields(node)), **changed}), node)


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)]


def annotations_of(node: ast.AST) -> list[ast.expr]:
    """Return the annotations that belong to a statement itself."""
    if isinstance(node, ast.AnnAssign):
        return [node.annotation]
    if not isinstance(node, FUNCTION):
        return []
    found = [part.annotation for part in ast.walk(node.args) if isinstance(part, ast.arg)]
    return [annotation for annotation in [*found, node.returns] if annotation is not None]


def _quoted(annotation: ast.expr) -> set[str]:
    """Return the names in the quoted parts of an annotation."""
    names: set[str] = set()
    for part in ast.walk(annotation):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            try:
                inner = parse(part.value.strip())
            except SyntaxError:
                continue
            names.update(piece.id for piece in ast.walk(inner) if isinstance(piece, ast.Name))
    return names
