"""What a string expression says, as far as it can be told without running it."""

from __future__ import annotations

import ast
from typing import NamedTuple

from .scopes import Bound, Scope, Scopes

LIMIT = 1 << 20
"""Longest text that is put together."""
DEPTH = 40
HOLE = "\N{OBJECT REPLACEMENT CHARACTER}"
"""Stands for a part that is only known at run time."""


class Text(NamedTuple):
    """A text put together, and where its parts come from."""

    value: str
    parts: tuple[tuple[int, ast.Constant], ...]
    """Offset at which each literal begins."""

    @property
    def whole(self) -> bool:
        """Whether all of it is known."""
        return HOLE not in self.value

    def line(self, offset: int) -> int:
        """Return the line of the file that an offset of the text is on."""
        begin, node = 0, None
        for start, part in self.parts:
            if node is None or start <= offset:
                begin, node = start, part
        if node is None:
            return 1
        line = node.lineno + self.value.count("\n", begin, max(begin, offset))
        return min(line, node.end_lineno or line)


def join(texts: list[Text]) -> Text | None:
    """Put texts one after another; None if they are too long."""
    value, parts, size = [], [], 0
    for text in texts:
        parts += [(size + start, node) for start, node in text.parts]
        value.append(text.value)
        size += len(text.value)
    return Text("".join(value), tuple(parts)) if size <= LIMIT else None


