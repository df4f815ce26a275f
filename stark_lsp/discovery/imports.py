"""Where new imports go in a file: each where isort would put it, the user's own lines unmoved.

1. Standard-library imports join the document's, in order if those are in order; where there are none they get a
   block of their own above the first import.
2. Imports of packages join the block that has the same package, or the first block of packages.
3. All others go behind the imports at the head of the file.

The order is that of isort's default profile (`import` before `from`, then by module, then by name), see
https://pycqa.github.io/isort/docs/configuration/options.html.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum

from stark_lsp.discovery.layout import LineEdit
from stark_lsp.discovery.place import future_line, import_line, line_after
from stark_lsp.discovery.syntax import Import, first_line, last_line, parse

Key = tuple[bool, tuple[tuple[int, int, str], ...], tuple[tuple[int, int, str], ...], str]

FUTURE = "__future__"


class Section(IntEnum):
    """The parts that a file's imports fall into, in their order."""

    FUTURE = 0
    STDLIB = 1
    PACKAGE = 2
    RELATIVE = 3


def section_of(node: Import) -> Section:
    """Return the section of an import; a first-party package counts as a package."""
    if isinstance(node, ast.ImportFrom) and node.level:
        return Section.RELATIVE
    package = _package(node)
    if package == FUTURE:
        return Section.FUTURE
    return Section.STDLIB if package in sys.stdlib_module_names else Section.PACKAGE


def arranged(imports: Iterable[str]) -> list[str]:
    """Return import statements in order, with an empty line between sections."""
    found = sorted(
        ((section_of(node), _key(node), text) for text, node in _parsed(imports)), key=lambda entry: entry[:2]
    )
    lines: list[str] = []
    previous: Section | None = None
    for section, _, text in found:
        lines += [""] if previous not in (None, section) else []
        lines.append(text)
        previous = section
    return lines


def import_edits(tree: ast.Module, lines: Sequence[str], imports: Sequence[str], before: int) -> list[LineEdit]:
    """Return the edits that bring import statements into a document, in order.

    Parameters
    ----------
    imports
        New statements, one line each, none from `__future__`.
    before
        Line of the statement that needs them.
    """
    head = _Head(tree, lines, before)
    if not imports:
        return []
    if not head.nodes:
        return [head.first(arranged(imports))]
    waiting: dict[tuple[int, bool, Section], list[tuple[Key, str]]] = {}
    for text, node in _parsed(imports):
        waiting.setdefault((*head.spot(node), section_of(node)), []).append((_key(node), text))
    edits: list[LineEdit] = []
    for (spot, _, section), entries in sorted(waiting.items()):
        above, below = head.room(section, spot)
        edits.append(LineEdit(spot, spot, (*above, *(text for _, text in sorted(entries)), *below)))
    return edits


class _Head:
    """The imports at the head of a document."""

    def __init__(self, tree: ast.Module, lines: Sequence[str], before: int) -> None:
        self.tree = tree
        self.lines = lines
        self.top = future_line(tree, lines)
        self.end = import_line(tree, lines, before)
        self.nodes: list[Import] = [
            node
            for node in tree.body
            if isinstance(node, (ast.Import, ast.ImportFrom))
            and last_line(node) < self.end
            and section_of(node) is not Section.FUTURE
        ]

    def first(self, new: list[str]) -> LineEdit:
        """Return the edit for the first imports of a document."""
        line = self.top
        above = [""] if line > 0 else []
        below = [""] if line < len(self.lines) and self.lines[line].strip() else []
        return LineEdit(line, line, (*above, *new, *below))

    def spot(self, node: Import) -> tuple[int, bool]:
        """Return the line before which a new import goes, and whether it belongs to what is below."""
        section = section_of(node)
        block = self._block(section, _package(node)) or self._block(section)
        if not block:
            later = self._later(section)
            return (self.end if later is None else self._before(later)), True
        key, keys = _key(node), [_key(member) for member in block]
        if keys == sorted(keys):
            for member, other in zip(block, keys, strict=True):
                if other > key:
                    return self._before(member), True
        return line_after(self.tree, block[-1]), False

    def room(self, section: Section, spot: int) -> tuple[list[str], list[str]]:
        """Return the empty lines above and below new imports of a section."""
        if self._block(section):
            return [], []
        if self._later(section) is None:
            return [""], []
        futures = [node for node in self.tree.body if isinstance(node, ast.ImportFrom) and _package(node) == FUTURE]
        return ([""] if any(line_after(self.tree, node) == spot for node in futures) else []), [""]

    def _later(self, section: Section) -> Import | None:
        """Return the first import of a later section."""
        return next((node for node in self.nodes if section_of(node) > section), None)

    def _block(self, section: Section, package: str | None = None) -> list[Import]:
        """Return the imports of a section in the first run that has one, of `package` if that is given."""
        runs: list[list[Import]] = []
        for node in self.nodes:
            if runs and self._joined(runs[-1][-1], node):
                runs[-1].append(node)
            else:
                runs.append([node])
        for run in runs:
            members = [node for node in run if section_of(node) is section]
            if any(package in (None, _package(node)) for node in members):
                return members
        return []

    def _joined(self, upper: Import, lower: Import) -> bool:
        """Whether nothing but comments stands between two imports."""
        return all(self.lines[line].startswith("#") for line in range(last_line(upper) + 1, first_line(lower)))

    def _before(self, node: ast.stmt) -> int:
        """Return the line before a statement and the comments right above it, those that head the file apart."""
        line, others = first_line(node), self.tree.body
        while reaching := [other for other in others if first_line(other) < line <= last_line(other)]:
            line = min(first_line(other) for other in reaching)
        floor = max((last_line(other) + 1 for other in others if last_line(other) < line), default=0)
        top = line
        while top > floor and self.lines[top - 1].startswith("#"):
            top -= 1
        return max(line if top == 0 else top, self.top)


def _parsed(imports: Iterable[str]) -> list[tuple[str, Import]]:
    found: list[tuple[str, Import]] = []
    for text in imports:
        (node,) = parse(text).body
        assert isinstance(node, (ast.Import, ast.ImportFrom))
        found.append((text, node))
    return found


def _module(node: Import) -> str:
    return node.names[0].name if isinstance(node, ast.Import) else node.module or ""


def _package(node: Import) -> str:
    return _module(node).partition(".")[0]


def _key(node: Import) -> Key:
    first = node.names[0]
    plain = isinstance(node, ast.Import)
    return (not plain, _natural(_module(node)), () if plain else _natural(first.name), first.asname or "")


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that orders names without regard to case, and numbers in them by value."""
    parts = re.findall(r"\d+|\D+", name)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part.lower()) for part in parts)
