"""What a name in the file stands for: imports, aliases and local classes, by scope.

A name is resolved to *paths*: dotted names such as `torch.nn.Module` for what was imported, and
`<file>.Outer.Block` for classes of the file itself. It is a set, since `try`/`except ImportError` and
`if`/`else` bind one name in several ways and nothing here is executed to find out which.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache

from stark_lsp.discovery.syntax import Import, import_paths, targets

FILE = "<file>"
"""First part of the path of a class defined in the file."""

_NOT_TORCH = frozenset(
    {
        *("ast", "builtins", "libcst", "pydantic", "types", "typing"),
        *("equinox", "flax", "haiku", "jax", "keras", "mlx", "mindspore", "objax", "oneflow", "paddle", "sonnet"),
        *("tensorflow", "tinygrad"),
    }
)
"""Packages whose `Module` is not torch's."""
_NOT_MODULES = frozenset({"Parameter", "UninitializedParameter", "Buffer", "UninitializedBuffer"})
"""Classes of `torch.nn` that are no modules."""


class Scope:
    """Names bound in the file, in a class body or in a function."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.names: dict[str, set[str]] = {}
        self.stars: set[str] = set()
        """Packages imported with `*`."""

    def bind(self, name: str, paths: Iterable[str]) -> None:
        """Let `name` stand for `paths`, next to what it stands for already."""
        self.names.setdefault(name, set()).update(paths)

    def lookup(self, name: str) -> set[str]:
        """Return the paths of `name`, innermost scope first; empty if it is unknown."""
        scope = self
        while name not in scope.names and scope.parent is not None:
            scope = scope.parent
        if name in scope.names:
            return scope.names[name]
        if not name[:1].isupper() and name not in ("nn", "torch"):
            return set()
        return {f"{package}{'' if package.endswith('.') else '.'}{name}" for package in scope.stars}

    def resolve(self, expression: ast.expr) -> set[str]:
        """Return what an expression such as `nn.Module` or `Base[T]` may stand for."""
        if isinstance(expression, ast.Name):
            return self.lookup(expression.id)
        if isinstance(expression, ast.Attribute):
            return {f"{path}.{expression.attr}" for path in self.resolve(expression.value)}
        if isinstance(expression, ast.Subscript):
            return self.resolve(expression.value)
        if isinstance(expression, ast.IfExp):
            return self.resolve(expression.body) | self.resolve(expression.orelse)
        if isinstance(expression, ast.BoolOp):
            return set().union(*(self.resolve(value) for value in expression.values))
        if isinstance(expression, ast.Call):  # with_metaclass(Meta, nn.Module)
            return set().union(*(self.resolve(value) for value in expression.args), set())
        return set()

    def bind_import(self, statement: Import) -> None:
        """Record what an import statement binds."""
        for alias, name, path, module in import_paths(statement):
            if alias.name == "*":
                self.stars.add(module)
            else:
                self.bind(name, {path})

    def bind_assignment(self, statement: ast.Assign | ast.AnnAssign) -> None:
        """Record an alias such as `Base = nn.Module`; what is made by a call stands for nothing that is known."""
        value = statement.value
        paths = set[str]() if value is None or isinstance(value, ast.Call) else self.resolve(value)
        for target in targets(statement):
            if isinstance(target, ast.Name):
                self.bind(target.id, paths)


@lru_cache(maxsize=4096)
def is_module_path(path: str) -> bool:
    """Say whether an imported class is taken for a subclass of `nn.Module`.

    Classes of `torch.nn` are, by their names. Classes of other packages are when they are called `…Module`
    (`LightningModule`, `FlashModule`) or `…PreTrainedModel`: the conventions of the field. Other frameworks'
    modules are not.
    """
    parts = path.lstrip(".").split(".")
    package, name = parts[0], parts[-1]
    if package == "torch":
        if path in ("torch.jit.ScriptModule", "torch.fx.GraphModule"):
            return True
        return parts[1:2] == ["nn"] and name[:1].isupper() and name not in _NOT_MODULES
    if package in _NOT_TORCH:
        return False
    return name.endswith(("Module", "PreTrainedModel"))


def is_unknown_class(path: str) -> bool:
    """Say whether an imported class may or may not be a module, as far as its name tells."""
    package = path.lstrip(".").split(".")[0]
    return package not in _NOT_TORCH and package not in ("torch", FILE, "abc", "enum", "dataclasses", "collections")
