"""What earlier proposals put into a file, and whether it was edited since.

A class is recognised by the provenance comment right above it. Its kernels are the statements between the comment that
opens them and the class, as far as the class reaches them. A digest in the provenance comment tells whether somebody
edited any of that; formatting does not count, comments do.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import io
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stark_lsp.discovery.layout import LineEdit
from stark_lsp.discovery.place import Place, comment_top, end_with_comments, places
from stark_lsp.discovery.slicing import Definition
from stark_lsp.discovery.syntax import first_line, last_line
from stark_lsp.proposals.provenance import FIRST_WORDS, Mark, kernels_of, read_mark
from stark_lsp.proposals.scopes import FUNCTION, declared_global, reads, stored, without


@dataclass(frozen=True)
class Accepted:
    """A class that an accepted proposal brought."""

    place: Place
    mark: Mark | None
    """None in files of before there were marks."""
    start: int
    """First line of the provenance comment."""
    end: int
    """Line behind the class."""
    kernels: tuple[ast.stmt, ...]
    """Statements that came with it and that it reaches."""
    digest: str
    """Of what is there now."""

    @property
    def qualname(self) -> str:
        """Its own dotted name."""
        return self.place.prefix + self.place.node.name

    @property
    def intact(self) -> bool:
        """Whether it is known to be as it was accepted."""
        return self.mark is not None and self.mark.digest == self.digest

    @property
    def inside(self) -> bool:
        """Whether it stands in another statement, beside the class that it stands in for, which does not need it."""
        return len(self.place.chain) > 1 and self.mark is not None and self.mark.qualname != self.qualname

    def unused_kernels(self, tree: ast.Module) -> tuple[ast.stmt, ...]:
        """Return the kernels that nothing but the class, and each other, uses."""
        left = list(self.kernels)
        rest = without(tree.body, {id(self.place.node), *map(id, left)})
        elsewhere = {name for statement in rest for name in _mentioned(statement)}
        while used := [statement for statement in left if _touched(statement) & elsewhere]:
            left = [statement for statement in left if statement not in used]
            elsewhere.update(*map(_mentioned, used))
        return tuple(left)


def find_accepted(tree: ast.Module, lines: Sequence[str]) -> list[Accepted]:
    """Return what accepted proposals left in a document, in source order; `lines` are the document's."""
    found: list[Accepted] = []
    for place in places(tree):
        node = place.node
        above = range(comment_top(lines, node), first_line(node))
        start = next((n for n in above if lines[n].strip().startswith(FIRST_WORDS) or read_mark(lines[n])), None)
        if start is None:
            continue
        mark = next((mark for number in reversed(above) if (mark := read_mark(lines[number]))), None)
        end = end_with_comments(lines, node) + 1
        kernels = _kernels(lines, place)
        spans = [(comment_top(lines, kernel), last_line(kernel) + 1) for kernel in kernels] + [(start, end)]
        digest = digest_of([*kernels, node], [line for first, last in spans for line in lines[first:last]])
        found.append(Accepted(place, mark, start, end, tuple(kernels), digest))
    return found


def nested_in(tree: ast.Module, lines: Sequence[str]) -> set[int]:
    """Return the ids of what accepted proposals put inside other statements of the module level."""
    found = [accepted for accepted in find_accepted(tree, lines) if accepted.inside]
    return {id(node) for accepted in found for node in (accepted.place.node, *accepted.kernels)}


def cut(lines: Sequence[str], node: ast.stmt) -> LineEdit:
    """Return the edit that takes a statement away, with its comments and the empty lines above."""
    top = comment_top(lines, node)
    while top > 0 and not lines[top - 1].strip():
        top -= 1
    return LineEdit(top, last_line(node) + 1, ())


def digest_of(nodes: Iterable[ast.AST], lines: Sequence[str]) -> str:
    """Return a digest of what statements mean and of the comments in their lines; it is the same in every Python."""
    words = [word for comment in _comments(lines) for word in comment.split()]
    text = "\0".join([*map(_canonical, nodes), *words])
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]


def _kernels(lines: Sequence[str], place: Place) -> list[ast.stmt]:
    """Return the statements between the opening comment of a class's kernels and the class that the class reaches."""
    qualname = place.prefix + place.node.name
    names = {qualname, place.node.name}  # the short one in files of before there were marks
    region: list[ast.stmt] = []
    inside = False
    for statement in place.block:
        if statement is place.outer:
            break
        opened = [kernels_of(line) for line in lines[comment_top(lines, statement) : first_line(statement)]]
        last = next((name for name in reversed(opened) if name), None)
        inside = last in names if last else inside
        if inside:
            region.append(statement)
    reached: list[ast.stmt] = []
    wanted = reads(place.node)
    while found := [statement for statement in region if _touched(statement) & wanted]:
        region = [statement for statement in region if statement not in found]
        reached.extend(found)
        wanted.update(*(reads(statement) for statement in found))
    return sorted(reached, key=lambda statement: statement.lineno)


def _touched(statement: ast.stmt) -> frozenset[str]:
    """Return the names that a statement binds or changes, or may once it is called."""
    return Definition(statement).binds | stored([statement]) | declared_global(statement)


def _mentioned(statement: ast.stmt) -> set[str]:
    """Return the names of the module level that a statement reads, those in quotes (`__all__`, getattr) included."""
    texts = (part.value for part in ast.walk(statement) if isinstance(part, ast.Constant))
    return reads(statement) | {text for text in texts if isinstance(text, str) and text.isidentifier()}


def _canonical(node: object) -> str:
    """Return a syntax tree as text: what it means, in words that no version of Python changes."""
    if isinstance(node, ast.AST):
        fields = [
            f"{name}={_canonical(_clean(node) if name == 'body' else value)}"
            for name, value in ast.iter_fields(node)
            if value not in (None, []) and name not in ("ctx", "kind", "type_comment")
        ]
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(_canonical, node))}]"
    return repr(node)


def _clean(node: ast.AST) -> object:
    """Return the body of a node, its docstring without the indentation that formatters change."""
    body: list[ast.stmt] = getattr(node, "body", [])
    if isinstance(node, (*FUNCTION, ast.ClassDef)) and (text := ast.get_docstring(node, clean=False)) is not None:
        text = "\n".join(line.rstrip() for line in inspect.cleandoc(text).strip().split("\n"))
        return [ast.Expr(ast.Constant(text)), *body[1:]]
    return body


def _comments(lines: Sequence[str]) -> list[str]:
    """Return the comments in whole statements, marks left out."""
    text = "\n".join(lines) + "\n"
    found = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and read_mark(token.string) is None
    ]
    return [comment.lstrip("#").strip() for comment in found]
