"""Which names a Python file binds where, and to what: enough to see through aliases.

Flow is not followed: a name means everything that is ever bound to it in its scope.
"""

from __future__ import annotations

import ast
from typing import NamedTuple, Optional, Union

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Made = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda]  # noqa: UP007 - Python 3.9


class Imported(NamedTuple):
    """A name bound by an import."""

    path: str


class Element(NamedTuple):
    """A name bound to some element of what an expression gives."""

    of: ast.expr


class SelfOf(NamedTuple):
    """The first parameter of a method."""

    cls: ast.ClassDef


Source = Union[Imported, Element, SelfOf, ast.expr, Made, None]  # noqa: UP007 - Python 3.9
"""What a name may be bound to; None for what cannot be told."""


class Bound(NamedTuple):
    """One thing a name is bound to, and where that is to be read."""

    source: Source
    scope: Scope


class Scope:
    """Names of one module, class, function or comprehension."""

    def __init__(self, node: ast.AST, parent: Optional[Scope]) -> None:  # noqa: UP045 - Python 3.9
        self.node = node
        self.parent = parent
        self.names: dict[str, list[Bound]] = {}
        self.elsewhere: set[str] = set()
        """Names declared `global` or `nonlocal`."""

    def bind(self, name: str, source: Source, seen_from: Scope | None = None) -> None:
        """Add something that the name may mean."""
        target = self
        if name in self.elsewhere:
            target = self.module()
        target.names.setdefault(name, []).append(Bound(source, seen_from or self))

    def module(self) -> Scope:
        """The scope of the file."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def find(self, name: str) -> list[Bound] | None:
        """Return what a name means here; None if nothing in the file binds it."""
        scope: Scope | None = self
        first = True
        while scope is not None:
            # Names of a class body are not seen from its methods.
            if (first or not isinstance(scope.node, ast.ClassDef)) and name in scope.names:
                return scope.names[name]
            scope, first = scope.parent, False
        return None


class Scopes(ast.NodeVisitor):
    """The scope of every node, and the attributes that are set on `self`.

    Attributes
    ----------
    of
        Scope in which a node is read.
    attributes
        For each class of the file: what `self.name = ...` and its body bind.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.top = Scope(tree, None)
        self.of: dict[ast.AST, Scope] = {}
        self.attributes: dict[ast.ClassDef, dict[str, list[Bound]]] = {}
        self._scope = self.top
        self._classes: list[ast.ClassDef] = []
        self._kept: list[tuple[ast.expr, ast.expr, Scope]] = []
        self.visit(tree)
        self._bind_kept()

    def visit(self, node: ast.AST) -> None:
        """Note the scope of a node, and go on."""
        self.of[node] = self._scope
        super().visit(node)

    # ---- scopes -----------------------------------------------------------------------------------

    def _inside(self, node: ast.AST, parts: list[ast.AST]) -> None:
        before, self._scope = self._scope, Scope(node, self._scope)
        for part in parts:
            self.visit(part)
        self._scope = before

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        arguments = node.args
        for part in [*getattr(node, "decorator_list", []), *arguments.defaults, *filter(None, arguments.kw_defaults)]:
            self.visit(part)
        scope = Scope(node, self._scope)
        body = node.body if isinstance(node.body, list) else [node.body]
        for part in _walk_own(body):
            if isinstance(part, (ast.Global, ast.Nonlocal)):
                scope.elsewhere.update(part.names)
        ordered = [*arguments.posonlyargs, *arguments.args]
        for number, argument in enumerate(ordered):
            method = number == 0 and isinstance(self._scope.node, ast.ClassDef) and not _is_static(node)
            scope.bind(argument.arg, SelfOf(self._scope.node) if method else None)  # type: ignore[arg-type]
        for argument, default in zip(reversed(ordered), reversed(arguments.defaults)):  # noqa: B905 - Python 3.9
            scope.bind(argument.arg, default, self._scope)
        for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults):  # noqa: B905 - Python 3.9
            scope.bind(argument.arg, None)
            if value is not None:
                scope.bind(argument.arg, value, self._scope)
        for rest in filter(None, (arguments.vararg, arguments.kwarg)):
            scope.bind(rest.arg, None)
        before, self._scope = self._scope, scope
        for part in body:
            self.visit(part)
        self._scope = before

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Bind the function, read its body in a scope of its own."""
        self._scope.bind(node.name, node)
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """As `visit_FunctionDef`."""
        self._scope.bind(node.name, node)
        self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Read the body in a scope of its own."""
        self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Bind the class, read its body in a scope of its own."""
        self._scope.bind(node.name, node)
        for part in [*node.decorator_list, *node.bases, *node.keywords]:
            self.visit(part)
        self.attributes[node] = {}
        self._inside(node, list(node.body))

    def _comprehension(self, node: ast.AST) -> None:
        self._inside(node, list(ast.iter_child_nodes(node)))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    # ---- bindings ---------------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        """Bind the modules."""
        for alias in node.names:
            path = alias.name if alias.asname else alias.name.partition(".")[0]
            self._scope.bind(alias.asname or path, Imported(path))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Bind what is imported."""
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            path = f"{module}.{alias.name}" if not module.endswith(".") else module + alias.name
            self._scope.bind(alias.asname or alias.name, Imported(path))

    def visit_Assign(self, node: ast.Assign) -> None:
        """Bind the targets."""
        for target in node.targets:
            self._assign(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Bind the target."""
        if node.value is not None:
            self._assign(node.target, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Bind the target to what is added as well."""
        self._assign(node.target, node.value)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """Bind the name in the scope around comprehensions."""
        scope = self._scope
        while isinstance(scope.node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)) and scope.parent:
            scope = scope.parent
        scope.bind(node.target.id, node.value, self._scope)
        self.generic_visit(node)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        """Bind the loop's variable to elements."""
        self._assign(node.target, Element(node.iter))
        self.generic_visit(node)

    visit_AsyncFor = visit_For

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Bind the loop's variable to elements."""
        self._assign(node.target, Element(node.iter))
        self.generic_visit(node)

    def visit_withitem(self, node: ast.withitem) -> None:
        """Bind what the context manager gives."""
        if node.optional_vars is not None:
            self._assign(node.optional_vars, node.context_expr)
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """Bind the exception."""
        if node.name:
            self._scope.bind(node.name, None)
        self.generic_visit(node)

    def visit_Match(self, node: ast.AST) -> None:
        """Bind what patterns capture: `case object(sys=s)` makes `s` the attribute `sys` of the subject."""
        # No annotation as `ast.Match`: Python 3.9 has none.
        subject = node.subject  # type: ignore[attr-defined]
        for case in node.cases:  # type: ignore[attr-defined]
            self._pattern(case.pattern, subject, 0)
        self.generic_visit(node)

    def _pattern(self, pattern: ast.AST, source: Source, depth: int) -> None:
        """Bind the captures of one pattern that is matched against what `source` gives."""
        kind = type(pattern).__name__
        inner = [part for part in ast.iter_child_nodes(pattern) if type(part).__name__.startswith("Match")]
        if kind in ("MatchAs", "MatchStar") and getattr(pattern, "name", None):
            self._scope.bind(pattern.name, source)  # type: ignore[attr-defined]
        if depth > 100:
            return
        if kind == "MatchClass":
            for part in pattern.patterns:  # type: ignore[attr-defined]
                self._pattern(part, None, depth + 1)
            for name, part in zip(pattern.kwd_attrs, pattern.kwd_patterns):  # type: ignore[attr-defined]  # noqa: B905
                self._pattern(part, self._member(source, name), depth + 1)
        elif kind == "MatchMapping":
            for key, part in zip(pattern.keys, pattern.patterns):  # type: ignore[attr-defined]  # noqa: B905
                self._pattern(part, self._entry(source, key), depth + 1)
            if pattern.rest:  # type: ignore[attr-defined]
                self._scope.bind(pattern.rest, source)  # type: ignore[attr-defined]
        else:
            for part in inner:
                # Which element does not matter: a display stands for all of its elements.
                first = kind == "MatchSequence" and type(part).__name__ != "MatchStar"
                self._pattern(part, self._entry(source, ast.Constant(0)) if first else source, depth + 1)

    def _member(self, source: Source, name: str) -> ast.expr | None:
        if not isinstance(source, ast.expr):
            return None
        made = ast.copy_location(ast.Attribute(source, name, ast.Load()), source)
        self.of[made] = self._scope
        return made

    def _entry(self, source: Source, key: ast.expr) -> ast.expr | None:
        if not isinstance(source, ast.expr):
            return None
        made = ast.copy_location(ast.Subscript(source, key, ast.Load()), source)
        self.of[made] = self._scope
        return made

    def _assign(self, target: ast.expr, source: Source) -> None:
        if isinstance(target, ast.Name):
            self._scope.bind(target.id, source)
            if isinstance(self._scope.node, ast.ClassDef) and target.id not in self._scope.elsewhere:
                self.attributes[self._scope.node].setdefault(target.id, []).append(Bound(source, self._scope))
        elif isinstance(target, ast.Starred):
            self._assign(target.value, None)
        elif isinstance(target, (ast.Tuple, ast.List)):
            values = source.elts if isinstance(source, (ast.Tuple, ast.List)) else None
            paired = values is not None and len(values) == len(target.elts)
            for number, element in enumerate(target.elts):
                if paired and values is not None:
                    self._assign(element, values[number])
                else:
                    self._assign(element, Element(source) if isinstance(source, ast.expr) else source)
        elif isinstance(target, ast.Subscript):
            if isinstance(source, ast.expr):
                self._kept.append((target.value, source, self._scope))
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            for bound in self._scope.find(target.value.id) or []:
                if isinstance(bound.source, SelfOf):
                    found = self.attributes.setdefault(bound.source.cls, {})
                    found.setdefault(target.attr, []).append(Bound(source, self._scope))

    def _bind_kept(self) -> None:
        """`box[key] = value` makes the value one more element of what `box` names."""
        for box, value, scope in self._kept:
            display = ast.copy_location(ast.List([value], ast.Load()), value)
            self.of[display] = scope
            bound = Bound(display, scope)
            if isinstance(box, ast.Name):
                bounds = scope.find(box.id)
                if bounds is not None:
                    bounds.append(bound)
            elif isinstance(box, ast.Attribute) and isinstance(box.value, ast.Name):
                for owner in scope.find(box.value.id) or []:
                    if isinstance(owner.source, SelfOf):
                        self.attributes.setdefault(owner.source.cls, {}).setdefault(box.attr, []).append(bound)


def _is_static(node: ast.AST) -> bool:
    return any(getattr(item, "id", "") == "staticmethod" for item in getattr(node, "decorator_list", []))


def _walk_own(body: list[ast.stmt] | list[ast.expr]) -> list[ast.AST]:
    """Return all nodes below, without those of functions and classes inside."""
    found: list[ast.AST] = []
    queue: list[ast.AST] = list(body)
    while queue:
        node = queue.pop()
        found.append(node)
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            queue.extend(ast.iter_child_nodes(node))
    return found