class Folder:
    """Folds string expressions of one file.

    Parameters
    ----------
    scopes
        What the names of the file mean.
    """

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes
        self._busy: set[ast.AST] = set()
        self._known: dict[ast.AST, Text | None] = {}

    def fold(self, node: ast.AST, scope: Scope | None = None, depth: int = 0) -> Text | None:
        """Return what an expression says; None if it is no text or nothing of it is known."""
        if node in self._known:
            return self._known[node]
        if depth > DEPTH or node in self._busy:
            return None
        self._busy.add(node)
        try:
            text = self._fold(node, scope or self._scopes.of.get(node, self._scopes.top), depth + 1)
        finally:
            self._busy.discard(node)
        self._known[node] = text
        return text

    def _fold(self, node: ast.AST, scope: Scope, depth: int) -> Text | None:
        if isinstance(node, ast.Constant):
            return _constant(node)
        if isinstance(node, ast.Name):
            return self._bound(scope.find(node.id), depth)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope, depth)
        if isinstance(node, ast.JoinedStr):
            texts = []
            for part in node.values:
                value = part.value if isinstance(part, ast.FormattedValue) else part
                texts.append(self.fold(value, scope, depth) or Text(HOLE, ()))
            return join(texts)
        if isinstance(node, ast.BinOp):
            return self._operation(node, scope, depth)
        if isinstance(node, ast.NamedExpr):
            return self.fold(node.value, scope, depth)
        if isinstance(node, ast.IfExp):
            return self.fold(node.body, scope, depth) or self.fold(node.orelse, scope, depth)
        if isinstance(node, ast.Subscript):
            return self._slice(node, scope, depth)
        if isinstance(node, ast.Call):
            return self._call(node, scope, depth)
        return None

    def _bound(self, bounds: list[Bound] | None, depth: int) -> Text | None:
        known = [bound for bound in bounds or [] if isinstance(bound.source, ast.expr)]
        if len(known) == 1:
            return self.fold(known[0].source, known[0].scope, depth)  # type: ignore[arg-type]
        # Built up step by step (`text += ...`), or one of several: read all of it.
        texts = [self.fold(bound.source, bound.scope, depth) for bound in known]  # type: ignore[arg-type]
        return join([text for text in texts if text is not None]) if any(texts) else None

    def _attribute(self, node: ast.Attribute, scope: Scope, depth: int) -> Text | None:
        for attributes in self._scopes.attributes.values():
            if node.attr in attributes:
                return self._bound(attributes[node.attr], depth)
        return None

    def _operation(self, node: ast.BinOp, scope: Scope, depth: int) -> Text | None:
        if isinstance(node.op, ast.Add):
            # A chain of additions leans to the left and may be long.
            parts, first = [node.right], node.left
            while isinstance(first, ast.BinOp) and isinstance(first.op, ast.Add):
                parts.append(first.right)
                first = first.left
            parts.append(first)
            texts = [self.fold(part, scope, depth) for part in reversed(parts)]
            return join([text or Text(HOLE, ()) for text in texts]) if any(texts) else None
        left = self.fold(node.left, scope, depth)
        if left is not None and isinstance(node.op, ast.Mod):
            value = left.value
            given = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            for item in given:
                said = self.fold(item, scope, depth)
                value = _replace(value, "%s", said.value if said else HOLE, 1)
            return Text(value, left.parts)
        if left is not None and isinstance(node.op, ast.Mult) and isinstance(node.right, ast.Constant):
            count = node.right.value
            if isinstance(count, int) and 0 < count * len(left.value) <= LIMIT:
                return Text(left.value * count, left.parts)
        return None

    def _slice(self, node: ast.Subscript, scope: Scope, depth: int) -> Text | None:
        base = node.value
        if isinstance(node.slice, ast.Slice):
            text = self.fold(base, scope, depth)
            bounds = [_number(part) for part in (node.slice.lower, node.slice.upper, node.slice.step)]
            if text is None or False in bounds or bounds[2] == 0:
                return None
            return Text(text.value[slice(*bounds)], text.parts)
        return None

    def _call(self, node: ast.Call, scope: Scope, depth: int) -> Text | None:
        function = node.func
        if isinstance(function, ast.Name) and scope.find(function.id) is None and node.args:
            if function.id == "chr" and isinstance(node.args[0], ast.Constant):
                code = node.args[0].value
                return Text(chr(code), ()) if isinstance(code, int) and 0 <= code < 0x110000 else None
            if function.id in ("str", "repr", "ascii"):
                return self.fold(node.args[0], scope, depth)
            return None
        if isinstance(function, ast.Attribute) and function.attr == "dedent" and node.args:
            return self.fold(node.args[0], scope, depth)
        if isinstance(function, ast.Name) and function.id == "dedent" and node.args:
            return self.fold(node.args[0], scope, depth)
        if not isinstance(function, ast.Attribute):
            return None
        if function.attr == "fromhex" and len(node.args) == 1:
            said = self.fold(node.args[0], scope, depth)
            return _from_hex(said.value) if said else None
        base = self.fold(function.value, scope, depth)
        if base is None:
            return None
        return self._method(function.attr, base, node, scope, depth)

    def _method(self, name: str, base: Text, node: ast.Call, scope: Scope, depth: int) -> Text | None:
        arguments = [self.fold(argument, scope, depth) for argument in node.args]
        said = [argument.value if argument else HOLE for argument in arguments]
        if name in ("lower", "upper", "title", "swapcase", "capitalize", "casefold"):
            return Text(getattr(base.value, name)(), base.parts)
        if name in ("strip", "lstrip", "rstrip") and not node.args:
            return Text(getattr(base.value, name)(), base.parts)
        if name in ("encode", "decode", "expandtabs", "__str__"):
            return base
        if name == "replace" and len(said) >= 2 and said[0]:
            return Text(_replace(base.value, said[0], said[1]), base.parts)
        if name == "join" and node.args and isinstance(node.args[0], (ast.List, ast.Tuple)):
            texts: list[Text] = []
            for item in node.args[0].elts:
                texts += ([base] if texts else []) + [self.fold(item, scope, depth) or Text(HOLE, ())]
            return join(texts)
        if name in ("format", "substitute", "safe_substitute", "format_map"):
            value = base.value
            for keyword in node.keywords:
                given = self.fold(keyword.value, scope, depth)
                if keyword.arg:
                    for mark in (f"{{{keyword.arg}}}", f"${keyword.arg}", f"${{{keyword.arg}}}"):
                        value = _replace(value, mark, given.value if given else HOLE)
            for number, argument in enumerate(said):
                value = _replace(_replace(value, f"{{{number}}}", argument), "{}", argument, 1)
            if name in ("format", "format_map"):
                value = value.replace("{{", "{").replace("}}", "}")
            return Text(value, base.parts)
        return None


def _constant(node: ast.Constant) -> Text | None:
    if isinstance(node.value, str):
        return Text(node.value, ((0, node),))
    if isinstance(node.value, bytes):
        return Text(node.value.decode("latin-1"), ((0, node),))
    if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        try:
            return Text(str(node.value), ())
        except ValueError:  # an integer with more digits than Python writes
            return None
    return None


def _replace(value: str, old: str, new: str, count: int = -1) -> str:
    """As `str.replace`; what would grow too long is left as it is."""
    times = value.count(old) if count < 0 else count
    return value.replace(old, new, count) if len(value) + times * len(new) <= LIMIT else value


def _number(node: ast.expr | None) -> int | bool | None:
    """Return a constant whole number, None if there is none, False if it is something else."""
    if node is None:
        return None
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return value if isinstance(value, int) else False


def _from_hex(text: str) -> Text | None:
    try:
        return Text(bytes.fromhex(text).decode("latin-1"), ())
    except ValueError:
        return None
