"""The classes a C++ source defines, and the variables it declares right after them."""

from __future__ import annotations

from typing import NamedTuple

from .native import Unit, closing
from .preprocess import TooMuch
from .tokens import IDENTIFIER, Token
from .words import listed

WORK = 3_000_000
"""Tokens in all bodies together, those inside of others counted again."""
_KEYS = listed("struct class union")
_NOT_NAMES = listed("alignas __align__ final __attribute__")


class Record(NamedTuple):
    """One `struct`, `class` or `union` with a body."""

    name: str
    """Empty for one without a name."""
    at: Token
    body: list[Token]
    runs: bool
    """Whether it has a constructor or destructor with statements: making an object of it runs code."""
    after: list[Token]
    """What stands between its `}` and the `;`: variables."""
    local: bool
    """Defined inside of a function."""
    static: bool
    """`static` or `thread_local` stands before it."""


def records_of(unit: Unit) -> list[Record]:
    """Return the classes of a source, in order.

    Raises
    ------
    preprocess.TooMuch
        Classes in classes, deeper than in any honest file.
    """
    tokens = unit.tokens
    inside = {id(token) for function in unit.functions for token in function.body}
    found: list[Record] = []
    read = 0
    for at, token in enumerate(tokens):
        if token.text not in _KEYS or (at and tokens[at - 1].text in ("enum", "<", ",")):
            continue
        opening = _opening(tokens, at)
        if opening is None:
            continue
        names = [
            part.text for part in tokens[at + 1 : opening] if part.kind == IDENTIFIER and part.text not in _NOT_NAMES
        ]
        name = names[0] if names else ""
        end = closing(tokens, opening)
        after: list[Token] = []
        for part in tokens[end + 1 : end + 60]:
            if part.text == ";":
                break
            after.append(part)
        body = tokens[opening + 1 : end]
        read += len(body)
        if read > WORK:
            raise TooMuch
        before = {part.text for part in tokens[max(0, at - 4) : at]}
        found.append(
            Record(
                name,
                token,
                body,
                _runs(name, body),
                after,
                id(token) in inside,
                bool(before & {"static", "thread_local"}),
            )
        )
    return found


def _opening(tokens: list[Token], at: int) -> int | None:
    """Return where the body of the class at `at` begins, None if it is only named there."""
    for index in range(at + 1, min(len(tokens), at + 60)):
        if tokens[index].text == "{":
            return index
        if tokens[index].text in (";", "=", "&", "*", ">") or (
            tokens[index].text in ("(", ")") and not {part.text for part in tokens[at:index]} & _NOT_NAMES
        ):
            return None
    return None


def _runs(name: str, body: list[Token]) -> bool:
    depth = 0
    for index, token in enumerate(body):
        depth += (token.text == "{") - (token.text == "}")
        if depth or token.text != name or not name or index + 1 >= len(body) or body[index + 1].text != "(":
            continue
        if index and body[index - 1].text in ("constexpr", "::", "return", "new", ".", "->"):
            continue
        rest = body[index + 1 :]
        end = next((at for at, part in enumerate(rest) if part.text in ("{", ";")), None)
        if end is None or rest[end].text == ";":
            # `= default`, `= delete`; only declared here, it has its statements elsewhere.
            if not {part.text for part in rest[: end or 0]} & {"default", "delete"}:
                return True
        elif any(part.text in ("(", "=", "++", "--") for part in rest[end + 1 : end + 1 + _length(rest, end)]):
            return True
    return False


def _length(tokens: list[Token], opening: int) -> int:
    return closing(tokens, opening) - opening - 1
