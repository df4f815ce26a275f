"""Where a class is constructed, so that an accepted one can take its place there.

Only `Model(…)` counts, by scope: in the file of the class, and in files that import it by name; and `isinstance(x,
Model)`, which is to be true of the new one as well. What the class is compared by stays: the class itself, whatever
proposals brought, functions that make inputs, and tests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from stark_lsp.core.editing import Replacement
from stark_lsp.core.errors import BadInput
from stark_lsp.core.parsing import PYTHON
from stark_lsp.discovery.syntax import BOM, first_line, keep_ends, parse, split_lines
from stark_lsp.proposals.accepted import Accepted, find_accepted
from stark_lsp.proposals.scopes import own_nodes, stored, stored_by, walk

_KEPT = re.compile(r"get_(init_)?inputs(_for_\w+)?|test\w*|Test\w*")
"""Functions and classes in which the original is the reference."""
_SOURCES = ("src", "lib", "python")
"""Folders that projects put on the path, besides their root."""


def is_test(path: Path) -> bool:
    """Whether a file is a test, or belongs to tests."""
    return path.name.startswith(("test_", "conftest.")) or path.stem.endswith("_test") or "tests" in path.parts


def accepted_class(text: str, qualname: str) -> Accepted:
    """Return the accepted class of a document with a dotted name.

    Raises
    ------
    BadInput
        There is none, or the text is not Python.
    """
    try:
        found = find_accepted(parse(text), split_lines(text.removeprefix(BOM)))
    except SyntaxError as error:
        raise BadInput(f"The file is not valid {PYTHON}: {error.msg}.", cure="Mend the line first.") from error
    one = next((one for one in found if one.qualname == qualname and one.mark is not None), None)
    if one is None:
        raise BadInput(f"{qualname} is no class that STARK brought.", cure="Accept a proposal first.")
    return one


def own_sites(text: str, new: Accepted) -> tuple[Replacement, ...]:
    """Return the changes of a document that construct an accepted class of it in place of the original one.

    Raises
    ------
    BadInput
        One of the two cannot be named wherever the other one can, or the original's name has several meanings.
    """
    assert new.mark is not None
    name, tree = new.mark.qualname, parse(text)
    if "." in name or "." in new.qualname or name == new.qualname:
        raise BadInput(f"{new.qualname} does not stand beside {name} at the top of the file.")
    if sum(name in stored_by(node) for node in own_nodes(tree.body)) != 1:
        raise BadInput(f"{name} has more than one meaning in this file.", cure="Change the call sites by hand.")
    ours = {first_line(node) for one in find_accepted(tree, split_lines(text.removeprefix(BOM))) for node in
            (one.place.node, *one.kernels)}  # fmt: skip
    sites: list[tuple[ast.Name, str]] = []
    for statement in tree.body:
        named = getattr(statement, "name", "")
        if first_line(statement) in ours or named == name or _KEPT.fullmatch(named):
            continue
        at_once = {id(site) for site, _ in _sites(statement, name, new.qualname, later=False)}
        # What is executed with the module must not come before the new class.
        sites += [(site, text) for site, text in _sites(statement, name, new.qualname)
                  if id(site) not in at_once or first_line(statement) >= new.end]  # fmt: skip
    return tuple(_put(text, sites))


def importing_sites(text: str, path: Path, defining: Path, name: str, new: str) -> tuple[Replacement, ...]:
    """Return the changes of another file that construct `new` in place of `name`, both of the file `defining`.

    Nothing where the file does not import it by name, or gives one of the names another meaning.
    """
    try:
        tree = parse(text)
    except SyntaxError:
        return ()
    found = [
        (node, alias)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and _leads_to(node, path, defining)
        for alias in node.names
        if alias.name == name
    ]
    nodes = list(own_nodes(tree.body))
    if len(found) != 1 or any(new in stored_by(node) for node in nodes):
        return ()
    alias = found[0][1]
    local = alias.asname or name
    if sum(local in stored_by(node) for node in nodes) != 1:
        return ()
    kept = [statement for statement in tree.body if not _KEPT.fullmatch(getattr(statement, "name", ""))]
    changes = _put(text, [site for statement in kept for site in _sites(statement, local, new)])
    if not changes:
        return ()
    words = len(re.findall(rf"\b{re.escape(local)}\b", text))
    start, end = _place(text, alias.lineno, alias.col_offset), _place(text, alias.end_lineno, alias.end_col_offset)
    if words == sum(change.new_text == new for change in changes) + 1 and alias.asname is None:
        return (Replacement(*start, *end, new), *changes)  # nothing else in the file needs the old name
    return (Replacement(*end, *end, f", {new}"), *changes)


def _sites(statement: ast.stmt, name: str, new: str, *, later: bool = True) -> Iterator[tuple[ast.Name, str]]:
    """Yield the names in `name(…)` and `isinstance(…, name)` where they mean the module's, with what they become."""
    hiding = {
        id(inner)
        for node in ast.walk(statement)
        if isinstance(node, ast.ClassDef) and name in stored(node.body)
        for inner in ast.walk(node)
    }
    for node, hidden in walk(statement, later=later):
        if not isinstance(node, ast.Call) or name in hidden or id(node) in hiding:
            continue
        called, kinds = getattr(node.func, "id", ""), node.args[1] if len(node.args) == 2 else None
        if isinstance(node.func, ast.Name) and called == name:
            yield node.func, new
        elif called in ("isinstance", "issubclass") and isinstance(kinds, ast.Name) and kinds.id == name:
            yield kinds, f"({name}, {new})"
        elif called in ("isinstance", "issubclass") and isinstance(kinds, ast.Tuple):
            names = [one for one in kinds.elts if isinstance(one, ast.Name)]
            if new not in (one.id for one in names):
                yield from ((one, f"{name}, {new}") for one in names if one.id == name)


def _put(text: str, sites: Iterable[tuple[ast.Name, str]]) -> list[Replacement]:
    lines = keep_ends(text)
    changes = set()
    for site, new in sites:
        line, column = _place(text, site.lineno, site.col_offset)
        # Positions inside f-strings are wrong before Python 3.12.
        if lines[line][column:].startswith(site.id):
            changes.add((line, column, line, column + len(site.id), new))
    return [Replacement(*change) for change in sorted(changes)]


def _place(text: str, line: int | None, byte_column: int | None) -> tuple[int, int]:
    """Return the 0-based line and column in code points of a place in a syntax tree."""
    number = (line or 1) - 1
    mark = 1 if number == 0 and text.startswith(BOM) else 0
    content = keep_ends(text)[number][mark:]
    return number, mark + len(content.encode()[: byte_column or 0].decode(errors="ignore"))


def _leads_to(node: ast.ImportFrom, path: Path, defining: Path) -> bool:
    """Whether `from … import` in the file at `path` is from the file `defining`."""
    parts = node.module.split(".") if node.module else []
    target = defining.parent if defining.name == "__init__.py" else defining.with_suffix("")
    if node.level:
        base = path.parents[node.level - 1] if node.level <= len(path.parents) else None
        return base is not None and base.joinpath(*parts) == target
    if not parts or list(target.parts[-len(parts) :]) != parts:
        return False
    root = target.parents[len(parts) - 1]
    if (root / "__init__.py").exists():
        return False
    return root in path.parents or (root.name in _SOURCES and root.parent in path.parents)
