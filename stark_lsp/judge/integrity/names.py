"""What expressions refer to, as dotted paths: `t = torch.cuda; t.Event` is `torch.cuda.Event`.

Seen through: imports, assignments, walrus, loops over displays, parameters of functions called in the file, what those
return, `getattr` and `vars` with texts that can be folded, `globals()`, `sys.modules`, `__import__`. The result of any
other call is the path of the called with `()`.
"""

from __future__ import annotations

import ast
from collections import deque

from .scopes import Bound, Element, Imported, Scope, Scopes, SelfOf
from .spellings import Spellings
from .strings import Folder
from .words import listed

MANY = 24
"""Paths that one expression may have."""
DEPTH = 60
LENGTH = 200
WORK = 400_000
"""Steps in reading one file: a long honest one needs some ten thousand."""
STANDARD = listed(
    "os sys subprocess builtins ctypes importlib gc inspect threading _thread multiprocessing socket pickle "
    "marshal shutil time signal atexit tempfile pathlib io urllib http codecs base64 types operator runpy "
    "pkgutil posix mmap asyncio concurrent resource faulthandler linecache traceback functools glob"
)
"""Standard modules that other modules import: `torch.utils.cpp_extension.os` is `os`."""
_SAME_NAME = ("torch.types", "torch.multiprocessing", "numpy.ctypeslib")
BUILTINS = "builtins."


def canonical(path: str) -> str:
    """Return a path as short as it is known: through a module to the standard module it imported."""
    parts = path.split(".")
    if parts[0] == "__builtins__":
        parts[0] = "builtins"
    for at in range(len(parts) - 1, 0, -1):
        before = ".".join(parts[:at])
        if parts[at] in STANDARD and not {"(", "["} & set(before) and ".".join(parts[: at + 1]) not in _SAME_NAME:
            if parts[0] == "os" and parts[at] == "path":
                break
            return ".".join(parts[at:])
    return ".".join(parts)


class Tangled(Exception):
    """The names of a file lead through more turns than an honest file has."""


