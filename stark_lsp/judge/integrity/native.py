"""The functions of a C++ or CUDA source: their names, what qualifies them, and what they mention."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from .preprocess import Include, Preprocessed, preprocess
from .tokens import IDENTIFIER, STRING, Token
from .words import listed

_NOT_NAMES = listed(
    "__launch_bounds__ __attribute__ __attribute alignas decltype noexcept __declspec requires __cluster_dims__ "
    "__block_size__ __maxnreg__ __align__ asm __asm__ __asm if for while switch return sizeof alignof"
)
_TYPE_WORDS = ("class", "struct", "union", "enum")
ALWAYS_ROOTS = ("PYBIND11_MODULE", "TORCH_LIBRARY", "TORCH_LIBRARY_FRAGMENT", "TORCH_LIBRARY_IMPL", "main")


@dataclass
class Function:
    """One function with a body."""

    name: str
    header: list[Token]
    body: list[Token]
    at: Token
    """The token of its name."""
    extern_c: bool
    outer: bool
    """At file or `extern "C"` level: not a member, not in a named namespace."""

    @cached_property
    def words(self) -> set[str]:
        """The identifiers of the header."""
        return {token.text for token in self.header if token.kind == IDENTIFIER}

    @property
    def is_kernel(self) -> bool:
        """Whether it is a `__global__` function."""
        return "__global__" in self.words

    @property
    def is_private(self) -> bool:
        """Whether no other library can see it."""
        return bool(self.words & {"static", "__device__", "__global__", "template", "inline", "__inline__"})

    @cached_property
    def mentions(self) -> set[str]:
        """The identifiers of the body."""
        return {token.text for token in self.body if token.kind == IDENTIFIER}


@dataclass
class Unit:
    """One C++ or CUDA source."""

    text: str
    tokens: list[Token]
    includes: list[Include]
    pragmas: list[list[Token]]
    functions: list[Function] = field(default_factory=list)
    loose: list[Token] = field(default_factory=list)
    """Tokens outside functions."""
    members: set[int] = field(default_factory=set)
    """Those of them, by identity, that are in the body of a class."""

    @cached_property
    def roots(self) -> set[str]:
        """Identifiers that run when the library is loaded, or that a binding names."""
        found: set[str] = set()
        for function in self.functions:
            if function.name in ALWAYS_ROOTS or function.name.startswith("TORCH_LIBRARY"):
                found |= function.mentions
        value = False
        for token in self.loose:
            if token.text in ("=", ";", "}"):
                value = token.text == "="
            elif value and token.kind == IDENTIFIER:
                found.add(token.text)
        return found


def parse(text: str) -> Unit:
    """Read a source.

    Raises
    ------
    preprocess.TooMuch
        Its macros expand to too much text.
    """
    made: Preprocessed = preprocess(text)
    unit = Unit(text, made.tokens, made.includes, made.pragmas)
    _find_functions(unit)
    return unit


def _find_functions(unit: Unit) -> None:
    tokens = unit.tokens
    scopes: list[str] = []
    header: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if "type" in scopes:
            unit.members.add(id(token))
        if token.text == "{":
            kind = _kind_of(header)
            named = _name_of(header) if kind == "" else None
            if named is not None:
                end = closing(tokens, at)
                extern = _extern_c(header) or "extern" in scopes
                outer = all(scope == "extern" for scope in scopes)
                unit.functions.append(Function(named.text, header, tokens[at + 1 : end], named, extern, outer))
                header, at = [], end + 1
                continue
            if kind == "":
                # An initialiser or something unknown: what is in it belongs to the declaration.
                unit.loose += header
                end = closing(tokens, at)
                unit.loose += tokens[at : end + 1]
                header, at = [], end + 1
                continue
            scopes.append(kind)
            unit.loose += [*header, token]
            header = []
        elif token.text == "}":
            if scopes:
                scopes.pop()
            unit.loose += [*header, token]
            header = []
        elif token.text == ";":
            unit.loose += [*header, token]
            header = []
        elif token.text == ":" and len(header) == 1 and header[0].text in ("public", "private", "protected"):
            header = []
        else:
            header.append(token)
        at += 1
    unit.loose += header


def _extern_c(header: list[Token]) -> bool:
    return any(
        a.text == "extern" and b.kind == STRING and b.value == "C"
        for a, b in zip(header, header[1:])  # noqa: B905, RUF007 - Python 3.9
    )


def _kind_of(header: list[Token]) -> str:
    """Return what kind of scope a header opens; empty for a function or an initialiser."""
    words = [token.text for token in header]
    if words and words[0] in ("namespace", "inline") and "namespace" in words[:2]:
        return "namespace"
    if len(header) == 2 and words[0] == "extern" and header[1].kind == STRING:
        return "extern"
    outside, depth, angle = [], 0, 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if depth == 0:
            angle += word.count("<") * (word in ("<", "<<", "<<<")) - word.count(">") * (word in (">", ">>", ">>>"))
            if angle <= 0:
                outside.append(word)
    if any(word in _TYPE_WORDS for word in outside) and "(" not in _without_attributes(outside) and "=" not in outside:
        return "type"
    return ""


def _without_attributes(words: list[str]) -> list[str]:
    """Drop the parentheses that belong to `alignas(...)` and attributes; their contents are gone already."""
    out: list[str] = []
    for word in words:
        if word == "(" and out and out[-1] in _NOT_NAMES:
            continue
        out.append(word)
    return out


def _name_of(header: list[Token]) -> Token | None:
    """Return the name of the function that a header declares, None if it declares none."""
    at, size = 0, len(header)
    while at < size:
        text = header[at].text
        if text == "template" and at + 1 < size and header[at + 1].text == "<":
            at = _after_angles(header, at + 1)
            continue
        if text == "=":
            # `operator=` is a name, anything else an initialiser.
            if at and header[at - 1].text == "operator":
                return header[at - 1]
            return None
        if text == "(":
            before = header[at - 1] if at else None
            if before is not None and before.kind == IDENTIFIER and before.text not in _NOT_NAMES:
                return before
            if before is not None and any(token.text == "operator" for token in header[max(0, at - 3) : at]):
                return before
            at = _after_parentheses(header, at)
            continue
        at += 1
    return None


def _after_angles(tokens: list[Token], at: int) -> int:
    depth = 0
    while at < len(tokens):
        text = tokens[at].text
        if text == "(":
            at = _after_parentheses(tokens, at)
            continue
        if text in ("<", "<<", "<<<"):
            depth += len(text)
        elif text in (">", ">>", ">>>"):
            depth -= len(text)
            if depth <= 0:
                return at + 1
        at += 1
    return at


def _after_parentheses(tokens: list[Token], at: int) -> int:
    depth = 0
    while at < len(tokens):
        depth += (tokens[at].text == "(") - (tokens[at].text == ")")
        at += 1
        if depth == 0:
            break
    return at


def closing(tokens: list[Token], at: int) -> int:
    """Return the index of the `}` that closes the `{` at `at`."""
    depth = 0
    for index in range(at, len(tokens)):
        depth += (tokens[index].text == "{") - (tokens[index].text == "}")
        if depth == 0:
            return index
    return len(tokens)
