"""The part of a document that one class needs: what a model is shown and a candidate starts from.

Kept are whole statements of the module level, with the comments right above them:

* the one that holds the class, and every `from __future__` and star import,
* each that binds or changes the class, or a name the kept ones refer to, transitively: imports, helper functions, other
  classes, constants, `try`/`except ImportError` and `if TYPE_CHECKING` blocks, settings such as
  `torch.backends.cudnn.benchmark = True`.

What `get_inputs` or a `__main__` block need is not kept, unless the class refers to it too.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from functools import cached_property

from stark_lsp.core.problem import SourceSlice
from stark_lsp.discovery.place import comment_top
from stark_lsp.discovery.syntax import BOM, BUILTINS, blocks, find_class, first_line, last_line, split_lines


class NoSuchClass(LookupError):
    """The text has no class of that name that can be reached from outside."""


class Definition:
    """One statement at module level: what it binds and what it refers to (found when asked for)."""

    def __init__(self, node: ast.stmt) -> None:
        self.node = node

    @cached_property
    def binds(self) -> frozenset[str]:
        """Names it binds or changes at its level."""
        return frozenset(_bound(self.node))

    @cached_property
    def uses(self) -> frozenset[str]:
        """Every name it refers to anywhere inside."""
        return frozenset(_used(self.node))


def slice_of(tree: ast.Module, text: str, qualname: str) -> SourceSlice:
    """Return the slice of a text, whose syntax tree is at hand, for a class.

    Raises
    ------
    NoSuchClass
        There is no class `qualname`.
    """
    kept = needed_statements(tree, qualname)
    lines = split_lines(text.removeprefix(BOM))
    wanted: set[int] = set()
    for definition in kept:
        wanted.update(range(comment_top(lines, definition.node), last_line(definition.node) + 1))
    numbers: list[int] = []
    for number in sorted(wanted):
        if numbers and number > numbers[-1] + 1:
            numbers.extend(_blank_before(lines, numbers[-1], number))
        numbers.append(number)
    return SourceSlice("".join(f"{lines[number]}\n" for number in numbers), tuple(numbers))


def needed_statements(tree: ast.Module, qualname: str, names: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    """Return the statements at module level that a class needs, its own included, in source order.

    Parameters
    ----------
    names
        Names of the module that are needed besides, such as the functions that make the inputs.

    Raises
    ------
    NoSuchClass
        There is no class `qualname`.
    """
    found = find_class(tree, qualname)
    if not found:
        raise NoSuchClass(qualname)
    target = found[-1]
    start = [
        node for node in tree.body if first_line(node) <= target.lineno - 1 <= last_line(node) or _always_kept(node)
    ]
    return closure(tree.body, start, names | {qualname.partition(".")[0]})


def closure(body: Sequence[ast.stmt], start: Sequence[ast.stmt], names: Collection[str]) -> tuple[Definition, ...]:
    """Return `start`, and of all statements those that bind or change one of `names` or a name that these refer to."""
    definitions = [Definition(node) for node in body]
    binders: dict[str, list[int]] = {}
    for index, definition in enumerate(definitions):
        if not is_main_block(definition.node):
            for name in definition.binds:
                binders.setdefault(name, []).append(index)
    kept: set[int] = set()
    pending = [index for index, definition in enumerate(definitions) if any(definition.node is node for node in start)]
    for name in names:
        pending.extend(binders.get(name, ()))
    while pending:
        index = pending.pop()
        if index in kept:
            continue
        kept.add(index)
        for name in definitions[index].uses:
            pending.extend(binders.get(name, ()))
    return tuple(definitions[index] for index in sorted(kept))


def _always_kept(node: ast.stmt) -> bool:
    if not isinstance(node, ast.ImportFrom):
        return False
    return node.module == "__future__" or any(alias.name == "*" for alias in node.names)


def is_main_block(node: ast.stmt) -> bool:
    """Say whether a statement is executed only where the file is run as a script."""
    if not isinstance(node, ast.If):
        return False
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test))


def _root(node: ast.expr) -> str | None:
    """Return `a` for `a`, `a.b` and `a[0].b`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _target_names(target: ast.expr) -> set[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return set().union(*(_target_names(part) for part in target.elts), set())
    name = _root(target)
    return {name} if name else set()


def _bound(node: ast.stmt) -> set[str]:
    names: set[str] = set()
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, (ast.Assign, ast.Delete)):
        names.update(*(_target_names(target) for target in node.targets))
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        names.update(_target_names(node.target))
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            if item.optional_vars is not None:
                names.update(_target_names(item.optional_vars))
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        root = _root(node.value.func)
        names.update({root} - BUILTINS if root else ())  # TABLE.update(...), torch.manual_seed(...), build()
    elif type(node).__name__ == "TypeAlias":  # Python 3.12
        names.update(_target_names(node.name))  # type: ignore[attr-defined]
    for block in blocks(node):
        for inner in block:
            names |= _bound(inner)
    if not isinstance(node, ast.Delete):
        for part in ast.walk(node):
            if isinstance(part, ast.NamedExpr):
                names |= _target_names(part.target)
    return names


def _used(node: ast.AST) -> set[str]:
    names: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            names.add(part.id)
        elif isinstance(part, ast.Global):
            names.update(part.names)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str) and _maybe_annotation(part.value):
            try:
                inner = ast.parse(part.value.strip(), mode="eval")
            except (SyntaxError, ValueError):
                continue
            names.update(piece.id for piece in ast.walk(inner) if isinstance(piece, ast.Name))
    return names


def _maybe_annotation(text: str) -> bool:
    """Say whether a string may be a quoted annotation; a wrong yes only keeps a statement more."""
    text = text.strip()
    return 0 < len(text) < 200 and (text[0].isalpha() or text[0] == "_") and text[-1] not in ".:" and "\n" not in text


def _blank_before(lines: list[str], previous: int, number: int) -> list[int]:
    """Return up to two empty document lines right before `number`, so that the slice reads well."""
    blank: list[int] = []
    line = number - 1
    while line > previous and len(blank) < 2 and not lines[line].strip():
        blank.insert(0, line)
        line -= 1
    return blank