class Names:
    """Resolves the expressions of one file.

    Parameters
    ----------
    tree, scopes, folder
        The parsed file, its scopes, its texts.
    """

    def __init__(self, tree: ast.Module, scopes: Scopes, folder: Folder) -> None:
        self.scopes = scopes
        self.folder = folder
        self._known: dict[ast.AST, frozenset[str]] = {}
        self._busy: set[ast.AST] = set()
        self._work = 0
        self.spellings = Spellings(tree, scopes, folder)
        self._bind_arguments(tree)

    def of(self, node: ast.AST) -> frozenset[str]:
        """Return the paths an expression may refer to; empty if it cannot be told."""
        return self._resolve(node, 0)

    def functions(self, node: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef]:
        """Return the functions and classes of the file that an expression may refer to."""
        return self._made(node, 0)

    def _step(self) -> None:
        self._work += 1
        if self._work > WORK:
            raise Tangled

    # ---- calls in the file ------------------------------------------------------------------------

    def _bind_arguments(self, tree: ast.Module) -> None:
        """Bind the parameters of functions in the file to what they are called with."""
        found: list[tuple[Scope, str, ast.expr, Scope]] = []
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            for function in self._made(node.func, 0)[:4]:
                if isinstance(function, ast.ClassDef):
                    continue
                # Parameters live in the scope that the body is read in.
                body = function.body[0] if isinstance(function.body, list) else function.body
                scope = self.scopes.of.get(body)
                if scope is None:
                    continue
                ordered = [argument.arg for argument in [*function.args.posonlyargs, *function.args.args]]
                if ordered and isinstance(scope.names.get(ordered[0], [Bound(None, scope)])[0].source, SelfOf):
                    ordered = ordered[1:]
                here = self.scopes.of.get(node, self.scopes.top)
                for name, value in zip(ordered, node.args):  # noqa: B905 - Python 3.9
                    if not isinstance(value, ast.Starred):
                        found.append((scope, name, value, here))
                for keyword in node.keywords:
                    if keyword.arg:
                        found.append((scope, keyword.arg, keyword.value, here))
        for scope, name, value, here in found:
            bounds = scope.names.get(name)
            if bounds is not None and len(bounds) < MANY:
                bounds.append(Bound(value, here))

    # ---- functions --------------------------------------------------------------------------------

    def _made(
        self, node: ast.AST, depth: int
    ) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef]:
        self._step()
        if depth > 8:
            return []
        if isinstance(node, ast.Lambda):
            return [node]
        bounds: list[Bound] = []
        if isinstance(node, ast.Name):
            scope = self.scopes.of.get(node, self.scopes.top)
            bounds = scope.find(node.id) or []
        elif isinstance(node, ast.Attribute):
            bounds = self.attribute_bounds(node, depth)
        found = []
        for bound in bounds[:MANY]:
            source = bound.source
            if isinstance(source, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                found.append(source)
            elif isinstance(source, ast.expr):
                found += self._made(source, depth + 1)
        return found

    def attribute_bounds(self, node: ast.Attribute, depth: int = 0) -> list[Bound]:
        """Return what an attribute of a class of the file, or of `self`, is bound to."""
        classes: list[ast.ClassDef] = []
        if isinstance(node.value, ast.Name):
            scope = self.scopes.of.get(node.value, self.scopes.top)
            for bound in scope.find(node.value.id) or []:
                if isinstance(bound.source, SelfOf):
                    classes.append(bound.source.cls)
        classes += [made for made in self._made(node.value, depth + 1) if isinstance(made, ast.ClassDef)]
        found: list[Bound] = []
        for cls in classes:
            found += self.scopes.attributes.get(cls, {}).get(node.attr, [])
            for item in cls.body:
                if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name == node.attr:
                    found.append(Bound(item, self.scopes.top))
        return found

    # ---- paths ------------------------------------------------------------------------------------

    def _resolve(self, node: ast.AST, depth: int) -> frozenset[str]:
        if node in self._known:
            return self._known[node]
        self._step()
        if depth > DEPTH or node in self._busy:
            return frozenset()
        self._busy.add(node)
        try:
            found = self._paths(node, depth + 1)
        finally:
            self._busy.discard(node)
        kept = frozenset(sorted(path for path in map(canonical, found) if len(path) <= LENGTH)[:MANY])
        self._known[node] = kept
        return kept

    def _paths(self, node: ast.AST, depth: int) -> set[str]:
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, depth)
        if isinstance(node, (ast.NamedExpr, ast.Await, ast.Starred)):
            return set(self._resolve(node.value, depth))
        if isinstance(node, ast.IfExp):
            return set(self._resolve(node.body, depth) | self._resolve(node.orelse, depth))
        if isinstance(node, ast.BoolOp):
            return set().union(*(self._resolve(value, depth) for value in node.values))
        return set()

    def _name(self, node: ast.Name, depth: int) -> set[str]:
        scope = self.scopes.of.get(node, self.scopes.top)
        bounds = scope.find(node.id)
        if bounds is None:
            return {BUILTINS + node.id} if node.id != "__builtins__" else {"builtins"}
        return self._bounds(bounds, depth)

    def _bounds(self, bounds: list[Bound], depth: int) -> set[str]:
        found: set[str] = set()
        for bound in bounds[:MANY]:
            source = bound.source
            if isinstance(source, Imported):
                found.add(source.path)
            elif isinstance(source, Element):
                found |= self._elements(source.of, depth)
            elif isinstance(source, ast.expr):
                found |= self._resolve(source, depth)
        return found

    def _attribute(self, node: ast.Attribute, depth: int) -> set[str]:
        found = {f"{base}.{node.attr}" for base in self._resolve(node.value, depth)}
        return found | self._bounds(self.attribute_bounds(node, 0), depth)

    def _call(self, node: ast.Call, depth: int) -> set[str]:
        found: set[str] = set()
        for path in self._resolve(node.func, depth):
            if path == "builtins.getattr" and len(node.args) >= 2:
                found |= self._member(node.args[0], node.args[1], depth)
                if len(node.args) > 2:
                    found |= self._resolve(node.args[2], depth)
            elif path in ("builtins.__import__", "importlib.import_module") and node.args:
                said = self.folder.fold(node.args[0])
                found.add(
                    said.value.split(".")[0] if said and path.startswith(BUILTINS) else said.value if said else "?"
                )
            elif path == "builtins.vars" and node.args:
                found |= {f"{base}.__dict__" for base in self._resolve(node.args[0], depth)}
            elif path in ("builtins.globals", "builtins.locals", "builtins.vars"):
                found.add("@globals")
            elif path in ("operator.attrgetter()", "operator.itemgetter()") and node.args:
                found |= self._got(node, depth)
            elif path in ("builtins.iter", "builtins.next", "builtins.list", "builtins.tuple", "builtins.reversed"):
                found |= self._elements(node.args[0], depth) if node.args else set()
            elif path in ("builtins.type", "builtins.super", "functools.partial") and node.args:
                found |= self._resolve(node.args[0], depth) if path.startswith("functools") else set()
            else:
                found.add(f"{path}()")
        for made in self._made(node.func, 0)[:4]:
            found |= self._returned(made, depth)
        return found

    def _returned(self, made: ast.AST, depth: int) -> set[str]:
        if isinstance(made, ast.Lambda):
            return set(self._resolve(made.body, depth))
        found: set[str] = set()
        if isinstance(made, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in own_nodes(made):
                if isinstance(part, (ast.Return, ast.Yield)) and part.value is not None:
                    found |= self._resolve(part.value, depth)
        return found

    def _got(self, node: ast.Call, depth: int) -> set[str]:
        """What `operator.attrgetter("a.b")(x)` gives."""
        getter = node.func
        if not isinstance(getter, ast.Call) or not getter.args:
            return set()
        said = self.folder.fold(getter.args[0])
        name = said.value if said else "?"
        return {f"{base}.{name}" for base in self._resolve(node.args[0], depth)}

    def _member(self, base: ast.expr, name: ast.expr, depth: int) -> set[str]:
        words = self.spellings.of(name) or ["?"]
        found = {f"{path}.{word}" for path in self._resolve(base, depth) for word in words}
        for word in words:
            attribute = ast.Attribute(base, word, ast.Load())
            found |= self._bounds(self.attribute_bounds(attribute, 0), depth)
        return found

    def _subscript(self, node: ast.Subscript, depth: int) -> set[str]:
        found: set[str] = set()
        for base in self._resolve(node.value, depth):
            said = self.folder.fold(node.slice)
            word = said.value if said is not None and said.whole else "?"
            if base == "sys.modules":
                found |= {"sys.modules[]", word} if word != "?" else {"sys.modules[]"}
            elif base == "@globals":
                found |= self._bounds(self.scopes.top.names.get(word, []), depth) or {BUILTINS + word}
            elif base.endswith(".__dict__"):
                found.add(f"{base[: -len('.__dict__')]}.{word}")
            else:
                found.add(f"{base}[]")
        return found | self._elements(node.value, depth)

    def _elements(self, node: ast.expr, depth: int) -> set[str]:
        """Return what the elements of a display may be."""
        self._step()
        if depth > DEPTH:
            return set()
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return set().union(*(self._resolve(item, depth) for item in node.elts[:MANY]), set())
        if isinstance(node, ast.Dict):
            return set().union(*(self._resolve(item, depth) for item in node.values[:MANY]), set())
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return set(self._resolve(node.elt, depth))
        bounds: list[Bound] = []
        if isinstance(node, ast.Name):
            bounds = self.scopes.of.get(node, self.scopes.top).find(node.id) or []
        elif isinstance(node, ast.Attribute):
            bounds = self.attribute_bounds(node, 0)
        elif isinstance(node, ast.Call):
            # `zip`, `enumerate`, `dict.values()` and the like hand on what they are given.
            passed = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
            return set().union(*(self._elements(part, depth + 1) for part in passed[:MANY]), set())
        found: set[str] = set()
        for bound in bounds[:MANY]:
            if isinstance(bound.source, ast.expr) and bound.source is not node and bound.source not in self._busy:
                self._busy.add(bound.source)
                try:
                    found |= self._elements(bound.source, depth + 1)
                finally:
                    self._busy.discard(bound.source)
        return found


def own_nodes(node: ast.AST) -> list[ast.AST]:
    """Return all nodes below, without those of functions and classes inside."""
    found: list[ast.AST] = []
    queue = deque(ast.iter_child_nodes(node))
    while queue:
        part = queue.popleft()
        found.append(part)
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            queue.extend(ast.iter_child_nodes(part))
    return found
