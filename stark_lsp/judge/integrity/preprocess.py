"""What the preprocessor makes of a source: includes, macros, and the tokens that are left.

Every branch of a conditional is read. Macros are expanded as far as names matter: object-like and function-like
ones, joined tokens (`##`) and stringified arguments.
"""

from __future__ import annotations

from typing import NamedTuple

from .tokens import HEADER, IDENTIFIER, PUNCTUATION, STRING, Token, tokenize

LIMIT = 300_000
"""Tokens after expansion: more than any honest file, little enough to read in a second."""
DEPTH = 24


class TooMuch(Exception):
    """The macros of a source expand to more than an honest kernel needs.

    Attributes
    ----------
    line
        1-based line of the file that the source begins on, if it is known.
    """

    line: int | None = None


class Macro(NamedTuple):
    """One `#define`."""

    parameters: tuple[str, ...] | None
    """None for an object-like macro."""
    body: tuple[Token, ...]


class Include(NamedTuple):
    """One `#include` or `#embed`."""

    name: str
    """Header between its quotes; empty if it cannot be told."""
    token: Token
    directive: str


class Preprocessed(NamedTuple):
    """A source after its directives."""

    tokens: list[Token]
    includes: list[Include]
    pragmas: list[list[Token]]
    """Each from the word `pragma` on."""


def preprocess(text: str) -> Preprocessed:
    """Read the directives of a source.

    Raises
    ------
    TooMuch
        Its macros expand to too much text.
    """
    return _Preprocessor(tokenize(text)).run()


