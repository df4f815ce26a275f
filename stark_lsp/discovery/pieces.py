"""A text cut at its top-level statements, so that after an edit only what was edited is read again.

1. `cut` finds where top-level statements begin. A `class` or `def` at the first column always begins one: nothing that
   is Python has it inside brackets. So a bracket that is not closed spoils its own piece and no other.
2. `recut` cuts again only between the pieces that stand where they stood, and gives what `cut` would.
3. `Piece` is what the text of a piece says about classes. Function bodies are not looked at, see `outline`.

A piece that does not parse is `broken`; of a class or function whose first line can be read, that much is known.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from stark_lsp.core.editing import LINE_END
from stark_lsp.core.parsing import last_name
from stark_lsp.discovery.outline import STRING_OR_COMMENT, header_end, mask, outline
from stark_lsp.discovery.syntax import BOM, blocks, first_line, keep_ends, parse, split_lines, targets

_DEFINITION = re.compile(r"(?:class|def|async[ \t]+def)\b")
_GOES_ON = re.compile(r"(?:else|elif|except|finally)\b")
_NAME = re.compile(r"\s*class\s+(\w+)")
_TORCH = re.compile(r"^[ \t\f]*(?:from[ \t]+torch\b|import\b[^\n]*?(?<![.\w])torch\b)", re.MULTILINE)
_WORD = re.compile(r"[^\W\d]\w*")
_NOT_FIRST = frozenset(" \t\f#)]}")


@dataclass
class Definition:
    """A class or function statement; lines are 0-based and counted from the first line of its piece."""

    name: str
    first: int
    """Its first line, decorators included."""
    last: int
    body: tuple[Fact, ...]
    """What its block says, if there is a class in it."""


@dataclass
class FunctionFact(Definition):
    """A function."""


@dataclass
class ClassFact(Definition):
    """A class."""

    bases: list[ast.expr]
    line: int
    """Line of the `class` keyword."""
    start: int
    """Column of the first character of its name, in code points."""
    end: int
    """Column after its name."""
    forward: bool
    """Whether it defines `forward`."""
    typing: bool
    """Whether it stands under `TYPE_CHECKING`."""


Fact = ClassFact | FunctionFact | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign
"""What a statement says: one that only holds others (`if`, `try`, `with`) is replaced by them."""


@dataclass(eq=False)
class Piece:
    """A run of whole lines that begins with a top-level statement, and what it says."""

    text: str
    facts: tuple[Fact, ...] = ()
    broken: bool = False
    torch: bool = False
    """Whether torch is imported anywhere in it."""
    _words: dict[int, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def count(self) -> int:
        """How many lines it has."""
        return len(split_lines(self.text))

    def words(self, definition: Definition) -> frozenset[str]:
        """Return the names in a definition of this piece, those in strings and comments left out."""
        if definition.first not in self._words:
            lines = LINE_END.split(mask(self.text))[definition.first : definition.last + 1]
            self._words[definition.first] = frozenset(_WORD.findall("\n".join(lines)))
        return self._words[definition.first]


def read(text: str) -> Piece:
    """Return a piece, read."""
    masked = mask(text.removeprefix(BOM))
    piece = Piece(text, torch=_TORCH.search(LINE_END.sub("\n", masked)) is not None)
    short = outline(masked)
    try:
        tree, ends = parse(short.text), short.ends
    except SyntaxError:
        try:
            # The outline does not decide what is wrong.
            tree, ends = parse(text), {}
        except SyntaxError:
            piece.broken = True
            tree, ends = _header(LINE_END.split(masked))
    piece.facts = tuple(_facts(tree.body, ends, split_lines(text)))
    return piece


def read_whole(text: str) -> Piece:
    """Return a whole text as one piece, without any of the shortcuts.

    Raises
    ------
    SyntaxError
        The text is not Python.
    """
    tree = parse(text)
    masked = LINE_END.sub("\n", mask(text.removeprefix(BOM)))
    return Piece(text, tuple(_facts(tree.body, {}, split_lines(text))), False, _TORCH.search(masked) is not None)


def _header(lines: list[str]) -> tuple[ast.Module, dict[int, int]]:
    """Return the definition that a piece begins with, its block empty, as far as its header can be read alone."""
    first = next((number for number, line in enumerate(lines) if _DEFINITION.match(line)), None)
    end = header_end(lines, first) if first is not None else None
    if end is not None:
        header = "\n".join([*[""] * (first or 0), *lines[first : end + 1]])
        last = max(number for number, line in enumerate(lines) if line.strip())
        try:
            return parse(f"{header} pass"), {end + 1: last + 1}
        except SyntaxError:
            pass  # then nothing is known of it
    return ast.Module([], []), {}


def _facts(statements: list[ast.stmt], ends: dict[int, int], lines: list[str], typing: bool = False) -> list[Fact]:
    found: list[Fact] = []
    for node in statements:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            if any(isinstance(target, ast.Name) for target in targets(node)):
                found.append(node)
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            end = node.end_lineno or node.lineno
            first, last = first_line(node), ends.get(end, end) - 1
            inner = tuple(_facts(node.body, ends, lines, typing))
            if not any(isinstance(fact, ClassFact) or (isinstance(fact, FunctionFact) and fact.body) for fact in inner):
                inner = ()  # its names matter to classes in it only
            if not isinstance(node, ast.ClassDef):
                found.append(FunctionFact(node.name, first, last, inner))
                continue
            forward = any(isinstance(part, ast.FunctionDef) and part.name == "forward" for part in node.body)
            start, stop = _name_columns(lines[node.lineno - 1])
            line = node.lineno - 1
            found.append(ClassFact(node.name, first, last, inner, node.bases, line, start, stop, forward, typing))
        elif isinstance(node, ast.If) and last_name(node.test) == "TYPE_CHECKING":
            found.extend(_facts(node.body, ends, lines, True))
            found.extend(_facts(node.orelse, ends, lines, typing))
        else:
            for block in blocks(node):
                found.extend(_facts(block, ends, lines, typing))
    return found


def _name_columns(line: str) -> tuple[int, int]:
    shift = 1 if line.startswith(BOM) else 0
    name = _NAME.match(line.removeprefix(BOM))
    return (name.start(1) + shift, name.end(1) + shift) if name else (0, len(line))


def cut(text: str) -> list[str]:
    """Return the pieces of a text; joined they give it."""
    masked = LINE_END.split(mask(text.removeprefix(BOM)))
    starts = [0]
    depth, decorators = 0, False
    before = 0
    goes_on, alone = False, 0
    for number, line in enumerate(masked):
        continued = goes_on
        # A backslash alone is nothing of its own: what follows it begins a statement where it would without.
        nothing = line == "\\" and not continued
        goes_on = line.endswith("\\") and not nothing
        if nothing:
            alone += 1
            continue
        first, alone = number - alone, 0
        if not line or line[0] in _NOT_FIRST or continued:
            continue
        depth += _depth(masked[before:number])
        before = number
        if _DEFINITION.match(line):
            begins = not decorators
            depth, decorators = 0, False
        elif depth > 0 or _GOES_ON.match(line):
            continue
        else:
            begins = not (decorators and line[0] == "@")
            depth, decorators = 0, line[0] == "@"
        if begins and first:
            starts.append(first)
    lines = keep_ends(text)
    return ["".join(lines[a:b]) for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]


def _depth(lines: list[str]) -> int:
    """Return how many more brackets are opened than closed."""
    text = "".join(lines)
    opened = text.count("(") + text.count("[") + text.count("{")
    return opened - text.count(")") - text.count("]") - text.count("}")


def recut(text: str, old: Sequence[Piece]) -> tuple[list[Piece], int, int]:
    """Return the pieces of a text, and how many at its beginning and at its end are those of `old`."""
    position = head = 0
    while head < len(old) and text.startswith(old[head].text, position):
        position += len(old[head].text)
        head += 1
    if head == len(old) and position == len(text):
        return list(old), head, 0
    if head:
        # Where the last of them ends depends on what follows it.
        head -= 1
        position -= len(old[head].text)
    end, tail = len(text), len(old)
    while tail > head and end - len(old[tail - 1].text) >= position and text.endswith(old[tail - 1].text, 0, end):
        tail -= 1
        end -= len(old[tail].text)
    if tail < len(old):
        # Whether the first of those begins where it did depends on what precedes it: it is cut once more.
        guard = old[tail]
        end += len(guard.text)
        middle = cut(text[position:end])
        if middle[-1] == guard.text and not _crossed(text, position, end):
            return [*old[:head], *_reread(middle[:-1], old[head:tail]), *old[tail:]], head, len(old) - tail
    return [*old[:head], *_reread(cut(text[position:]), old[head:])], head, 0


def _reread(texts: Sequence[str], old: Sequence[Piece]) -> list[Piece]:
    known = {piece.text: piece for piece in old}
    return [known.get(text) or read(text) for text in texts]


def _crossed(text: str, start: int, end: int) -> bool:
    """Whether a string that begins at or after `start`, where none is open, goes on beyond `end`."""
    for token in STRING_OR_COMMENT.finditer(text, start):
        if token.start() >= end:
            return False
        if token.end() > end:
            return True
    return False
