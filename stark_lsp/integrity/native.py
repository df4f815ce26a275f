"""C++ and CUDA as words: comments and literals set apart, directives, and the functions that a text defines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stark_lsp.integrity.facts import listed

NAME, STRING, OTHER = "name", "string", "other"
_TOKENS = re.compile(
    r"""
    (?P<directive>(?m:^)[ \t]*(?:\#|%:)(?:\\\r?\n|/\*.*?(?:\*/|\Z)|[^\n])*)
    |(?P<skip>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)|[^\S\n]+|\n|\\\r?\n)
    |(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^\s()\\"]{0,16})\((?P<inside>.*?)(?:\)(?P=mark)"|\Z))
    |(?:u8|[uUL])?"(?P<string>(?:\\.|[^"\\\n])*)"?
    |(?P<char>'(?:\\.|[^'\\\n])*'?)
    |(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
    |(?P<name>[A-Za-z_$]\w*)
    |(?P<other><<<|>>>|::|->|==|!=|<=|>=|.)
    """,
    re.DOTALL | re.VERBOSE,
)
_INCLUDE = re.compile(
    r"\s*(?:\#|%:)\s*(?P<what>include(?:_next)?|import|embed)\b\s*(?:<(?P<a>[^>\n]*)>|\"(?P<b>[^\"\n]*)\")?"
)
_DEFINE = re.compile(r"\s*(?:\#|%:)\s*define\s+(?P<name>\w+)(?P<rest>.*)", re.DOTALL)
_NOT_NAMES = listed(
    "__launch_bounds__ __attribute__ __attribute alignas decltype noexcept __declspec requires __cluster_dims__ "
    "__block_size__ __maxnreg__ __align__ asm __asm__ if for while switch return sizeof catch defined"
)


class Token(NamedTuple):
    """A word, a literal or a mark."""

    kind: str
    text: str
    """Of a literal: what is between its quotes."""
    at: int


@dataclass(frozen=True)
class Include:
    """One `#include` or `#embed`."""

    name: str
    """Empty where a macro tells it."""
    embeds: bool
    at: int


@dataclass(frozen=True)
class Function:
    """One function with a body."""

    name: str
    kernel: bool
    exported: bool
    """`extern "C"` and not `static`."""
    outer: bool
    """In no class and no namespace, and seen by other libraries."""
    begin: int
    """Index of its name among the tokens."""
    end: int
    """Index of the `}` that ends it."""


@dataclass
class Unit:
    """One source."""

    tokens: list[Token] = field(default_factory=list)
    includes: list[Include] = field(default_factory=list)
    defined: set[str] = field(default_factory=set)
    """Names of macros."""
    macros: list[Token] = field(default_factory=list)
    """What macros stand for."""
    functions: list[Function] = field(default_factory=list)


def read(text: str) -> Unit:
    """Read a source."""
    unit = Unit()
    _scan(text, 0, unit, unit.tokens)
    _find_functions(unit)
    return unit


def _scan(text: str, start: int, unit: Unit, into: list[Token]) -> None:
    for found in _TOKENS.finditer(text):
        at = start + found.start()
        kind = found.lastgroup
        if kind == "directive":
            _directive(found[0], at, unit)
        elif kind == "name":
            into.append(Token(NAME, found[0], at))
        elif kind in ("string", "raw"):
            said = found["inside"] if kind == "raw" else found["string"]
            into.append(Token(STRING, said.replace("\\\n", ""), at))
        elif kind != "skip":
            into.append(Token(OTHER, found[0], at))


def _directive(text: str, at: int, unit: Unit) -> None:
    if include := _INCLUDE.match(text.replace("\\\n", "")):
        unit.includes.append(Include(include["a"] or include["b"] or "", include["what"] == "embed", at))
    elif define := _DEFINE.match(text):
        unit.defined.add(define["name"])
        # A blank before it, so that `#` at its start is no directive.
        _scan(f" {define['rest']}".replace("\n#", "\n "), at + define.start("rest") - 1, unit, unit.macros)
        unit.macros.append(Token(OTHER, ";", at))


def _find_functions(unit: Unit) -> None:
    """Go through braces; what stands before one since the last statement says what it opens."""
    tokens = unit.tokens
    opened: list[tuple[str, Function | None]] = []
    inside = dict.fromkeys(("body", "extern", "namespace", "type"), 0)
    begin = 0
    for at, token in enumerate(tokens):
        if token.kind != OTHER or token.text not in "{};":
            continue
        if token.text == "{":
            kind = "body" if inside["body"] else _kind(tokens, begin, at)
            made = None if inside["body"] or kind != "body" else _function(tokens, begin, at, inside)
            opened.append((kind, made))
            inside[kind] += 1
        elif token.text == "}" and opened:
            kind, made = opened.pop()
            inside[kind] -= 1
            if made is not None:
                unit.functions.append(replace(made, end=at))
        begin = at + 1
    # What was cut off counts all the same.
    unit.functions += [replace(made, end=len(tokens)) for _, made in opened if made is not None]


def _function(tokens: list[Token], begin: int, end: int, inside: dict[str, int]) -> Function | None:
    name = _name(tokens, begin, end)
    if name is None:
        return None
    words = {part.text for part in tokens[begin:end] if part.kind == NAME}
    kernel = "__global__" in words
    exported = (inside["extern"] > 0 or _extern_c(tokens, begin, end)) and not kernel and "static" not in words
    outer = not inside["namespace"] and not inside["type"] and "static" not in words and "__device__" not in words
    return Function(tokens[name].text, kernel, exported, outer, name, end)


def _extern_c(tokens: list[Token], begin: int, end: int) -> bool:
    return any(
        tokens[at].text == "extern" and tokens[at + 1].kind == STRING and tokens[at + 1].text == "C"
        for at in range(begin, end - 1)
    )


def _kind(tokens: list[Token], begin: int, end: int) -> str:
    """Return what a brace opens: `extern`, `namespace`, `type` or `body`."""
    words = [token.text for token in tokens[begin:end]]
    if len(words) == 2 and words[0] == "extern":
        return "extern"
    if "namespace" in words[:2]:
        return "namespace"
    plain = [word for word in words if word in ("struct", "class", "union", "enum")]
    if plain and _name(tokens, begin, end) is None and "=" not in words:
        return "type"
    return "body"


def _name(tokens: list[Token], begin: int, end: int) -> int | None:
    """Return the index of the name before the first `(` of a header that is no attribute's, None if there is none."""
    depth = angle = 0
    skipping = False
    for at in range(begin, end):
        text = tokens[at].text
        if tokens[at].kind == STRING:
            continue
        if text == "(":
            if depth == 0 and angle <= 0 and at > begin and not skipping:
                before = tokens[at - 1]
                if before.kind == NAME and before.text not in _NOT_NAMES:
                    return at - 1
            depth += 1
        elif text == ")":
            depth -= 1
        elif depth == 0:
            if text == "<" and at > begin and tokens[at - 1].kind == NAME:
                angle += 1
            elif text in (">", ">>>") and angle > 0:
                angle -= 1
            elif text == "=" and angle <= 0:
                return None
    return None