class _Preprocessor:
    def __init__(self, tokens: list[Token]) -> None:
        self._in = tokens
        self._macros: dict[str, list[Macro]] = {}
        """Every definition that may hold: those in branches of conditionals do not replace each other."""
        self._depth = 0
        self._out: list[Token] = []
        self._includes: list[Include] = []
        self._pragmas: list[list[Token]] = []
        self._made = 0

    def run(self) -> Preprocessed:
        at, size = 0, len(self._in)
        while at < size:
            if self._in[at].text == "#" and self._in[at].fresh:
                end = at + 1
                while end < size and not self._in[end].fresh:
                    end += 1
                self._directive(self._in[at + 1 : end])
            else:
                # A macro's arguments may go over several lines, but not over a directive.
                end = at + 1
                while end < size and not (self._in[end].text == "#" and self._in[end].fresh):
                    end += 1
                self._out += self._expand(self._in[at:end], frozenset(), 0)
            at = end
        return Preprocessed(self._out, self._includes, self._pragmas)

    def _directive(self, line: list[Token]) -> None:
        if not line:
            return
        word, rest = line[0].text, line[1:]
        if word in ("include", "include_next", "import", "embed"):
            self._includes.append(Include(self._header(rest), rest[0] if rest else line[0], word))
        elif word == "pragma":
            self._pragmas.append(line)
        elif word in ("if", "ifdef", "ifndef"):
            self._depth += 1
        elif word == "endif":
            self._depth = max(0, self._depth - 1)
        elif word == "undef" and rest and not self._depth:
            self._macros.pop(rest[0].text, None)
        elif word == "define" and rest and rest[0].kind == IDENTIFIER:
            self._define(rest)

    def _header(self, rest: list[Token]) -> str:
        if rest and rest[0].kind == HEADER:
            return rest[0].value
        made = self._expand(rest, frozenset(), 0)
        if len([token for token in made if token.kind == STRING]) > 1:
            return ""
        if made and made[0].kind == STRING:
            return made[0].value
        text = "".join(token.text for token in made)
        return text[1:-1] if text.startswith("<") and text.endswith(">") else ""

    def _define(self, rest: list[Token]) -> None:
        name, body = rest[0], rest[1:]
        parameters: tuple[str, ...] | None = None
        if body and body[0].text == "(" and body[0].start == name.end:
            closing = next((i for i, token in enumerate(body) if token.text == ")"), len(body) - 1)
            parameters = tuple(token.text for token in body[1:closing] if token.text != ",")
            body = body[closing + 1 :]
        macro = Macro(parameters, tuple(body))
        before = self._macros.get(name.text, []) if self._depth else []
        if all(_said(macro) != _said(other) for other in before):
            self._macros[name.text] = [*before, macro]

    def _count(self, number: int) -> None:
        self._made += number
        if self._made > LIMIT:
            raise TooMuch

    def _expand(self, tokens: list[Token], busy: frozenset[str], depth: int) -> list[Token]:
        self._count(len(tokens))
        out: list[Token] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            macros = self._macros.get(token.text) if token.kind == IDENTIFIER and token.text not in busy else None
            at += 1
            if macros is None or depth > DEPTH:
                out.append(token)
                continue
            arguments: list[list[Token]] = []
            if any(macro.parameters is not None for macro in macros):
                if at < len(tokens) and tokens[at].text == "(":
                    arguments, at = _arguments(tokens, at)
                else:
                    macros = [macro for macro in macros if macro.parameters is None]
            if not macros:
                out.append(token)
            group: list[Token] = []
            if len(macros) > 1 and at < len(tokens) and tokens[at].text == "(":
                # What is called is called by each of the names that the macro may stand for.
                end = _arguments(tokens, at)[1]
                group, at = tokens[at:end], end
            for macro in macros:
                body = self._substitute(macro, arguments, busy, depth)
                placed = [part._replace(start=token.start, end=token.end, fresh=False) for part in body]
                if macro.parameters is None and arguments:
                    # `NAME(...)` where only another definition takes arguments: they stay.
                    placed += [_mark("(", token), *(part for one in arguments for part in one), _mark(")", token)]
                out += self._expand(placed, busy | {token.text}, depth + 1) + self._expand(group, busy, depth + 1)
        return out

    def _substitute(self, macro: Macro, arguments: list[list[Token]], busy: frozenset[str], depth: int) -> list[Token]:
        """Put the arguments into a macro's body, then join what `##` joins."""
        named: dict[str, list[Token]] = {}
        parameters = macro.parameters or ()
        for number, name in enumerate(parameters):
            if name == "...":
                rest: list[Token] = []
                for extra in arguments[number:]:
                    rest += ([_comma(extra)] if rest else []) + extra
                named["__VA_ARGS__"] = rest
            else:
                named[name] = arguments[number] if number < len(arguments) else []
        full = {name: self._expand(tokens, busy, depth + 1) for name, tokens in named.items()}
        out: list[Token] = []
        body, at, join = macro.body, 0, False
        while at < len(body):
            token = body[at]
            joins = at + 1 < len(body) and body[at + 1].text == "##"
            if token.text == "##":
                join = bool(out)
                at += 1
                continue
            if token.text == "#" and parameters and at + 1 < len(body) and body[at + 1].text in named:
                said = " ".join(part.text for part in named[body[at + 1].text])
                quoted = said.replace("\\", "\\\\").replace('"', '\\"')
                parts = [token._replace(kind=STRING, text=f'"{quoted}"')]
                at += 1
            elif token.text in named:
                parts = list(named[token.text] if joins or join else full[token.text])
            else:
                parts = [token]
            if join and parts:
                pasted = tokenize(out.pop().text + parts[0].text)
                parts = [part._replace(start=token.start, end=token.end, fresh=False) for part in pasted] + parts[1:]
            join = False
            self._count(len(parts))
            out += parts
            at += 1
        return out


def _said(macro: Macro) -> tuple[object, ...]:
    """Return what two equal definitions share."""
    return (macro.parameters, *(token.text for token in macro.body))


def _mark(text: str, near: Token) -> Token:
    return Token(PUNCTUATION, text, near.start, near.end, False)


def _comma(near: list[Token]) -> Token:
    where = near[0].start if near else 0
    return Token(PUNCTUATION, ",", where, where + 1, False)


def _arguments(tokens: list[Token], at: int) -> tuple[list[list[Token]], int]:
    """Return the arguments of a call whose `(` is at `at`, and the index after its `)`."""
    found: list[list[Token]] = [[]]
    depth = 0
    while at < len(tokens):
        text = tokens[at].text
        if text in "([{":
            depth += 1
        elif text in ")]}":
            depth -= 1
            if depth == 0:
                return found, at + 1
        if text == "," and depth == 1:
            found.append([])
        elif not (text == "(" and depth == 1):
            found[-1].append(tokens[at])
        at += 1
    return found, at
